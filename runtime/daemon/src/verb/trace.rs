//! `callboard trace`: lists traces, draws one, watches it grow, or writes it as OTLP.

mod follow;
mod teams;

use std::time::Duration;

use bus::Bus;
use gateway::view::{TeamList, TraceSummary, TraceView};
use node::gather_trace;
use telemetry::Service;
use wire::{ErrorCode, Name, SpanRecord, Subjects};

use super::look::{each, newest, show, status, status_tone, when};
use super::nats;
use crate::args::Trace;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::paint::Paint;
use crate::place::Place;
use crate::records::{Answers, Of, Records, known};
use crate::screen::{self, Screen};
use crate::table::{self, Column};
use crate::text;
use crate::waterfall;
use teams::Teams;

/// The digits by which a trace is named in a list.
const ID_DIGITS: usize = 8;

/// The columns from which on there is room for the count of errors, and its place among the cells.
const ERRORS_WIDTH_MIN: usize = 100;
const ERRORS_AT: usize = 5;

/// Where a trace is looked up.
enum Source<'p> {
    /// In the data of teams, or at the daemons that hold them.
    Teams(Teams<'p>),
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
    let mut source = source(args, place).await?;
    let Some(id) = &args.id else { return list(args, &source, screen).await };
    if args.follow {
        return follow::follow(args, source, id, screen).await;
    }
    let found = source.find(id).await?;
    for note in source.notes(screen) {
        screen::note(&note);
    }
    let Some(found) = found else { return Err(unknown(id)) };
    if args.otlp {
        let service = Service {
            name: "callboard".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: "look-up".to_owned(),
        };
        let written = telemetry::traces_data(&found.view.spans, &service).map_err(|error| {
            Failure::new(ErrorCode::Internal, format!("write the trace: {error}"))
        })?;
        screen::answer(&text::json(&written.to_string()))?;
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

async fn source<'p>(args: &'p Trace, place: &'p Place) -> Result<Source<'p>, Failure> {
    if let Some(url) = &args.url_http {
        return Ok(Source::Url(Client::new(url, place.token()?)?));
    }
    if let Some(options) = nats::options(&args.nats)? {
        return Ok(Source::Nats(Bus::connect(options).await?, nats::subjects(&args.nats)?));
    }
    Ok(Source::Teams(Teams::new(place, args.look.team.as_ref())))
}

impl Source<'_> {
    async fn find(&mut self, id: &str) -> Result<Option<Found>, Failure> {
        // What is no name is no id either, and must not reach into another path.
        let Ok(name) = Name::new(id) else { return Ok(None) };
        match self {
            Self::Teams(teams) => teams.find(id).await,
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

    /// Tells whether it may be passing that nobody could be asked: a daemon holds the data of teams,
    /// and another may after it.
    fn may_return(&self, failure: &Failure) -> bool {
        matches!(self, Self::Teams(_)) && failure.exit() == Exit::Unavailable
    }

    /// Returns what is to be told of teams that could not be looked into.
    fn notes(&mut self, screen: &Screen) -> Vec<String> {
        match self {
            Self::Teams(teams) => teams.notes(screen),
            Self::Url(_) | Self::Nats(..) => Vec::new(),
        }
    }
}

async fn list(args: &Trace, source: &Source<'_>, screen: &Screen) -> Result<Exit, Failure> {
    let filter = args.filter();
    let traces = async |records: &Records| records.traces(&filter).await;
    let lists = match source {
        Source::Teams(teams) => Records::ask_all(teams.place, teams.named, screen, traces).await?,
        Source::Url(client) => {
            let all: TeamList = client.get("/v1/teams", &[]).await?;
            let names = all.teams.into_iter().map(|team| team.name);
            let mut answers = Answers::default();
            for team in names.filter(|name| args.look.team.as_ref().is_none_or(|one| one == name)) {
                let list = traces(&Records::at(client.clone(), team.clone())).await;
                answers.take(format!("team {team}"), list.map(|found| Of { team, found }));
            }
            answers.close(screen)?
        }
        Source::Nats(..) => {
            let text = "over NATS one trace is looked up by its id; leave `--nats` and \
                        CALLBOARD_NATS away to list traces, or name a daemon with --url";
            return Err(Failure::new(ErrorCode::BadRequest, text));
        }
    };
    let dropped: u64 = lists.iter().map(|list| list.found.dropped).sum();
    let lists = lists.into_iter().map(|Of { team, found }| Of { team, found: found.traces });
    let mut rows = each(lists.collect());
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
        let silent = text::one_line(node);
        note(format!("node {silent} did not answer; what it has is not shown"));
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
        paint.bold(&text::one_line(trace_id)),
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
