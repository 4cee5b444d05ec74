//! Watches a trace grow until its runs are over.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use gateway::view::TraceView;
use tokio::time::{Instant, MissedTickBehavior, interval};
use wire::{Name, RunId, SpanRecord, TraceContext};

use super::{Source, draw, unknown};
use crate::args::Trace;
use crate::failure::{Exit, Failure};
use crate::paint::Paint;
use crate::screen::{self, Screen};
use crate::stage::{Place, Stage};
use crate::text;
use crate::waterfall;

/// How often it is looked: a span comes with a model's turn, which takes longer.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);

/// How long a trace is waited for of which nothing is known: as long as a slow model needs for the
/// first turn of a run that was just accepted.
const APPEAR_MAX: Duration = Duration::from_secs(120);

/// Shows a trace anew as it grows, or its spans as they end where nothing can be drawn anew.
pub(super) async fn follow(
    args: &Trace,
    mut source: Source<'_>,
    id: &str,
    screen: &Screen,
) -> Result<Exit, Failure> {
    let is_drawn = Stage::is_there() && !args.look.json;
    let mut stage = Stage::new(Place::Below);
    let mut told = HashSet::new();
    let mut looks = interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let begun = Instant::now();
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    let mut is_begun = false;
    let mut lost = None;
    loop {
        let found = tokio::select! {
            _ = &mut interrupt => return Ok(Exit::Done),
            found = async { looks.tick().await; source.find(id).await } => found,
        };
        let mut notes = source.notes(screen);
        let found = match found {
            Ok(found) => {
                lost = None;
                found
            }
            // While one daemon ends and another begins, what was found once is not to be had.
            Err(failure) if is_begun && source.may_return(&failure) => {
                let note = failure.render(screen.err.paint);
                if lost.as_ref() != Some(&note) {
                    notes.push(note.clone());
                }
                lost = Some(note);
                None
            }
            Err(failure) => return Err(failure),
        };
        if !notes.is_empty() {
            stage.clear();
            for note in notes {
                screen::note(&note);
            }
        }
        // A run may take long until there is something to write.
        if !screen::is_read() {
            return Ok(Exit::Done);
        }
        let Some(found) = found else {
            if is_begun {
                continue;
            }
            if begun.elapsed() >= APPEAR_MAX {
                return Err(unknown(id));
            }
            let text = screen.out.paint.dim("waits for the first span");
            if is_drawn && !stage.show(&text)? {
                return Ok(Exit::Done);
            }
            continue;
        };
        is_begun = true;
        let open = open_runs(&found.view.spans);
        if is_drawn {
            let (width, _) = screen::size();
            let drawn = draw(&found.view, screen.out.paint, width);
            if open.is_empty() {
                // All of it is written where it stays, however long it is.
                stage.clear();
                drop(stage);
                screen::answer(&drawn)?;
                return Ok(Exit::Done);
            }
            let text = format!("{drawn}\n{}", in_work(&open, screen.out.paint, width));
            if !stage.show(&text)? {
                return Ok(Exit::Done);
            }
        } else {
            let is_read = tell(&found.view, &mut told, args.look.json, screen)?;
            if open.is_empty() || !is_read {
                return Ok(Exit::Done);
            }
        }
    }
}

/// Returns the runs that have spans and are not over, each with its agent.
fn open_runs(spans: &[SpanRecord]) -> BTreeMap<RunId, Name> {
    let known: HashSet<TraceContext> = spans.iter().map(|span| span.context).collect();
    let open = spans.iter().filter(|span| !known.contains(&span.context.of_run(&span.run)));
    open.map(|span| (span.run.clone(), span.agent.clone())).collect()
}

fn in_work(open: &BTreeMap<RunId, Name>, paint: Paint, width: usize) -> String {
    let runs: Vec<String> = open.iter().map(|(run, agent)| format!("{agent} ({run})")).collect();
    paint.yellow(&text::shorten(&format!("in work: {}", runs.join(", ")), width))
}

/// Writes the spans that were not told yet, a line each, in the order in which they ended, and tells
/// whether the reader is still there.
fn tell(
    view: &TraceView,
    told: &mut HashSet<TraceContext>,
    json: bool,
    screen: &Screen,
) -> Result<bool, Failure> {
    let mut fresh: Vec<&SpanRecord> =
        view.spans.iter().filter(|span| told.insert(span.context)).collect();
    // What ends with its last part is told after it.
    fresh.sort_by_key(|span| (span.end, std::cmp::Reverse(span.start)));
    for span in fresh {
        let line = if json {
            text::json(&serde_json::to_string(span).unwrap_or_default())
        } else {
            waterfall::line(span, screen.out.paint, screen.out.width)
        };
        if !screen::tell(&line)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_in_work_until_its_own_span_is_there() {
        let run = RunId::new("r1").unwrap();
        let root = TraceContext::root(&Name::new("t").unwrap(), &run);
        let span = |context: TraceContext, run: &str| -> SpanRecord {
            serde_json::from_value(json!({
                "context": context, "name": "x", "kind": "internal", "start": 1, "end": 2,
                "session": "s", "run": run, "agent": "a", "attributes": {},
            }))
            .unwrap()
        };
        let turn = span(root.child("turn", "0"), "r1");
        let below = span(root.child("turn", "x"), "k1");
        let over = |spans: &[SpanRecord]| open_runs(spans).into_keys().map(String::from).collect();
        let names = |spans: &[SpanRecord]| -> Vec<String> { over(spans) };
        assert_eq!(names(&[turn.clone(), below.clone()]), ["k1", "r1"]);
        let k1 = RunId::new("k1").unwrap();
        let ended = span(root.of_run(&k1), "k1");
        assert_eq!(names(&[turn.clone(), below, ended]), ["r1"]);
        assert_eq!(names(&[turn, span(root, "r1")]), Vec::<String>::new());
    }
}
