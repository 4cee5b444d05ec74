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
    if let Some(complaint) = complaint(choice) {
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

/// Returns the error by which a choice ends, which some servers put in place of the rest.
pub(super) fn complaint(choice: &Value) -> Option<Complaint> {
    let ended = choice.get("finish_reason").and_then(Value::as_str) == Some("error");
    Complaint::from_answer(choice).or_else(|| ended.then(Complaint::default))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn answers_are_read_whatever_is_left_out() {
        let stop = Some(FinishReason::Stop);
        let text = |content: &str, finish| Answer {
            content: content.to_owned(),
            finish,
            ..Answer::default()
        };
        let called =
            |calls| Answer { calls, finish: Some(FinishReason::ToolCalls), ..Answer::default() };
        let cases = [
            (
                r#"{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#,
                text("hi", stop),
            ),
            (
                r#"{"choices":[{"message":{"content":"hi","tool_calls":null},"finish_reason":"stop"}]}"#,
                text("hi", stop),
            ),
            (
                r#"{"choices":[{"message":{"content":"hi","tool_calls":[]},"finish_reason":"stop"}]}"#,
                text("hi", stop),
            ),
            (
                r#"{"choices":[{"message":{"content":"hi"},"finish_reason":null}]}"#,
                text("hi", None),
            ),
            (
                r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"tired"}]}"#,
                text("hi", Some(FinishReason::Other)),
            ),
            (
                r#"{"choices":[{"message":{"content":"h"},"finish_reason":"length"}]}"#,
                text("h", Some(FinishReason::Length)),
            ),
            (
                r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"thinking"},{"text":"b"}]},"finish_reason":"stop"}]}"#,
                text("ab", stop),
            ),
            (
                r#"{"choices":[{"message":{},"finish_reason":"stop"}],"usage":null,"model":7}"#,
                text("", stop),
            ),
            (
                r#"{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}"#,
                Answer { refusal: "no".to_owned(), ..text("", stop) },
            ),
            (
                r#"{"choices":[{"message":{"content":null,"tool_calls":[
                    {"id":"a","function":{"name":"f","arguments":"{ \"x\" : 1.0 }"}},
                    {"id":null,"function":{"name":"g","arguments":{"b":2,"a":1.0}}},
                    {"function":{"name":"h"}},
                    {"function":{"name":"h","arguments":""}},
                    {"function":{"name":"h","arguments":[1]}},
                    {}
                ]},"finish_reason":"tool_calls"}]}"#,
                called(vec![
                    call("a", "f", r#"{ "x" : 1.0 }"#),
                    call("", "g", r#"{"b":2,"a":1.0}"#),
                    call("", "h", ""),
                    call("", "h", ""),
                    call("", "h", "[1]"),
                    call("", "", ""),
                ]),
            ),
            (
                r#"{"id":"x","object":"chat.completion","model":"m-2","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"details":{}},"timings":{}}"#,
                Answer {
                    usage: Usage { input_tokens: 11, output_tokens: 7 },
                    model: Some("m-2".to_owned()),
                    ..text("hi", stop)
                },
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(read(body.as_bytes()).unwrap(), expected, "{body}");
        }
    }

    #[test]
    fn answers_that_are_none_say_why() {
        let calls = format!(
            r#"{{"choices":[{{"message":{{"tool_calls":[{}{{}}]}}}}]}}"#,
            "{},".repeat(CALLS_MAX)
        );
        let cases = [
            ("", "the answer is no JSON: \"\""),
            ("<html>", "the answer is no JSON: \"<html>\""),
            (r#"{"choices":[{"message":{"con"#, "the answer is no JSON: "),
            (&"[".repeat(10_000), "the answer is no JSON: "),
            ("[]", "the answer has no choice: \"[]\""),
            (r#"{"choices":[]}"#, "the answer has no choice: "),
            (r#"{"choices":[{"text":"old"}]}"#, "the answer has no message: "),
            (r#"{"choices":[{"message":"hi"}]}"#, "the answer has no message: "),
            (
                r#"{"error":{"message":"busy","code":429}}"#,
                "an error instead of the rest of the reply, busy",
            ),
            (r#"{"error":"busy"}"#, "an error instead of the rest of the reply, busy"),
            (
                r#"{"choices":[{"message":{"content":"h"},"finish_reason":"error"}]}"#,
                "an error instead of the rest of the reply, no reason given",
            ),
            (&calls, "the reply has more than 4194304 bytes or 256 calls"),
        ];
        for (body, expected) in cases {
            let error = read(body.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n{expected}");
        }
    }
}
