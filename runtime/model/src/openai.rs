//! The OpenAI chat completions protocol, as many servers speak it.

use config::team::OpenAi;
use serde_json::{Value, json};
use wire::{FinishReason, Message, ToolCall, Usage};

use crate::body::{Body, merge_adjacent, stops, written};
use crate::client::Conversation;
use crate::complaint::Complaint;
use crate::draft::{CallPiece, Draft};
use crate::error::Error;
use crate::fields;
use crate::lower::{Target, lower};
use crate::provider::Protocol;

#[cfg(test)]
mod streamed;
#[cfg(test)]
mod whole;
#[cfg(test)]
mod writing;

/// The form of messages and tools, which other servers share.
pub(crate) const CHAT: &str = "chat completions";

/// What such a server is sent, and how it is read.
pub(crate) struct OpenAiProtocol {
    options: OpenAi,
}

impl OpenAiProtocol {
    /// Takes the options of a model.
    pub(crate) const fn new(options: OpenAi) -> Self {
        Self { options }
    }
}

impl Protocol for OpenAiProtocol {
    fn word(&self) -> &'static str {
        "openai"
    }

    fn path(&self) -> &'static [&'static str] {
        &["chat", "completions"]
    }

    fn schema_form(&self) -> Option<Target> {
        self.options.strict.then_some(Target::OpenAiStrict)
    }

    fn body(&self, conversation: &Conversation) -> Result<Body, String> {
        let OpenAi { server, strict, merge_adjacent } = &self.options;
        let head = &conversation.head;
        let mut body = Body::default();
        body.set("model", server.model.as_str());
        set_messages(&mut body, conversation, *merge_adjacent)?;
        body.set_tools(head, CHAT)?;
        if let Some(schema) = &head.response_schema {
            let form = match self.schema_form() {
                Some(target) => {
                    let lowered = lower(&schema.schema, target);
                    body.wrapped = lowered.wrapped;
                    lowered.schema
                }
                None => schema.schema.clone(),
            };
            body.set("response_format", response_format(schema.name.as_str(), &form, *strict));
        }
        body.set_some("max_tokens", conversation.max_tokens);
        body.set_some("temperature", server.temperature);
        body.set_list("stop", stops(head, &server.stop));
        body.set("stream", server.stream);
        if server.stream {
            body.set("stream_options", json!({"include_usage": true}));
        }
        body.extend(&server.extra_body);
        Ok(body)
    }

    fn read_whole(&self, answer: &Value, draft: &mut Draft) -> Result<(), Error> {
        read_whole(answer, draft)
    }

    fn read_event(&self, event: &Value, draft: &mut Draft) -> Result<(), Error> {
        read_event(event, draft)
    }
}

/// Writes the messages of a conversation.
pub(crate) fn set_messages(
    body: &mut Body,
    conversation: &Conversation,
    merge: bool,
) -> Result<(), String> {
    if merge {
        let messages = merge_adjacent(&conversation.messages);
        body.set_list("messages", messages.iter().map(|message| chat_message(message)).collect());
    } else {
        body.set_written("messages", written(conversation, CHAT, chat_message)?);
    }
    Ok(())
}

fn chat_message(message: &Message) -> Value {
    match message {
        Message::System { content } => json!({"role": "system", "content": content}),
        Message::User { content } => json!({"role": "user", "content": content}),
        Message::Assistant { content, calls } if calls.is_empty() => {
            json!({"role": "assistant", "content": content})
        }
        Message::Assistant { content, calls } => {
            // Null beside calls without a text, which is how the protocol writes it.
            let content = (!content.is_empty()).then_some(content);
            let calls: Vec<Value> = calls.iter().map(chat_call).collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
        Message::Tool { call_id, name, content } => {
            json!({"role": "tool", "tool_call_id": call_id, "name": name, "content": content})
        }
    }
}

fn chat_call(call: &ToolCall) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments});
    json!({"id": call.id, "type": "function", "function": function})
}

/// Writes how the reply has to look.
pub(crate) fn response_format(name: &str, schema: &Value, strict: bool) -> Value {
    let json_schema = json!({"name": name, "schema": schema, "strict": strict});
    json!({"type": "json_schema", "json_schema": json_schema})
}

/// Reads an answer that came in one piece.
pub(crate) fn read_whole(answer: &Value, draft: &mut Draft) -> Result<(), Error> {
    let fault = |fault| Error::form(fault, &answer.to_string());
    let choice = answer.pointer("/choices/0").ok_or_else(|| fault("the answer has no choice"))?;
    read_frame(answer, draft);
    read_end(choice, draft)?;
    let message = choice.get("message").filter(|message| message.is_object());
    let message = message.ok_or_else(|| fault("the answer has no message"))?;
    read_text(message, draft)?;
    for call in fields::list(message.get("tool_calls")) {
        draft.push_call(CallPiece { index: None, ..piece(call) })?;
    }
    Ok(())
}

/// Reads one chunk of a stream.
pub(crate) fn read_event(chunk: &Value, draft: &mut Draft) -> Result<(), Error> {
    read_frame(chunk, draft);
    let first = |choice: &&Value| fields::count(choice, "index").unwrap_or(0) == 0;
    let Some(choice) = fields::list(chunk.get("choices")).iter().find(first) else {
        return Ok(());
    };
    draft.begun = true;
    if let Some(delta) = choice.get("delta") {
        read_text(delta, draft)?;
        for call in fields::list(delta.get("tool_calls")) {
            draft.join_call(piece(call))?;
        }
    }
    read_end(choice, draft)
}

/// Reads what stands around the choices: the token counts, the model that answered, and the id.
fn read_frame(answer: &Value, draft: &mut Draft) {
    if let Some(usage) = answer.get("usage").filter(|usage| usage.is_object()) {
        *draft.usage() = Usage::of_tokens(
            fields::count(usage, "prompt_tokens").unwrap_or(0),
            fields::count(usage, "completion_tokens").unwrap_or(0),
        );
        let of = |details: &str, name| fields::count(usage.get(details)?, name);
        let detail = draft.detail();
        detail.cache_read_tokens = of("prompt_tokens_details", "cached_tokens");
        detail.reasoning_tokens = of("completion_tokens_details", "reasoning_tokens");
    }
    draft.response_id(answer.get("id"));
    draft.model(answer.get("model"));
}

fn read_text(message: &Value, draft: &mut Draft) -> Result<(), Error> {
    draft.push_text(&fields::text(message.get("content")))?;
    draft.push_refusal(&fields::text(message.get("refusal")))
}

/// Reads how a choice ends, which with some servers is an error in place of the rest.
fn read_end(choice: &Value, draft: &mut Draft) -> Result<(), Error> {
    let reason = choice.get("finish_reason").and_then(Value::as_str).unwrap_or_default();
    let ended = (reason == "error").then(Complaint::default);
    if let Some(complaint) = Complaint::from_answer(choice).or(ended) {
        return Err(Error::InBand(complaint.into()));
    }
    draft.finish(match reason {
        "" => None,
        "stop" | "stop_sequence" | "end_turn" | "eos" => Some(FinishReason::Stop),
        "length" | "max_tokens" | "model_length" => Some(FinishReason::Length),
        "tool_calls" | "tool_use" | "function_call" => Some(FinishReason::ToolCalls),
        "content_filter" => Some(FinishReason::ContentFilter),
        _ => Some(FinishReason::Other),
    });
    Ok(())
}

fn piece(call: &Value) -> CallPiece {
    let function = call.get("function");
    CallPiece {
        index: fields::count(call, "index"),
        id: fields::text(call.get("id")),
        name: fields::text(function.and_then(|function| function.get("name"))),
        arguments: fields::arguments(function.and_then(|function| function.get("arguments"))),
    }
}
