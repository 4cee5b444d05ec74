//! What observers of a session see. Events drive nothing.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::chat::{ModelRole, Usage};
use crate::entry::Feedback;
use crate::error::WireError;
use crate::id::{CallKey, Name, RunId, SessionId};
use crate::open::OpenKind;
use crate::question::{Progress, QuestionEnd};
use crate::run::RunStatus;
use crate::shared::SharedText;
use crate::text;
use crate::time::Timestamp;
use crate::trace::TraceId;

/// Where an event stands in its session; as text `<slot>.<n>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The slot of the entry that tells of it.
    pub slot: u64,
    /// Its number there, from 0.
    pub number: u32,
}

/// The text is no [`EventId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of an event, which is of the form <slot>.<n>")]
pub struct EventIdError;

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.number)
    }
}

impl FromStr for EventId {
    type Err = EventIdError;

    fn from_str(text: &str) -> Result<Self, EventIdError> {
        let (slot, number) = text.split_once('.').ok_or(EventIdError)?;
        let slot = slot.parse().map_err(|_| EventIdError)?;
        Ok(Self { slot, number: number.parse().map_err(|_| EventIdError)? })
    }
}

impl Serialize for EventId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::read(deserializer)
    }
}

/// One thing that happened, as published on the session's events subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The position to re-attach after; absent on deltas, switches of models and progress, which
    /// are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<EventId>,
    /// When.
    pub at: Timestamp,
    /// The trace of the run; the same for the runs that it asks for.
    pub trace_id: TraceId,
    /// The session.
    pub session: SessionId,
    /// The run.
    pub run: RunId,
    /// The agent.
    pub agent: Name,
    /// How many runs stand above.
    pub depth: u32,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What can happen, in the order in which it happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The run is durable.
    RunAccepted {
        /// The user's message.
        input: String,
    },
    /// The message of the run joins another one that is in work, and the run has its reply.
    RunJoined {
        /// The run in work.
        joined: RunId,
    },
    /// The run is in work.
    RunStarted,
    /// A message that joined the run is shown to its models from here on.
    Steered {
        /// The step, from 1.
        step: u32,
        /// The run of the message.
        by: RunId,
        /// The message.
        input: String,
    },
    /// A model was asked.
    ModelAsked {
        /// The step, from 1.
        step: u32,
        /// The part that it plays.
        role: ModelRole,
        /// The model's name in the team.
        model: Name,
    },
    /// A piece of a reply that is still being written; provisional.
    Delta {
        /// The step, from 1.
        step: u32,
        /// The part that the model plays.
        role: ModelRole,
        /// The piece.
        text: String,
    },
    /// A reply of which pieces were shown came to nothing, and the model is asked again; the pieces
    /// so far are void. Not kept, like the pieces.
    ModelRetried {
        /// The step, from 1.
        step: u32,
        /// The part that the model plays.
        role: ModelRole,
        /// The model, by its name in the team.
        model: Name,
        /// What became of the reply.
        error: WireError,
    },
    /// The server of a model failed, and another model is asked in its place; the pieces so far are
    /// void. Not kept, like the pieces.
    ModelSwitched {
        /// The step, from 1.
        step: u32,
        /// The part that the model plays.
        role: ModelRole,
        /// The model that is given up, by its name in the team.
        from: Name,
        /// The model that is asked, by its name in the team.
        to: Name,
        /// Why.
        error: WireError,
    },
    /// The thinker's thought.
    Thought {
        /// The step, from 1.
        step: u32,
        /// The text.
        text: String,
    },
    /// The planner's choice of a tool and a task for it.
    Planned {
        /// The step, from 1.
        step: u32,
        /// The tool or agent, or `respond_to_user`.
        tool: String,
        /// What it is to do.
        task: String,
        /// Why.
        thoughts: String,
    },
    /// A reply could not be used; the model is told why.
    FeedbackGiven {
        /// The step, from 1.
        step: u32,
        /// What it is told.
        feedback: Feedback,
    },
    /// A call was decided.
    CallStarted {
        /// The call.
        call: CallKey,
        /// The tool or agent.
        tool: Name,
        /// With what.
        arguments: Arc<Value>,
        /// Whether another agent is called.
        is_agent: bool,
    },
    /// A call waits for a person.
    CallSuspended {
        /// The call.
        call: CallKey,
        /// What the person is asked.
        question: String,
        /// What the person has to do about it.
        #[serde(default)]
        kind: OpenKind,
        /// The question that is asked, if the call goes on with its answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question_id: Option<Name>,
        /// The JSON Schema of what is to be filled in, if the tool asks for that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<Value>,
    },
    /// The question of a call is over, and the call goes on.
    QuestionEnded {
        /// The call.
        call: CallKey,
        /// How.
        end: QuestionEnd,
    },
    /// A call says how far it has come. Not kept, and said a few times a second at most.
    CallProgress {
        /// The call.
        call: CallKey,
        /// The tool.
        tool: Name,
        /// How far.
        #[serde(flatten)]
        progress: Progress,
    },
    /// A call is made that waited for a person, or is made again.
    CallRepeated {
        /// The call.
        call: CallKey,
        /// How often it is made with this time, from 1.
        attempt: u32,
        /// Why.
        reason: String,
    },
    /// A person said what came of a call that had ended as unknown.
    CallResolved {
        /// The call.
        call: CallKey,
        /// Whether it took effect.
        done: bool,
    },
    /// A call ended.
    CallEnded {
        /// The call.
        call: CallKey,
        /// The tool or agent.
        tool: Name,
        /// `ok`, `error` or `unknown`.
        status: String,
        /// The result as the model reads it.
        output: String,
        /// From decision to result, in microseconds.
        duration_us: u64,
    },
    /// The run was taken up again after a restart.
    RunResumed,
    /// The run is over.
    RunEnded {
        /// How.
        status: RunStatus,
        /// The answer; empty unless completed.
        output: SharedText,
        /// Tokens, those of the runs that it asked for included.
        usage: Usage,
        /// Why it did not complete. In a box, since runs are few and events are many.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Box<WireError>>,
    },
}
