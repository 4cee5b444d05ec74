//! The texts that models read: which there are, who reads them, and those that a team sets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Plan;

/// The texts that a team sets itself, as templates, by who reads them. What is absent is the
/// runtime's own text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompts {
    /// What the thinker reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub thinker: BTreeMap<Text, String>,
    /// What the actor model reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub actor: BTreeMap<Text, String>,
    /// What the planner reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub planner: BTreeMap<Text, String>,
    /// What the model reads that carries out a task of the planner's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub task: BTreeMap<Text, String>,
    /// What the model reads that writes the answer for which the planner asks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answer: BTreeMap<Text, String>,
}

impl Prompts {
    /// Tells whether every text is the runtime's own.
    pub fn is_empty(&self) -> bool {
        Audience::ALL.iter().all(|audience| self.of(*audience).is_empty())
    }

    /// Returns the texts for an audience.
    pub const fn of(&self, audience: Audience) -> &BTreeMap<Text, String> {
        match audience {
            Audience::Thinker => &self.thinker,
            Audience::Actor => &self.actor,
            Audience::Planner => &self.planner,
            Audience::Task => &self.task,
            Audience::Answer => &self.answer,
        }
    }

    /// Returns the texts for an audience, to set them.
    pub const fn of_mut(&mut self, audience: Audience) -> &mut BTreeMap<Text, String> {
        match audience {
            Audience::Thinker => &mut self.thinker,
            Audience::Actor => &mut self.actor,
            Audience::Planner => &mut self.planner,
            Audience::Task => &mut self.task,
            Audience::Answer => &mut self.answer,
        }
    }
}

/// Who reads a text: a model in the part that it plays at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Audience {
    /// The thinker.
    Thinker,
    /// The actor model of an agent without a planner.
    Actor,
    /// The planner.
    Planner,
    /// The model that carries out one task of the planner's by calling the tool that it selected.
    Task,
    /// The model that writes the answer, once the planner selects it.
    Answer,
}

impl Audience {
    /// Every audience.
    pub const ALL: [Self; 5] =
        [Self::Thinker, Self::Actor, Self::Planner, Self::Task, Self::Answer];

    /// Returns the word used in config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Thinker => "thinker",
            Self::Actor => "actor",
            Self::Planner => "planner",
            Self::Task => "task",
            Self::Answer => "answer",
        }
    }

    /// Tells whether there is this audience among the models of an agent.
    pub const fn is_of(self, plan: &Plan) -> bool {
        match self {
            Self::Thinker => plan.planner.is_none() && plan.thinker.is_some(),
            Self::Actor => plan.planner.is_none(),
            Self::Planner | Self::Task | Self::Answer => plan.planner.is_some(),
        }
    }

    /// Tells whether the audience is ever told a text.
    pub const fn is_told(self, text: Text) -> bool {
        match text {
            Text::System
            | Text::Opening
            | Text::Request
            | Text::Feedback
            | Text::Fault
            | Text::Ask => true,
            // A planner is told tasks and results, but makes no calls.
            Text::Call | Text::Result => !matches!(self, Self::Planner),
            Text::Thought => matches!(self, Self::Actor),
            Text::Cut => matches!(self, Self::Thinker),
            Text::GoOn => matches!(self, Self::Thinker | Self::Actor),
        }
    }
}

/// The texts of which a prompt consists. One that renders empty makes no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Text {
    /// The system message.
    System,
    /// A user message before the earlier runs of the session.
    Opening,
    /// The user message that states what the user wants.
    Request,
    /// What the model is shown to have said when it made a call.
    Call,
    /// The answer to a call that was made.
    Result,
    /// The answer to a reply or a call that cannot be used.
    Feedback,
    /// The sentence that says what is wrong, which feedback then quotes.
    Fault,
    /// The thinker's thought, as something that the actor model said.
    Thought,
    /// A thought that the token limit cut, as it is kept.
    Cut,
    /// The user message after a text with which the model is not done.
    GoOn,
    /// The user message at the end, which asks for the reply.
    Ask,
}

impl Text {
    /// Every text, in the order in which a prompt has them.
    pub const ALL: [Self; 11] = [
        Self::System,
        Self::Opening,
        Self::Request,
        Self::Call,
        Self::Result,
        Self::Feedback,
        Self::Fault,
        Self::Thought,
        Self::Cut,
        Self::GoOn,
        Self::Ask,
    ];

    /// Returns the word used in config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Opening => "opening",
            Self::Request => "request",
            Self::Call => "call",
            Self::Result => "result",
            Self::Feedback => "feedback",
            Self::Fault => "fault",
            Self::Thought => "thought",
            Self::Cut => "cut",
            Self::GoOn => "go_on",
            Self::Ask => "ask",
        }
    }
}
