//! Runs as clients see them: the request, the reply, the state in between.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::Usage;
use crate::error::WireError;
use crate::id::{CallKey, Name, RunId, SessionId};
use crate::open::{OpenCall, OpenKind};
use crate::trace::TraceContext;

/// The longest input of a run, in bytes; what is larger belongs into a tool's reach.
pub const INPUT_BYTES_MAX: usize = 1024 * 1024;

/// The body of a request on an agent's subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The user's message.
    pub input: String,
    /// The conversation to go on with; absent begins one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The client's idempotency key; absent makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The longest time from acceptance to reply, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What the run may use at most, below the agent's own limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Set where another agent asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
}

/// What a run may use at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens, input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
}

/// The run that asked for this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    /// The session of the asking run.
    pub session: SessionId,
    /// The asking run.
    pub run: RunId,
    /// How many runs stand above the new one, at least 1.
    pub depth: u32,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// With an answer.
    Completed,
    /// With an error.
    Failed,
    /// By request.
    Cancelled,
}

impl RunStatus {
    /// Returns the word used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The one final reply of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReply {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
    /// How it ended.
    pub status: RunStatus,
    /// The answer; empty unless completed.
    pub output: String,
    /// The calls that were made, in order.
    pub sources: Vec<Source>,
    /// Tokens of this run and of the runs that it asked for.
    pub usage: Usage,
    /// The trace that shows how it went.
    pub trace_id: String,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<WireError>,
}

/// One call that a run made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The call's key.
    pub call: CallKey,
    /// The tool or agent called.
    pub tool: Name,
    /// With what.
    pub arguments: Value,
    /// `ok`, `error` or `unknown`.
    pub status: String,
    /// The result as the model read it.
    pub output: String,
}

/// The answer to a request that wants to know of acceptance only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
    /// Always `accepted`.
    pub status: String,
    /// The trace that shows how it goes.
    pub trace_id: String,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunState {
    /// Accepted; another run of the session comes first.
    Queued,
    /// In work.
    Running {
        /// The step it is in, from 1.
        step: u32,
        /// `thinking`, `acting`, `calling` or `replying`.
        phase: String,
    },
    /// A person has to answer.
    Waiting {
        /// The call that asked.
        call: CallKey,
        /// What is asked.
        question: String,
        /// What the person has to do about it.
        #[serde(default)]
        kind: OpenKind,
        /// Further calls of the run that wait for a person, in the order in which they were made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<OpenQuestion>,
    },
    /// Over.
    Ended {
        /// How it ended.
        status: RunStatus,
    },
}

/// A call that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// The call that asked.
    pub call: CallKey,
    /// What is asked.
    pub question: String,
    /// What the person has to do about it.
    #[serde(default)]
    pub kind: OpenKind,
}

/// The answer to a look-up of a run's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunView {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
    /// The agent that was asked.
    pub agent: Name,
    /// Where it stands.
    #[serde(flatten)]
    pub state: RunState,
    /// Its trace.
    pub trace: TraceContext,
    /// The calls of this run and of the runs that it asked for that wait for a person; told to
    /// those who ask for the status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<OpenCall>,
}

/// A person's answer to a waiting run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    /// The call that asked; absent means the first one that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallKey>,
    /// The answer.
    pub text: String,
}
