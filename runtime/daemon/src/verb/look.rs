//! `callboard sessions`, `runs` and `memory`: what is kept of earlier times.

use chrono::{DateTime, Local};
use wire::entry::Fact;
use wire::{ErrorCode, RunStatus, Timestamp};

use crate::args::{Look, Memory, Sessions};
use crate::failure::{Exit, Failure};
use crate::paint::Paint;
use crate::place::Place;
use crate::records::{Of, Records};
use crate::screen::{self, Screen};
use crate::table::{self, Column};
use crate::text;
use gateway::view::{RunSummary, SessionSummary, SessionView};

/// Lists sessions, or shows one.
pub(crate) async fn sessions(
    args: &Sessions,
    place: &Place,
    screen: &Screen,
) -> Result<Exit, Failure> {
    let (look, team) = (&args.look, args.look.team.as_ref());
    if let Some(id) = &args.session {
        let session = async |records: &Records| records.session(id).await;
        let Some(found) = Records::find(place, team, screen, session).await? else {
            let text = format!("no session {id} is known; `callboard sessions` lists them");
            return Err(Failure::new(ErrorCode::UnknownSession, text));
        };
        if look.json {
            screen::json(&found)?;
        } else {
            screen::answer(&render_session(&found.found, screen.out.paint, screen.out.width))?;
        }
        return Ok(Exit::Done);
    }
    let list = async |records: &Records| Ok(records.sessions(look.limit).await?.sessions);
    let mut rows = each(Records::ask_all(place, team, screen, list).await?);
    newest(&mut rows, look.limit, |row| row.at);
    show(look, screen, "sessions", "no sessions yet", &rows, render_sessions)
}

/// Lists runs.
pub(crate) async fn runs(args: &Look, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let list = async |records: &Records| Ok(records.runs(args.limit).await?.runs);
    let mut rows = each(Records::ask_all(place, args.team.as_ref(), screen, list).await?);
    newest(&mut rows, args.limit, |row| row.at);
    show(args, screen, "runs", "no runs yet", &rows, render_runs)
}

/// Shows what teams remember.
pub(crate) async fn memory(args: &Memory, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let query = args.query.join(" ");
    let list = async |records: &Records| Ok(records.memory(&query, args.look.limit).await?.facts);
    let lists = Records::ask_all(place, args.look.team.as_ref(), screen, list).await?;
    let rows = if query.is_empty() {
        let mut rows = each(lists);
        newest(&mut rows, args.look.limit, |fact| fact.at);
        rows
    } else {
        best(lists, args.look.limit)
    };
    let nothing = if query.is_empty() { "no facts yet" } else { "no fact fits" };
    show(&args.look, screen, "facts", nothing, &rows, render_facts)
}

/// Makes rows of the lists of teams.
pub(crate) fn each<T>(lists: Vec<Of<Vec<T>>>) -> Vec<Of<T>> {
    let rows = lists.into_iter().flat_map(|Of { team, found }| {
        found.into_iter().map(move |found| Of { team: team.clone(), found })
    });
    rows.collect()
}

/// Makes rows of the lists of teams that have the best first: the best of each team before others.
fn best<T>(lists: Vec<Of<Vec<T>>>, limit: usize) -> Vec<Of<T>> {
    let ranked = lists.into_iter().flat_map(|Of { team, found }| {
        let rows = found.into_iter().map(move |found| Of { team: team.clone(), found });
        rows.enumerate()
    });
    let mut ranked: Vec<(usize, Of<T>)> = ranked.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, row)| row).take(limit).collect()
}

/// Keeps the newest rows, newest first.
pub(crate) fn newest<T>(rows: &mut Vec<Of<T>>, limit: usize, at: impl Fn(&T) -> Timestamp) {
    rows.sort_by_key(|row| std::cmp::Reverse(at(&row.found)));
    rows.truncate(limit);
}

/// Prints rows as JSON or as a list, and says so if there is nothing.
pub(crate) fn show<T: serde::Serialize>(
    look: &Look,
    screen: &Screen,
    what: &str,
    nothing: &str,
    rows: &[Of<T>],
    render: impl Fn(&[Of<T>], Paint, usize) -> String,
) -> Result<Exit, Failure> {
    if look.json {
        screen::json(&serde_json::json!({ what: rows }))?;
    } else if rows.is_empty() {
        screen::note(&format!("{nothing}\n"));
    } else {
        screen::answer(&render(rows, screen.out.paint, screen.out.width))?;
    }
    Ok(Exit::Done)
}

/// Writes a time as the clock on the wall shows it.
pub(crate) fn when(at: Timestamp) -> String {
    let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
    DateTime::from_timestamp_micros(micros)
        .map(|time| time.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string())
        .unwrap_or_default()
}

/// Writes how a run ended, or that it has not.
pub(crate) fn status(status: Option<RunStatus>) -> &'static str {
    status.map_or("in work", RunStatus::as_str)
}

/// Colours the word of [`status`].
pub(crate) fn status_tone(paint: Paint, cell: &str, column: Column) -> Option<String> {
    if column != Column::Left("status") {
        return None;
    }
    match cell {
        "completed" => Some(paint.green(cell)),
        "failed" => Some(paint.red(cell)),
        _ => Some(paint.yellow(cell)),
    }
}

fn render_sessions(rows: &[Of<SessionSummary>], paint: Paint, width: usize) -> String {
    let columns = [
        Column::Left("session"),
        Column::Left("last active"),
        Column::Left("agent"),
        Column::Rest("team"),
    ];
    let cells = |row: &Of<SessionSummary>| {
        let Of { team, found } = row;
        let SessionSummary { session, agent, at, .. } = found;
        vec![session.to_string(), when(*at), agent.to_string(), team.to_string()]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table::render(&columns, &rows, paint, width, |_, _| None)
}

/// Lists runs; their ids are never cut, so a narrow screen has room for little else.
fn render_runs(rows: &[Of<RunSummary>], paint: Paint, width: usize) -> String {
    let columns =
        [Column::Left("run"), Column::Left("when"), Column::Left("status"), Column::Rest("asked")];
    let cells = |row: &Of<RunSummary>| {
        let run = &row.found;
        let joins = run.joined.as_ref().map(|run| format!(", joins {run}")).unwrap_or_default();
        let asked = format!("{}{joins}: {}", run.agent, run.input);
        vec![run.run.to_string(), when(run.at), status(run.status).to_owned(), asked]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table::render(&columns, &rows, paint, width, |cell, column| status_tone(paint, cell, column))
}

fn render_facts(rows: &[Of<Fact>], paint: Paint, width: usize) -> String {
    let columns =
        [Column::Left("when"), Column::Left("team"), Column::Left("agent"), Column::Rest("fact")];
    let cells = |row: &Of<Fact>| {
        let Of { team, found } = row;
        vec![when(found.at), team.to_string(), found.agent.to_string(), found.text.clone()]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table::render(&columns, &rows, paint, width, |_, _| None)
}

fn render_session(session: &SessionView, paint: Paint, width: usize) -> String {
    let SessionSummary { session: id, agent, begun, .. } = &session.summary;
    let mut lines =
        vec![format!("{} with {agent}, since {}", paint.bold(id.as_str()), when(*begun))];
    if session.more {
        lines
            .push(paint.dim("what was said before is left out; `callboard trace RUN` shows a run"));
    }
    for exchange in &session.exchanges {
        let run = &exchange.run;
        let joins = run.joined.as_ref().map(|run| format!("  joins {run}")).unwrap_or_default();
        let head = format!("{}  {}  {}{joins}", when(run.at), status(run.status), run.run);
        lines.push(String::new());
        lines.push(paint.dim(&text::shorten(&head, width)));
        for (n, line) in text::harmless(&run.input).trim_end().lines().enumerate() {
            let mark = if n == 0 { paint.cyan("> ") } else { "  ".to_owned() };
            lines.push(format!("{mark}{line}"));
        }
        let output = exchange.output.as_deref().unwrap_or_default();
        let output = text::harmless(output);
        lines.extend(output.trim_end().lines().map(|line| format!("  {line}")));
        if let Some(error) = &exchange.error {
            lines.push(format!("  {}", paint.red(&text::one_line(&error.to_string()))));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(status: Option<&str>) -> RunSummary {
        let mut run = json!({
            "run": "r-01a1fdc15ab076b9a166a10adbfafc61", "session": "s", "agent": "lead",
            "at": 1_000_000, "input": "Who is she?\nAnd why?", "trace_id": "t",
        });
        if let Some(status) = status {
            run["status"] = status.into();
        }
        serde_json::from_value(run).unwrap()
    }

    #[test]
    fn the_best_of_each_team_come_before_others() {
        let of =
            |team: &str, found: &[u8]| Of { team: team.parse().unwrap(), found: found.to_vec() };
        for (limit, expected) in [(9, &[1, 4, 2, 3][..]), (3, &[1, 4, 2]), (0, &[])] {
            let rows = best(vec![of("t", &[1, 2, 3]), of("u", &[]), of("v", &[4])], limit);
            assert_eq!(rows.iter().map(|row| row.found).collect::<Vec<_>>(), expected, "{limit}");
        }
    }

    #[test]
    fn runs_are_listed_within_the_width() {
        let of = |found| Of { team: "t".parse().unwrap(), found };
        let rows = [of(run(Some("completed"))), of(run(None))];
        let joined = RunSummary { joined: Some(rows[0].found.run.clone()), ..run(None) };
        let wide = render_runs(&[of(joined)], Paint::new(false), 200);
        assert!(wide.contains("lead, joins r-01a1fdc15ab076b9a166a10adbfafc61: Who"), "{wide}");
        let shown = render_runs(&rows, Paint::new(false), 80);
        let at = when(Timestamp::from_micros(1_000_000));
        let expected = format!(
            "run                                 when                 status     asked\n\
             r-01a1fdc15ab076b9a166a10adbfafc61  {at}  completed  lead: Who i…\n\
             r-01a1fdc15ab076b9a166a10adbfafc61  {at}  in work    lead: Who i…\n"
        );
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_session_is_read_like_a_conversation() {
        let session = SessionView {
            summary: SessionSummary {
                session: "s".parse().unwrap(),
                agent: "lead".parse().unwrap(),
                begun: Timestamp::from_micros(0),
                at: Timestamp::from_micros(0),
                slots: 1,
            },
            exchanges: vec![gateway::view::Exchange {
                run: run(Some("failed")),
                output: Some("I do\u{1b}[2J not\nknow.".to_owned()),
                error: Some(wire::WireError::new(ErrorCode::StepLimit, "out of steps")),
            }],
            more: false,
        };
        let shown = render_session(&session, Paint::new(false), 80);
        let said = "\n> Who is she?\n  And why?\n  I do[2J not\n  know.\n  E4001 out of steps";
        assert!(shown.ends_with(said) && !shown.contains("left out"), "{shown}");
        let cut = render_session(&SessionView { more: true, ..session }, Paint::new(false), 80);
        assert!(cut.ends_with(said) && cut.contains("what was said before is left out"), "{cut}");
    }
}
