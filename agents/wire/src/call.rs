//! Calls of tools and agents: the request, the outcome, and what may be repeated.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::Usage;
use crate::error::{ErrorCode, WireError};
use crate::hop::HopReport;
use crate::id::{CallKey, Name, RunId, SessionId};
use crate::question::Question;
use crate::run::{Budget, RunStatus};

// The stricter is the greater.
/// What may be done again when it is not known whether a call took effect.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Changes nothing; may be repeated.
    Read,
    /// May be repeated with the same key.
    Idempotent,
    /// Never repeated.
    #[default]
    Once,
}

impl EffectClass {
    /// Returns the word used in config, journal and traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Idempotent => "idempotent",
            Self::Once => "once",
        }
    }
}

/// One tool call, as asked for on the tool's subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolRequest {
    /// The key of the call, the same on every attempt.
    pub call: CallKey,
    /// The arguments, valid by the tool's schema.
    pub arguments: Arc<Value>,
    /// The session that asks.
    pub session: SessionId,
    /// The run that asks.
    pub run: RunId,
    /// The agent that asks.
    pub agent: Name,
    /// What the call may use, if the tool asks a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Whether the call was made before and only its outcome is still waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rejoin: bool,
    /// Whether the run that asks is tainted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tainted: bool,
    /// How many runs stand above the one that asks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The tool by which the agent reads on in a result that is cut, if it has one; without it
    /// nothing of such a result is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<Name>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
const fn is_zero(depth: &u32) -> bool {
    *depth == 0
}

/// What a tool says at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ToolReply {
    /// The call is over.
    Settled {
        /// How it ended.
        outcome: CallOutcome,
        /// Tokens that the tool used, if it asked a model.
        #[serde(default, skip_serializing_if = "Usage::is_none")]
        usage: Usage,
        /// Whether the outcome holds untrusted words, whatever the run knows of the tool.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tainted: bool,
        /// What the call met outside.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hop: Option<Box<HopReport>>,
    },
    /// No answer came from behind the tool, and the call may have taken effect or not. What
    /// follows depends on its effect class.
    Lost {
        /// What is known.
        error: WireError,
        /// Tokens that the tool may have used if it asked a model, rather too many than too few.
        #[serde(default, skip_serializing_if = "Usage::is_none")]
        usage: Usage,
        /// Whether what is known holds untrusted words, whatever the run knows of the tool.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tainted: bool,
        /// What the call met outside.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hop: Option<Box<HopReport>>,
    },
    /// A person has to answer first; the outcome is given to the run later.
    Suspended {
        /// What the person is asked.
        question: String,
    },
    /// The call is under way and goes on once a person has answered, on the subject of the
    /// question.
    Asks {
        /// What the person is asked.
        question: Question,
    },
}

impl ToolReply {
    /// Makes the reply of a tool that used no model and does not know what came of the call.
    pub fn lost(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::unanswered(WireError::new(code, message))
    }

    /// Makes the same reply of what is known.
    pub fn unanswered(error: WireError) -> Self {
        Self::Lost { error, usage: Usage::default(), tainted: false, hop: None }
    }

    /// Makes the reply of a tool that is done and used no model.
    pub fn settled(outcome: CallOutcome) -> Self {
        Self::Settled { outcome, usage: Usage::default(), tainted: false, hop: None }
    }

    /// Adds what the call met outside.
    #[must_use]
    pub fn met(mut self, report: HopReport) -> Self {
        match &mut self {
            Self::Settled { hop, .. } | Self::Lost { hop, .. } => *hop = report.boxed(),
            Self::Suspended { .. } | Self::Asks { .. } => {}
        }
        self
    }
}

/// How a call ended. Every call gets exactly one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CallOutcome {
    /// It did what was asked.
    Ok {
        /// The result; a plain text is a JSON string.
        output: Value,
    },
    /// It did not, and says why.
    Error {
        /// Code and message.
        error: WireError,
    },
    /// Whether it took effect is not known. It must not be repeated.
    Unknown {
        /// What is known.
        note: String,
    },
    /// A called agent ended without an answer.
    Ended {
        /// How.
        status: RunStatus,
        /// What it said last, if it hands that over.
        output: String,
        /// Why.
        error: WireError,
    },
}

impl CallOutcome {
    /// Makes the outcome of a call that returned a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Ok { output: Value::String(text.into()) }
    }

    /// Makes the outcome of a call that failed.
    pub fn error(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Error { error: WireError::new(code, message) }
    }

    /// Returns the word used in events and traces.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Ok { .. } => "ok",
            Self::Error { .. } => "error",
            Self::Unknown { .. } => "unknown",
            Self::Ended { status, .. } => status.as_str(),
        }
    }

    /// Returns the text that a model reads.
    pub fn to_text(&self) -> String {
        match self {
            Self::Ok { output: Value::String(text) } => text.clone(),
            Self::Ok { output } => output.to_string(),
            Self::Error { error } => {
                serde_json::json!({"error": {"code": error.code, "message": error.message}})
                    .to_string()
            }
            Self::Unknown { note } => {
                serde_json::json!({"status": "unknown", "note": note}).to_string()
            }
            Self::Ended { status, output, error } => {
                let error = serde_json::json!({"code": error.code, "message": error.message});
                let mut told = serde_json::json!({"status": status, "error": error});
                if let (false, Some(told)) = (output.is_empty(), told.as_object_mut()) {
                    told.insert("said_last".to_owned(), Value::String(output.clone()));
                }
                told.to_string()
            }
        }
    }
}
