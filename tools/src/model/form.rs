//! Turns the text of a reply into the result of a call.

use jsonschema::Validator;
use serde_json::Value;

use super::ModelOutput;
use crate::calculate::evaluate;
use crate::{json, schema};

/// The marks around what some models think aloud before they answer.
const THINKING: (&str, &str) = ("<think>", "</think>");

/// The closing marks that are looked at, from the last one on; a reply that speaks of more loops.
const TAGS_MAX: usize = 64;

/// What fences a block of code.
const FENCE: &str = "```";

/// The most faults of one reply that are told; more would not help to mend it.
const FAULTS_MAX: usize = 8;

/// The most characters of a reply, or of one fault of it, that an error repeats.
const QUOTED_CHARS_MAX: usize = 300;

/// How the replies of one tool are read.
#[derive(Debug)]
pub(super) enum ReplyForm {
    Text,
    Json(Box<Validator>),
    Calculate,
}

impl ReplyForm {
    /// Compiles what an output needs; the error says what is wrong with its schema.
    pub(super) fn new(output: &ModelOutput) -> Result<Self, String> {
        Ok(match output {
            ModelOutput::Text => Self::Text,
            ModelOutput::Json { schema } => Self::Json(Box::new(schema::compile(schema)?)),
            ModelOutput::Calculate => Self::Calculate,
        })
    }

    /// Reads a whole reply; the error goes on where "the reply of the model" leaves off.
    pub(super) fn read(&self, content: &str) -> Result<Value, String> {
        let text = spoken(content);
        if text.is_empty() {
            return Err("is empty".to_owned());
        }
        match self {
            Self::Text => Ok(Value::from(text)),
            Self::Json(validator) => obeying(validator, text),
            Self::Calculate => {
                let expression = unassigned(fenced(text).unwrap_or(text).trim());
                let number = evaluate(expression).map_err(|error| {
                    format!(
                        "is no expression that can be computed: {error}: {}",
                        quoted(expression)
                    )
                })?;
                Ok(number.to_value())
            }
        }
    }
}

fn obeying(validator: &Validator, text: &str) -> Result<Value, String> {
    let value = json::read(text).or_else(|whole| match fenced(text) {
        Some(block) => json::read(block),
        None => Err(whole),
    });
    let value = value.map_err(|error| format!("is not JSON: {error}: {}", quoted(text)))?;
    if let Some(value) = schema::without_nulls(validator, &value) {
        return Ok(value);
    }
    // A large whole number is a text only here.
    if validator.is_valid(&json::rounded(&value)) {
        return Ok(value);
    }
    let faults = validator.iter_errors(&value).take(FAULTS_MAX);
    let faults: Vec<String> = faults.map(|error| beginning(&schema::at(&error))).collect();
    Err(format!("does not obey the schema: {}: {}", faults.join("; "), quoted(text)))
}

/// Returns what is said after the thinking; nothing if the thinking has no end.
///
/// Chat templates often write the opening tag themselves, so that all before a closing one is
/// thought, unless the tag is spoken of: in backticks, in a fence, behind an opening one, or in JSON.
fn spoken(content: &str) -> &str {
    let text = content.trim();
    let (open, close) = THINKING;
    if let Some(rest) = text.strip_prefix(open) {
        return rest.split_once(close).map_or("", |(_, said)| said.trim());
    }
    let unopened = text.split_once(open).map_or(text, |(before, _)| before);
    if unopened.starts_with(['{', '[']) {
        return text;
    }
    let said = unopened.rmatch_indices(close).take(TAGS_MAX).find_map(|(at, _)| {
        let (thought, said) = (text.get(..at)?, text.get(at + close.len()..)?);
        (!is_quoted(thought, said) && !is_data(thought)).then(|| said.trim())
    });
    said.unwrap_or(text)
}

/// Tells whether what stands between two texts is in backticks.
fn is_quoted(before: &str, after: &str) -> bool {
    if !before.ends_with('`') || !after.starts_with('`') {
        return false;
    }
    let line = before.rsplit('\n').next().unwrap_or_default();
    // As many backticks open as close before the last ones, which then open too.
    line.split('`').skip(1).filter(|text| !text.is_empty()).count() % 2 == 0
}

/// Tells whether what stands behind a text is in a fence, or in a string of JSON.
fn is_data(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let quotes = line.matches('"').count() - line.matches("\\\"").count();
    quotes % 2 == 1 || before.matches(FENCE).count() % 2 == 1
}

/// Returns the inside of the first fenced block, without the word that names its language.
///
/// A block without an end reaches to the end of the text: a stop text may have taken its fence.
fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(FENCE)?;
    let block = rest.split_once(FENCE).map_or(rest, |(block, _)| block);
    let language = |line: &str| {
        let line = line.trim();
        line.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '#'))
            && !line.starts_with(|c: char| c.is_ascii_digit())
    };
    match block.split_once('\n') {
        Some((first, code)) if language(first) && !code.trim().is_empty() => Some(code),
        Some(_) | None => Some(block),
    }
}

/// Returns the value of an assignment such as `result = 2 + 3`; any other text as it is.
fn unassigned(text: &str) -> &str {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match text.split_once('=') {
        Some((name, value)) if is_name(name.trim_end()) => value.trim_start(),
        Some(_) | None => text,
    }
}

/// Repeats a reply in an error.
fn quoted(text: &str) -> String {
    format!("{:?}", beginning(text))
}

/// Cuts a text that is too long to stand in an error.
fn beginning(text: &str) -> String {
    let mut beginning: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    if beginning.len() < text.len() {
        beginning.push_str("..");
    }
    beginning
}
