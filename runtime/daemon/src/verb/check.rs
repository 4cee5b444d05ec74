//! `callboard check`: holds team files against what they may say.

use config::{Report, Team};
use model::unenforced;
use serde_json::{Value, json};

use crate::args::Check;
use crate::failure::{Exit, Failure};
use crate::screen::{self, Screen};

/// Checks every file and reports on all of them.
pub(crate) fn check(args: &Check, screen: &Screen) -> Result<Exit, Failure> {
    let checked: Vec<Result<Team, Report>> =
        args.teams.iter().map(|file| config::load(file)).collect();
    let sound = checked.iter().all(Result::is_ok);
    if args.json {
        screen::json(
            &json!({"ok": sound, "files": checked.iter().map(to_json).collect::<Value>()}),
        )?;
    } else {
        for file in &checked {
            match file {
                Ok(team) => {
                    screen::answer(&summary(team))?;
                    super::note_left_out(team);
                    super::note_unenforced(&unenforced(team, team.agents.values()));
                }
                Err(report) => screen::note(&report.render(screen.err.paint.is_on())),
            }
        }
    }
    Ok(if sound { Exit::Done } else { Exit::Usage })
}

fn to_json(checked: &Result<Team, Report>) -> Value {
    match checked {
        Ok(team) => json!({
            "file": team.file.display().to_string(),
            "team": team.name,
            "agents": team.agents.keys().collect::<Vec<_>>(),
            "models": team.models.keys().collect::<Vec<_>>(),
            "tools": team.tools.keys().collect::<Vec<_>>(),
            "faults": [],
            "omitted": 0,
            "notes": unenforced(team, team.agents.values()),
            "left_out": team.left_out,
        }),
        Err(report) => report.to_json(),
    }
}

/// Says in a line what a team consists of.
fn summary(team: &Team) -> String {
    let list = |what: &str, names: Vec<&str>| match names.as_slice() {
        [] => format!("no {what}s"),
        [one] => format!("1 {what} ({one})"),
        many => format!("{} {what}s ({})", many.len(), many.join(", ")),
    };
    let parts = [
        list("agent", team.agents.keys().map(AsRef::as_ref).collect()),
        list("model", team.models.keys().map(AsRef::as_ref).collect()),
        list("tool", team.tools.keys().map(AsRef::as_ref).collect()),
    ];
    format!("{}: team {}, {}", team.file.display(), team.name, parts.join(", "))
}
