//! Questions that calls put to people while they are under way, and what people say to them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::ToolReply;
use crate::id::Name;

/// Questions of one attempt at a call: whoever needs more should ask for several things at once.
pub const QUESTIONS_MAX: u32 = 10;

/// The longest text of a question, in bytes; a person has to read it.
pub const QUESTION_BYTES_MAX: usize = 8 << 10;

/// The longest form of a question, in bytes; a person has to fill it in.
pub const FORM_BYTES_MAX: usize = 16 << 10;

/// A question of a call that goes on once it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Its name, which no other question has.
    pub id: Name,
    /// What the person is asked, and who asks.
    pub text: String,
    /// The JSON Schema of what is to be filled in: an object whose fields hold no objects.
    pub form: Value,
}

/// What a person says to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Said {
    /// What was asked for.
    Accept {
        /// The form as it was filled in.
        content: Value,
    },
    /// That it will not be said; the call may go on without.
    Decline,
    /// Nothing: nobody answered, or the person turned away.
    Cancel,
}

impl Said {
    /// Returns how the question ended by this.
    pub const fn end(&self) -> QuestionEnd {
        match self {
            Self::Accept { .. } => QuestionEnd::Accepted,
            Self::Decline => QuestionEnd::Declined,
            Self::Cancel => QuestionEnd::Cancelled,
        }
    }
}

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionEnd {
    /// It was answered.
    Accepted,
    /// The answer was refused.
    Declined,
    /// The person turned away, or the one that asked does not want to know any more.
    Cancelled,
    /// Nobody answered in time.
    Expired,
    /// The call that asked was lost, with a restart for instance.
    Lost,
}

impl QuestionEnd {
    /// Returns the word used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Declined => "declined",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Lost => "lost",
        }
    }
}

/// What is asked on the subject of a question, of the tool that waits there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum QuestionRequest {
    /// Say so if the question is void before it is answered; answered by [`Void`].
    Wait,
    /// Go on with what was said; answered by the next [`ToolReply`].
    Say {
        /// What was said.
        said: Said,
    },
}

/// Why a question needs no answer any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "void", rename_all = "snake_case")]
pub enum Void {
    /// The call is over.
    Over {
        /// How.
        reply: ToolReply,
    },
    /// Whoever asked does not want to know any more; the call goes on.
    Withdrawn,
}

/// How far a call under way has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What is done; it grows.
    pub done: f64,
    /// What there is to do, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
