//! A run as a conversation that is only ever added to, for dialects that are asked by a prompt.

use std::sync::Arc;

use wire::Message;
use wire::chat::Head;

use super::{Act, Prompt, Transcript, wording};

/// A conversation under construction.
pub(super) struct Told {
    messages: Vec<Arc<Message>>,
}

impl Told {
    /// Begins with the system text and the earlier runs.
    pub(super) fn new(system: String, transcript: &Transcript<'_>) -> Self {
        let system = Message::System { content: system };
        Self {
            messages: std::iter::once(system).chain(transcript.history()).map(Arc::new).collect(),
        }
    }

    /// Begins with a system text alone, unless it is empty.
    pub(super) fn alone(system: String) -> Self {
        let system = Some(system).filter(|system| !system.is_empty());
        let system = system.map(|content| Arc::new(Message::System { content }));
        Self { messages: system.into_iter().collect() }
    }

    /// Returns how many messages there are.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn user(&mut self, content: String) {
        self.messages.push(Arc::new(Message::User { content }));
    }

    /// Adds what the model said, unless it said nothing.
    pub(super) fn assistant(&mut self, content: String) {
        if !content.is_empty() {
            self.messages.push(Arc::new(Message::Assistant { content, calls: Vec::new() }));
        }
    }

    /// Adds a text after which the model goes on.
    pub(super) fn continued(&mut self, text: &str) {
        self.assistant(text.to_owned());
        self.user(wording::GO_ON.to_owned());
    }

    /// Adds a message as it is.
    pub(super) fn message(&mut self, message: Message) {
        self.messages.push(Arc::new(message));
    }

    /// Ends with the last message. So many of the first begin every later prompt of the role.
    pub(super) fn keeping(self, keep: usize, head: Head) -> Prompt {
        Prompt { head, messages: self.messages, keep }
    }

    /// Adds the thought of the step in work, which later prompts do not show.
    pub(super) fn finish(mut self, transcript: &Transcript<'_>, head: Head) -> Prompt {
        let keep = self.messages.len();
        if let Some(thought) = transcript.split().1.and_then(|step| step.thought.as_deref()) {
            self.user(wording::carry_out(thought));
        }
        Prompt { head, messages: self.messages, keep }
    }
}

impl<'a> Transcript<'a> {
    /// Returns every reply in order, with the thought of its step.
    pub(super) fn acts(&self) -> impl Iterator<Item = (Option<&'a str>, &'a Act)> + use<'a> {
        self.steps
            .iter()
            .flat_map(|step| step.acts.iter().map(|act| (step.thought.as_deref(), act)))
    }
}
