//! Tells which JSON values are calls, in the forms in which models and their templates write them.

use serde_json::{Map, Value};

use super::calls::{Arguments, Written};
use super::extract::TRIES_MAX;
use super::lenient::Cursor;

/// The most calls that are taken from one reply; the rest is cut off. A run makes fewer at once.
pub(super) const CALLS_MAX: usize = 64;

/// Keys that hold the name of a tool, the likeliest first.
const NAMES: &[&str] = &["name", "tool", "tool_name", "function", "function_name"];
/// Keys that hold arguments, the likeliest first.
const ARGUMENTS: &[&str] =
    &["arguments", "parameters", "args", "params", "tool_input", "action_input", "input"];
/// Keys that may stand beside a call.
const BESIDE: &[&str] = &["type", "id", "index", "call_id", "tool_call_id", "thought"];

/// What a value is.
pub(super) enum Shape {
    /// Calls, at least one.
    Calls(Vec<Written>),
    /// A call that lacks something, which the text names.
    Broken(&'static str),
    /// Data.
    Other,
}

/// Reads a value that stands where a call is expected: a name alone is a call without arguments.
pub(super) fn marked(value: &Value) -> Shape {
    shape(value, &|_| true, true)
}

/// Reads a value that nothing marks as a call. It is one only if it has a name and arguments and
/// nothing that calls do not have. The condition tells which names are offered.
pub(super) fn unmarked(value: &Value, is_offered: &dyn Fn(&str) -> bool) -> Shape {
    shape(value, is_offered, false)
}

/// Tells whether a text that may not be JSON has the name of a tool that is offered where calls
/// have it. An object without it is data, however it is written.
pub(super) fn names(text: &str, is_offered: &dyn Fn(&str) -> bool) -> bool {
    let is_name = |at: usize| {
        let mut cursor = Cursor::new(text, at, 0);
        cursor.take_while(is_quote);
        cursor.blank();
        let is_key = cursor.take(":");
        cursor.blank();
        let is_text = !cursor.take_while(is_quote).is_empty();
        is_key && is_text && is_offered(cursor.take_while(|c| !is_quote(c)))
    };
    let is_whole = |at: usize| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    };
    NAMES.iter().any(|key| {
        let places = text.match_indices(key).map(|(at, _)| at).filter(|at| is_whole(*at));
        places.take(TRIES_MAX).any(|at| is_name(at + key.len()))
    })
}

const fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '“' | '”')
}

fn shape(value: &Value, is_offered: &dyn Fn(&str) -> bool, is_marked: bool) -> Shape {
    match value {
        Value::Array(items) if !items.is_empty() => {
            let mut calls = Vec::new();
            for item in items.iter().take(CALLS_MAX) {
                match (item, single(item, is_offered, is_marked)) {
                    (Value::Object(_), Shape::Calls(found)) => calls.extend(found),
                    (_, Shape::Broken(why)) => return Shape::Broken(why),
                    _ => return Shape::Other,
                }
            }
            Shape::Calls(calls)
        }
        _ => single(value, is_offered, is_marked),
    }
}

fn single(value: &Value, is_offered: &dyn Fn(&str) -> bool, is_marked: bool) -> Shape {
    let Value::Object(object) = value else { return Shape::Other };
    if let Some(calls @ Value::Array(_)) = object.get("tool_calls") {
        return match calls {
            Value::Array(items) if items.iter().any(|item| item.get("tool_calls").is_some()) => {
                Shape::Other
            }
            _ => shape(calls, is_offered, true),
        };
    }
    for key in ["function", "function_call"] {
        if let Some(Value::Object(inner)) = object.get(key) {
            let id = object.get("id").and_then(Value::as_str).unwrap_or_default();
            return plain(inner, id, is_offered, is_marked);
        }
    }
    let id = object.get("id").and_then(Value::as_str).unwrap_or_default();
    plain(object, id, is_offered, is_marked)
}

fn plain(
    object: &Map<String, Value>,
    id: &str,
    is_offered: &dyn Fn(&str) -> bool,
    is_marked: bool,
) -> Shape {
    let name = NAMES.iter().find(|key| object.get(**key).is_some_and(Value::is_string));
    let Some(name_key) = name else { return Shape::Other };
    let name = object.get(*name_key).and_then(Value::as_str).unwrap_or_default();
    let key = ARGUMENTS.iter().find(|key| object.contains_key(**key));
    let arguments = key.and_then(|key| object.get(*key));
    let belongs = |found: &String| {
        found == name_key || Some(&found.as_str()) == key || BESIDE.contains(&found.as_str())
    };
    let is_clean = object.keys().all(belongs);
    // A name that is not offered makes a call only in the plainest of forms.
    let is_plain = *name_key == "name" && matches!(key, Some(&("arguments" | "parameters")));
    match arguments {
        Some(arguments) if is_marked || (is_clean && (is_offered(name) || is_plain)) => {
            if !is_marked && is_schema(arguments) {
                let why = "it repeats what a tool takes, without values";
                return if is_offered(name) { Shape::Broken(why) } else { Shape::Other };
            }
            Shape::Calls(vec![Written {
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: Arguments::Value(arguments.clone()),
            }])
        }
        Some(_) if is_offered(name) => Shape::Broken("the call holds keys that no call has"),
        None if is_marked && is_clean => Shape::Calls(vec![Written {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: Arguments::Value(Value::Null),
        }]),
        None if is_offered(name) && is_clean => Shape::Broken("the call has no arguments"),
        Some(_) | None => Shape::Other,
    }
}

/// Tells whether arguments are the schema of arguments, which models sometimes echo.
fn is_schema(arguments: &Value) -> bool {
    arguments.get("type").is_some_and(|kind| kind == "object")
        && arguments.get("properties").is_some_and(Value::is_object)
}
