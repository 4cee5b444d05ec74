//! Finds the first action of a reply, as a JSON blob or as labelled text.

use serde_json::Value;

use super::super::calls::Arguments;
use super::super::extract;
use super::super::lenient::{self, Cursor};
use super::super::python;
use super::label;
use crate::validate::Toolbox;

/// The brackets round the input of a blob, which may be missing at its end.
const SPARE: usize = 1;

/// Keys that hold the input of a blob, the likeliest first.
const INPUTS: &[&str] = &["action_input", "input", "arguments", "args", "tool_input", "parameters"];

/// What the search for an action came to.
pub(super) enum Sought {
    /// There is none.
    None,
    /// There is one, which cannot be read.
    Broken { at: usize, fault: Fault },
    /// There is one between two bytes of the text.
    Action { at: usize, end: usize, action: Action },
}

/// Why an action cannot be read.
pub(super) struct Fault {
    pub(super) why: String,
    pub(super) is_cut: bool,
}

/// What a model wants done.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// A call.
    Call { name: String, arguments: Arguments },
    /// An answer in the form of an action.
    Final(String),
    /// No tool, in so many words.
    Nothing,
}

impl From<lenient::Fault> for Fault {
    fn from(fault: lenient::Fault) -> Self {
        Self { why: format!("the action cannot be read: {fault}"), is_cut: fault.is_cut }
    }
}

impl From<&str> for Fault {
    fn from(why: &str) -> Self {
        Self { why: why.to_owned(), is_cut: false }
    }
}

/// Finds the first action.
pub(super) fn find(text: &str, toolbox: &Toolbox) -> Sought {
    let labelled = label::find(text, 0, &["Action"]);
    let is_blob = |value: &Value| value.get("action").is_some();
    let blob = extract::object(text, 0, SPARE, is_blob);
    let starts_blob = labelled.is_some_and(|label| starts_blob(text, label.end));
    match (labelled, blob) {
        (Some(label), Ok(Some(found))) if found.start < label.at || starts_blob => {
            of_blob(found.start, found.end, &found.value)
        }
        (None, Ok(Some(found))) => of_blob(found.start, found.end, &found.value),
        (Some(label), Err(fault)) if starts_blob => {
            Sought::Broken { at: label.at, fault: fault.into() }
        }
        (Some(label), Ok(None)) if starts_blob => {
            Sought::Broken { at: label.at, fault: "the action names no tool".into() }
        }
        (Some(label), _) => match labelled_text(text, label.end, toolbox) {
            Ok((action, end)) => Sought::Action { at: label.at, end, action },
            Err(fault) => Sought::Broken { at: label.at, fault },
        },
        (None, Err(fault)) if text.contains("\"action\"") => {
            Sought::Broken { at: fault.at, fault: fault.into() }
        }
        (None, Ok(None) | Err(_)) => Sought::None,
    }
}

/// Tells whether JSON follows a label, in a fence or not.
fn starts_blob(text: &str, at: usize) -> bool {
    let rest = text.get(at..).unwrap_or_default();
    let bare = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '`' | '~'));
    let bare = bare
        .get(..4)
        .filter(|word| word.eq_ignore_ascii_case("json"))
        .map_or(bare, |_| bare.get(4..).unwrap_or_default().trim_start());
    bare.starts_with(['{', '['])
}

fn of_blob(at: usize, end: usize, value: &Value) -> Sought {
    let input = INPUTS.iter().find_map(|key| value.get(*key)).cloned().unwrap_or_default();
    let action = match value.get("action") {
        Some(Value::Null) => Action::Nothing,
        Some(Value::String(name)) => named(name.trim(), input),
        _ => return Sought::Broken { at, fault: "\"action\" is not a string".into() },
    };
    Sought::Action { at, end, action }
}

fn named(name: &str, input: Value) -> Action {
    if is_nothing(name) {
        return Action::Nothing;
    }
    if label::is_final(name) {
        return Action::Final(match input {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        });
    }
    let arguments = match input {
        Value::String(text) => Arguments::Input(text),
        other => Arguments::Value(other),
    };
    Action::Call { name: name.to_owned(), arguments }
}

/// Tells whether a name says that no tool is wanted, with or without a remark.
fn is_nothing(name: &str) -> bool {
    let word = name.split(|c: char| !c.is_alphanumeric() && c != '/').find(|word| !word.is_empty());
    word.is_none_or(|word| {
        ["none", "null", "nil", "n/a"].iter().any(|nothing| word.eq_ignore_ascii_case(nothing))
    })
}

/// Reads the name after its label, and the input after its own.
fn labelled_text(text: &str, at: usize, toolbox: &Toolbox) -> Result<(Action, usize), Fault> {
    let rest = text.get(at..).unwrap_or_default();
    let blank = rest.len() - rest.trim_start().len();
    let start = at + blank;
    let line = text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
    let line_end = start + line.len();
    // Some models write both labels on one line.
    let inline = line.to_ascii_lowercase().find("action input:");
    let name_end = inline.map_or(line_end, |at| start + at);
    let written = text.get(start..name_end).unwrap_or_default().trim();
    let name = bare(written, toolbox);
    let next = label::find(text, name_end, &["Action Input", "Action", "Thought", "Question"]);
    let input = label::find(text, name_end, &["Action Input"]).filter(|input| Some(*input) == next);
    // JSON below the name is its input; a label that follows it belongs to something else.
    let input = input.filter(|_| inline.is_some() || !starts_blob(text, line_end));
    if is_nothing(name) {
        return Ok((Action::Nothing, line_end));
    }
    let Some(input) = input else {
        return match within(written, toolbox) {
            Some(action) => Ok((action, line_end)),
            None if starts_blob(text, line_end) => of_input(text, line_end, name),
            None if label::is_final(name) => {
                let answer = text.get(line_end..).unwrap_or_default().trim();
                Ok((Action::Final(answer.to_owned()), text.len()))
            }
            None => {
                let is_cut = line_end == text.len() && toolbox.find(name).is_none();
                let why = "the action has no input; write {} where a tool takes none".to_owned();
                Err(Fault { why, is_cut })
            }
        };
    };
    of_input(text, input.end, name)
}

/// Removes emphasis, quotes and brackets round a name that is not offered as it stands.
fn bare<'a>(written: &'a str, toolbox: &Toolbox) -> &'a str {
    if toolbox.find(written).is_some() {
        return written;
    }
    let bare = written.trim_matches(|c: char| {
        c.is_whitespace() || matches!(c, '*' | '`' | '"' | '\'' | '[' | ']' | '<' | '>' | ',' | '.')
    });
    bare.strip_suffix("()").unwrap_or(bare)
}

/// Reads an action that holds its input: `name[input]` or `name(argument=..)`.
fn within(written: &str, toolbox: &Toolbox) -> Option<Action> {
    if let Some((name, input)) = written.split_once('[')
        && toolbox.find(name.trim()).is_some()
        && let Some(input) = input.trim_end().strip_suffix(']')
    {
        return Some(named(name.trim(), Value::String(input.to_owned())));
    }
    let mut cursor = Cursor::new(written, 0, 0);
    let (name, arguments) = python::call(&mut cursor).ok()?;
    (cursor.rest().trim().is_empty() && toolbox.find(&name).is_some())
        .then_some(Action::Call { name, arguments })
}

/// Reads the input of an action: an object, in a fence or in a call of something, or else text up
/// to the next label.
fn of_input(text: &str, at: usize, name: &str) -> Result<(Action, usize), Fault> {
    let rest = text.get(at..).unwrap_or_default();
    let opening = rest.trim_start();
    // One backtick begins a word of code, and what it stands in goes on behind it.
    let fenced = extract::fences(opening).next().filter(|_| opening.starts_with("``"));
    let fenced = fenced.map(|at| text.len() - opening.len() + at).filter(|at| *at < text.len());
    let skipped = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '*');
    let start = fenced.unwrap_or(text.len() - skipped.len());
    let wrapped = wrapped(text, start);
    let object = wrapped.unwrap_or(start);
    if extract::is_object_like(text, object) || text.get(object..).is_some_and(is_empty_object) {
        let mut cursor = Cursor::new(text, object, 0);
        let value = cursor.value()?;
        return Ok((named(name, value), cursor.at()));
    }
    let labels = ["Thought", "Action", "Action Input", "Final Answer", "Question"];
    let end = label::find(text, start, &labels).map_or(text.len(), |label| label.at);
    let input = label::input(text.get(start..end).unwrap_or_default(), fenced.is_some());
    let value = match lenient::whole(input, 0) {
        Ok(Value::String(inner)) => Value::String(inner),
        Ok(Value::Null) => Value::Null,
        _ => Value::String(input.trim_matches('*').trim().to_owned()),
    };
    Ok((named(name, value), end))
}

fn is_empty_object(text: &str) -> bool {
    text.strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with('}'))
}

/// Finds the object in `Something({..})`.
fn wrapped(text: &str, at: usize) -> Option<usize> {
    let mut cursor = Cursor::new(text, at, 0);
    let name = cursor.identifier();
    let is_wrapped = !name.is_empty() && cursor.take("(");
    cursor.blank();
    (is_wrapped && extract::is_object_like(text, cursor.at())).then_some(cursor.at())
}
