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
    let all = Records::open_all(place, args.look.team.as_ref(), screen)?;
    if let Some(id) = &args.session {
        for records in &all {
            if let Some(found) = records.session(id).await? {
                let team = records.team.clone();
                if args.look.json {
                    screen::json(&Of { team, found });
                } else {
                    screen::answer(&render_session(&found, screen.out.paint, screen.out.width));
                }
                return Ok(Exit::Done);
            }
        }
        let text = format!("no session {id} is known; `callboard sessions` lists them");
        return Err(Failure::new(ErrorCode::UnknownSession, text));
    }
    let mut rows = Vec::new();
    for records in &all {
        let list = records.sessions(args.look.limit).await?.sessions;
        rows.extend(list.into_iter().map(|found| Of { team: records.team.clone(), found }));
    }
    newest(&mut rows, args.look.limit, |row| row.at);
    Ok(show(&args.look, screen, "sessions", &rows, render_sessions))
}

/// Lists runs.
pub(crate) async fn runs(args: &Look, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let mut rows = Vec::new();
    for records in Records::open_all(place, args.team.as_ref(), screen)? {
        let list = records.runs(args.limit).await?.runs;
        rows.extend(list.into_iter().map(|found| Of { team: records.team.clone(), found }));
    }
    newest(&mut rows, args.limit, |row| row.at);
    Ok(show(args, screen, "runs", &rows, render_runs))
}

/// Shows what teams remember.
pub(crate) async fn memory(args: &Memory, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let query = args.query.join(" ");
    let mut rows = Vec::new();
    for records in Records::open_all(place, args.look.team.as_ref(), screen)? {
        let list = records.memory(&query, args.look.limit).await?.facts;
        rows.extend(list.into_iter().map(|found| Of { team: records.team.clone(), found }));
    }
    // Facts that fit a query stand in the order of how well they fit, team by team.
    if query.is_empty() {
        newest(&mut rows, args.look.limit, |fact| fact.at);
    }
    Ok(show(&args.look, screen, "facts", &rows, render_facts))
}

/// Keeps the newest rows, newest first.
pub(crate) fn newest<T>(rows: &mut Vec<Of<T>>, limit: usize, at: impl Fn(&T) -> Timestamp) {
    rows.sort_by_key(|row| std::cmp::Reverse(at(&row.found)));
    rows.truncate(limit);
}

/// Prints rows as JSON or as a list.
pub(crate) fn show<T: serde::Serialize>(
    look: &Look,
    screen: &Screen,
    what: &str,
    rows: &[Of<T>],
    render: impl Fn(&[Of<T>], Paint, usize) -> String,
) -> Exit {
    if look.json {
        screen::json(&serde_json::json!({ what: rows }));
    } else if rows.is_empty() {
        screen::note(&format!("no {what} yet\n"));
    } else {
        screen::answer(&render(rows, screen.out.paint, screen.out.width));
    }
    Exit::Done
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
        Column::Left("last active"),
        Column::Left("team"),
        Column::Left("agent"),
        Column::Rest("session"),
    ];
    let cells = |row: &Of<SessionSummary>| {
        let Of { team, found } = row;
        vec![when(found.at), team.to_string(), found.agent.to_string(), found.session.to_string()]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table::render(&columns, &rows, paint, width, |_, _| None)
}

fn render_runs(rows: &[Of<RunSummary>], paint: Paint, width: usize) -> String {
    let columns = [
        Column::Left("run"),
        Column::Left("when"),
        Column::Left("agent"),
        Column::Left("status"),
        Column::Right("time"),
        Column::Rest("input"),
    ];
    let cells = |row: &Of<RunSummary>| {
        let run = &row.found;
        let time = run.ended.map(|ended| text::duration(ended.since(run.at))).unwrap_or_default();
        vec![
            run.run.to_string(),
            when(run.at),
            run.agent.to_string(),
            status(run.status).to_owned(),
            time,
            run.input.clone(),
        ]
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
    for exchange in &session.exchanges {
        let run = &exchange.run;
        let head = format!("{}  {}  {}", when(run.at), status(run.status), run.run);
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
