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
            changes.push(Change::OnlyFacts(facts.iter().map(|fact| fact.id.clone()).collect()));
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

#[cfg(test)]
mod tests {
    use agents_core::session::SessionMachine;
    use wire::{RunStatus, Timestamp, TraceSink};

    use super::*;
    use crate::testing;

    fn published(effect: &Effect) -> Option<String> {
        if let Effect::Publish { reply } = effect { Some(reply.run.to_string()) } else { None }
    }

    #[tokio::test]
    async fn a_run_ends_once_whatever_happens_to_the_session_afterwards() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let session = SessionId::new("s").unwrap();
        let run = |id: &str| RunId::new(id).unwrap();
        let begun = |id: &str| Input::Submitted(testing::submitted(&context, &run(id), "x"));
        let cancel = |id: &str| Input::CancelRequested { run: run(id), reason: "enough".into() };
        // The next run begins with the end of the first, and the process ends in the midst of it.
        let inputs = [
            begun("first"),
            begun("next"),
            cancel("first"),
            Input::Resumed { waiting: false, drained: false },
            cancel("next"),
        ];
        let mut machine = SessionMachine::new(context.team.name.clone(), session.clone())
            .telling(TraceSink::Nowhere);
        let (mut ends, mut handed) = (Vec::new(), Vec::new());
        for ((slot, at), input) in (0..).zip(1..).zip(inputs) {
            let at = Timestamp::from_micros(at);
            let mut effects = machine.apply(at, &input, &*context.plans).unwrap();
            handed.extend(effects.iter().filter_map(published));
            let entry = Entry::new(at, Body::Session(input));
            for change in changes_of(&session, &entry, slot, &mut effects) {
                if let Change::RunEnded { run, at, status, reply } = change {
                    assert!(!reply.is_empty());
                    ends.push((run.to_string(), at.as_micros(), status));
                }
            }
        }
        assert_eq!(handed, ["first", "next"]);
        let cancelled = RunStatus::Cancelled;
        assert_eq!(ends, [("first".to_owned(), 3, cancelled), ("next".to_owned(), 5, cancelled)]);
    }
}
