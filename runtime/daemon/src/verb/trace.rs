//! `callboard trace`: lists traces, draws one, watches it grow, or writes it as OTLP.

mod follow;

use std::time::Duration;

use bus::Bus;
use gateway::view::{TeamList, TraceSummary, TraceView};
use node::gather_trace;
use telemetry::Service;
use wire::{ErrorCode, Name, SpanRecord, Subjects};

use super::look::{newest, show, status, status_tone, when};
use super::nats;
use crate::args::Trace;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::paint::Paint;
use crate::place::Place;
use crate::records::{Of, Records, known};
use crate::screen::{self, Screen};
use crate::table::{self, Column};
use crate::text;
use crate::waterfall;

/// The digits by which a trace is named in a list.
const ID_DIGITS: usize = 8;

/// The columns from which on there is room for the count of errors, and its place among the cells.
const ERRORS_WIDTH_MIN: usize = 100;
const ERRORS_AT: usize = 5;

/// Where a trace is looked up.
enum Source {
    /// In the data of teams, or at the daemons that hold them.
    Teams(Vec<Records>),
    /// At all nodes on the bus of a daemon.
    Url(Client),
    /// At all nodes on a bus.
    Nats(Bus, Subjects),
}

/// A trace, and the team that it was found in, if it was looked for team by team.
struct Found {
    team: Option<Name>,
    view: TraceView,
}

/// Does with traces what the command line says.
pub(crate) async fn trace(args: &Trace, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let source = source(args, place, screen).await?;
    let Some(id) = &args.id else { return list(args, &source, screen).await };
    if args.follow {
        return follow::follow(args, &source, id, screen).await;
    }
    let Some(found) = source.find(id).await? else { return Err(unknown(id)) };
    if args.otlp {
        let service = Service {
            name: "callboard".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: "look-up".to_owned(),
        };
        let written = telemetry::traces_data(&found.view.spans, &service).map_err(|error| {
            Failure::new(ErrorCode::Internal, format!("write the trace: {error}"))
        })?;
        screen::answer(&written.to_string())?;
    } else if args.look.json {
        print_json(found)?;
    } else {
        let (paint, width) = (screen.out.paint, screen.out.width);
        screen::answer(&draw(&found.view, paint, width))?;
    }
    Ok(Exit::Done)
}

fn print_json(found: Found) -> Result<(), Failure> {
    match found.team {
        Some(team) => screen::json(&Of { team, found: found.view }),
        None => screen::json(&found.view),
    }
}

fn unknown(id: &str) -> Failure {
    let text = format!(
        "no trace is known as {id}; `callboard trace` lists them, a run shows its trace once a \
         part of it is over"
    );
    Failure::new(ErrorCode::UnknownRun, text)
}

async fn source(args: &Trace, place: &Place, screen: &Screen) -> Result<Source, Failure> {
    if let Some(url) = &args.url_http {
        return Ok(Source::Url(Client::new(url, place.token()?)?));
    }
    if let Some(options) = nats::options(&args.nats)? {
        return Ok(Source::Nats(Bus::connect(options).await?, nats::subjects(&args.nats)?));
    }
    Records::open_all(place, args.look.team.as_ref(), screen).map(Source::Teams)
}

impl Source {
    async fn find(&self, id: &str) -> Result<Option<Found>, Failure> {
        // What is no name is no id either, and must not reach into another path.
        let Ok(name) = Name::new(id) else { return Ok(None) };
        match self {
            Self::Teams(all) => {
                for records in all {
                    if let Some(view) = records.trace(id).await? {
                        return Ok(Some(Found { team: Some(records.team.clone()), view }));
                    }
                }
                Ok(None)
            }
            Self::Url(client) => {
                let view = known(client.get(&format!("/v1/traces/{id}"), &[]).await)?;
                Ok(view.map(|view| Found { team: None, view }))
            }
            Self::Nats(bus, subjects) => {
                let view = TraceView::gathered(gather_trace(bus, subjects, &name).await?);
                Ok(view.map(|view| Found { team: None, view }))
            }
        }
    }
}

async fn list(args: &Trace, source: &Source, screen: &Screen) -> Result<Exit, Failure> {
    let at_url;
    let all = match source {
        Source::Teams(all) => all,
        Source::Url(client) => {
            let teams: TeamList = client.get("/v1/teams", &[]).await?;
            let names = teams.teams.into_iter().map(|team| team.name);
            let names = names.filter(|name| args.look.team.as_ref().is_none_or(|one| one == name));
            at_url = names.map(|team| Records::at(client.clone(), team)).collect();
            &at_url
        }
        Source::Nats(..) => {
            let text = "over NATS one trace is looked up by its id; leave `--nats` and \
                        CALLBOARD_NATS away to list traces, or name a daemon with --url";
            return Err(Failure::new(ErrorCode::BadRequest, text));
        }
    };
    let (filter, mut rows, mut dropped) = (args.filter(), Vec::new(), 0);
    for records in all {
        let list = records.traces(&filter).await?;
        dropped += list.dropped;
        let of = |found| Of { team: records.team.clone(), found };
        rows.extend(list.traces.into_iter().map(of));
    }
    newest(&mut rows, args.look.limit, |row| row.start);
    if dropped > 0 && !args.look.json {
        let count = text::count(dropped);
        screen::note(&format!(
            "note: {count} older traces were dropped, so that all take no more than \
             `trace_bytes_max`\n"
        ));
    }
    show(&args.look, screen, "traces", "no traces yet", &rows, render)
}

/// Draws a trace below a line that says what it is of.
fn draw(view: &TraceView, paint: Paint, width: usize) -> String {
    let head = head(&view.trace_id, &view.spans, paint);
    let mut drawn = format!("{head}{}", waterfall::render(&view.spans, paint, width));
    let mut note = |text: String| {
        drawn.push('\n');
        drawn.push_str(&paint.yellow(&text::shorten(&text, width)));
    };
    if view.left_out > 0 {
        note(format!("{} spans are too large to be sent and are not shown", view.left_out));
    }
    for node in &view.silent {
        note(format!("node {node} did not answer; what it has is not shown"));
    }
    drawn
}

/// Says in a line what the trace is of.
fn head(trace_id: &str, spans: &[SpanRecord], paint: Paint) -> String {
    let start = spans.iter().map(|span| span.start).min().unwrap_or_default();
    let end = spans.iter().map(|span| span.end).max().unwrap_or_default();
    let failed = spans.iter().filter(|span| span.error.is_some()).count();
    let errors = match failed {
        0 => String::new(),
        1 => format!(", {}", paint.red("1 error")),
        many => format!(", {}", paint.red(&format!("{many} errors"))),
    };
    let noun = if spans.len() == 1 { "span" } else { "spans" };
    let used = waterfall::used(spans);
    let used = if used.total() > 0 { format!(", {}", text::used(used)) } else { String::new() };
    format!(
        "trace {}  {}  {} {noun} in {}{used}{errors}\n\n",
        paint.bold(trace_id),
        when(start),
        spans.len(),
        text::duration(end.since(start)),
    )
}

fn render(rows: &[Of<TraceSummary>], paint: Paint, width: usize) -> String {
    let is_wide = width >= ERRORS_WIDTH_MIN;
    let mut columns = vec![
        Column::Left("trace"),
        Column::Left("when"),
        Column::Left("agent"),
        Column::Left("status"),
        Column::Right("spans"),
        Column::Right("tokens"),
        Column::Right("time"),
        Column::Rest("input"),
    ];
    if is_wide {
        columns.insert(ERRORS_AT, Column::Right("errors"));
    }
    let cells = |row: &Of<TraceSummary>| {
        let trace = &row.found;
        let time: Duration = trace.end.since(trace.start);
        let mut cells = vec![
            trace.trace_id.chars().take(ID_DIGITS).collect(),
            when(trace.start),
            trace.agent.to_string(),
            status(trace.status).to_owned(),
            text::count(u64::from(trace.spans) + u64::from(trace.spans_dropped)),
            text::count(trace.usage.total()),
            text::duration(time),
            trace.input.clone(),
        ];
        if is_wide {
            cells.insert(ERRORS_AT, text::count(trace.errors.into()));
        }
        cells
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table::render(&columns, &rows, paint, width, |cell, column| match column {
        Column::Right("errors") if cell != "0" => Some(paint.red(cell)),
        _ => status_tone(paint, cell, column),
    })
}
