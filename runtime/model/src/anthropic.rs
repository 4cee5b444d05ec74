//! The Messages interface of Anthropic.

use config::team::Server;
use serde_json::{Value, json};
use serde_json_borrow::ObjectAsVec;
use wire::{FinishReason, Message, ToolCall};

use crate::body::{Body, append, arguments_object, stops};
use crate::client::Conversation;
use crate::draft::{CallPiece, Draft};
use crate::error::Error;
use crate::fields::{self, Json};
use crate::lower::{Target, lower, parameters};
use crate::provider::Protocol;

#[cfg(test)]
mod tests;

/// Tokens of a reply where the run sets no limit, as the interface wants to be told one.
const TOKENS_MAX: u64 = 4096;

/// What the user says where the conversation would begin with the model.
const OPENING: &str = "Go on.";

/// The form in which its schemas are sent.
const FORM: Target = Target::Anthropic;

/// What the interface is sent, and how it is read.
pub(crate) struct AnthropicProtocol {
    server: Server,
}

impl AnthropicProtocol {
    /// Takes the options of a model.
    pub(crate) const fn new(server: Server) -> Self {
        Self { server }
    }
}

impl Protocol for AnthropicProtocol {
    fn word(&self) -> &'static str {
        "anthropic"
    }

    fn path(&self) -> &'static [&'static str] {
        &["v1", "messages"]
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("x-api-key", "")
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn schema_form(&self) -> Option<Target> {
        Some(FORM)
    }

    fn wants_plain_parameters(&self) -> bool {
        true
    }

    fn body(&self, conversation: &Conversation) -> Result<Body, String> {
        let server = &self.server;
        let head = &conversation.head;
        let (system, messages) = messages(conversation);
        let mut body = Body::default();
        body.set("model", server.model.as_str());
        body.set("max_tokens", conversation.max_tokens.unwrap_or(TOKENS_MAX));
        body.set_some("system", Some(system).filter(|system| !system.is_empty()));
        body.set("messages", messages);
        body.set_tools(head, self.word(), tool)?;
        if !head.tools.is_empty() {
            body.set("tool_choice", json!({"type": "auto"}));
        }
        if let Some(schema) = &head.response_schema {
            let form = lower(&schema.schema, FORM).schema;
            body.set("output_config", json!({"format": {"type": "json_schema", "schema": form}}));
        }
        body.set_some("temperature", server.temperature);
        let mut stops = stops(head, &server.stop);
        // White space alone is refused; it is cut on our side.
        stops.retain(|stop| !stop.trim().is_empty());
        body.set_list("stop_sequences", stops);
        body.set("stream", server.stream);
        body.extend(&server.extra_body);
        Ok(body)
    }

    fn read_whole(&self, answer: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
        if !fields::get(answer, "content").is_some_and(Json::is_array) {
            return Err(Error::form("the answer has no content", &answer.to_string()));
        }
        draft.model(fields::get(answer, "model"));
        draft.response_id(fields::get(answer, "id"));
        read_usage(answer, draft);
        for block in fields::list(fields::get(answer, "content")) {
            read_block(block, None, draft)?;
        }
        draft.finish(finish(answer));
        Ok(())
    }

    fn read_event(&self, event: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
        match fields::word(event, "type").unwrap_or_default() {
            "message_start" => {
                draft.begun = true;
                let message = fields::get(event, "message").unwrap_or(&Json::Null);
                draft.model(fields::get(message, "model"));
                draft.response_id(fields::get(message, "id"));
                read_usage(message, draft);
            }
            "content_block_start" => {
                let block = fields::get(event, "content_block").unwrap_or(&Json::Null);
                read_block(block, fields::count(event, "index"), draft)?;
            }
            "content_block_delta" => {
                let delta = fields::get(event, "delta").unwrap_or(&Json::Null);
                read_delta(delta, fields::count(event, "index"), draft)?;
            }
            "message_delta" => {
                read_usage(event, draft);
                draft.finish(fields::get(event, "delta").and_then(finish));
            }
            "message_stop" => draft.done = true,
            // The ends of blocks, signs of life, and what may come later.
            _ => {}
        }
        Ok(())
    }
}

fn tool(tool: &wire::ToolSpec) -> Value {
    let schema = parameters(&tool.parameters).schema;
    json!({"name": tool.name.as_str(), "description": tool.description, "input_schema": schema})
}

/// Returns the system's text at the beginning, and messages in which user and model alternate.
///
/// Results of tools are the user's; what the system says later is too. An empty text is refused,
/// so that it is left out.
fn messages(conversation: &Conversation) -> (String, Vec<Value>) {
    let mut system = String::new();
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in conversation.said() {
        let (role, blocks) = match message {
            Message::System { content } if turns.is_empty() => {
                append(&mut system, content);
                continue;
            }
            Message::System { content } | Message::User { content } => ("user", text(content)),
            Message::Assistant { content, calls } => {
                let mut blocks = text(content);
                blocks.extend(calls.iter().map(tool_use));
                ("assistant", blocks)
            }
            Message::Tool { call_id, content, .. } => ("user", vec![tool_result(call_id, content)]),
        };
        match turns.last_mut() {
            Some((last, before)) if *last == role => before.extend(blocks),
            _ if blocks.is_empty() => {}
            None if role == "assistant" => turns.extend([("user", text(OPENING)), (role, blocks)]),
            _ => turns.push((role, blocks)),
        }
    }
    let messages = turns.into_iter();
    (system, messages.map(|(role, content)| json!({"role": role, "content": content})).collect())
}

fn text(text: &str) -> Vec<Value> {
    if text.trim().is_empty() { Vec::new() } else { vec![json!({"type": "text", "text": text})] }
}

fn tool_use(call: &ToolCall) -> Value {
    let id = lowered_id(&call.id);
    json!({"type": "tool_use", "id": id, "name": call.name, "input": arguments_object(call)})
}

fn tool_result(call_id: &str, content: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": lowered_id(call_id), "content": content})
}

/// Returns an id without the characters that the interface refuses in ids of other providers.
fn lowered_id(id: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    id.chars().map(allowed).collect()
}

/// Reads a block that is whole, or the beginning of one; blocks of thinking are passed over.
fn read_block(block: &Json<'_>, index: Option<u64>, draft: &mut Draft) -> Result<(), Error> {
    match fields::word(block, "type") {
        Some("text") => draft.push_text(&fields::text(fields::get(block, "text"))),
        Some("tool_use") => {
            let input = fields::get(block, "input");
            // In a stream the input begins empty, and its text comes in pieces.
            let is_empty = |input: &Json<'_>| input.as_object().is_some_and(ObjectAsVec::is_empty);
            let begins = index.is_some() && input.is_some_and(is_empty);
            draft.push_call(CallPiece {
                index,
                id: fields::text(fields::get(block, "id")).into_owned(),
                name: fields::text(fields::get(block, "name")).into_owned(),
                arguments: if begins { String::new() } else { fields::arguments(input) },
            })
        }
        _ => Ok(()),
    }
}

fn read_delta(delta: &Json<'_>, index: Option<u64>, draft: &mut Draft) -> Result<(), Error> {
    match fields::word(delta, "type") {
        Some("text_delta") => draft.push_text(&fields::text(fields::get(delta, "text"))),
        Some("input_json_delta") => draft.join_call(CallPiece {
            index,
            arguments: fields::text(fields::get(delta, "partial_json")).into_owned(),
            ..CallPiece::default()
        }),
        _ => Ok(()),
    }
}

/// Reads the token counts, those of the cache among the input; a later count replaces an earlier.
fn read_usage(message: &Json<'_>, draft: &mut Draft) {
    let Some(usage) = fields::get(message, "usage") else { return };
    if let Some(input) = fields::count(usage, "input_tokens") {
        let written = fields::count(usage, "cache_creation_input_tokens");
        let read = fields::count(usage, "cache_read_input_tokens");
        let cached = [written, read].into_iter().flatten();
        draft.usage().input_tokens = cached.fold(input, u64::saturating_add);
        draft.detail().cache_creation_tokens = written;
        draft.detail().cache_read_tokens = read;
    }
    if let Some(output) = fields::count(usage, "output_tokens") {
        draft.usage().output_tokens = output;
    }
}

fn finish(message: &Json<'_>) -> Option<FinishReason> {
    Some(match fields::word(message, "stop_reason")? {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "refusal" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    })
}
