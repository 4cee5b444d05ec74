//! What the model server says, by what it is asked.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::work::WORDS;

/// A word of the text that is streamed: a token of a model has about four letters.
pub(crate) const WORD: &str = "word ";

/// How long the model takes before the first of them. A run whose model answers at once may be
/// written in one with the reply, and those that are compared are to be written alike.
const BEFORE_TOKENS: Duration = Duration::from_millis(10);

/// Bytes of each piece of a large answer.
const PIECE_BYTES: usize = 1024;

#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow)]
    messages: Vec<Said<'a>>,
    #[serde(default)]
    stream: bool,
}

#[derive(Deserialize)]
struct Said<'a> {
    role: &'a str,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// An answer.
pub(super) struct Reply {
    /// What is sent, in order.
    pub(super) pieces: Vec<String>,
    pub(super) is_streamed: bool,
    /// How long the model takes.
    pub(super) wait: Duration,
    /// Time between the pieces.
    pub(super) apart: Duration,
    /// Names the conversation.
    pub(super) conversation: String,
    /// Whether the conversation ends with it.
    pub(super) is_last: bool,
}

/// Answers a request.
pub(super) fn to(body: &[u8]) -> Reply {
    let asked: Asked<'_> = serde_json::from_slice(body).expect("a request");
    let at = asked.messages.iter().rposition(|said| said.role == "user").expect("a user");
    let said = asked.messages.get(at).and_then(|said| said.content).map(RawValue::get);
    let said = said.unwrap_or_default().trim_matches('"');
    let words: Vec<&str> = said.split(' ').collect();
    let [shape, calls, _, pad, _, delay, _, conversation, ..] = words.as_slice() else {
        panic!("a request of the benchmark, not {said}");
    };
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let (calls, pad, delay) = (number(calls), number(pad), number(delay));
    let done = asked.messages.iter().skip(at).filter(|said| said.role == "tool").count();
    let asked_for = calls_of(shape, (calls, done), said);
    let is_last = asked_for.is_empty();
    let text = match *shape {
        "tokens" => spread(calls),
        "large" => cut(&"x".repeat(calls)),
        _ if is_last => "the sum is 55".split_inclusive(' ').map(str::to_owned).collect(),
        _ => cut(&"x".repeat(pad)),
    };
    let delay = Duration::from_millis(delay as u64);
    let is_paced = *shape == "tokens";
    Reply {
        pieces: if asked.stream { streamed(text, &asked_for) } else { whole(&text, asked_for) },
        is_streamed: asked.stream,
        wait: if is_paced { BEFORE_TOKENS } else { delay },
        apart: if is_paced { delay } else { Duration::ZERO },
        conversation: (*conversation).to_owned(),
        is_last,
    }
}

/// Returns the calls that are asked for next.
fn calls_of(shape: &str, (calls, done): (usize, usize), said: &str) -> Vec<Value> {
    let call = |index: usize, name: &str, arguments: &Value| {
        json!({"id": format!("call_{index}"), "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}})
    };
    let add =
        |index: usize| call(index, "calculate", &json!({"expression": format!("{index} + 1")}));
    match shape {
        "chain" if done < calls => vec![add(done)],
        "parallel" if done == 0 => (0..calls).map(add).collect(),
        "result" if done == 0 => vec![call(0, "page", &json!({"bytes": calls.to_string()}))],
        "delegate" if done == 0 => {
            let task = said.replacen("delegate", "chain", 1);
            let task = task.replacen("conversation ", "conversation sub-", 1);
            vec![call(0, "specialist", &json!({"task": task}))]
        }
        _ => Vec::new(),
    }
}

/// Returns the same text in so many pieces of about the same length.
fn spread(pieces: usize) -> Vec<String> {
    let words = WORDS.div_ceil(pieces.max(1));
    cut_by(&WORD.repeat(WORDS), words * WORD.len())
}

fn cut(text: &str) -> Vec<String> {
    cut_by(text, PIECE_BYTES)
}

fn cut_by(text: &str, bytes: usize) -> Vec<String> {
    let pieces = text.as_bytes().chunks(bytes);
    pieces.map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
}

/// Writes a reply in one.
fn whole(text: &[String], calls: Vec<Value>) -> Vec<String> {
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let mut message = json!({"role": "assistant", "content": text.concat()});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let reply = json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "stub",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    });
    vec![reply.to_string()]
}

/// Writes a reply as events, each in a piece of its own.
fn streamed(text: Vec<String>, calls: &[Value]) -> Vec<String> {
    let event = |choices: Value, usage: Value| {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1,
            "model": "stub", "choices": choices, "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value| event(json!([{"index": 0, "delta": delta}]), Value::Null);
    let mut events: Vec<String> =
        text.into_iter().map(|piece| delta(json!({"content": piece}))).collect();
    for (index, call) in calls.iter().enumerate() {
        let mut call = call.clone();
        call["index"] = index.into();
        events.push(delta(json!({"tool_calls": [call]})));
    }
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    events.push(event(json!([{"index": 0, "delta": {}, "finish_reason": finish}]), Value::Null));
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    events.push(event(json!([]), usage));
    events.push("data: [DONE]\n\n".to_owned());
    events
}
