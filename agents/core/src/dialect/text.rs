//! A run as plain text, for the thinker and for actor models without tool calling.

use std::sync::Arc;

use serde_json::Value;
use wire::Message;

use super::{Act, Called, Step, Transcript, wording};

/// A conversation under construction.
pub(super) struct Conversation {
    pub(super) messages: Vec<Arc<Message>>,
    /// Calls of the run so far, which are counted from 1.
    calls: usize,
}

impl Conversation {
    /// Tells everything up to the step in work: it begins every later prompt of the same role.
    ///
    /// Replies that were mended within their step are left out: what counts is what was called.
    pub(super) fn finished(system: String, transcript: &Transcript<'_>) -> Self {
        let mut told =
            Self { messages: vec![Arc::new(Message::System { content: system })], calls: 0 };
        told.messages.extend(transcript.history().map(Arc::new));
        told.user(wording::request(transcript.request));
        for step in transcript.split().0 {
            told.step(step);
        }
        told
    }

    pub(super) fn user(&mut self, content: String) {
        self.messages.push(Arc::new(Message::User { content }));
    }

    pub(super) fn assistant(&mut self, content: String) {
        self.messages.push(Arc::new(Message::Assistant { content, calls: Vec::new() }));
    }

    fn step(&mut self, step: &Step) {
        let mut thought = step.thought.as_deref();
        for act in &step.acts {
            if let Act::Continued { text } = act {
                self.assistant(said(thought.take(), text).collect::<Vec<_>>().join("\n"));
                self.user(wording::GO_ON.to_owned());
            }
            let Some((text, calls)) = act.settled() else { continue };
            let first = self.calls;
            let lines = calls.iter().enumerate().map(|(index, call)| {
                wording::call(first + index + 1, &call.read.name, &arguments(call))
            });
            let content = said(thought.take(), text).chain(lines).collect::<Vec<_>>().join("\n");
            self.assistant(content);
            let results = self.results(calls);
            self.user(results);
        }
    }

    /// Counts some calls and tells their results.
    pub(super) fn results(&mut self, calls: &[Called]) -> String {
        let mut results = Vec::with_capacity(calls.len());
        for call in calls {
            self.calls += 1;
            let result = call.result.as_deref().unwrap_or_default();
            results.push(wording::result(self.calls, &call.read.name, result));
        }
        results.join("\n\n")
    }
}

/// Returns the thought of a step and a text of its reply, as far as they are there.
fn said(thought: Option<&str>, text: &str) -> impl Iterator<Item = String> {
    let said = [thought.unwrap_or_default(), text].map(str::to_owned);
    said.into_iter().filter(|part| !part.is_empty())
}

/// Returns the arguments of a call as one line, or as the model wrote them if they are no JSON.
pub(super) fn arguments(call: &Called) -> String {
    match &call.read.arguments {
        Value::Null => super::shown(&call.read.raw),
        arguments => arguments.to_string(),
    }
}
