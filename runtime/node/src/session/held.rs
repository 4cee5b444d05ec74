//! Inputs that wait to be made durable together with the next.
//!
//! A sync of the disk is much of what a step costs beside its model. The reply of a model that asks
//! for nothing but calls that change nothing and stay in the runtime is held while they are made, and
//! becomes durable in one commit with what comes of them. A crash takes it with these calls, of
//! which nobody outside has heard; all else that follows from it waits.

use std::collections::HashSet;
use std::time::Duration;

use agents_core::effect::{CallEffect, Effect};
use wire::CallKey;
use wire::entry::{Entry, Input};

/// How long an input is held at most: far less than a model takes to say the same again.
pub(super) const HELD_TIME_MAX: Duration = Duration::from_millis(2);

/// Inputs that are held at once: the outcomes of a turn with many calls.
const HELD_MAX: usize = 16;

/// Inputs that the machine has taken and the journal has not.
#[derive(Default)]
pub(super) struct Held {
    inputs: Vec<Taken>,
    /// The calls that were made because of them.
    calls: HashSet<CallKey>,
}

/// An input that the machine has taken, and what is still to be done because of it.
pub(super) struct Taken {
    pub(super) slot: u64,
    pub(super) entry: Entry,
    pub(super) effects: Vec<Effect>,
}

impl Held {
    /// Tells whether an input may be held, by what follows from it.
    pub(super) fn may_take(&self, input: &Input, effects: &[Effect]) -> bool {
        let waits = match input {
            // Without a call nothing would follow that it could wait for.
            Input::ModelReplied(_) => {
                effects.iter().any(|effect| matches!(effect, Effect::Call(_)))
            }
            // Others of the turn are still under way.
            Input::CallSettled { call, .. } => self.calls.contains(call),
            _ => false,
        };
        waits && self.inputs.len() < HELD_MAX && effects.iter().all(Effect::is_harmless)
    }

    /// Holds an input, and returns the calls that are to be made at once.
    pub(super) fn take(&mut self, mut taken: Taken) -> Vec<CallEffect> {
        let calls = taken.effects.extract_if(.., |effect| matches!(effect, Effect::Call(_)));
        let calls: Vec<CallEffect> = calls
            .filter_map(|effect| if let Effect::Call(call) = effect { Some(call) } else { None })
            .collect();
        self.calls.extend(calls.iter().map(|call| call.call.clone()));
        self.inputs.push(taken);
        calls
    }

    /// Gives up what is held.
    pub(super) fn give(&mut self) -> Vec<Taken> {
        self.calls.clear();
        std::mem::take(&mut self.inputs)
    }
}

#[cfg(test)]
mod tests {
    use agents_core::effect::Earlier;
    use serde_json::json;
    use wire::entry::{Body, ModelOutcome, ModelReplied};
    use wire::event::EventKind;
    use wire::plan::Target;
    use wire::run::Budget;
    use wire::{
        CallOutcome, EffectClass, ErrorCode, Event, Name, RunId, SessionId, Timestamp,
        TraceContext, Usage, WireError,
    };

    use super::*;

    fn run() -> RunId {
        RunId::new("r").unwrap()
    }

    fn key(text: &str) -> CallKey {
        CallKey::new(text).unwrap()
    }

    fn call(id: &str, internal: bool, effect: EffectClass) -> Effect {
        let name = Name::new("t").unwrap();
        Effect::Call(CallEffect {
            internal,
            run: run(),
            agent: name.clone(),
            call: key(id),
            target: Target::Tool,
            tainted: false,
            reader: None,
            arguments: json!({}).into(),
            task: None,
            deadline: Timestamp::default(),
            effect,
            attempt: 1,
            earlier: Earlier::Nothing,
            budget: Budget::default(),
            depth: 0,
            trace: TraceContext::root(&name, &run()),
            name,
        })
    }

    fn read(id: &str) -> Effect {
        call(id, true, EffectClass::Read)
    }

    fn tell() -> Effect {
        Effect::Tell(Event {
            id: None,
            at: Timestamp::default(),
            trace_id: TraceContext::root(&Name::new("t").unwrap(), &RunId::new("r").unwrap())
                .trace(),
            session: SessionId::new("s").unwrap(),
            run: run(),
            agent: Name::new("a").unwrap(),
            depth: 0,
            kind: EventKind::RunJoined { joined: run() },
        })
    }

    fn replied() -> Input {
        let error = WireError::new(ErrorCode::Internal, "any");
        Input::ModelReplied(ModelReplied {
            run: run(),
            turn: 0,
            outcome: ModelOutcome::Failed { error },
        })
    }

    fn settled(id: &str) -> Input {
        Input::CallSettled {
            call: key(id),
            outcome: CallOutcome::text("x"),
            usage: Usage::default(),
            tainted: false,
            hop: None,
        }
    }

    fn taken(input: Input, effects: Vec<Effect>) -> Taken {
        let entry = Entry::new(Timestamp::default(), Body::Session(input));
        Taken { slot: 0, entry, effects }
    }

    #[test]
    fn only_what_nobody_has_seen_anything_of_is_held() {
        let timer = || Effect::SetTimer { run: run(), at: Timestamp::default() };
        let abort = || Effect::Abort { run: run(), calls: Vec::new() };
        let idempotent = || call("c", true, EffectClass::Idempotent);
        let cases = [
            (replied(), vec![read("c"), tell()], true),
            (replied(), vec![read("c"), read("d")], true),
            (replied(), vec![tell()], false),
            (replied(), vec![], false),
            (replied(), vec![read("c"), idempotent()], false),
            (replied(), vec![call("c", true, EffectClass::Once)], false),
            (replied(), vec![call("c", false, EffectClass::Read)], false),
            (replied(), vec![read("c"), timer()], false),
            (replied(), vec![read("c"), abort()], false),
            (settled("before"), vec![tell()], true),
            (settled("before"), vec![], true),
            (settled("before"), vec![timer()], false),
            (settled("another"), vec![tell()], false),
            (Input::Resumed { waiting: false, drained: false }, vec![read("c")], false),
            (Input::ReplyPublished { run: run() }, vec![], false),
        ];
        let mut held = Held::default();
        assert_eq!(held.take(taken(replied(), vec![read("before"), tell()])).len(), 1);
        for (input, effects, expected) in cases {
            assert_eq!(held.may_take(&input, &effects), expected, "{input:?} {effects:?}");
        }
        // What is still to be done is done once it is durable; the call is under way.
        let given = held.give();
        assert_eq!(given.len(), 1);
        assert_eq!(given[0].effects, [tell()]);
        // An outcome has to become durable for itself once the call that it is of is.
        assert!(!held.may_take(&settled("before"), &[]));
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let mut held = Held::default();
        for n in 0..HELD_MAX {
            let effects = vec![read(&format!("c{n}"))];
            assert!(held.may_take(&replied(), &effects), "{n}");
            held.take(taken(replied(), effects));
        }
        assert!(!held.may_take(&replied(), &[read("c")]));
        assert_eq!(held.give().len(), HELD_MAX);
        assert!(held.may_take(&replied(), &[read("c")]));
    }
}
