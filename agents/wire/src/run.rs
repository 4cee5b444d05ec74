//! Runs as clients see them: the request, the reply, the state in between.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::Usage;
use crate::error::WireError;
use crate::id::{CallKey, Name, RunId, SessionId};
use crate::open::{OpenCall, OpenKind};
use crate::shared::SharedText;
use crate::trace::TraceContext;

/// The longest input of a run, in bytes; what is larger belongs into a tool's reach.
pub const INPUT_BYTES_MAX: usize = 1024 * 1024;

/// The largest body of a request, in bytes: the longest input with every character escaped by one
/// more, as line ends and quotes are, and 64 KiB for the rest.
pub const BODY_BYTES_MAX: usize = 2 * INPUT_BYTES_MAX + 64 * 1024;

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

/// What a run may use at most, with the runs that it asks for. 0 means nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens, input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Money, in billionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_nano_usd: Option<u64>,
    /// Calls, those of the runs that it asks for included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
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
    /// Whether the asking run is tainted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tainted: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// With an answer.
    Completed,
    /// It was stopped at its last step, because it went in circles, or because its answer was cut.
    Partial,
    /// Its model's provider withheld the answer, or the run was not taken.
    Refused,
    /// With an error.
    Failed,
    /// By request.
    Cancelled,
    /// Tokens, money or calls were used up.
    Budget,
    /// Its time was over.
    Deadline,
    /// Nobody knows: whoever asked for it had no answer.
    Unknown,
}

impl RunStatus {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Completed,
        Self::Partial,
        Self::Refused,
        Self::Failed,
        Self::Cancelled,
        Self::Budget,
        Self::Deadline,
        Self::Unknown,
    ];

    /// Returns the word used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Partial => "partial",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Budget => "budget",
            Self::Deadline => "deadline",
            Self::Unknown => "unknown",
        }
    }

    /// Tells whether a run that ended so hands over what it said last, though that is no answer.
    pub const fn hands_over(self) -> bool {
        match self {
            Self::Partial | Self::Refused | Self::Budget | Self::Deadline => true,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Unknown => false,
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
    /// The answer. Of a run that ended as `partial`, `refused`, `budget` or `deadline` it is what
    /// was said last, and of any other that did not complete it is empty.
    pub output: SharedText,
    /// The calls that were made, in order.
    pub sources: Vec<Source>,
    /// What this run and the runs that it asked for used.
    pub usage: Usage,
    /// The trace that shows how it went.
    pub trace_id: String,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<WireError>,
    /// The run that the message joined, if it did: this is that run's reply, whose tokens count
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<RunId>,
    /// Whether the answer may hold untrusted words: the run got results of untrusted tools, or was
    /// asked for or went on with what did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tainted: bool,
}

/// One call that a run made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The call's key.
    pub call: CallKey,
    /// The tool or agent called.
    pub tool: Name,
    /// With what.
    pub arguments: Arc<Value>,
    /// `ok`, `error` or `unknown`; of a called agent that did not complete, how it ended.
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
    /// The run in work that the message joined, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<RunId>,
}

impl Accepted {
    /// Says that a run is taken.
    pub fn new(run: RunId, session: SessionId, trace_id: String, joined: Option<RunId>) -> Self {
        Self { run, session, status: "accepted".to_owned(), trace_id, joined }
    }
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
    /// The run that its message joined, if it did; the state is that run's until either is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<RunId>,
    /// The calls of this run and of the runs that it asked for that wait for a person; told to
    /// those who ask for the status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<OpenCall>,
}

/// A person's answer to a waiting run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    /// The call that asked; absent means the first one that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallKey>,
    /// The question that is answered; absent means the one that the call asks at present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question_id: Option<Name>,
    /// Whether there is an answer.
    #[serde(default, skip_serializing_if = "AnswerAction::is_accept")]
    pub action: AnswerAction,
    /// The answer in words. To a question with a form: the value of its only field, or the form as
    /// JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The form as it was filled in, if the question has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
}

/// What a person does about a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerAction {
    /// Answers it.
    #[default]
    Accept,
    /// Refuses to answer it.
    Decline,
    /// Turns away from it.
    Cancel,
}

impl AnswerAction {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    const fn is_accept(&self) -> bool {
        matches!(self, Self::Accept)
    }
}
