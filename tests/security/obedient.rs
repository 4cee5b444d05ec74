//! A model that does whatever any text tells it to, and repeats all that it reads.
//!
//! An order is `{{tool name=value name=value}}`, wherever it stands. The value of the last argument may hold
//! further orders, in `[[` and `]]`, which are obeyed where the text itself is read: by the agent
//! that is given it as its task, or by whoever recalls it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tests::http::{Answer, Request};

/// The most orders that one reply obeys; the rest is obeyed in the next.
const CALLS_MAX: usize = 4;

/// Answers a request of the chat completions protocol.
pub(crate) fn reply(request: &Request) -> Answer {
    let messages = request.body["messages"].as_array().expect("messages");
    let mut orders = BTreeSet::new();
    let mut said = Vec::new();
    let mut obeyed = BTreeSet::new();
    let mut recalls = false;
    for message in messages {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let text = function["arguments"].as_str().unwrap_or_default();
            let arguments: Value = serde_json::from_str(text).unwrap_or_default();
            recalls |= function["name"] == "recall";
            obeyed.insert((
                function["name"].as_str().unwrap_or_default().to_owned(),
                arguments.to_string(),
            ));
        }
        let content = message["content"].as_str().unwrap_or_default();
        match message["role"].as_str() {
            Some("system") => continue,
            Some("user") => {
                orders.extend(within(content, "[[", "]]"));
            }
            Some("tool") if recalls => orders.extend(within(content, "[[", "]]")),
            _ => {}
        }
        orders.extend(within(content, "{{", "}}"));
        said.push(content);
    }
    let wanted = orders
        .iter()
        .map(|order| read(order))
        .filter(|(name, arguments)| !obeyed.contains(&(name.clone(), arguments.to_string())));
    let calls: Vec<Value> = wanted
        .take(CALLS_MAX)
        .enumerate()
        .map(|(index, (name, arguments))| {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            json!({"id": format!("c{}-{index}", obeyed.len()), "type": "function", "function": function})
        })
        .collect();
    let (finish, message) = if calls.is_empty() {
        ("stop", json!({"role": "assistant", "content": said.join("\n")}))
    } else {
        ("tool_calls", json!({"role": "assistant", "content": null, "tool_calls": calls}))
    };
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1});
    Answer::new(200, &json!({"model": "obedient", "choices": [choice], "usage": usage}))
}

/// Returns what stands between marks.
fn within(text: &str, open: &str, close: &str) -> Vec<String> {
    let parts = text.split(open).skip(1);
    parts.filter_map(|part| Some(part.split_once(close)?.0.to_owned())).collect()
}

/// Reads an order: a name and arguments.
fn read(order: &str) -> (String, Value) {
    let (name, mut rest) = order.split_once(' ').unwrap_or((order, ""));
    let mut arguments = Map::new();
    while let Some((key, after)) = rest.split_once('=') {
        // A value that begins with a quote is the rest of the order.
        let (value, next) = match after.strip_prefix('\'') {
            Some(text) => (text, ""),
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        arguments.insert(key.to_owned(), Value::from(value));
        rest = next;
    }
    (name.to_owned(), Value::Object(arguments))
}
