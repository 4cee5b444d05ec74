//! The words of the form in which a dialect without schema or tool calling is asked for calls.

use super::RESPOND_TO_USER;
use super::calls::{Ending, RESPOND};

/// The names in a reply of dialect `json` and in the messages that answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form<'a> {
    /// The key of the thought.
    pub(super) thought: &'a str,
    /// The key of the action.
    pub(super) action: &'a str,
    /// The key of the tool's name inside the action. `name` is read as well.
    pub(super) function: &'a str,
    /// The key of the arguments inside the action.
    pub(super) arguments: &'a str,
    /// The names that end the work; models are told the first.
    pub(super) endings: [Ending<'a>; 2],
    /// The type of a message that tells a result.
    pub(super) success: &'a str,
    /// The type of a message that tells a fault.
    pub(super) error: &'a str,
}

/// The form that models are shown unless a team sets another.
pub(super) const FORM: Form<'_> = Form {
    thought: "thought",
    action: "action",
    function: "function",
    arguments: "arguments",
    endings: [RESPOND, Ending { name: "finish_conversation", answer: "final_answer" }],
    success: "feedback_success",
    error: "feedback_error",
};

/// What begins every message of the runtime's by its type, however it goes on.
pub(super) const FEEDBACK: &str = "feedback";

/// The text at which a reply of dialect `react` ends: what follows is not the model's to write.
pub(super) const STOP: &str = "\nObservation";

/// The words of dialect `react` that end the work, as an action or as a label.
pub(super) const FINAL_ANSWER: &str = "Final Answer";

/// The ways out of dialect `react` by a call.
pub(super) const REACT_ENDINGS: [Ending<'_>; 1] = [Ending { name: RESPOND_TO_USER, ..RESPOND }];
