//! What the models of an agent with a planner are told, message by message.

use std::sync::Arc;

use serde_json::{Value, json};
use wire::chat::Head;
use wire::plan::Dialect;
use wire::{Message, Plan, ToolCall};

use super::super::native::Ids;
use super::super::{Act, Called, Prompt, Transcript, form, shown};

/// An exchange under construction.
pub(super) struct Exchange {
    messages: Vec<Arc<Message>>,
}

impl Exchange {
    /// Begins with a system text alone, unless it is empty.
    pub(super) fn alone(system: String) -> Self {
        let system = Some(system).filter(|system| !system.is_empty());
        let system = system.map(|content| Arc::new(Message::System { content }));
        Self { messages: system.into_iter().collect() }
    }

    /// Begins with a system text and the earlier runs.
    pub(super) fn after_history(system: String, transcript: &Transcript<'_>) -> Self {
        let mut exchange = Self::alone(system);
        exchange.messages.extend(transcript.history().map(Arc::new));
        exchange
    }

    /// Returns how many messages there are.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn user(&mut self, content: String) {
        self.messages.push(Arc::new(Message::User { content }));
    }

    /// Adds what the model said, unless it said nothing.
    fn assistant(&mut self, content: String) {
        if !content.is_empty() {
            self.messages.push(Arc::new(Message::Assistant { content, calls: Vec::new() }));
        }
    }

    /// Shows a reply that cannot be used, what was wrong with it, and what is asked again.
    pub(super) fn unusable(&mut self, act: &Act, ask: &str) {
        if let Act::Feedback { raw, feedback } = act {
            self.assistant(shown(raw));
            self.user(format!("{}\n\n{ask}", feedback.to_text()));
        }
    }

    /// Shows a reply of the step in work as text, and what was wrong with it.
    pub(super) fn again(&mut self, plan: &Plan, dialect: Dialect, act: &Act, ask: &str) {
        self.unusable(act, ask);
        let Some((text, calls)) = act.settled() else { return };
        let lines: Vec<String> =
            calls.iter().map(|call| written(plan, dialect, text, call)).collect();
        self.assistant(lines.join("\n"));
        let results: Vec<&str> = calls.iter().filter_map(|call| call.result.as_deref()).collect();
        self.user(format!("{}\n\n{ask}", results.join("\n\n")));
    }

    /// Shows a reply of the step in work with its calls and their answers, as the provider has it.
    pub(super) fn answered(&mut self, text: &str, calls: &[Called], ids: &mut Ids) {
        let ids: Vec<String> = calls.iter().map(|call| ids.next(call)).collect();
        let written = calls.iter().zip(&ids).map(|(call, id)| ToolCall {
            id: id.clone(),
            name: call.read.name.clone(),
            arguments: call.read.raw.clone(),
        });
        let said = Message::Assistant { content: text.to_owned(), calls: written.collect() };
        self.messages.push(Arc::new(said));
        self.messages.extend(calls.iter().zip(ids).map(|(call, call_id)| {
            let content = call.result.clone().unwrap_or_default();
            Arc::new(Message::Tool { call_id, name: call.read.name.clone(), content })
        }));
    }

    /// Ends with the last message. So many of the first begin every later prompt of the role.
    pub(super) fn keeping(self, keep: usize, head: Head) -> Prompt {
        Prompt { head, messages: self.messages, keep, faults: Vec::new() }
    }
}

/// Writes a call in the form in which it was asked for.
fn written(plan: &Plan, dialect: Dialect, thought: &str, call: &Called) -> String {
    let name = &call.read.name;
    let arguments = match &call.read.arguments {
        Value::Null => Value::String(shown(&call.read.raw)),
        arguments => arguments.clone(),
    };
    match dialect {
        Dialect::Native => format!("{name} {}", shown(&call.read.raw)),
        Dialect::Schema => json!({"tool": name, "arguments": arguments}).to_string(),
        Dialect::Json => form::object(&plan.form, thought, name, &arguments).to_string(),
        Dialect::React => {
            let blob = json!({"action": name, "action_input": arguments});
            format!("Action:\n```json\n{blob}\n```")
        }
    }
}
