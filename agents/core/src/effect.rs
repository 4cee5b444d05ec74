//! What a machine wants done, and why it refuses an input.

use std::sync::Arc;

use serde_json::Value;
use wire::entry::{Input, Submitted};
use wire::event::{EventId, EventKind};
use wire::plan::{Labels, Target};
use wire::run::{Budget, RunReply};
use wire::{
    CallKey, CallOutcome, EffectClass, ErrorCode, Event, Levels, ModelRole, Name, OpenCall, RunId,
    Said, Scope, SessionId, SpanRecord, Timestamp, ToolReply, TraceContext, TraceSink, WireError,
};

/// When a run that found its session busy, or its queue full, may come again, in milliseconds: runs
/// take seconds, and asking costs little.
const QUEUE_RETRY_MS: u64 = 500;

/// Something that is to be done once the input that asked for it is durable, or held to become so.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Ask a model for a turn; answered by `ModelReplied`.
    AskModel {
        /// The run.
        run: RunId,
        /// The number of the turn.
        turn: u32,
        /// The step, from 1.
        step: u32,
        /// The part that the model plays.
        role: ModelRole,
        /// The model.
        model: Name,
        /// The most tokens that the reply may have.
        max_tokens: u64,
        /// When the answer must be there.
        deadline: Timestamp,
        /// The turn's span.
        trace: TraceContext,
    },
    /// Make a call; answered by `CallSettled`, `CallSuspended`, `CallAsked` or `CallLost`.
    Call(CallEffect),
    /// Ask a probe what came of a call; answered by `CallProbed`.
    Probe {
        /// The call.
        of: CallKey,
        /// The number of the probe, from 1.
        number: u32,
        /// The request to the probe, under a key of its own.
        call: CallEffect,
    },
    /// Tell a call under way what a person said to its question; the call then goes on, and is
    /// answered as it would have been.
    Say {
        /// The run.
        run: RunId,
        /// The call.
        call: CallKey,
        /// The question.
        question: Name,
        /// What was said.
        said: Said,
        /// When the outcome must be there.
        deadline: Timestamp,
    },
    /// Say `ApprovalExpired` at a time, or `QuestionExpired` if it is about a question, if nobody
    /// has said anything by then.
    Expire {
        /// The run.
        run: RunId,
        /// The call.
        call: CallKey,
        /// The question, if the call is under way and has one.
        question: Option<Name>,
        /// The time.
        at: Timestamp,
    },
    /// Keep a call among those about which a person has something to say; answered by nothing.
    Opened(Box<OpenCall>),
    /// Take a call from among them; answered by nothing.
    Closed {
        /// The run.
        run: RunId,
        /// The call.
        call: CallKey,
    },
    /// End what is under way for a run. For each called agent it is answered by
    /// `CancelDelivered`, for tools by nothing.
    Abort {
        /// The run.
        run: RunId,
        /// Calls that are under way.
        calls: Vec<Aborted>,
    },
    /// Hand a reply to those who wait; answered by nothing. Whoever comes later, or waited in a
    /// process that ended meanwhile, asks the session for it.
    Publish {
        /// The reply.
        reply: Arc<RunReply>,
    },
    /// Say `DeadlinePassed` at a time, if the run has not ended by then.
    SetTimer {
        /// The run.
        run: RunId,
        /// The time.
        at: Timestamp,
    },
    /// Tell observers; answered by nothing.
    Tell(Event),
    /// Count a span and send it; answered by nothing.
    Span(Box<Traced>),
}

/// A span with as much of what was said as it may hold where it goes, and how much traces hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// The span, to be passed through [`crate::capture::reduce`] before it goes anywhere.
    pub record: SpanRecord,
    /// How much traces hold.
    pub levels: Levels,
}

/// A call that was under way when its run was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aborted {
    /// The call's key.
    pub call: CallKey,
    /// The tool or agent.
    pub name: Name,
    /// What stands behind the name.
    pub target: Target,
    /// When the outcome had to be there; a called agent ends by itself then.
    pub deadline: Timestamp,
}

/// What is known of the attempts of a call before one that is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Earlier {
    /// There were none, or its probe or a person said that nothing came of them.
    #[default]
    Nothing,
    /// One of them may have taken effect.
    Doubtful,
    /// One of them was made, and only its outcome is still waited for.
    Awaited {
        /// Whether another one before it may have taken effect.
        doubtful: bool,
    },
}

/// A call that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct CallEffect {
    /// The run that asks.
    pub run: RunId,
    /// The agent that asks.
    pub agent: Name,
    /// The call's key.
    pub call: CallKey,
    /// The tool or agent.
    pub name: Name,
    /// What stands behind the name.
    pub target: Target,
    /// Whether nobody outside of the runtime hears of it.
    pub internal: bool,
    /// Whether the run that asks is tainted.
    pub tainted: bool,
    /// Whether it may be made of a tool that reaches outside, by what its run knows and was allowed.
    pub may_go_out: bool,
    /// The tool by which the agent reads on in a result that is cut, if it has one.
    pub reader: Option<Name>,
    /// The arguments, valid by the schema.
    pub arguments: Arc<Value>,
    /// What a called agent is told, as [`wire::plan::Offer`] has it.
    pub task: Option<String>,
    /// When the outcome must be there.
    pub deadline: Timestamp,
    /// What may be repeated.
    pub effect: EffectClass,
    /// How often the call is made or waited for with this time, from 1.
    pub attempt: u32,
    /// What is known of the attempts before.
    pub earlier: Earlier,
    /// What a called agent may use.
    pub budget: Budget,
    /// How many runs stand above a called agent.
    pub depth: u32,
    /// The span of the call.
    pub trace: TraceContext,
}

impl Effect {
    /// Tells whether nothing comes of it that a crash could leave behind: a call that changes nothing
    /// and is not heard of outside, or a word to those who watch, who can wait for it.
    pub fn is_harmless(&self) -> bool {
        match self {
            Self::Call(call) => call.is_harmless(),
            Self::Tell(_) | Self::Span(_) => true,
            Self::AskModel { .. }
            | Self::Probe { .. }
            | Self::Say { .. }
            | Self::Expire { .. }
            | Self::Opened(_)
            | Self::Closed { .. }
            | Self::Abort { .. }
            | Self::Publish { .. }
            | Self::SetTimer { .. } => false,
        }
    }

    /// Tells whether it may be done while what it follows from becomes durable: a turn of a model
    /// changes nothing, and its reply is taken up afterwards.
    pub const fn goes_ahead(&self) -> bool {
        matches!(self, Self::AskModel { .. })
    }
}

/// Tells whether an input is the outcome of a turn or a call. Of one that was begun before what it
/// follows from was durable it is void if that does not become so: both are begun anew then.
pub const fn is_outcome(input: &Input) -> bool {
    match input {
        Input::ModelReplied(_)
        | Input::CallSuspended { .. }
        | Input::CallAsked { .. }
        | Input::CallSettled { .. }
        | Input::CallLost { .. } => true,
        Input::Submitted(_)
        | Input::QuestionAnswered { .. }
        | Input::QuestionExpired { .. }
        | Input::CallProbed { .. }
        | Input::CallApproved { .. }
        | Input::CallDenied { .. }
        | Input::ApprovalExpired { .. }
        | Input::CallResolved { .. }
        | Input::CancelRequested { .. }
        | Input::DeadlinePassed { .. }
        | Input::ReplyPublished { .. }
        | Input::CancelDelivered { .. }
        | Input::Resumed { .. }
        | Input::Snapshot(_) => false,
    }
}

impl CallEffect {
    /// Tells whether it changes nothing, and nobody outside hears of it.
    pub fn is_harmless(&self) -> bool {
        self.internal && self.effect == EffectClass::Read
    }

    /// Tells whether the call was made before, and only its outcome is still waited for.
    pub const fn is_awaited(&self) -> bool {
        matches!(self.earlier, Earlier::Awaited { .. })
    }

    /// Tells whether an attempt before this one may have taken effect.
    pub fn may_have_happened(&self) -> bool {
        self.earlier != Earlier::Nothing && self.effect == EffectClass::Idempotent
    }

    /// Returns what settles the call if its tool is stricter at present than its run has it: by that it
    /// needed no leave, or would be made again. What was made already and is only waited for is no
    /// matter of that.
    pub fn outgrown(&self, present: EffectClass, labels: Labels) -> Option<CallOutcome> {
        if self.is_awaited() {
            return None;
        }
        let tool = &self.name;
        let text = if present > self.effect {
            let (present, planned) = (present.as_str(), self.effect.as_str());
            format!(
                "the effect of tool {tool} is `{present}`, and `{planned}` in the plan of the run"
            )
        } else if labels.external && !self.may_go_out {
            format!(
                "tool {tool} has an `external_effect`, and none in the plan of the run, which is \
                 tainted and has no leave for it"
            )
        } else {
            return None;
        };
        Some(if self.earlier == Earlier::Nothing {
            let text = format!("{text}; the call was not made");
            CallOutcome::error(ErrorCode::ToolChanged, text)
        } else {
            CallOutcome::Unknown { note: format!("{text}; the call was not made again") }
        })
    }

    /// Returns what a reply says of the call as a whole: that an attempt failed says nothing of those
    /// before it, such as that what was to be deleted is not there. What an attempt came to that is
    /// still waited for is its outcome, unless it cannot be learned.
    #[must_use]
    pub fn judge(&self, reply: ToolReply) -> ToolReply {
        let is_only_awaited = self.earlier == Earlier::Awaited { doubtful: false };
        let is_not_begun = |code| {
            matches!(
                code,
                ErrorCode::ToolUnavailable | ErrorCode::DeadlineExceeded | ErrorCode::Overloaded
            )
        };
        match reply {
            ToolReply::Settled { outcome: CallOutcome::Error { error }, usage, tainted, hop }
                if self.may_have_happened() && (!is_only_awaited || is_not_begun(error.code)) =>
            {
                ToolReply::Lost { error, usage, tainted, hop }
            }
            reply => reply,
        }
    }
}

/// Why an input was not accepted. Nothing was changed by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The run was accepted before, by the same request.
    #[error("run {run} was accepted before")]
    Repeated {
        /// The run.
        run: RunId,
    },
    /// The run was accepted before, by another request.
    #[error("run id {run} was used before by another request")]
    Conflict {
        /// The run.
        run: RunId,
    },
    /// Too many runs wait.
    #[error("{limit} runs of the session wait already")]
    QueueFull {
        /// The limit.
        limit: u32,
    },
    /// A run of the session is in work, and the agent that is asked takes no message meanwhile.
    #[error("run {run} of the session is in work, and the agent takes no message until it is over")]
    Busy {
        /// The run in work.
        run: RunId,
    },
    /// The plan of the run is not at hand.
    #[error("the plan of the run is not there")]
    PlanUnknown,
    /// The run is not in work, or not in this session.
    #[error("run {run} is not in work")]
    UnknownRun {
        /// The run.
        run: RunId,
    },
    /// The call is not awaited.
    #[error("call {call} is not awaited")]
    UnknownCall {
        /// The call.
        call: CallKey,
    },
    /// What was decided about is not what the call is now.
    #[error("call {call} is not what was decided about: its arguments or its attempt differ")]
    Superseded {
        /// The call.
        call: CallKey,
    },
    /// The model turn is not the one that is awaited.
    #[error("turn {turn} is not awaited")]
    StaleTurn {
        /// The turn.
        turn: u32,
    },
    /// The input makes no sense where the run stands.
    #[error("the input makes no sense where the run stands")]
    OutOfPlace,
}

impl Rejected {
    /// Returns what the sender of the input is told.
    pub fn to_wire(&self) -> WireError {
        let code = match self {
            Self::Repeated { .. } | Self::Conflict { .. } => ErrorCode::RunConflict,
            Self::QueueFull { .. } => {
                return WireError::overloaded(Scope::Session, self.to_string(), QUEUE_RETRY_MS);
            }
            Self::Busy { .. } => {
                let busy = WireError::new(ErrorCode::SessionBusy, self.to_string());
                return busy.retry_after(QUEUE_RETRY_MS);
            }
            Self::UnknownRun { .. } => ErrorCode::UnknownRun,
            Self::UnknownCall { .. } | Self::Superseded { .. } => ErrorCode::NotWaiting,
            Self::PlanUnknown | Self::StaleTurn { .. } | Self::OutOfPlace => ErrorCode::Internal,
        };
        WireError::new(code, self.to_string())
    }
}

/// The effects of one input, while they are decided.
#[derive(Debug)]
pub(crate) struct Effects {
    session: SessionId,
    slot: u64,
    now: Timestamp,
    sink: TraceSink,
    told: u32,
    list: Vec<Effect>,
}

impl Effects {
    pub(crate) const fn new(
        session: SessionId,
        slot: u64,
        now: Timestamp,
        sink: TraceSink,
    ) -> Self {
        Self { session, slot, now, sink, told: 0, list: Vec::new() }
    }

    /// Returns where the spans among them go.
    pub(crate) const fn sink(&self) -> TraceSink {
        self.sink
    }

    pub(crate) const fn now(&self) -> Timestamp {
        self.now
    }

    pub(crate) const fn slot(&self) -> u64 {
        self.slot
    }

    pub(crate) const fn session(&self) -> &SessionId {
        &self.session
    }

    pub(crate) fn push(&mut self, effect: Effect) {
        self.list.push(effect);
    }

    pub(crate) fn extend(&mut self, effects: impl IntoIterator<Item = Effect>) {
        self.list.extend(effects);
    }

    /// Tells observers of a run.
    pub(crate) fn tell(&mut self, submitted: &Submitted, kind: EventKind) {
        let event = Event {
            id: Some(EventId { slot: self.slot, number: self.told }),
            at: self.now,
            trace_id: submitted.trace.trace(),
            session: self.session.clone(),
            run: submitted.run.clone(),
            agent: submitted.agent.clone(),
            depth: submitted.parent.as_ref().map_or(0, |parent| parent.depth),
            kind,
        };
        self.told += 1;
        self.list.push(Effect::Tell(event));
    }

    /// Drops what is to be begun, which will be said anew as outstanding, and keeps what is told and
    /// what ends.
    pub(crate) fn drop_begun(&mut self) {
        self.list.retain(|effect| match effect {
            Effect::Tell(_)
            | Effect::Span(_)
            | Effect::Opened(_)
            | Effect::Closed { .. }
            | Effect::Abort { .. }
            | Effect::Publish { .. } => true,
            Effect::AskModel { .. }
            | Effect::Call(_)
            | Effect::Probe { .. }
            | Effect::Say { .. }
            | Effect::Expire { .. }
            | Effect::SetTimer { .. } => false,
        });
    }

    pub(crate) fn into_vec(self) -> Vec<Effect> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::{CallOutcome, RunId, TraceContext};

    use super::*;

    fn call(effect: EffectClass, earlier: Earlier) -> CallEffect {
        let (run, agent) = (RunId::new("r").unwrap(), Name::new("a").unwrap());
        CallEffect {
            trace: TraceContext::root(&agent, &run),
            run,
            call: CallKey::new("c").unwrap(),
            name: Name::new("pay").unwrap(),
            agent,
            target: Target::Tool,
            internal: false,
            tainted: false,
            may_go_out: true,
            reader: None,
            arguments: json!({}).into(),
            task: None,
            deadline: Timestamp::default(),
            effect,
            attempt: 2,
            earlier,
            budget: Budget::default(),
            depth: 1,
        }
    }

    #[test]
    fn a_call_is_not_made_by_a_looser_class_than_its_tool_has() {
        use Earlier::{Awaited, Doubtful, Nothing};
        use EffectClass::{Idempotent, Once, Read};
        let of = |external| Labels { external, ..Labels::NONE };
        for (begun, present, earlier, expected) in [
            (Read, Read, Nothing, None),
            (Once, Read, Nothing, None),
            (Idempotent, Idempotent, Doubtful, None),
            (Read, Idempotent, Nothing, Some("error")),
            (Read, Once, Nothing, Some("error")),
            (Idempotent, Once, Nothing, Some("error")),
            (Read, Once, Doubtful, Some("unknown")),
            (Read, Once, Awaited { doubtful: true }, None),
        ] {
            for external in [false, true] {
                let outcome = call(begun, earlier).outgrown(present, of(external));
                let found = outcome.as_ref().map(CallOutcome::as_str);
                assert_eq!(found, expected, "{begun:?} {present:?} {earlier:?} {external}");
            }
        }
        for (external, earlier, expected) in [
            (false, Nothing, None),
            (true, Nothing, Some("error")),
            (true, Doubtful, Some("unknown")),
            (true, Awaited { doubtful: false }, None),
        ] {
            let kept = CallEffect { may_go_out: false, ..call(Read, earlier) };
            let outcome = kept.outgrown(Read, of(external));
            let found = outcome.as_ref().map(CallOutcome::as_str);
            assert_eq!(found, expected, "{external} {earlier:?}");
        }
    }

    #[test]
    fn an_attempt_that_failed_says_nothing_of_one_before_it_that_may_have_taken_effect() {
        use Earlier::{Awaited, Doubtful, Nothing};
        use EffectClass::{Idempotent, Once, Read};
        let codes = [
            ErrorCode::ToolFailed,
            ErrorCode::ToolTimeout,
            ErrorCode::InvalidArguments,
            ErrorCode::ToolUnavailable,
            ErrorCode::Overloaded,
        ];
        let (all, unheard): (&[ErrorCode], &[ErrorCode]) = (&codes, &codes[3..]);
        for (effect, earlier, lost) in [
            (Idempotent, Doubtful, all),
            (Idempotent, Awaited { doubtful: false }, unheard),
            (Idempotent, Awaited { doubtful: true }, all),
            (Idempotent, Nothing, &[]),
            (Once, Doubtful, &[]),
            (Read, Doubtful, &[]),
        ] {
            let call = call(effect, earlier);
            for code in codes {
                let settled = ToolReply::settled(CallOutcome::error(code, "404"));
                let expected = if lost.contains(&code) {
                    ToolReply::lost(code, "404")
                } else {
                    settled.clone()
                };
                assert_eq!(call.judge(settled), expected, "{effect:?} {earlier:?} {code}");
            }
            let done = ToolReply::settled(CallOutcome::text("done"));
            assert_eq!(call.judge(done.clone()), done);
            // Whose words the error has stays known.
            let (outcome, usage) = (CallOutcome::error(codes[4], "m"), wire::Usage::default());
            let strange = ToolReply::Settled { outcome, usage, tainted: true, hop: None };
            let (ToolReply::Settled { tainted, .. } | ToolReply::Lost { tainted, .. }) =
                call.judge(strange)
            else {
                panic!("it asks nothing")
            };
            assert!(tainted);
        }
    }
}
