//! Inputs that wait to be made durable together with the next.
//!
//! A sync of the disk is much of what a step costs beside its model. The reply of a model that asks
//! for nothing but calls that change nothing and stay in the runtime is held while they are made, and
//! becomes durable in one commit with what comes of them. Where the next turn is that of a model which
//! answers so soon that it fits into the time, that turn is asked for too and what it says is held as
//! well, and a run that begins with such a turn is held with it.
//! A crash takes all that is held with it, of which nobody outside has heard; all else that follows
//! from it waits.

use std::collections::HashSet;
use std::time::Duration;

use agents_core::effect::{CallEffect, Effect};
use foldhash::fast::RandomState;
use journal::Due;
use tokio::time::Instant;
use wire::CallKey;
use wire::entry::{Entry, Input};

use crate::pace::Paces;

/// How long an input is held at most: no longer than events are gathered before they are told, and
/// less than models take to say the same again. What a crash takes beside the turn under way, and the
/// message that led to it, is so nothing, or was as cheap as it was quick.
pub(super) const HELD_TIME_MAX: Duration = Duration::from_millis(10);

/// Inputs that are held at once: the outcomes of a turn with many calls, or a few quick turns.
const HELD_MAX: usize = 32;

/// Inputs that the machine has taken and the journal has not.
#[derive(Default)]
pub(super) struct Held {
    inputs: Vec<Taken>,
    /// The calls that were made because of them.
    calls: HashSet<CallKey, RandomState>,
    /// When the first of them was taken.
    since: Option<Instant>,
}

/// An input that the machine has taken, and what is still to be done because of it.
pub(super) struct Taken {
    pub(super) slot: u64,
    pub(super) entry: Entry,
    pub(super) following: Following,
}

/// What follows from an input and is still to be done.
pub(super) struct Following {
    pub(super) effects: Vec<Effect>,
    /// The turn among them is asked for.
    pub(super) is_asked: bool,
}

/// What is done at once because of an input that is held.
pub(super) struct Ahead {
    pub(super) calls: Vec<CallEffect>,
    pub(super) turn: Option<Box<Effect>>,
    /// How long what is held may wait for them.
    pub(super) time: Duration,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Returns how long what is held may wait for the reply of a model that is asked, if anything is.
    pub(super) fn time_left(&self, now: Instant) -> Option<Duration> {
        self.since.map(|since| left(since, now))
    }

    /// Tells whether an input may be held, by what follows from it.
    pub(super) fn may_take(
        &self,
        input: &Input,
        effects: &[Effect],
        paces: &Paces,
        now: Instant,
    ) -> bool {
        let is_late = self.since.is_some_and(|since| left(since, now).is_zero());
        let waits = match input {
            // Without a call nothing would follow that it could wait for.
            Input::ModelReplied(_) => {
                !is_late && effects.iter().any(|effect| matches!(effect, Effect::Call(_)))
            }
            // Others of the turn are still under way, or the next one fits into the time.
            Input::CallSettled { call, .. } => self.calls.contains(call),
            // Whoever sent it is told nothing meanwhile.
            Input::Submitted(_) => effects.iter().any(Effect::goes_ahead),
            _ => false,
        };
        let may_wait = |effect: &Effect| match effect {
            // It is not set before the run is durable, and what comes of it then is no later.
            Effect::SetTimer { .. } => matches!(input, Input::Submitted(_)),
            Effect::AskModel { model, .. } => !is_late && paces.is_quick(model),
            effect => effect.is_harmless(),
        };
        waits && self.inputs.len() < HELD_MAX && effects.iter().all(may_wait)
    }

    /// Tells how soon an input is to be durable that is not held, and all that is with it. While a
    /// model is asked because of it that takes its time, nobody waits for that: its reply comes later,
    /// and who watches is told late anyway. What came of a call that cannot be made again as it is has
    /// to be known after a crash, and does not wait.
    pub(super) fn due(&self, input: &Input, effects: &[Effect], paces: &Paces) -> Due {
        let is_repeatable = match input {
            Input::ModelReplied(_) => true,
            Input::CallSettled { call, .. } => self.calls.contains(call),
            _ => false,
        };
        let may_wait = |effect: &Effect| match effect {
            Effect::AskModel { model, .. } => !paces.is_quick(model),
            Effect::Tell(_) | Effect::Span(_) => true,
            _ => false,
        };
        let is_asked = effects.iter().any(Effect::goes_ahead);
        let waits = is_repeatable && is_asked && effects.iter().all(may_wait);
        if waits { Due::Later } else { Due::Now }
    }

    /// Holds an input, and returns what is to be done at once.
    pub(super) fn take(&mut self, mut taken: Taken, now: Instant) -> Ahead {
        let time = left(*self.since.get_or_insert(now), now);
        let Following { effects, is_asked } = &mut taken.following;
        let calls = effects.extract_if(.., |effect| matches!(effect, Effect::Call(_)));
        let calls: Vec<CallEffect> = calls
            .filter_map(|effect| if let Effect::Call(call) = effect { Some(call) } else { None })
            .collect();
        self.calls.extend(calls.iter().map(|call| call.call.clone()));
        let turn = effects.iter().find(|effect| effect.goes_ahead()).cloned().map(Box::new);
        *is_asked = turn.is_some();
        self.inputs.push(taken);
        Ahead { calls, turn, time }
    }

    /// Gives up what is held.
    pub(super) fn give(&mut self) -> Vec<Taken> {
        self.calls.clear();
        self.since = None;
        std::mem::take(&mut self.inputs)
    }
}

/// Returns how much is left at a moment of the time of what is held since another.
fn left(since: Instant, now: Instant) -> Duration {
    HELD_TIME_MAX.saturating_sub(now.saturating_duration_since(since))
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
        CallOutcome, EffectClass, ErrorCode, Event, ModelRole, Name, RunId, SessionId, Timestamp,
        TraceContext, Usage, WireError,
    };

    use super::*;
    use crate::pace::QUICK_TIME_MAX;
    use crate::testing;

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
            may_go_out: true,
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

    fn submitted() -> Input {
        Input::Submitted(testing::message(&run(), "hello"))
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
        Taken { slot: 0, entry, following: Following { effects, is_asked: false } }
    }

    fn ask() -> Effect {
        Effect::AskModel {
            run: run(),
            turn: 1,
            step: 1,
            role: ModelRole::Actor,
            model: model(),
            max_tokens: 1,
            deadline: Timestamp::default(),
            trace: TraceContext::root(&model(), &run()),
        }
    }

    fn model() -> Name {
        Name::new("m").unwrap()
    }

    /// What is known of a model after a turn that took so long, if it had one.
    fn paces_after(took: Option<Duration>) -> Paces {
        let paces = Paces::of(&[model()]);
        if let Some(took) = took {
            paces.note(&model(), took);
        }
        paces
    }

    const QUICK: Duration = QUICK_TIME_MAX.saturating_sub(Duration::from_micros(1));

    #[test]
    fn what_a_slow_model_is_asked_for_may_become_durable_later() {
        let timer = || Effect::SetTimer { run: run(), at: Timestamp::default() };
        let (slow, quick) = (Some(QUICK_TIME_MAX), Some(QUICK));
        let mut held = Held::default();
        held.take(taken(replied(), vec![read("c")]), Instant::now());
        let cases = [
            (replied(), vec![ask(), tell()], slow, Due::Later),
            (replied(), vec![ask(), tell()], None, Due::Later),
            (replied(), vec![ask(), tell()], quick, Due::Now),
            (replied(), vec![tell()], slow, Due::Now),
            (replied(), vec![], slow, Due::Now),
            (replied(), vec![ask(), read("d")], slow, Due::Now),
            (replied(), vec![ask(), timer()], slow, Due::Now),
            (settled("c"), vec![tell(), ask()], slow, Due::Later),
            (settled("c"), vec![tell(), ask()], quick, Due::Now),
            (settled("another"), vec![tell(), ask()], slow, Due::Now),
            (submitted(), vec![ask()], slow, Due::Now),
            (Input::DeadlinePassed { run: run() }, vec![ask()], slow, Due::Now),
        ];
        for (input, effects, took, expected) in cases {
            let case = format!("{input:?}, {effects:?} after {took:?}");
            assert_eq!(held.due(&input, &effects, &paces_after(took)), expected, "{case}");
        }
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
            (replied(), vec![ask()], false),
            (replied(), vec![read("c"), idempotent()], false),
            (replied(), vec![call("c", true, EffectClass::Once)], false),
            (replied(), vec![call("c", false, EffectClass::Read)], false),
            (replied(), vec![read("c"), timer()], false),
            (replied(), vec![read("c"), abort()], false),
            (settled("before"), vec![tell()], true),
            (settled("before"), vec![], true),
            (settled("before"), vec![timer()], false),
            (settled("before"), vec![tell(), ask()], false),
            (settled("another"), vec![tell()], false),
            (Input::Resumed { waiting: false, drained: false }, vec![read("c")], false),
            (Input::ReplyPublished { run: run() }, vec![], false),
        ];
        let (mut held, now) = (Held::default(), Instant::now());
        let ahead = held.take(taken(replied(), vec![read("before"), tell()]), now);
        assert_eq!((ahead.calls.len(), ahead.turn), (1, None));
        for (input, effects, expected) in cases {
            assert_eq!(
                held.may_take(&input, &effects, &paces_after(None), now),
                expected,
                "{input:?} {effects:?}"
            );
        }
        // What is still to be done is done once it is durable; the call is under way.
        let given = held.give();
        assert_eq!(given.len(), 1);
        assert_eq!(given[0].following.effects, [tell()]);
        // An outcome has to become durable for itself once the call that it is of is.
        assert!(!held.may_take(&settled("before"), &[], &paces_after(None), now));
    }

    #[test]
    fn another_turn_is_held_if_the_last_of_its_model_was_so_quick_that_it_fits() {
        let micro = Duration::from_micros(1);
        // How long the last turn of the model took, if there was one, how long something is held when
        // its call settles, what follows from that, and whether it is held as well.
        let cases = [
            (Some(QUICK), Duration::ZERO, vec![tell(), ask()], true),
            (Some(QUICK), HELD_TIME_MAX.saturating_sub(micro), vec![ask()], true),
            (Some(QUICK), HELD_TIME_MAX, vec![ask()], false),
            (Some(QUICK), HELD_TIME_MAX, vec![tell()], true),
            (Some(QUICK_TIME_MAX), Duration::ZERO, vec![tell(), ask()], false),
            (Some(QUICK_TIME_MAX), Duration::ZERO, vec![tell()], true),
            (None, Duration::ZERO, vec![ask()], false),
        ];
        for (took, held_for, effects, expected) in cases {
            let (mut held, paces, heard) = (Held::default(), paces_after(took), Instant::now());
            assert_eq!(held.time_left(heard), None, "nothing waits for the first turn");
            assert!(held.may_take(&replied(), &[read("c")], &paces, heard));
            let ahead = held.take(taken(replied(), vec![read("c")]), heard);
            assert_eq!((ahead.calls.len(), ahead.time), (1, HELD_TIME_MAX));
            let over = heard + held_for;
            let case = format!("{took:?} {held_for:?} {effects:?}");
            assert_eq!(held.may_take(&settled("c"), &effects, &paces, over), expected, "{case}");
            if expected && effects.contains(&ask()) {
                let ahead = held.take(taken(settled("c"), effects.clone()), over);
                assert_eq!(ahead.turn, Some(Box::new(ask())), "{case}");
                let left = HELD_TIME_MAX.saturating_sub(held_for);
                assert_eq!(held.time_left(over), Some(left), "{case}");
                let given = held.give();
                let asked: Vec<bool> = given.iter().map(|taken| taken.following.is_asked).collect();
                assert_eq!(asked, [false, true], "{case}");
                // What is asked from here on waits for a time of its own.
                assert_eq!(held.time_left(over), None, "{case}");
            }
        }
        // The reply to a quick turn that is late with it all the same is not held, and its calls have
        // no more time than what is held has.
        let (mut held, paces, begun) = (Held::default(), paces_after(Some(QUICK)), Instant::now());
        held.take(taken(replied(), vec![read("c")]), begun);
        let almost = HELD_TIME_MAX.saturating_sub(micro);
        assert!(held.may_take(&replied(), &[read("d")], &paces, begun + almost));
        assert_eq!(held.take(taken(replied(), vec![read("d")]), begun + almost).time, micro);
        assert!(!held.may_take(&replied(), &[read("e")], &paces, begun + HELD_TIME_MAX));
    }

    #[test]
    fn a_run_is_held_with_its_first_turn_if_that_is_expected_to_be_quick() {
        let timer = || Effect::SetTimer { run: run(), at: Timestamp::default() };
        let abort = || Effect::Abort { run: run(), calls: Vec::new() };
        // How long the last turn of its model took, if there was one, what follows from the message,
        // and whether it is held.
        let cases = [
            (Some(QUICK), vec![tell(), timer(), ask()], true),
            (Some(QUICK), vec![ask()], true),
            // It waits for another run, joins it, or ends at once.
            (Some(QUICK), vec![tell(), timer()], false),
            (Some(QUICK), vec![], false),
            // It takes the place of another run.
            (Some(QUICK), vec![abort(), tell(), timer(), ask()], false),
            (Some(QUICK_TIME_MAX), vec![tell(), timer(), ask()], false),
            (None, vec![tell(), timer(), ask()], false),
        ];
        for (took, effects, expected) in cases {
            let (mut held, paces, now) = (Held::default(), paces_after(took), Instant::now());
            let case = format!("{took:?} {effects:?}");
            assert_eq!(held.may_take(&submitted(), &effects, &paces, now), expected, "{case}");
            if expected {
                let ahead = held.take(taken(submitted(), effects.clone()), now);
                assert_eq!((ahead.turn, ahead.time), (Some(Box::new(ask())), HELD_TIME_MAX));
                assert_eq!(held.time_left(now), Some(HELD_TIME_MAX), "{case}");
                let given = held.give();
                assert_eq!(given[0].following.effects, effects, "{case}");
                assert!(given[0].following.is_asked, "{case}");
            }
        }
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let (mut held, now) = (Held::default(), Instant::now());
        for n in 0..HELD_MAX {
            let effects = vec![read(&format!("c{n}"))];
            assert!(held.may_take(&replied(), &effects, &paces_after(None), now), "{n}");
            held.take(taken(replied(), effects), now);
        }
        assert!(!held.may_take(&replied(), &[read("c")], &paces_after(None), now));
        assert_eq!(held.give().len(), HELD_MAX);
        assert!(held.may_take(&replied(), &[read("c")], &paces_after(None), now));
    }
}
