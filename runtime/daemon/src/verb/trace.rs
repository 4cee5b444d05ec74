//! `callboard trace`: lists traces, or draws one.

use std::time::Duration;

use wire::{ErrorCode, SpanRecord};

use super::look::{newest, show, status, status_tone, when};
use crate::args::Trace;
use crate::failure::{Exit, Failure};
use crate::paint::Paint;
use crate::place::Place;
use crate::records::{Of, Records};
use crate::screen::{self, Screen};
use crate::table::{self, Column};
use crate::text;
use crate::waterfall;
use gateway::TraceFilter;
use gateway::view::TraceSummary;

/// The digits by which a trace is named in a list.
const ID_DIGITS: usize = 8;

/// Lists the newest traces, or draws one.
pub(crate) async fn trace(args: &Trace, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let all = Records::open_all(place, args.look.team.as_ref(), screen)?;
    if let Some(id) = &args.id {
        for records in &all {
            let Some(found) = records.trace(id).await? else { continue };
            if args.look.json {
                screen::json(&Of { team: records.team.clone(), found });
                return Ok(Exit::Done);
            }
            let (paint, width) = (screen.out.paint, screen.out.width);
            let head = head(&found.trace_id, &found.spans, paint);
            screen::answer(&format!("{head}{}", waterfall::render(&found.spans, paint, width)));
            return Ok(Exit::Done);
        }
        let text = format!(
            "no trace is known as {id}; `callboard trace` lists them, a run shows its trace once \
             a part of it is over"
        );
        return Err(Failure::new(ErrorCode::UnknownRun, text));
    }
    let mut rows = Vec::new();
    for records in &all {
        let filter = TraceFilter { limit: Some(args.look.limit), ..TraceFilter::default() };
        let list = records.traces(&filter).await?.traces;
        rows.extend(list.into_iter().map(|found| Of { team: records.team.clone(), found }));
    }
    newest(&mut rows, args.look.limit, |row| row.start);
    Ok(show(&args.look, screen, "traces", &rows, render))
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
    format!(
        "trace {}  {}  {} {noun} in {}{errors}\n\n",
        paint.bold(trace_id),
        when(start),
        spans.len(),
        text::duration(end.since(start)),
    )
}

fn render(rows: &[Of<TraceSummary>], paint: Paint, width: usize) -> String {
    let columns = [
        Column::Left("trace"),
        Column::Left("when"),
        Column::Left("agent"),
        Column::Left("status"),
        Column::Right("spans"),
        Column::Right("tokens"),
        Column::Right("time"),
        Column::Rest("input"),
    ];
    let cells = |row: &Of<TraceSummary>| {
        let trace = &row.found;
        let time: Duration = trace.end.since(trace.start);
        vec![
            trace.trace_id.chars().take(ID_DIGITS).collect(),
            when(trace.start),
            trace.agent.to_string(),
            status(trace.status).to_owned(),
            text::count(u64::from(trace.spans) + u64::from(trace.spans_dropped)),
            text::count(trace.usage.total()),
            text::duration(time),
            trace.input.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table::render(&columns, &rows, paint, width, |cell, column| status_tone(paint, cell, column))
}
