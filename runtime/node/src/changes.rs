//! What an entry of the journal means to the store.

use agents_core::effect::{Effect, Traced};
use store::{Change, EndedSpan, INPUT_PREVIEW_CHARS_MAX, RunBegun, Told, TurnUsed};
use wire::entry::{Body, Entry, Input, MemoryChange};
use wire::event::EventKind;
use wire::plan::Target;
use wire::{Event, Name, RunId, SessionId};

use crate::clean;

/// Returns what an entry and its effects mean to the store, and takes the spans out of these.
pub(crate) fn changes_of(
    session: &SessionId,
    entry: &Entry,
    slot: u64,
    effects: &mut Vec<Effect>,
) -> Vec<Change> {
    let seen = |agent: &Name| Change::SessionSeen {
        session: session.clone(),
        agent: agent.clone(),
        at: entry.at,
        slots: slot + 1,
    };
    let mut changes = Vec::new();
    match &entry.body {
        Body::Session(Input::Submitted(submitted)) => {
            changes.push(seen(&submitted.agent));
            changes.push(Change::RunBegun(Box::new(RunBegun {
                run: submitted.run.clone(),
                session: session.clone(),
                agent: submitted.agent.clone(),
                body: submitted.body,
                at: entry.at,
                input: submitted.text.chars().take(INPUT_PREVIEW_CHARS_MAX).collect(),
                trace: submitted.trace,
                parent: submitted.parent.clone(),
                joined: effects.iter().find_map(joined).cloned(),
            })));
        }
        // What stood before it may be gone, and then this is all that tells of the session.
        Body::Session(Input::Snapshot(snapshot)) => {
            for at in [snapshot.begun, snapshot.seen] {
                changes.push(Change::SessionSeen {
                    session: session.clone(),
                    agent: snapshot.agent.clone(),
                    at,
                    slots: slot + 1,
                });
            }
        }
        Body::Session(Input::CancelDelivered { call }) => {
            changes.push(Change::CancelDelivered { call: call.clone() });
        }
        Body::Session(_) => {}
        Body::Memory(MemoryChange::Restated { facts }) => {
            changes.extend(facts.iter().cloned().map(Box::new).map(Change::Fact));
        }
        Body::Memory(MemoryChange::Remembered(fact)) => {
            changes.push(Change::Fact(fact.clone().into()));
        }
        Body::Memory(MemoryChange::Forgotten { facts, .. }) => {
            changes.push(Change::Forgot(facts.clone()));
        }
    }
    for effect in &*effects {
        match effect {
            Effect::Publish { reply } => changes.push(Change::RunEnded {
                run: reply.run.clone(),
                at: entry.at,
                status: reply.status,
                reply: crate::reply::bytes(reply),
            }),
            Effect::Tell(Event { agent, kind: EventKind::RunEnded { .. }, .. }) => {
                changes.push(seen(agent));
            }
            Effect::Opened(open) => changes.push(Change::CallOpened(open.clone())),
            Effect::Closed { call, .. } => changes.push(Change::CallClosed(call.clone())),
            Effect::Abort { calls, .. } => {
                let agents = calls.iter().filter(|aborted| aborted.target == Target::Agent);
                changes.extend(agents.map(|aborted| Change::CancelOwed {
                    call: aborted.call.clone(),
                    session: session.clone(),
                }));
            }
            Effect::AskModel { .. }
            | Effect::Call(_)
            | Effect::Probe { .. }
            | Effect::Say { .. }
            | Effect::Expire { .. }
            | Effect::SetTimer { .. }
            | Effect::Span(_)
            | Effect::Tell(_) => {}
        }
    }
    let spans = effects.extract_if(.., |effect| matches!(effect, Effect::Span(_)));
    for (number, effect) in (0..).zip(spans) {
        let Effect::Span(span) = effect else { continue };
        let Traced { mut record, levels } = *span;
        if levels.off {
            // What was used is known all the same.
            changes.extend(TurnUsed::of(&record).map(|turn| Change::Turn(turn.into())));
        } else {
            record.error = clean::span_error(&record, levels.store);
            changes.push(Change::Span(EndedSpan::of(record, Told { slot, number }).into()));
        }
    }
    changes
}

/// Returns the run that a message joins.
fn joined(effect: &Effect) -> Option<&RunId> {
    let Effect::Tell(Event { kind: EventKind::RunJoined { joined }, .. }) = effect else {
        return None;
    };
    Some(joined)
}
