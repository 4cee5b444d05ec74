//! Reads an answer that comes in one piece, and the parts that it shares with a stream.
//!
//! Servers differ in what they leave out, so every field is looked up by itself, and only what
//! makes an answer useless is an error.

use serde_json::Value;
use wire::{FinishReason, ToolCall, Usage};

use crate::answer::Answer;
use crate::complaint::Complaint;
use crate::error::{CALLS_MAX, Error};

/// Reads the body of a successful answer.
pub(super) fn read(body: &[u8]) -> Result<Answer, Error> {
    let fault = |fault| Error::form(fault, &String::from_utf8_lossy(body));
    let value: Value = serde_json::from_slice(body).map_err(|_| fault("the answer is no JSON"))?;
    if let Some(complaint) = Complaint::from_answer(&value) {
        return Err(Error::InBand(complaint.into()));
    }
    let choice = value.pointer("/choices/0").ok_or_else(|| fault("the answer has no choice"))?;
    if let Some(complaint) = Complaint::from_answer(choice) {
        return Err(Error::InBand(complaint.into()));
    }
    let message = choice
        .get("message")
        .filter(|message| message.is_object())
        .ok_or_else(|| fault("the answer has no message"))?;
    let calls: Vec<ToolCall> = list(message.get("tool_calls")).iter().map(call).collect();
    if calls.len() > CALLS_MAX {
        return Err(Error::TooLarge);
    }
    Ok(Answer {
        content: text(message.get("content")),
        refusal: text(message.get("refusal")),
        calls,
        finish: finish(choice),
        usage: usage(&value).unwrap_or_default(),
        model: model(&value),
    })
}

/// Returns the items of a list; none if it is absent, null or something else.
pub(super) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns a text, which some servers send as a list of parts; empty if there is none.
pub(super) fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text")?.as_str()).collect()
        }
        _ => String::new(),
    }
}

/// Returns arguments byte for byte; an object in place of a text is written as JSON.
pub(super) fn arguments(function: Option<&Value>) -> String {
    match function.and_then(|function| function.get("arguments")) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

fn call(call: &Value) -> ToolCall {
    let function = call.get("function");
    ToolCall {
        id: text(call.get("id")),
        name: text(function.and_then(|function| function.get("name"))),
        arguments: arguments(function),
    }
}

/// Returns why the model stopped, if the choice says so.
pub(super) fn finish(choice: &Value) -> Option<FinishReason> {
    let reason = choice.get("finish_reason")?.as_str().filter(|reason| !reason.is_empty())?;
    Some(match reason {
        "stop" | "stop_sequence" | "end_turn" | "eos" => FinishReason::Stop,
        "length" | "max_tokens" | "model_length" => FinishReason::Length,
        "tool_calls" | "tool_use" | "function_call" => FinishReason::ToolCalls,
        "content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    })
}

/// Returns the token counts, if the answer has them.
pub(super) fn usage(answer: &Value) -> Option<Usage> {
    let usage = answer.get("usage").filter(|usage| usage.is_object())?;
    let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
    Some(Usage { input_tokens: count("prompt_tokens"), output_tokens: count("completion_tokens") })
}

/// Returns the model that answered, if the answer says so.
pub(super) fn model(answer: &Value) -> Option<String> {
    answer.get("model")?.as_str().filter(|model| !model.is_empty()).map(str::to_owned)
}
