//! Journal entries: the inputs that a session accepted, in order.
//!
//! An entry is enough to decide again what follows from it, so the effects need no record of
//! their own: they are durable because the entry that decided them is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::call::CallOutcome;
use crate::chat::{FinishReason, ModelRole, Reasoning, TurnDetail, Usage};
use crate::error::WireError;
use crate::hop::HopReport;
use crate::id::{CallKey, Digest, Name, RunId, SessionId};
use crate::open::Resolution;
use crate::question::{Question, Said};
use crate::run::{Budget, Parent};
use crate::snapshot::Snapshot;
use crate::time::Timestamp;
use crate::trace::TraceContext;

mod reading;

pub use reading::{
    Feedback, FeedbackCode, Planned, ReadCall, Reading, Reason, UNREAD_CHARS_MAX, Unread,
};

/// The version of the entry format that this code writes.
pub const ENTRY_VERSION: u8 = 1;

/// One entry of a session's journal. Its slot is its position, counted from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Format version, [`ENTRY_VERSION`] when written.
    pub v: u8,
    /// When it was accepted.
    pub at: Timestamp,
    /// What was accepted.
    pub body: Body,
}

impl Entry {
    /// Makes an entry of the present format.
    pub fn new(at: Timestamp, body: Body) -> Self {
        Self { v: ENTRY_VERSION, at, body }
    }
}

impl Body {
    /// Tells whether a reader may begin here: the entry holds all that those before it came to.
    pub const fn begins(&self) -> bool {
        match self {
            Self::Session(input) => matches!(input, Input::Snapshot(_)),
            Self::Memory(change) => matches!(change, MemoryChange::Restated { .. }),
        }
    }
}

/// What an entry holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum Body {
    /// An input of a session's machine.
    Session(Input),
    /// A change of the team's memory; its entries stand under the session [`memory_session`].
    Memory(MemoryChange),
}

/// Returns the pseudo session under which the memory of a team is journaled.
pub fn memory_session() -> SessionId {
    #[expect(clippy::expect_used, reason = "the text is a constant and tested")]
    SessionId::new("_memory").expect("a valid name")
}

/// All that can happen to a session, in the order in which it happens to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "input", rename_all = "snake_case")]
pub enum Input {
    /// A user, or another agent, sent a message.
    Submitted(Submitted),
    /// A model answered, or finally did not.
    ModelReplied(ModelReplied),
    /// A tool waits for a person.
    CallSuspended {
        /// The call.
        call: CallKey,
        /// The attempt, from 1; what is said of an earlier one is stale. Absent in entries of
        /// versions that did not count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
        /// What the person is asked.
        question: String,
    },
    /// A tool has a question, and its call goes on once it is answered.
    CallAsked {
        /// The call.
        call: CallKey,
        /// The attempt, from 1; what an earlier one asks is stale.
        attempt: u32,
        /// The question.
        question: Question,
    },
    /// A person answered the question of a call under way, or it is void.
    QuestionAnswered {
        /// The call.
        call: CallKey,
        /// The question.
        question: Name,
        /// What was said.
        said: Said,
    },
    /// The time in which a question could be answered is over.
    QuestionExpired {
        /// The call.
        call: CallKey,
        /// The question.
        question: Name,
    },
    /// A call ended.
    CallSettled {
        /// The call.
        call: CallKey,
        /// How.
        outcome: CallOutcome,
        /// Tokens that it used: those of a called agent's run, or of the models that a tool asked.
        /// None of a called agent whose end is unknown, for which all counts that it might use;
        /// older versions said here how much that is.
        #[serde(default)]
        usage: Usage,
        /// Whether the outcome holds untrusted words, whatever the run knows of the tool.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tainted: bool,
        /// What the last attempt met outside.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hop: Option<Box<HopReport>>,
    },
    /// No answer to a call came, and it may have been made.
    CallLost {
        /// The call.
        call: CallKey,
        /// The attempt, from 1; what is said of an earlier one is stale.
        attempt: u32,
        /// What is known.
        error: WireError,
        /// Tokens that it may have used if its tool asked a model, rather too many than too few.
        #[serde(default, skip_serializing_if = "Usage::is_none")]
        usage: Usage,
        /// Whether what is known holds untrusted words, whatever the run knows of the tool. Older
        /// programs did not say so.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tainted: bool,
        /// What the attempt met outside.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hop: Option<Box<HopReport>>,
    },
    /// A probe was asked what came of a call.
    CallProbed {
        /// The call.
        call: CallKey,
        /// The number of the probe, from 1.
        probe: u32,
        /// How the probe ended.
        outcome: CallOutcome,
        /// Whether it holds untrusted words, whatever the run knows of the tools. Older programs did
        /// not say so.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tainted: bool,
    },
    /// A person allowed a call.
    CallApproved {
        /// The call.
        call: CallKey,
        /// The digest of what was allowed; anything else is not.
        digest: Digest,
    },
    /// A person denied a call.
    CallDenied {
        /// The call.
        call: CallKey,
        /// Why; empty if the person did not say.
        reason: String,
    },
    /// The time in which a call could be allowed is over.
    ApprovalExpired {
        /// The call.
        call: CallKey,
    },
    /// A person said what came of a call whose outcome is unknown.
    CallResolved {
        /// The call.
        call: CallKey,
        /// The attempt of which it is said.
        attempt: u32,
        /// What came of it.
        resolution: Resolution,
    },
    /// Someone wants a run to end.
    CancelRequested {
        /// The run.
        run: RunId,
        /// Why, for people.
        reason: String,
    },
    /// The time of a run is over.
    DeadlinePassed {
        /// The run.
        run: RunId,
    },
    /// The reply of a run was handed to those who wait for it. Older programs wrote it, and nothing
    /// follows from it: whoever has not heard of the reply asks for it.
    ReplyPublished {
        /// The run.
        run: RunId,
    },
    /// The run of a called agent was told to end with the run that asked for it, or has ended, or
    /// never began.
    CancelDelivered {
        /// The call.
        call: CallKey,
    },
    /// The session was taken up again after its actor or its process ended.
    Resumed {
        /// The run only waited for people and for called agents, so it is not what ended the
        /// process. Older programs did not say so, and took one that waits for agents for the cause.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waiting: bool,
        /// The process before let go of the session in order, so the run is not what ended it. Older
        /// programs did not say so, and took the run for the cause.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        drained: bool,
    },
    /// The session is at rest, and what stands before this is no longer needed to go on.
    Snapshot(Box<Snapshot>),
}

/// A message for an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submitted {
    /// The run that it begins.
    pub run: RunId,
    /// The agent.
    pub agent: Name,
    /// The plan by which the run is decided.
    pub plan: Digest,
    /// The message.
    pub text: String,
    /// Hash of what the client sent, to tell a repetition from a conflict.
    pub body: Digest,
    /// When the run must have ended.
    pub deadline: Timestamp,
    /// What it may use at most.
    pub budget: Budget,
    /// The span of this run in its trace.
    pub trace: TraceContext,
    /// The caller's span, if it sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller_span: Option<TraceContext>,
    /// The run that asked for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Whether it begins a conversation, so that it is shown nothing of what was said before in a
    /// session that happens to have its name. Absent also where nobody can have chosen that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins: bool,
}

/// The end of a model turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelReplied {
    /// The run.
    pub run: RunId,
    /// The number of the turn in the run, counted from 0; an answer to another turn is stale.
    pub turn: u32,
    /// What the model said.
    pub outcome: ModelOutcome,
}

/// What a model turn came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelOutcome {
    /// The model answered.
    Read {
        /// The reply, read by the dialect.
        reading: Reading,
        /// What follows in the reply and was not read, if anything does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unread: Option<Unread>,
        /// The reasoning behind the calls, which the model is shown again with them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<Arc<Reasoning>>,
        /// What was used, and by whom.
        turn: Box<TurnReport>,
    },
    /// No usable answer came, retries included.
    Failed {
        /// Why.
        error: WireError,
    },
}

/// Facts of a model turn, for budgets and traces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnReport {
    /// The part that the model played.
    pub role: ModelRole,
    /// Tokens.
    pub usage: Usage,
    /// Why the model stopped.
    pub finish: FinishReason,
    /// The provider's kind.
    pub provider: String,
    /// The model, as the provider calls it.
    pub model: String,
    /// How often the provider was asked.
    pub attempts: u32,
    /// The model of the team that answered, if it stood in for the one that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_by: Option<Name>,
    /// What else the provider said of it.
    #[serde(default, skip_serializing_if = "TurnDetail::is_none")]
    pub detail: TurnDetail,
}

/// A change of a team's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum MemoryChange {
    /// A fact to keep.
    Remembered(Fact),
    /// Facts to drop.
    Forgotten {
        /// The facts.
        facts: Vec<CallKey>,
        /// The call that dropped them.
        by: CallKey,
    },
    /// All that is remembered; what stands before this is no longer needed.
    Restated {
        /// The facts, in the order in which they were remembered.
        facts: Vec<Fact>,
    },
}

/// One fact of a team's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Its id: the key of the call that remembered it.
    pub id: CallKey,
    /// What is to be known.
    pub text: String,
    /// When it was remembered.
    pub at: Timestamp,
    /// The agent that remembered it.
    pub agent: Name,
    /// The session in which it did.
    pub session: SessionId,
    /// Whether the run in which it did was tainted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tainted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_session_is_a_name() {
        assert_eq!(memory_session().as_str(), "_memory");
    }

    #[test]
    fn a_run_of_which_no_more_is_said_was_at_work_when_it_was_taken_up() {
        for (waiting, drained, json) in [
            (false, false, r#"{"input":"resumed"}"#),
            (true, false, r#"{"input":"resumed","waiting":true}"#),
            (false, true, r#"{"input":"resumed","drained":true}"#),
        ] {
            let input = Input::Resumed { waiting, drained };
            assert_eq!(serde_json::to_string(&input).unwrap(), json);
            assert_eq!(serde_json::from_str::<Input>(json).unwrap(), input);
        }
    }

    #[test]
    fn entries_survive_their_json_form() {
        let entry = Entry::new(
            Timestamp::from_micros(7),
            Body::Session(Input::ModelReplied(ModelReplied {
                run: RunId::new("r").unwrap(),
                turn: 2,
                outcome: ModelOutcome::Read {
                    reading: Reading::Final { text: "x".into() },
                    unread: Unread::of(" {} "),
                    reasoning: None,
                    turn: Box::new(TurnReport {
                        role: ModelRole::Actor,
                        usage: Usage::default(),
                        finish: FinishReason::Stop,
                        provider: "scripted".into(),
                        model: "m".into(),
                        attempts: 1,
                        served_by: None,
                        detail: TurnDetail::default(),
                    }),
                },
            })),
        );
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry, "{text}");
    }
}
