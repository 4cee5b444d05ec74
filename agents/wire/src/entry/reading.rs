//! What a model's reply is read as, and what is wrong with it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::shared::SharedText;

/// A model's reply as its dialect reads it: what is to be done, not how it was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reading {
    /// A thought of the thinker.
    Thought {
        /// The text.
        text: String,
    },
    /// What the planner wants done in this step.
    Planned(Planned),
    /// Calls, at least one.
    Calls {
        /// Text beside the calls, empty where there is none.
        text: String,
        /// The calls, in order.
        calls: Vec<ReadCall>,
    },
    /// A text after which the model wants to go on by itself.
    Continued {
        /// The text as the model wrote it, its `continue_word` included.
        text: String,
    },
    /// The answer to the user.
    Final {
        /// The text.
        text: SharedText,
    },
    /// An answer that the token limit cut.
    Cut {
        /// What there is of it; empty where all that was written is thinking.
        text: SharedText,
    },
    /// Nothing that can be acted on.
    Fault {
        /// What the model is told.
        feedback: Feedback,
        /// The reply as it came.
        raw: String,
    },
}

/// The most characters of a reply's unread rest that are kept.
///
/// They are for people who wonder what a model wrote; a whole one may hold results and turns that
/// it invented, by the page.
pub const UNREAD_CHARS_MAX: usize = 200;

/// What a model wrote after the part of its reply that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// How long it is, in bytes.
    pub bytes: u64,
    /// How it begins: at most [`UNREAD_CHARS_MAX`] characters.
    pub begins: String,
}

impl Unread {
    /// Takes note of a rest, unless there is nothing in it.
    pub fn of(rest: &str) -> Option<Self> {
        let rest = rest.trim();
        let begins = rest.chars().take(UNREAD_CHARS_MAX).collect();
        let bytes = u64::try_from(rest.len()).unwrap_or(u64::MAX);
        (!rest.is_empty()).then_some(Self { bytes, begins })
    }
}

/// A step as the planner wants it: one tool, and in words what that tool is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// The name under which the tool or agent is offered, or `respond_to_user`.
    pub tool: String,
    /// What it is to do; may be empty where the user is answered.
    pub task: String,
    /// Why, empty if the planner does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thoughts: String,
    /// What the planner takes to be known, empty if it does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
}

/// One call of a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadCall {
    /// The provider's id, for the provider's own bookkeeping.
    pub id: String,
    /// The name as the model wrote it.
    pub name: String,
    /// The arguments: valid by the schema, unless there is a fault.
    pub arguments: Arc<Value>,
    /// The arguments as the model wrote them.
    pub raw: String,
    /// What the model wrote up to the end of the call, where the call stands in its text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub written: String,
    /// Why the call must not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Feedback>,
}

/// What a model is told about a reply that cannot be used: all faults at once, and the way out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Feedback {
    /// The kind of fault.
    pub code: FeedbackCode,
    /// Which fault it is; absent in entries of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What is wrong, in a sentence.
    pub message: String,
    /// Each fault by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The schema that the reply or the arguments have to obey.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The names that would have been valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub valid_names: Vec<String>,
}

impl Feedback {
    /// Returns the one JSON object that the model reads.
    pub fn to_text(&self) -> String {
        serde_json::json!({ "error": self.told() }).to_string()
    }

    /// Returns what a model is told: the kind of fault and the sentence say which one it is.
    #[must_use]
    pub fn told(&self) -> Self {
        Self { reason: None, ..self.clone() }
    }
}

/// Why a reply or a call cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The reply is not of the form that was asked for.
    NotOfForm,
    /// The text holds a call that cannot be read.
    UnreadableCall,
    /// A call that ends the work stands beside others.
    NotAlone,
    /// A task was to be carried out, and the reply makes no call.
    NoCall,
    /// The reply was cut.
    Cut,
    /// The reply was cut inside of a call.
    CutInCall,
    /// The reply is empty.
    Empty,
    /// No tool of that name is offered.
    UnknownTool,
    /// The call is not of the tool for which the task is.
    OtherTool,
    /// Only the answer is still to be written.
    NoMoreCalls,
    /// The arguments do not obey the tool's schema.
    InvalidArguments,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 11] = [
        Self::NotOfForm,
        Self::UnreadableCall,
        Self::NotAlone,
        Self::NoCall,
        Self::Cut,
        Self::CutInCall,
        Self::Empty,
        Self::UnknownTool,
        Self::OtherTool,
        Self::NoMoreCalls,
        Self::InvalidArguments,
    ];

    /// Returns the word used in texts and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotOfForm => "not_of_form",
            Self::UnreadableCall => "unreadable_call",
            Self::NotAlone => "not_alone",
            Self::NoCall => "no_call",
            Self::Cut => "cut",
            Self::CutInCall => "cut_in_call",
            Self::Empty => "empty",
            Self::UnknownTool => "unknown_tool",
            Self::OtherTool => "other_tool",
            Self::NoMoreCalls => "no_more_calls",
            Self::InvalidArguments => "invalid_arguments",
        }
    }

    /// Returns the kind of fault.
    pub const fn code(self) -> FeedbackCode {
        match self {
            Self::NotOfForm | Self::UnreadableCall | Self::NotAlone | Self::NoCall => {
                FeedbackCode::MalformedReply
            }
            Self::Cut | Self::CutInCall => FeedbackCode::TruncatedReply,
            Self::Empty => FeedbackCode::EmptyReply,
            Self::UnknownTool | Self::OtherTool | Self::NoMoreCalls => FeedbackCode::UnknownTool,
            Self::InvalidArguments => FeedbackCode::InvalidArguments,
        }
    }
}

/// The kinds of fault in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackCode {
    /// The reply is not of the form that was asked for.
    MalformedReply,
    /// The token limit cut the reply.
    TruncatedReply,
    /// The reply is empty.
    EmptyReply,
    /// No tool of that name is offered.
    UnknownTool,
    /// The arguments do not obey the tool's schema.
    InvalidArguments,
}

impl FeedbackCode {
    /// Returns the word used on the wire and in traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MalformedReply => "malformed_reply",
            Self::TruncatedReply => "truncated_reply",
            Self::EmptyReply => "empty_reply",
            Self::UnknownTool => "unknown_tool",
            Self::InvalidArguments => "invalid_arguments",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rest_is_cut_to_a_length_and_none_is_none() {
        assert_eq!((Unread::of(""), Unread::of(" \n")), (None, None));
        let long = "ä".repeat(500);
        let unread = Unread::of(&format!("\n{long}\n")).unwrap();
        assert_eq!((unread.bytes, unread.begins.chars().count()), (1000, UNREAD_CHARS_MAX));
    }

    #[test]
    fn feedback_of_earlier_versions_is_read_and_its_reason_is_told_to_no_model() {
        let old = json!({"code": "empty_reply", "message": "m"});
        let mut feedback: Feedback = serde_json::from_value(old).unwrap();
        let text = feedback.to_text();
        assert_eq!(feedback.reason, None);
        feedback.reason = Some(Reason::Empty);
        assert_eq!(feedback.to_text(), text);
    }

    #[test]
    fn every_reason_has_a_word_of_its_own_that_is_its_json_form() {
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
