//! Which keywords of JSON Schema a provider takes.

use serde_json::Value;

/// Formats that Anthropic holds texts to.
const ANTHROPIC_FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

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

/// Returns whether strict servers of the OpenAI protocol take a keyword.
pub(super) fn openai_takes(name: &str) -> bool {
    matches!(
        name,
        "type"
            | "required"
            | "additionalProperties"
            | "enum"
            | "const"
            | "title"
            | "description"
            | "pattern"
            | "format"
            | "multipleOf"
            | "minimum"
            | "maximum"
            | "exclusiveMinimum"
            | "exclusiveMaximum"
            | "minItems"
            | "maxItems"
    )
}

/// Returns whether Anthropic takes a keyword with its value.
pub(super) fn anthropic_takes(name: &str, value: &Value) -> bool {
    match name {
        "type" | "required" | "enum" | "const" | "title" | "description" | "default" | "$ref" => {
            true
        }
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
