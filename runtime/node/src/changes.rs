//! What an entry of the journal means to the store.

use agents_core::capture;
use agents_core::effect::{Effect, Traced};
use agents_core::session::Plans as _;
use store::{Change, EndedSpan, INPUT_PREVIEW_CHARS_MAX, RunBegun, Told, TurnUsed};
use wire::entry::{Body, Entry, Input, MemoryChange, Submitted};
use wire::event::EventKind;
use wire::plan::Target;
use wire::{Capture, Event, Name, RunId, SessionId};

use crate::clean;
use crate::plans::PlanShelf;

/// Returns what an entry and its effects mean to the store, and takes the spans out of these.
pub(crate) fn changes_of(
    session: &SessionId,
    entry: &Entry,
    slot: u64,
    effects: &mut Vec<Effect>,
    plans: &PlanShelf,
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
                slot: Some(slot),
                agent: submitted.agent.clone(),
                body: submitted.body,
                at: entry.at,
                input: preview(&submitted.text),
                traced: traced(submitted, plans),
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

fn preview(text: &str) -> String {
    text.chars().take(INPUT_PREVIEW_CHARS_MAX).collect()
}

/// Returns what a list of traces shows of a message by the plan of its run, if that is not how it
/// begins. Secrets that the process knows are taken out of a message before it gets here.
fn traced(submitted: &Submitted, plans: &PlanShelf) -> Option<String> {
    let level = plans.plan(&submitted.plan).map_or(Capture::None, |plan| plan.traces.store);
    if level == Capture::Full {
        return None;
    }
    let shown = preview(&capture::reduce_text(&submitted.text, level));
    (!submitted.text.starts_with(&shown) || shown.is_empty()).then_some(shown)
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
    async fn a_list_of_traces_shows_of_a_message_what_its_run_permits() {
        // Of the second the first 200 characters hold half a credential.
        let said = "ask as Bearer abcdefghijklmnop please".to_owned();
        let long = format!("{}Bearer abcdefghijklmnop", "x ".repeat(91));
        let blotted = "ask as Bearer [redacted] please".to_owned();
        let half_blotted = preview(&format!("{}Bearer [redacted]", "x ".repeat(91)));
        let cases = [
            (Capture::None, &said, Some(String::new())),
            (Capture::Metadata, &said, Some(String::new())),
            (Capture::Redacted, &said, Some(blotted)),
            (Capture::Redacted, &long, Some(half_blotted)),
            (Capture::Redacted, &"x ".repeat(300), None),
            (Capture::Full, &said, None),
        ];
        for (level, text, expected) in cases {
            let data = tempfile::tempdir().unwrap();
            let context = testing::open_changed(data.path(), bus::Bus::local(), |team| {
                for plan in team.agents.values_mut() {
                    plan.traces.store = level;
                }
            });
            let submitted = testing::submitted(&context, &RunId::new("r").unwrap(), text);
            assert_eq!(traced(&submitted, &context.plans), expected, "{level:?} {text}");
        }
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
            for change in changes_of(&session, &entry, slot, &mut effects, &context.plans) {
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
