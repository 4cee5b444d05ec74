//! Rules of runs: one at a time, one end, one reply.

use std::collections::{HashSet, VecDeque};

use wire::{EventKind, Input, RunId};

use super::{Record, Violation, input};
use crate::effect::Effect;

/// Checks that a run ends once and that there is one reply to it (I1, I12).
pub fn one_reply(records: &[Record]) -> Result<(), Violation> {
    let mut ended: HashSet<&RunId> = HashSet::new();
    let mut replied: HashSet<&RunId> = HashSet::new();
    for effect in records.iter().flat_map(|record| &record.effects) {
        let (run, fine) = match effect {
            Effect::Tell(event) if matches!(event.kind, EventKind::RunEnded { .. }) => {
                (&event.run, ended.insert(&event.run))
            }
            Effect::Publish { reply } => (&reply.run, replied.insert(&reply.run)),
            _ => continue,
        };
        if !fine {
            return Err(Violation::EndedTwice { run: run.clone() });
        }
    }
    Ok(())
}

/// Checks that each span is told by one entry, and once by that.
pub fn spans_told_once(records: &[Record]) -> Result<(), Violation> {
    let mut told = HashSet::new();
    for effect in records.iter().flat_map(|record| &record.effects) {
        let Effect::Span(span) = effect else { continue };
        let span = &span.record;
        if !told.insert((span.context.trace_bytes(), span.context.span_bytes())) {
            return Err(Violation::SpanToldTwice {
                span: span.name.clone(),
                run: span.run.clone(),
            });
        }
    }
    Ok(())
}

/// Checks that nothing is begun for a run before it is accepted or after its end (I6).
pub fn nothing_after_end(records: &[Record]) -> Result<(), Violation> {
    let mut accepted: HashSet<&RunId> = HashSet::new();
    let mut ended: HashSet<&RunId> = HashSet::new();
    for (slot, record) in records.iter().enumerate() {
        if let Some(Input::Submitted(submitted)) = input(record) {
            accepted.insert(&submitted.run);
        }
        for effect in &record.effects {
            let (run, begins) = match effect {
                Effect::AskModel { run, .. }
                | Effect::SetTimer { run, .. }
                | Effect::Say { run, .. }
                | Effect::Expire { run, .. } => (run, true),
                Effect::Call(call) | Effect::Probe { call, .. } => (&call.run, true),
                // What nobody knows stays so when the run is over, until a person says it.
                Effect::Opened(open) => (&open.run, false),
                Effect::Closed { run, .. } | Effect::Abort { run, .. } => (run, false),
                Effect::Publish { reply } => (&reply.run, false),
                Effect::Tell(event) => {
                    let begins = !ended.contains(&event.run);
                    if matches!(event.kind, EventKind::RunEnded { .. }) {
                        ended.insert(&event.run);
                    }
                    (&event.run, !begins)
                }
                Effect::Span(span) => (&span.record.run, false),
            };
            if !accepted.contains(run) {
                return Err(Violation::NotAccepted { run: run.clone() });
            }
            if begins && ended.contains(run) {
                return Err(Violation::AfterEnd { run: run.clone(), slot });
            }
        }
    }
    Ok(())
}

/// Checks that runs are worked on one at a time in the order of their acceptance, and that none
/// stands still: after every entry the first run that is not over waits for one model turn or for
/// calls, and the turn that is answered is the one that was asked for.
pub fn one_at_a_time(records: &[Record]) -> Result<(), Violation> {
    let mut waiting: VecDeque<&RunId> = VecDeque::new();
    let mut turn = None;
    let mut calls_open = 0_usize;
    for (slot, record) in records.iter().enumerate() {
        let stands = |run: &RunId| Violation::OutOfOrder { run: run.clone(), slot };
        match input(record) {
            Some(Input::Submitted(submitted)) => waiting.push_back(&submitted.run),
            Some(Input::ModelReplied(replied)) => {
                let answered = turn.take();
                if answered != Some((&replied.run, replied.turn)) {
                    return Err(stands(&replied.run));
                }
            }
            _ => {}
        }
        for effect in &record.effects {
            match effect {
                Effect::AskModel { run, turn: asked, .. } => {
                    let again = turn.replace((run, *asked));
                    if again.is_some_and(|again| again != (run, *asked)) {
                        return Err(stands(run));
                    }
                }
                Effect::Tell(event) => match &event.kind {
                    EventKind::CallStarted { .. } => calls_open += 1,
                    EventKind::CallEnded { .. } => calls_open = calls_open.saturating_sub(1),
                    // It waits for the reply of another run and is not worked on itself.
                    EventKind::RunJoined { .. } => waiting.retain(|run| *run != &event.run),
                    EventKind::RunEnded { .. } => {
                        turn = turn.filter(|(run, _)| *run != &event.run);
                        waiting.retain(|run| *run != &event.run);
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        let working = match (waiting.front(), turn) {
            (Some(first), Some((run, _))) => *first == run && calls_open == 0,
            (Some(_), None) => calls_open > 0,
            (None, turn) => turn.is_none() && calls_open == 0,
        };
        if let (false, Some(run)) = (working, waiting.front().copied().or(turn.map(|(run, _)| run)))
        {
            return Err(stands(run));
        }
    }
    Ok(())
}
