//! The Messages interface of Anthropic.

use config::team::Server;
use serde::Serialize;
use serde_json::{Value, json};
use serde_json_borrow::ObjectAsVec;
use wire::{Digest, FinishReason, Message, Reasoning, ToolCall};

use crate::body::{Body, append, arguments_object, stops};
use crate::client::Conversation;
use crate::draft::{CallPiece, Draft};
use crate::error::Error;
use crate::fields::{self, Json};
use crate::heads::{Heads, ReplyForm, WrittenHead};
use crate::lower::{Parameters, Target, anthropic_parameters, lower};
use crate::part::{WrittenPart, to_written};
use crate::provider::Protocol;
use crate::reasoning::{carried, is_text};

#[cfg(test)]
mod tests;

/// Tokens of a reply where the run sets no limit, as the interface wants to be told one.
const TOKENS_MAX: u64 = 4096;

/// What the user says where the conversation would begin with the model.
const OPENING: &str = "Go on.";

/// What a turn takes, in bytes, about.
const TURN_BYTES: usize = 1024;

/// What says that the interface keeps what was read so far. At the body itself it means the last
/// block of all.
const CACHED: &str = "cache_control";

/// The form in which its schemas are sent.
const FORM: Target = Target::Anthropic;

/// What the interface is sent, and how it is read.
pub(crate) struct AnthropicProtocol {
    server: Server,
    heads: Heads,
}

impl AnthropicProtocol {
    /// Takes the options of a model.
    pub(crate) const fn new(server: Server) -> Self {
        Self { server, heads: Heads::new() }
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

    fn parameters(&self, schema: &Value) -> Option<Parameters> {
        Some(anthropic_parameters(schema))
    }

    fn body(&self, conversation: &Conversation, to: Option<&Digest>) -> Result<Body, String> {
        let server = &self.server;
        let head = &conversation.head;
        let (system, mut turns, lasting) = turns(conversation, to);
        let cached = lasting.and_then(|at| mark(&mut turns, at, server.extra_body.get(CACHED)));
        let mut body = Body::default();
        body.set("model", server.model.as_str());
        body.set("max_tokens", conversation.max_tokens.unwrap_or(TOKENS_MAX));
        body.set_some("system", Some(system).filter(|system| !system.is_empty()));
        body.set_written("messages", written(&turns).map_err(|error| error.to_string())?);
        let WrittenHead { tools, form } =
            self.heads.written(head, self.word(), tool, |schema| {
                let form = lower(&schema.schema, FORM).schema;
                let value = json!({"format": {"type": "json_schema", "schema": form}});
                Ok(ReplyForm { field: "output_config", value, wrapped: false })
            })?;
        body.set_tools(tools);
        if !head.tools.is_empty() {
            body.set("tool_choice", json!({"type": "auto"}));
        }
        body.set_form(form);
        body.set_some("temperature", server.temperature);
        let mut stops = stops(head, &server.stop);
        // White space alone is refused; it is cut on our side.
        stops.retain(|stop| !stop.trim().is_empty());
        body.set_list("stop_sequences", stops);
        body.set("stream", server.stream);
        body.extend(&server.extra_body);
        if cached.is_some() {
            body.unset(CACHED);
        }
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
        draft.reopen_cut_call();
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
                draft.reopen_cut_call();
            }
            "message_stop" => draft.done = true,
            // The ends of blocks, signs of life, and what may come later.
            _ => {}
        }
        Ok(())
    }
}

fn tool(tool: &wire::ToolSpec) -> Value {
    let schema = anthropic_parameters(&tool.parameters).schema;
    json!({"name": tool.name.as_str(), "description": tool.description, "input_schema": schema})
}

/// What one side says before the other does. It is written without a tree of values between, since
/// each step of a run writes all of them.
#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Said(Said<'a>),
    /// As it came from the model.
    Kept(&'a Value),
    /// With a mark.
    Marked(Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Said<'a> {
    Text { text: &'a str },
    ToolUse { id: String, name: &'a str, input: Value },
    ToolResult { tool_use_id: String, content: &'a str },
}

/// Returns the system's text at the beginning, and turns in which user and model alternate.
///
/// Results of tools are the user's; what the system says later is too. An empty text is refused,
/// so that it is left out. Where the newest messages are of this turn alone, the last block before
/// them is told, by its turn and its place there.
fn turns<'a>(
    conversation: &'a Conversation,
    to: Option<&Digest>,
) -> (String, Vec<Turn<'a>>, Option<(usize, usize)>) {
    let mut system = String::new();
    let mut turns: Vec<Turn<'a>> = Vec::new();
    let (mut lasting, passing) = (None, conversation.passing);
    let lasts = conversation.said().count().saturating_sub(passing);
    for (number, message) in conversation.said().enumerate() {
        if number == lasts && passing > 0 {
            let last = turns.len().checked_sub(1);
            lasting = last.and_then(|at| Some((at, turns.get(at)?.content.len().checked_sub(1)?)));
        }
        let (role, content) = match message {
            Message::System { content } if turns.is_empty() => {
                append(&mut system, content);
                continue;
            }
            Message::System { content } | Message::User { content } => {
                ("user", text(content).collect())
            }
            Message::Assistant { content, calls, .. } => {
                let reasoning = carried(message, to);
                ("assistant", spoken(content, calls, reasoning).collect())
            }
            Message::Tool { call_id, content, .. } => {
                ("user", vec![Block::Said(tool_result(call_id, content))])
            }
        };
        match turns.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            _ if content.is_empty() => {}
            None if role == "assistant" => {
                let opening = Turn { role: "user", content: text(OPENING).collect() };
                turns.extend([opening, Turn { role, content }]);
            }
            _ => turns.push(Turn { role, content }),
        }
    }
    (system, turns, lasting)
}

/// Marks a block as the last one that is worth keeping. What a server keeps ends at such a mark, and
/// what ends with words that no later request has would be kept for nobody.
fn mark(
    turns: &mut [Turn<'_>],
    (turn, block): (usize, usize),
    cached: Option<&Value>,
) -> Option<()> {
    let block = turns.get_mut(turn)?.content.get_mut(block)?;
    let Block::Said(said) = block else { return None };
    let mut marked = serde_json::to_value(said).ok()?;
    marked.as_object_mut()?.insert(CACHED.to_owned(), cached?.clone());
    *block = Block::Marked(marked);
    Some(())
}

/// Writes turns.
fn written(turns: &[Turn<'_>]) -> serde_json::Result<Vec<WrittenPart>> {
    turns.iter().map(|turn| to_written(turn, TURN_BYTES)).collect()
}

fn text(text: &str) -> impl Iterator<Item = Block<'_>> {
    let text = Some(text).filter(|text| !text.trim().is_empty());
    text.map(|text| Block::Said(Said::Text { text })).into_iter()
}

/// Returns what the model said: its reasoning first and as it came, which may hold the text, where
/// reasoning stood amid it.
fn spoken<'a>(
    content: &'a str,
    calls: &'a [ToolCall],
    reasoning: Option<&'a Reasoning>,
) -> impl Iterator<Item = Block<'a>> {
    let kept = reasoning.and_then(|reasoning| reasoning.message.as_array());
    let kept = kept.map(Vec::as_slice).unwrap_or_default();
    let content = if kept.iter().any(is_text) { "" } else { content };
    let calls = calls.iter().map(|call| Block::Said(tool_use(call)));
    kept.iter().map(Block::Kept).chain(text(content)).chain(calls)
}

fn tool_use(call: &ToolCall) -> Said<'_> {
    Said::ToolUse { id: lowered_id(&call.id), name: &call.name, input: arguments_object(call) }
}

fn tool_result<'a>(call_id: &str, content: &'a str) -> Said<'a> {
    Said::ToolResult { tool_use_id: lowered_id(call_id), content }
}

/// Returns an id without the characters that the interface refuses in ids of other providers.
fn lowered_id(id: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    id.chars().map(allowed).collect()
}

/// Reads a block that is whole, or the beginning of one.
fn read_block(block: &Json<'_>, index: Option<u64>, draft: &mut Draft) -> Result<(), Error> {
    let kind = fields::word(block, "type");
    draft.in_call = kind == Some("tool_use");
    match kind {
        Some("text") => {
            let text = fields::text(fields::get(block, "text"));
            draft.reasoning().note_text(index, &text);
            draft.push_text(&text)
        }
        Some("thinking" | "redacted_thinking") => {
            draft.push_block(index, block);
            Ok(())
        }
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
                ..CallPiece::default()
            })
        }
        _ => Ok(()),
    }
}

fn read_delta(delta: &Json<'_>, index: Option<u64>, draft: &mut Draft) -> Result<(), Error> {
    let kind = fields::word(delta, "type").unwrap_or_default();
    match kind {
        "text_delta" => {
            let text = fields::text(fields::get(delta, "text"));
            draft.reasoning().extend_block(index, "text", &text);
            draft.push_text(&text)
        }
        "thinking_delta" | "signature_delta" => {
            let name = kind.trim_end_matches("_delta");
            let text = fields::text(fields::get(delta, name));
            draft.reasoning().extend_block(index, name, &text);
            Ok(())
        }
        // Also that of a tool which the provider itself calls, and which is no call of ours.
        "input_json_delta" => {
            draft.extend_call(index, &fields::text(fields::get(delta, "partial_json")))
        }
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
