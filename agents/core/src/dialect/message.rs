//! Reads an assistant message of the OpenAI chat protocol, for replies that come from a file.

use serde_json::{Map, Value};
use wire::ToolCall;

/// What a message says and calls.
pub(super) struct Spoken {
    pub(super) content: String,
    pub(super) calls: Vec<ToolCall>,
}

/// Reads a message, or nothing if the text is none.
pub(super) fn read(text: &str) -> Option<Spoken> {
    let value: Value = serde_json::from_str(text.trim()).ok()?;
    let message = value.as_object()?;
    let is_message = message.get("role").is_some_and(|role| role == "assistant")
        || message.get("tool_calls").is_some() && message.get("content").is_some();
    if !is_message {
        return None;
    }
    let listed = message.get("tool_calls").and_then(Value::as_array);
    let old = message.get("function_call").filter(|call| call.is_object());
    let mut calls: Vec<ToolCall> = listed.into_iter().flatten().map(call).collect();
    if calls.is_empty() {
        calls.extend(old.map(call));
    }
    Some(Spoken { content: content(message), calls })
}

fn content(message: &Map<String, Value>) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}

fn call(value: &Value) -> ToolCall {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let function = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    ToolCall {
        id: text(value.get("id")),
        name: text(function.get("name")),
        arguments: match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            Some(other) => other.to_string(),
        },
    }
}
