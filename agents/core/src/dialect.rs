//! How models are asked and how their replies are read.
//!
//! A run is recorded without regard to any dialect, as a [`Transcript`]. [`prompt`] renders it for
//! one role, [`read`] turns the reply into a [`Reading`]. Each dialect is one file below this one;
//! thinker and planner are the same for all of them.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use wire::chat::Head;
use wire::entry::{Feedback, ReadCall, Unread};
use wire::plan::{Audience, Dialect, Form, Text};
use wire::{
    CallKey, Message, ModelReply, ModelRole, Plan, Planned, Reading, Reasoning, SharedText,
};

use crate::validate::{Catalogue, Toolbox};

mod calls;
pub mod continued;
mod extract;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod foreign;
mod form;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod hostile;
mod json;
#[cfg(test)]
mod kept;
mod lenient;
mod message;
mod native;
mod parse;
mod payload;
mod planner;
mod python;
mod react;
#[cfg(test)]
mod reasoned;
#[cfg(test)]
mod replies;
mod schema;
mod shape;
#[cfg(test)]
mod steered;
mod text;
mod thinker;
mod thinking;
mod told;
mod union;
mod unread;
mod wording;
mod written;

pub use parse::{Parsed, ParsedCall, TOOLS_MAX, ToolsError, parse, toolbox};
pub use wording::fact::Fact;
pub use wording::{TEXT_BYTES_MAX, TextFault, Wording, facts};

/// The name by which models end a run; no tool or agent may be offered under it.
pub const RESPOND_TO_USER: &str = "respond_to_user";

/// The most characters of an unusable reply that its author is shown again.
///
/// Enough to see what went wrong; a reply that ran into its token limit would fill the context.
pub const RAW_SHOWN_CHARS_MAX: usize = 2000;

/// What a run has come to, as a prompt is made from it.
#[derive(Clone, Copy, Debug)]
pub struct Transcript<'a> {
    /// The agent.
    pub plan: &'a Plan,
    /// Earlier runs of the session, oldest first.
    pub history: &'a [Exchange],
    /// What the user wants.
    pub request: &'a str,
    /// The steps in order. The last one is the one in work; none at all means that it is empty.
    pub steps: &'a [Step],
}

/// An earlier run of the session: what was said, and of one without an answer what was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The user's message.
    pub user: String,
    /// The final answer, or what stands for it.
    pub answer: SharedText,
    /// Whether either may hold untrusted words.
    pub tainted: bool,
}

impl Exchange {
    /// Returns the bytes of what was said.
    pub fn bytes(&self) -> usize {
        self.user.len() + self.answer.len()
    }
}

/// One step: at most one thought or plan, then what the actor model replied, and in between what
/// the user said meanwhile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The thinker's thought; absent while it thinks, and where there is no thinker.
    pub thought: Option<String>,
    /// What the planner wants; absent while it plans, and where there is no planner.
    pub planned: Option<Planned>,
    /// The actor model's replies in order; more than one after feedback. While a thought or a plan
    /// is awaited, feedback that stands here is on the thinker's or planner's own replies.
    pub acts: Vec<Act>,
}

/// One reply of the actor model, or a further message of the user.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// It asked for calls.
    Calls {
        /// Text beside the calls, empty where there is none.
        text: String,
        /// The calls in order. The act is left out of prompts until every one has its result.
        calls: Vec<Called>,
        /// The reasoning behind them, if the model wants it back with them.
        reasoning: Option<Arc<Reasoning>>,
    },
    /// It said something and wants to go on, or was cut, which ends the run.
    Continued {
        /// The text as it wrote it.
        text: String,
    },
    /// It answered, and the user had said something more meanwhile.
    Answered {
        /// The answer.
        text: SharedText,
    },
    /// The user said something more while the run was in work.
    Steered {
        /// The message.
        text: String,
    },
    /// It could not be used.
    Feedback {
        /// The reply as [it is shown again](shown_again).
        raw: String,
        /// What the model is told.
        feedback: Feedback,
    },
}

/// One call and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// The call as it was read.
    pub read: ReadCall,
    /// Its key; absent if it was not made.
    pub key: Option<CallKey>,
    /// The text that the model reads: the result, or the feedback on a faulty call.
    pub result: Option<String>,
}

/// What a model is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Tools and reply form; the same in every prompt of a role in a run, unless a planner selects
    /// what is called.
    pub head: Arc<Head>,
    /// How many of the messages that were [kept](Kept) begin it. They are not told again here, so
    /// that a prompt costs by what is new in it, however long the run is.
    pub known: usize,
    /// The conversation after those.
    pub messages: Vec<Arc<Message>>,
    /// How many messages of all, the known ones included, begin every later prompt of this role in
    /// this run, byte for byte.
    pub keep: usize,
    /// What is told in those as a whole.
    pub whole: Whole,
    /// The team's texts that failed, so that our own stand in their place; those of messages that
    /// were told before are not told again.
    pub faults: Vec<TextFault>,
}

/// Which acts are told with all that they come to, and how many messages end with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// All acts of so many steps, and so many of the step after those.
    acts: (usize, usize),
    messages: usize,
}

/// What all later prompts of a role in a run begin with.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Shared with the turn that was asked last, which may have to tell all of them again.
    messages: Arc<Vec<Arc<Message>>>,
    whole: Whole,
    /// The ids of the calls that are told as a whole.
    ids: HashSet<String>,
}

impl Kept {
    /// Returns the messages.
    pub const fn messages(&self) -> &Arc<Vec<Arc<Message>>> {
        &self.messages
    }

    /// Adds what a prompt that begins with these messages says to [keep](Prompt::keep) besides.
    pub fn add(&mut self, prompt: &Prompt) {
        let new = self.messages.len().saturating_sub(prompt.known);
        let kept = prompt.keep.saturating_sub(prompt.known).min(prompt.messages.len());
        if let Some(more) = prompt.messages.get(new..kept) {
            Arc::make_mut(&mut self.messages).extend_from_slice(more);
        }
        let told = self.messages.get(self.whole.messages..prompt.whole.messages);
        let calls = told.unwrap_or_default().iter().flat_map(|message| message.calls());
        self.ids.extend(calls.map(|call| call.id.clone()));
        self.whole = prompt.whole;
    }
}

impl Prompt {
    /// Returns all its messages, where `before` is what it was rendered after.
    pub fn all(&self, before: &Kept) -> Vec<Arc<Message>> {
        let known = before.messages.get(..self.known).unwrap_or_default();
        [known, &self.messages].concat()
    }
}

/// Renders what a role is sent next.
pub fn prompt(role: ModelRole, catalogue: &Catalogue, transcript: &Transcript<'_>) -> Prompt {
    prompt_after(role, catalogue, transcript, &Kept::default())
}

/// Renders what a role is sent next, where `before` is what earlier prompts of the role in the run
/// say to [keep](Prompt::keep): most of it need not be rendered again.
pub fn prompt_after(
    role: ModelRole,
    catalogue: &Catalogue,
    transcript: &Transcript<'_>,
    before: &Kept,
) -> Prompt {
    match role {
        ModelRole::Thinker if transcript.plan.planner.is_some() => {
            planner::prompt(catalogue, transcript)
        }
        ModelRole::Thinker => thinker::prompt(catalogue, transcript),
        ModelRole::Actor => match (transcript.planned(), transcript.plan.dialect) {
            (Some(planned), _) => planner::task::prompt(catalogue, transcript, planned),
            (None, Dialect::Native) => native::prompt(catalogue, transcript, before),
            (None, Dialect::Schema) => schema::prompt(catalogue, transcript),
            (None, Dialect::Json) => json::prompt(catalogue, transcript),
            (None, Dialect::React) => react::prompt(catalogue, transcript),
        },
    }
}

/// Lists what is wrong with the texts that a plan sets itself. Every one is rendered as runs of
/// all kinds would have it, so that what passes here rarely fails in a run.
pub fn text_faults(plan: &Arc<Plan>) -> Vec<TextFault> {
    wording::faults(plan)
}

/// What a reply is read as.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// What is to be done.
    pub reading: Reading,
    /// What follows in the reply and counts for nothing.
    pub unread: Option<Unread>,
    /// The reasoning behind the calls, if the model wants it back with them.
    pub reasoning: Option<Arc<Reasoning>>,
    /// The team's texts that failed, so that our own stand in their place.
    pub faults: Vec<TextFault>,
}

/// Reads the reply of a role, which for the actor model may be bound to what was planned. Whatever
/// the reply holds, the outcome is a reading.
pub fn read(
    role: ModelRole,
    catalogue: &Catalogue,
    planned: Option<&Planned>,
    reply: &ModelReply,
) -> Read {
    let plan = catalogue.plan();
    let (audience, reading) = match (role, planned) {
        (ModelRole::Thinker, _) if plan.planner.is_some() => {
            (Audience::Planner, planner::read(plan, reply))
        }
        (ModelRole::Thinker, _) => (Audience::Thinker, thinker::read(reply)),
        (ModelRole::Actor, Some(planned)) => {
            let audience = planner::task::audience(plan, planned);
            (audience, planner::task::read(catalogue, planned, reply))
        }
        (ModelRole::Actor, None) => {
            let reading = by(plan.dialect, catalogue.toolbox(), Some(plan), reply);
            let reading = match &plan.continue_word {
                Some(word) => continued::reading(word, plan.dialect, reading, reply),
                None => reading,
            };
            (Audience::Actor, reading)
        }
    };
    let dialect = plan.acting_model(planned).1;
    let unread = unread::of(audience, dialect, catalogue, &reading, reply);
    let mut speaker = catalogue.wording().hearing(audience);
    let scene = wording::Scene { planned, dialect: Some(dialect), ..wording::Scene::default() };
    let reading = match reading {
        Reading::Thought { text } if thinker::is_cut(reply) => {
            let scene = wording::Scene { thought: &text, ..scene };
            Reading::Thought { text: speaker.render(Text::Cut, &scene) }
        }
        reading => speaker.worded(reading, &scene),
    };
    // Only where calls are told again as the provider's own is there a place for it.
    let reasoning = match (dialect, &reading) {
        (Dialect::Native, Reading::Calls { .. }) => reply.reasoning.clone(),
        (Dialect::Native | Dialect::Schema | Dialect::Json | Dialect::React, _) => None,
    };
    Read { reading, unread, reasoning, faults: speaker.faults }
}

fn by(dialect: Dialect, toolbox: &Toolbox, plan: Option<&Plan>, reply: &ModelReply) -> Reading {
    match dialect {
        Dialect::Native => native::read(toolbox, reply),
        Dialect::Schema => schema::read(toolbox, plan, reply),
        Dialect::Json => match plan {
            Some(plan) => json::read(toolbox, &plan.form, reply),
            None => json::read(toolbox, &Form::default(), reply),
        },
        Dialect::React => react::read(toolbox, reply),
    }
}

/// Returns exactly what the actor model is offered: a list of tools in the OpenAI form, the schema
/// that its reply has to obey, or the system text that asks for calls.
///
/// With a planner it is the schema of the plan, and for each tool what the model is offered that
/// makes the call.
pub fn offered(plan: &Plan) -> Value {
    if plan.planner.is_some() {
        let each = plan
            .tools
            .iter()
            .map(|offer| (offer.spec.name.to_string(), planner::task::offered(plan, offer)));
        let each: serde_json::Map<String, Value> = each.collect();
        return serde_json::json!({"plan": planner::schema(plan), "calls": each});
    }
    match plan.dialect {
        Dialect::Native => plan.tools.iter().map(native::offered).collect(),
        Dialect::Schema => union::of(plan),
        Dialect::Json | Dialect::React => before(plan, Audience::Actor).into(),
    }
}

/// Returns what an audience is told before everything else: its system text, and the opening that
/// follows it or stands in its place. What a task is for is not said, since it differs.
pub fn before(plan: &Plan, audience: Audience) -> String {
    Wording::new(plan).before(audience, &wording::Scene::default())
}

impl Transcript<'_> {
    /// Splits off the step in work.
    fn split(&self) -> (&[Step], Option<&Step>) {
        match self.steps.split_last() {
            Some((current, finished)) => (finished, Some(current)),
            None => (&[], None),
        }
    }

    /// Returns what the planner wants done in the step in work.
    pub fn planned(&self) -> Option<&Planned> {
        self.steps.last().and_then(|step| step.planned.as_ref())
    }

    /// Returns the earlier runs that a model is shown.
    fn shown(&self) -> &[Exchange] {
        let shown =
            usize::try_from(self.plan.limits.history_messages_max / 2).unwrap_or(usize::MAX);
        let skipped = self.history.len().saturating_sub(shown);
        self.history.get(skipped..).unwrap_or_default()
    }
}

impl Act {
    /// Returns text and calls if every call has its result.
    fn settled(&self) -> Option<(&str, &[Called])> {
        match self {
            Self::Calls { text, calls, .. } if calls.iter().all(|call| call.result.is_some()) => {
                Some((text, calls))
            }
            Self::Calls { .. }
            | Self::Continued { .. }
            | Self::Answered { .. }
            | Self::Steered { .. }
            | Self::Feedback { .. } => None,
        }
    }

    /// Returns the message if this is one of the user's.
    fn steered(&self) -> Option<&str> {
        match self {
            Self::Steered { text } => Some(text),
            Self::Calls { .. }
            | Self::Continued { .. }
            | Self::Answered { .. }
            | Self::Feedback { .. } => None,
        }
    }
}

/// Returns what its author is shown again of a reply that cannot be used: a thought is not, since it
/// would take the room of what was said, and be a tag that is never closed.
pub(crate) fn shown_again(raw: &str) -> String {
    shown(&thinking::removed(raw).text)
}

/// Cuts what a model wrote to the length that is worth showing.
fn shown(raw: &str) -> String {
    match raw.char_indices().nth(RAW_SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{} [cut]", raw.get(..end).unwrap_or_default()),
        None => raw.to_owned(),
    }
}
