//! Which keywords of JSON Schema a provider takes.

use serde_json::{Map, Value};

/// Formats that Anthropic holds texts to.
const ANTHROPIC_FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// Formats that strict servers of the OpenAI protocol hold texts to.
const OPENAI_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Keywords that speak of values of one type only, by that type.
const SPEAKING: [(&str, &[&str]); 4] = [
    (
        "object",
        &["properties", "required", "additionalProperties", "minProperties", "maxProperties"],
    ),
    ("array", &["items", "prefixItems", "minItems", "maxItems", "uniqueItems"]),
    ("string", &["pattern", "format", "minLength", "maxLength"]),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
];

/// Returns the types of values that a schema without `type` is about: those of the values that it
/// lists, or else the one type of which its keywords speak.
pub(super) fn implied_types(schema: &Map<String, Value>) -> Option<Value> {
    let listed = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice);
    let mut types: Vec<&str> = Vec::new();
    for value in schema.get("const").map(std::slice::from_ref).or(listed).unwrap_or_default() {
        let of_value = type_of(value);
        if !types.contains(&of_value) {
            types.push(of_value);
        }
    }
    if types.is_empty() {
        let speaks = |names: &[&str]| names.iter().any(|name| schema.contains_key(*name));
        types.extend(SPEAKING.iter().filter(|(_, names)| speaks(names)).map(|(kind, _)| *kind));
        types.truncate(usize::from(types.len() == 1));
    }
    match types.as_slice() {
        [] => None,
        [only] => Some((*only).into()),
        types => Some(types.into()),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns whether a keyword bears on which values are allowed.
pub(super) fn constrains(name: &str) -> bool {
    !only_tells(name) && !matches!(name, "$defs" | "definitions")
}

/// Returns whether a keyword only tells something and allows no less.
pub(super) fn only_tells(name: &str) -> bool {
    matches!(
        name,
        "title"
            | "description"
            | "default"
            | "examples"
            | "example"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
            | "$schema"
            | "$id"
            | "$comment"
            | "$anchor"
    )
}

/// Returns whether strict servers of the OpenAI protocol take a keyword with its value.
pub(super) fn openai_takes(name: &str, value: &Value) -> bool {
    match name {
        "type"
        | "required"
        | "additionalProperties"
        | "title"
        | "description"
        | "multipleOf"
        | "minimum"
        | "maximum"
        | "exclusiveMinimum"
        | "exclusiveMaximum"
        | "minItems"
        | "maxItems" => true,
        "enum" | "const" => is_plain_data(name, value),
        "format" => value.as_str().is_some_and(|format| OPENAI_FORMATS.contains(&format)),
        // One that looks ahead or behind has the whole request refused.
        "pattern" => value.as_str().is_some_and(|pattern| !looks_around(pattern)),
        _ => false,
    }
}

/// Returns whether a pattern may look at what it does not take.
fn looks_around(pattern: &str) -> bool {
    ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| pattern.contains(look))
}

/// Returns whether the values that are listed are neither objects nor lists, of which the servers
/// that constrain by grammars of their own take none.
fn is_plain_data(name: &str, value: &Value) -> bool {
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    match value {
        Value::Array(list) if name == "enum" => !list.is_empty() && list.iter().all(is_plain),
        _ => name == "const" && is_plain(value),
    }
}

/// Returns whether Anthropic takes a keyword with its value.
pub(super) fn anthropic_takes(name: &str, value: &Value) -> bool {
    match name {
        "type" | "required" | "title" | "description" | "default" | "$ref" => true,
        "enum" | "const" => is_plain_data(name, value),
        "additionalProperties" => *value == Value::Bool(false),
        "format" => value.as_str().is_some_and(|format| ANTHROPIC_FORMATS.contains(&format)),
        "minItems" => value.as_u64().is_some_and(|least| least <= 1),
        _ => false,
    }
}

/// Returns whether llama.cpp makes what it should of a keyword with its value. What it passes over
/// in silence counts as left out.
pub(super) fn llama_cpp_takes(name: &str, value: &Value, repeats_max: u64) -> bool {
    match name {
        "type"
        | "required"
        | "additionalProperties"
        | "enum"
        | "const"
        | "$ref"
        | "format"
        | "minimum"
        | "maximum"
        | "exclusiveMinimum"
        | "exclusiveMaximum" => true,
        "minLength" | "maxLength" | "minItems" | "maxItems" => {
            value.as_u64().is_some_and(|count| count <= repeats_max)
        }
        "pattern" => value.as_str().is_some_and(is_plain_pattern),
        _ => only_tells(name) && !name.starts_with('$'),
    }
}

/// Returns whether a pattern is anchored and made of classes, groups and counts alone.
fn is_plain_pattern(pattern: &str) -> bool {
    let inner = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
    let Some(inner) = inner.filter(|inner| !inner.ends_with('\\')) else { return false };
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        // A letter after a backslash stands for a class that is not known there.
        if letter == '\\' && letters.next().is_none_or(|next| next.is_ascii_alphanumeric()) {
            return false;
        }
    }
    !inner.contains("(?")
}
