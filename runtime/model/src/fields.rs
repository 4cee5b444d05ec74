//! Looks up fields of answers, which servers leave out, send as null or in another form.

use serde_json::Value;

/// Returns the items of a list; none if it is absent, null or something else.
pub(crate) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns a text, which some servers send as a list of parts; empty if there is none.
pub(crate) fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text")?.as_str()).collect()
        }
        _ => String::new(),
    }
}

/// Returns arguments byte for byte; an object in place of a text is written as JSON.
pub(crate) fn arguments(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// Returns a count, if there is one.
pub(crate) fn count(object: &Value, name: &str) -> Option<u64> {
    object.get(name).and_then(Value::as_u64)
}

/// Returns whether a field is true.
pub(crate) fn is_true(object: &Value, name: &str) -> bool {
    object.get(name) == Some(&Value::Bool(true))
}
