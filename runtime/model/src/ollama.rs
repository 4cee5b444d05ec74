//! The chat interface of Ollama.

use config::team::Ollama;
use serde_json::{Value, json};
use wire::{Digest, FinishReason, Message, ToolCall, Usage};

use crate::body::{Body, arguments_object, function_tool, stops, tokens_max};
use crate::client::Conversation;
use crate::draft::{CallPiece, Draft};
use crate::error::Error;
use crate::fields::{self, Json};
use crate::heads::{Heads, ReplyForm, WrittenHead};
use crate::lower::{Target, lower};
use crate::part::to_written;
use crate::provider::Protocol;
use crate::sampling;
use crate::stream::Framing;

#[cfg(test)]
mod tests;

/// The form in which its schemas are sent.
const FORM: Target = Target::LlamaCpp;

/// What a server of Ollama is sent, and how it is read.
pub(crate) struct OllamaProtocol {
    options: Ollama,
    heads: Heads,
}

impl OllamaProtocol {
    /// Takes the options of a model.
    pub(crate) const fn new(options: Ollama) -> Self {
        Self { options, heads: Heads::new() }
    }
}

impl Protocol for OllamaProtocol {
    fn word(&self) -> &'static str {
        "ollama"
    }

    fn path(&self) -> &'static [&'static str] {
        &["api", "chat"]
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn schema_form(&self) -> Option<Target> {
        Some(FORM)
    }

    fn body(&self, conversation: &Conversation, to: Option<&Digest>) -> Result<Body, String> {
        let Ollama { server, num_ctx, num_predict, sampling, keep_alive, think } = &self.options;
        let head = &conversation.head;
        let mut body = Body::default();
        body.set("model", server.model.as_str());
        let written = conversation.messages.written(to, self.word(), |message, _| {
            to_written(&chat_message(message), message.content().len())
        });
        body.set_written("messages", written.map_err(|error| error.to_string())?);
        let WrittenHead { tools, form } =
            self.heads.written(head, self.word(), function_tool, |schema| {
                let value = lower(&schema.schema, FORM).schema;
                Ok(ReplyForm { field: "format", value, wrapped: false })
            })?;
        body.set_tools(tools);
        body.set_form(form);
        body.set("stream", server.stream);
        let mut options = Body::default();
        options.set_some("num_ctx", *num_ctx);
        options.set_some("num_predict", tokens_max(conversation.max_tokens, *num_predict));
        options.set_some("temperature", server.temperature);
        sampling::set(&mut options, sampling);
        options.set_list("stop", stops(head, &server.stop));
        body.set_body("options", options);
        body.set_some("keep_alive", keep_alive.as_deref());
        body.set_some("think", think.clone());
        body.extend(&server.extra_body);
        Ok(body)
    }

    fn read_whole(&self, answer: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
        self.read_event(answer, draft)?;
        if draft.begun {
            return Ok(());
        }
        Err(Error::form("the answer has no message", &answer.to_string()))
    }

    /// Reads a line of a stream. An answer in one piece is a stream of one line.
    fn read_event(&self, line: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
        draft.model(fields::get(line, "model"));
        if let Some(message) = fields::object(line, "message") {
            draft.begun = true;
            draft.push_text(&fields::text(fields::get(message, "content")))?;
            for call in fields::list(fields::get(message, "tool_calls")) {
                draft.push_call(whole_call(call))?;
            }
        }
        if fields::is_true(line, "done") {
            draft.done = true;
            // The last line does not tell of calls in the lines before.
            draft.finish(finish(line, draft.has_calls()));
            *draft.usage() = Usage::of_tokens(
                fields::count(line, "prompt_eval_count").unwrap_or(0),
                fields::count(line, "eval_count").unwrap_or(0),
            );
        }
        Ok(())
    }
}

fn chat_message(message: &Message) -> Value {
    match message {
        Message::System { content } => json!({"role": "system", "content": content}),
        Message::User { content } => json!({"role": "user", "content": content}),
        Message::Assistant { content, calls, .. } if calls.is_empty() => {
            json!({"role": "assistant", "content": content})
        }
        Message::Assistant { content, calls, .. } => {
            let calls: Vec<Value> = calls.iter().map(chat_call).collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
        Message::Tool { call_id, name, content } => {
            json!({"role": "tool", "tool_name": name, "tool_call_id": call_id, "content": content})
        }
    }
}

fn chat_call(call: &ToolCall) -> Value {
    json!({"id": call.id, "function": {"name": call.name, "arguments": arguments_object(call)}})
}

fn whole_call(call: &Json<'_>) -> CallPiece {
    let of_function = |name| fields::get(fields::get(call, "function")?, name);
    CallPiece {
        // Its index counts the calls of one line only.
        index: None,
        id: fields::text(fields::get(call, "id")).into_owned(),
        name: fields::text(of_function("name")).into_owned(),
        arguments: fields::arguments(of_function("arguments")),
        ..CallPiece::default()
    }
}

fn finish(line: &Json<'_>, has_calls: bool) -> Option<FinishReason> {
    Some(match fields::word(line, "done_reason") {
        Some("length") => FinishReason::Length,
        None | Some("" | "stop") if has_calls => FinishReason::ToolCalls,
        Some("stop") => FinishReason::Stop,
        None | Some("") => return None,
        Some(_) => FinishReason::Other,
    })
}
