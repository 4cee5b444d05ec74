//! The tables of texts that models read, and of the words of dialect `json`.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use wire::plan::{Audience, Text};

use crate::bound::{FORM_WORD_BYTES_MAX, PROMPT_BYTES_MAX};

/// Texts that models read in place of the runtime's own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawPrompts {
    /// What the thinker reads.
    pub(crate) thinker: RawTexts,
    /// What the actor model reads.
    pub(crate) actor: RawTexts,
    /// What the planner reads.
    pub(crate) planner: RawTexts,
    /// What the model reads that carries out a task of the planner's.
    pub(crate) task: RawTexts,
    /// What the model reads that writes the answer for which the planner asks.
    pub(crate) answer: RawTexts,
}

/// The texts for one reader. Each is a template, or a table that names its file; one that renders empty makes no message.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawTexts {
    /// The system message.
    pub(crate) system: Option<RawText>,
    /// A user message before those of earlier runs.
    pub(crate) opening: Option<RawText>,
    /// The user message that states what the user wants.
    pub(crate) request: Option<RawText>,
    /// What the model is shown to have said when it made a call.
    pub(crate) call: Option<RawText>,
    /// The answer to a call that was made.
    pub(crate) result: Option<RawText>,
    /// The answer to a reply or a call that cannot be used.
    pub(crate) feedback: Option<RawText>,
    /// The sentence that says what is wrong, which feedback then quotes.
    pub(crate) fault: Option<RawText>,
    /// The thinker's thought, as something that the actor model said.
    pub(crate) thought: Option<RawText>,
    /// A thought that the token limit cut, as it is kept.
    pub(crate) cut: Option<RawText>,
    /// The user message after a text with which the model is not done.
    pub(crate) go_on: Option<RawText>,
    /// The user message at the end, which asks for the reply.
    pub(crate) ask: Option<RawText>,
}

/// A template.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum RawText {
    /// The template itself.
    Template(#[schemars(length(max = PROMPT_BYTES_MAX))] String),
    /// The file that holds it.
    File(RawTextFile),
}

/// The file of a template.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTextFile {
    /// The file with the template, relative to the team file.
    pub(crate) file: String,
}

/// The words of dialect `json`: the keys of a reply and the types of the messages that answer it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawForm {
    /// The key of the thought.
    #[schemars(length(min = 1, max = FORM_WORD_BYTES_MAX), extend("default" = "thought"))]
    pub(crate) thought: Option<String>,
    /// The key of the action, which holds name and arguments.
    #[schemars(length(min = 1, max = FORM_WORD_BYTES_MAX), extend("default" = "action"))]
    pub(crate) action: Option<String>,
    /// Whether name and arguments stand beside the thought, without an action round them.
    #[schemars(extend("default" = false))]
    pub(crate) flat: Option<bool>,
    /// The key of the tool's name.
    #[schemars(length(min = 1, max = FORM_WORD_BYTES_MAX), extend("default" = "function"))]
    pub(crate) function: Option<String>,
    /// The key of the arguments.
    #[schemars(length(min = 1, max = FORM_WORD_BYTES_MAX), extend("default" = "arguments"))]
    pub(crate) arguments: Option<String>,
    /// The name that ends the work.
    #[schemars(length(min = 1, max = FORM_WORD_BYTES_MAX), extend("default" = "respond_to_user"))]
    pub(crate) ending: Option<String>,
    /// The argument of that name that holds the answer.
    #[schemars(length(min = 1, max = FORM_WORD_BYTES_MAX), extend("default" = "answer"))]
    pub(crate) answer: Option<String>,
    /// The type of a message that tells a result.
    #[schemars(length(min = 1, max = FORM_WORD_BYTES_MAX), extend("default" = "feedback_success"))]
    pub(crate) success: Option<String>,
    /// The type of a message that tells a fault.
    #[schemars(length(min = 1, max = FORM_WORD_BYTES_MAX), extend("default" = "feedback_error"))]
    pub(crate) error: Option<String>,
}

impl RawPrompts {
    pub(crate) fn get(&self, audience: Audience, text: Text) -> Option<&RawText> {
        let texts = match audience {
            Audience::Thinker => &self.thinker,
            Audience::Actor => &self.actor,
            Audience::Planner => &self.planner,
            Audience::Task => &self.task,
            Audience::Answer => &self.answer,
        };
        let text = match text {
            Text::System => &texts.system,
            Text::Opening => &texts.opening,
            Text::Request => &texts.request,
            Text::Call => &texts.call,
            Text::Result => &texts.result,
            Text::Feedback => &texts.feedback,
            Text::Fault => &texts.fault,
            Text::Thought => &texts.thought,
            Text::Cut => &texts.cut,
            Text::GoOn => &texts.go_on,
            Text::Ask => &texts.ask,
        };
        text.as_ref()
    }
}

impl<'de> Deserialize<'de> for RawText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(template) => Ok(Self::Template(template)),
            table => RawTextFile::deserialize(table).map(Self::File).map_err(D::Error::custom),
        }
    }
}
