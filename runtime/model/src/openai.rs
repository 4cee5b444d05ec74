//! The OpenAI chat completions protocol, as many servers speak it.

use std::borrow::Cow;

use config::team::OpenAi;
use serde::Serialize;
use serde_json::{Value, json};
use wire::chat::ResponseSchema;
use wire::{Digest, FinishReason, Message, Reasoning, ToolCall, ToolSpec, Usage};

use crate::body::{
    Body, FunctionTool, arguments_text, lowered_function_tool, merge_adjacent, stops,
};
use crate::client::Conversation;
use crate::complaint::Complaint;
use crate::draft::{CallPiece, Draft};
use crate::error::Error;
use crate::fields::{self, Json};
use crate::heads::{Heads, ReplyForm, WrittenHead};
use crate::lower::{Parameters, Target, lower, parameters};
use crate::part::WrittenPart;
use crate::provider::Protocol;
use crate::reasoning::{DETAILS, carried};

#[cfg(test)]
mod streamed;
#[cfg(test)]
mod whole;
#[cfg(test)]
mod writing;

/// The form of messages, which other servers share.
pub(crate) const CHAT: &str = "chat completions";

/// The fields that hold reasoning as a text, of which a server has the one or the other.
const REASONING_CONTENT: &str = "reasoning_content";
const REASONING: &str = "reasoning";

/// The longest id of a call that all servers take, in bytes; that of OpenAI's own takes no longer one.
const ID_BYTES_MAX: usize = 40;

/// The letters and digits of one that all servers take: so many, and nothing else, is what
/// Mistral's wants.
const ID_CHARS: usize = 9;

/// What a message takes besides its text, in bytes, about.
const MESSAGE_BYTES: usize = 512;

/// What such a server is sent, and how it is read.
pub(crate) struct OpenAiProtocol {
    options: OpenAi,
    heads: Heads,
}

impl OpenAiProtocol {
    /// Takes the options of a model.
    pub(crate) const fn new(options: OpenAi) -> Self {
        Self { options, heads: Heads::new() }
    }

    /// Says how the reply has to look.
    fn reply_form(&self, schema: &ResponseSchema) -> ReplyForm {
        let (form, wrapped) = match self.schema_form() {
            Some(target) => {
                let lowered = lower(&schema.schema, target);
                (Cow::Owned(lowered.schema), lowered.wrapped)
            }
            None => (Cow::Borrowed(&schema.schema), false),
        };
        let value = response_format(schema.name.as_str(), &form, self.options.strict);
        ReplyForm { field: "response_format", value, wrapped }
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

    fn parameters(&self, schema: &Value) -> Option<Parameters> {
        Some(parameters(schema))
    }

    fn body(&self, conversation: &Conversation, to: Option<&Digest>) -> Result<Body, String> {
        let OpenAi { server, merge_adjacent, tokens_field, stream_usage, .. } = &self.options;
        let head = &conversation.head;
        let mut body = Body::default();
        body.set("model", server.model.as_str());
        set_messages(&mut body, conversation, to, *merge_adjacent)?;
        let form = |schema: &_| Ok(self.reply_form(schema));
        let WrittenHead { tools, form } = self.heads.written(head, self.word(), tool, form)?;
        body.set_tools(tools);
        body.set_form(form);
        body.set_some(tokens_field.as_str(), conversation.max_tokens);
        body.set_some("temperature", server.temperature);
        body.set_list("stop", stops(head, &server.stop));
        body.set("stream", server.stream);
        if server.stream && *stream_usage {
            body.set("stream_options", json!({"include_usage": true}));
        }
        body.extend(&server.extra_body);
        Ok(body)
    }

    fn read_whole(&self, answer: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
        read_whole(answer, draft)
    }

    fn read_event(&self, event: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
        read_event(event, draft)
    }
}

fn tool(tool: &ToolSpec) -> FunctionTool<'_> {
    lowered_function_tool(tool, parameters(&tool.parameters))
}

/// Which ids of calls a server takes.
#[derive(Clone, Copy)]
enum Ids {
    /// Those of [`ID_BYTES_MAX`] at most.
    Short,
    /// Those of [`ID_CHARS`] letters and digits, as Mistral's does.
    Plain,
}

/// Writes the messages of a conversation.
pub(crate) fn set_messages(
    body: &mut Body,
    conversation: &Conversation,
    to: Option<&Digest>,
    merge: bool,
) -> Result<(), String> {
    let written = if merge {
        let merged = merge_adjacent(conversation.said(), to);
        let write =
            |message: &Cow<'_, Message>| chat_message(message, carried(message, to), Ids::Plain);
        merged.iter().map(write).collect()
    } else {
        let write =
            |message: &_, reasoning: Option<&_>| chat_message(message, reasoning, Ids::Short);
        conversation.messages.written(to, CHAT, write)
    };
    body.set_written("messages", written.map_err(|error| error.to_string())?);
    Ok(())
}

/// Writes a message as it is sent. Its names are not looked through like its values, since each step
/// of a run writes some messages.
fn chat_message(
    message: &Message,
    reasoning: Option<&Reasoning>,
    ids: Ids,
) -> serde_json::Result<WrittenPart> {
    let mut json = Vec::with_capacity(message.content().len() + MESSAGE_BYTES);
    match message {
        Message::System { content } => put(&mut json, r#"{"role":"system","content":"#, content)?,
        Message::User { content } => put(&mut json, r#"{"role":"user","content":"#, content)?,
        Message::Assistant { content, calls, .. } => {
            // Null beside calls without a text, which is how the protocol writes it.
            let content = (calls.is_empty() || !content.is_empty()).then_some(content);
            put(&mut json, r#"{"role":"assistant","content":"#, &content)?;
            put_reasoning(&mut json, reasoning)?;
            put_calls(&mut json, calls, reasoning, ids)?;
        }
        Message::Tool { call_id, name, content } => {
            put(&mut json, r#"{"role":"tool","tool_call_id":"#, &lowered_id(call_id, ids))?;
            put(&mut json, r#","name":"#, name)?;
            put(&mut json, r#","content":"#, content)?;
        }
    }
    json.push(b'}');
    Ok(json.into())
}

fn put_reasoning(json: &mut Vec<u8>, reasoning: Option<&Reasoning>) -> serde_json::Result<()> {
    let Some(Reasoning { message, .. }) = reasoning else { return Ok(()) };
    for (before, name) in [
        (r#","reasoning_content":"#, REASONING_CONTENT),
        (r#","reasoning":"#, REASONING),
        (r#","reasoning_details":"#, DETAILS),
    ] {
        if let Some(value) = message.get(name) {
            put(json, before, value)?;
        }
    }
    Ok(())
}

fn put_calls(
    json: &mut Vec<u8>,
    calls: &[ToolCall],
    reasoning: Option<&Reasoning>,
    ids: Ids,
) -> serde_json::Result<()> {
    if calls.is_empty() {
        return Ok(());
    }
    let extra = |at| reasoning?.calls.get(at).filter(|extra: &&Value| !extra.is_null());
    for (at, call) in calls.iter().enumerate() {
        let before = if at == 0 { r#","tool_calls":[{"id":"# } else { r#",{"id":"# };
        put(json, before, &lowered_id(&call.id, ids))?;
        put(json, r#","type":"function","function":{"name":"#, &call.name)?;
        put(json, r#","arguments":"#, &arguments_text(call))?;
        json.push(b'}');
        if let Some(extra) = extra(at) {
            put(json, r#","extra_content":"#, extra)?;
        }
        json.push(b'}');
    }
    json.push(b']');
    Ok(())
}

/// Returns the id of a call as a server takes it, the same for a call and its result: one that
/// another server gave may be too long, or of another form.
fn lowered_id(id: &str, ids: Ids) -> Cow<'_, str> {
    let is_taken = match ids {
        Ids::Short => id.len() <= ID_BYTES_MAX,
        Ids::Plain => id.len() == ID_CHARS && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
    };
    if is_taken {
        return Cow::Borrowed(id);
    }
    let letter = |byte: &u8| char::from_digit(u32::from(*byte) % 36, 36);
    let digest = Digest::of(id.as_bytes());
    Cow::Owned(digest.as_bytes().iter().filter_map(letter).take(ID_CHARS).collect())
}

/// Writes a value after what stands before it.
fn put(json: &mut Vec<u8>, before: &str, value: &impl Serialize) -> serde_json::Result<()> {
    json.extend_from_slice(before.as_bytes());
    serde_json::to_writer(json, value)
}

/// Writes how the reply has to look.
pub(crate) fn response_format(name: &str, schema: &Value, strict: bool) -> Value {
    let json_schema = json!({"name": name, "schema": schema, "strict": strict});
    json!({"type": "json_schema", "json_schema": json_schema})
}

/// Reads an answer that came in one piece.
pub(crate) fn read_whole(answer: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
    let fault = |fault| Error::form(fault, &answer.to_string());
    let choice = fields::list(fields::get(answer, "choices")).first();
    let choice = choice.ok_or_else(|| fault("the answer has no choice"))?;
    read_usage(answer, draft);
    read_frame(answer, draft);
    read_end(choice, draft)?;
    let message =
        fields::object(choice, "message").ok_or_else(|| fault("the answer has no message"))?;
    read_text(message, draft)?;
    read_reasoning(message, draft, false);
    for call in fields::list(fields::get(message, "tool_calls")) {
        draft.push_call(CallPiece { index: None, ..piece(call) })?;
    }
    Ok(())
}

/// Reads one chunk of a stream.
pub(crate) fn read_event(chunk: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
    let is_counted = read_usage(chunk, draft);
    read_frame(chunk, draft);
    let first = |choice: &&Json<'_>| fields::count(choice, "index").unwrap_or(0) == 0;
    let Some(choice) = fields::list(fields::get(chunk, "choices")).iter().find(first) else {
        return Ok(());
    };
    draft.begun = true;
    // Some servers count here.
    if !is_counted {
        read_usage(choice, draft);
    }
    if let Some(delta) = fields::get(choice, "delta") {
        read_text(delta, draft)?;
        read_reasoning(delta, draft, true);
        for call in fields::list(fields::get(delta, "tool_calls")) {
            draft.join_call(piece(call))?;
        }
    }
    read_end(choice, draft)
}

/// Reads the token counts, and tells whether they are there.
fn read_usage(counted: &Json<'_>, draft: &mut Draft) -> bool {
    let usage = fields::object(counted, "usage");
    if let Some(usage) = usage {
        let count = |name| fields::count(usage, name).unwrap_or(0);
        let prompt = fields::count(usage, "prompt_tokens");
        // Some servers leave hidden reasoning out of the completion and count it in the total only.
        let beside = prompt.map_or(0, |prompt| count("total_tokens").saturating_sub(prompt));
        let output = count("completion_tokens").max(beside);
        *draft.usage() = Usage::of_tokens(prompt.unwrap_or(0), output);
        let of = |details: &str, name| fields::count(fields::get(usage, details)?, name);
        let detail = draft.detail();
        detail.cache_read_tokens = of("prompt_tokens_details", "cached_tokens");
        // OpenRouter's; both are among those of the prompt.
        detail.cache_creation_tokens = of("prompt_tokens_details", "cache_write_tokens");
        detail.reasoning_tokens = of("completion_tokens_details", "reasoning_tokens");
    }
    usage.is_some()
}

/// Reads what else stands around the choices: the model that answered, and the id.
fn read_frame(answer: &Json<'_>, draft: &mut Draft) {
    draft.response_id(fields::get(answer, "id"));
    draft.model(fields::get(answer, "model"));
}

fn read_text(message: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
    draft.push_text(&fields::text(fields::get(message, "content")))?;
    draft.push_refusal(&fields::text(fields::get(message, "refusal")))
}

/// Reads the reasoning that servers put beside the text, under one name or another.
fn read_reasoning(message: &Json<'_>, draft: &mut Draft, is_streamed: bool) {
    for (name, value) in message.iter_object().into_iter().flatten() {
        match (name, value) {
            // Only the first name is wanted back though nothing stands under it.
            (REASONING, Json::Str(text)) if text.is_empty() => {}
            (REASONING_CONTENT | REASONING, Json::Str(text)) => {
                draft.reasoning().add_text(name, text);
            }
            (DETAILS, Json::Array(entries)) => {
                for entry in entries {
                    draft.reasoning().add_detail(entry, is_streamed);
                }
            }
            _ => {}
        }
    }
}

/// The reasons of servers that broke a reply off for a trouble of their own.
const BROKEN_OFF: [&str; 3] = ["error", "abort", "insufficient_system_resource"];

/// Reads how a choice ends, which with some servers is an error in place of the rest.
fn read_end(choice: &Json<'_>, draft: &mut Draft) -> Result<(), Error> {
    let reason = fields::word(choice, "finish_reason").unwrap_or_default();
    let ended = BROKEN_OFF.contains(&reason).then(Complaint::default);
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

fn piece(call: &Json<'_>) -> CallPiece {
    let of_function = |name| fields::get(fields::get(call, "function")?, name);
    CallPiece {
        index: fields::count(call, "index"),
        id: fields::text(fields::get(call, "id")).into_owned(),
        name: fields::text(of_function("name")).into_owned(),
        arguments: fields::arguments(of_function("arguments")),
        extra: fields::object(call, "extra_content").map(Value::from).unwrap_or_default(),
    }
}
