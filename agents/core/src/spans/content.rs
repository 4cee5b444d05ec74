//! What was said, as spans hold it: messages of roles and parts.
//!
//! It is borrowed until it is known that a span may hold it, so that nothing large is copied for
//! traces that hold none.

use serde_json::{Value, json};
use wire::plan::Plan;
use wire::semconv::CONTENT;
use wire::{Attributes, CallOutcome, Capture, Name};

use super::RunFacts;
use crate::capture;
use crate::dialect::RESPOND_TO_USER;

/// One message.
#[derive(Clone, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) role: &'static str,
    pub(crate) parts: Vec<Part<'a>>,
    /// Why it ended, of what a model wrote.
    pub(crate) finish: Option<&'a str>,
}

/// A part of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    /// What a planner wants done by a tool.
    Task {
        tool: &'a str,
        text: &'a str,
    },
    /// What could not be read, so that nobody knows for which tool it is.
    Unread(&'a str),
    Call {
        id: &'a str,
        name: &'a str,
        arguments: &'a Value,
        /// How long the arguments are.
        bytes: usize,
    },
    Result {
        id: &'a str,
        name: &'a str,
        text: &'a str,
    },
}

impl<'a> Said<'a> {
    pub(crate) fn user(text: &'a str) -> Self {
        Self { role: "user", parts: vec![Part::Text(text)], finish: None }
    }

    pub(crate) const fn model(parts: Vec<Part<'a>>) -> Self {
        Self { role: "assistant", parts, finish: None }
    }
}

/// Puts what was said into spans, as far as a plan permits it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contents<'p> {
    plan: &'p Plan,
    /// How much is put at most.
    most: Capture,
}

impl<'p> Contents<'p> {
    pub(crate) const fn of(facts: &RunFacts<'p>) -> Self {
        Self { plan: facts.plan, most: facts.plan.traces.of(facts.sink) }
    }

    /// Tells whether anything is put at all.
    pub(crate) fn are_put(self) -> bool {
        self.most > Capture::None
    }

    /// Returns how much may be held of the calls of a tool. A name that no tool has may be meant for
    /// any of them; what answers the user is for none.
    fn of_tool(self, name: &str) -> Capture {
        match self.plan.offer(name) {
            Some(offer) => offer.capture.unwrap_or(Capture::Full).min(self.most),
            None if name == RESPOND_TO_USER => self.most,
            None => self.of_any(),
        }
    }

    /// Tells whether anything of what the calls of a tool say may be held as it is.
    pub(crate) fn are_told_of(self, tool: &Name) -> bool {
        self.of_tool(tool.as_str()) >= Capture::Redacted
    }

    /// Returns how much may be held of what may be meant for any tool: as much as of the one of
    /// which the least may be.
    fn of_any(self) -> Capture {
        let own = self.plan.tools.iter().filter_map(|offer| offer.capture);
        own.fold(self.most, Capture::min)
    }

    /// Puts messages; none are put that say nothing.
    pub(crate) fn put(self, attributes: &mut Attributes, name: &'static str, said: &[Said<'_>]) {
        let parts = said.iter().flat_map(|said| &said.parts);
        self.size(attributes, name, parts.map(|part| self.bytes(part)).sum());
        if self.most >= Capture::Redacted && !said.is_empty() {
            let messages = said.iter().map(|said| {
                let parts: Vec<Value> = said.parts.iter().filter_map(|p| self.json(p)).collect();
                let mut message = json!({"role": said.role, "parts": parts});
                if let (Some(finish), Some(fields)) = (said.finish, message.as_object_mut()) {
                    fields.insert("finish_reason".to_owned(), finish.into());
                }
                message
            });
            attributes.set(name, messages.collect::<Value>());
        }
    }

    /// Puts parts that belong to no message.
    pub(crate) fn put_parts(
        self,
        attributes: &mut Attributes,
        name: &'static str,
        parts: &[Part<'_>],
    ) {
        self.size(attributes, name, parts.iter().map(|part| self.bytes(part)).sum());
        if self.most >= Capture::Redacted {
            attributes.set(name, parts.iter().filter_map(|p| self.json(p)).collect::<Value>());
        }
    }

    /// Puts what a tool was told or told itself.
    pub(crate) fn put_value(
        self,
        attributes: &mut Attributes,
        name: &'static str,
        tool: &str,
        value: &Value,
    ) {
        let level = self.of_tool(tool);
        if level >= Capture::Metadata {
            self.size(attributes, name, wire::json::measure(value).unwrap_or_default());
        }
        if level >= Capture::Redacted {
            attributes.set(name, self.held(level, value));
        }
    }

    /// Puts the outcome of a call.
    pub(crate) fn put_outcome(
        self,
        attributes: &mut Attributes,
        name: &'static str,
        tool: &str,
        outcome: &CallOutcome,
    ) {
        if self.of_tool(tool) == Capture::None {
            return;
        }
        match outcome {
            CallOutcome::Ok { output } => self.put_value(attributes, name, tool, output),
            CallOutcome::Error { .. } | CallOutcome::Unknown { .. } | CallOutcome::Ended { .. } => {
                let value = serde_json::from_str(&outcome.to_text()).unwrap_or_default();
                self.put_value(attributes, name, tool, &value);
            }
        }
    }

    /// Returns why a call failed, with what its tool permits to be held of the sentence, which may
    /// repeat what came back.
    pub(crate) fn failure<'c>(
        self,
        tool: &str,
        (code, message): (&'c str, String),
    ) -> (&'c str, String) {
        let own = self.plan.offer(tool).and_then(|offer| offer.capture);
        match own {
            Some(Capture::None | Capture::Metadata) => (code, code.to_owned()),
            Some(level @ Capture::Redacted) => (code, capture::reduce_text(&message, level)),
            Some(Capture::Full) | None => (code, message),
        }
    }

    /// Puts a text by itself.
    pub(crate) fn put_text(self, attributes: &mut Attributes, name: &'static str, text: &str) {
        self.size(attributes, name, text.len());
        if self.most >= Capture::Redacted {
            attributes.set(name, text);
        }
    }

    fn size(self, attributes: &mut Attributes, name: &'static str, bytes: usize) {
        let size = CONTENT.iter().find(|(content, _)| *content == name);
        if let Some((_, size)) = size.filter(|_| self.most >= Capture::Metadata) {
            attributes.set(*size, bytes);
        }
    }

    fn bytes(self, part: &Part<'_>) -> usize {
        match part {
            Part::Text(text) => text.len(),
            Part::Task { tool, text } if self.of_tool(tool) > Capture::None => text.len(),
            Part::Call { name, bytes, .. } if self.of_tool(name) > Capture::None => *bytes,
            Part::Result { name, text, .. } if self.of_tool(name) > Capture::None => text.len(),
            Part::Unread(text) if self.of_any() > Capture::None => text.len(),
            Part::Task { .. } | Part::Unread(_) | Part::Call { .. } | Part::Result { .. } => 0,
        }
    }

    fn json(self, part: &Part<'_>) -> Option<Value> {
        Some(match part {
            Part::Text("") => return None,
            Part::Text(text) => json!({"type": "text", "content": text}),
            Part::Task { tool, text } => return self.text(self.of_tool(tool), text),
            Part::Unread(text) => return self.text(self.of_any(), text),
            Part::Call { id, name, arguments, .. } => {
                let level = self.of_tool(name);
                let arguments = (level >= Capture::Redacted).then(|| self.held(level, arguments));
                json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments})
            }
            Part::Result { id, name, text } => {
                let level = self.of_tool(name);
                let result =
                    (level >= Capture::Redacted).then(|| self.held(level, &Value::from(*text)));
                json!({"type": "tool_call_response", "id": id, "result": result})
            }
        })
    }

    fn text(self, level: Capture, text: &str) -> Option<Value> {
        (level >= Capture::Redacted && !text.is_empty())
            .then(|| json!({"type": "text", "content": self.held(level, &Value::from(text))}))
    }

    /// Reduces what a tool keeps further than the plan does.
    fn held(self, level: Capture, value: &Value) -> Value {
        if level < self.most { capture::reduce_value(value, level) } else { value.clone() }
    }
}
