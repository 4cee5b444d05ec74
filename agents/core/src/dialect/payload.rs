//! Reads what follows the mark of a call.

use serde_json::{Map, Value};

use super::calls::{Arguments, Written};
use super::lenient::{Cursor, Fault};
use super::python;
use super::shape::{self, CALLS_MAX, Shape};

/// What marks a call in text, in the words of the templates of open models.
pub(super) const MARKS: &[&str] = &[
    "<tool_call>",
    "<tool_calls>",
    "<function_call>",
    "<function_calls>",
    "<|tool_call|>",
    "<|tool_calls|>",
    "<|tool_call_start|>",
    "<|python_tag|>",
    "<|python_start|>",
    "<|plugin|>",
    "<|START_ACTION|>",
    "[TOOL_CALLS]",
    "[TOOL_CALL]",
    "functools[",
    "<function=",
    "<function/",
    "<function(",
    "<function name=",
];

/// What marks the end of calls, or stands between them.
const BETWEEN: &[&str] = &[
    "</tool_call>",
    "</tool_calls>",
    "</function_call>",
    "</function_calls>",
    "</function>",
    "<|tool_call_end|>",
    "<|python_end|>",
    "<|END_ACTION|>",
    "<|action_end|>",
    "[/TOOL_CALLS]",
    "[/TOOL_CALL]",
];

/// Tokens of chat templates that end a reply and some servers leave in.
const END_TOKENS: &[&str] =
    &["<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|endoftext|>", "<|end|>", "</s>", "<|eos|>"];

/// What follows a mark.
pub(super) enum Payload {
    /// Calls, at least one.
    Calls(Vec<Written>),
    /// Something else.
    Broken {
        /// What is wrong.
        why: String,
        /// The text ended inside a call.
        is_cut: bool,
    },
}

/// Removes the tokens that end a reply.
pub(super) fn without_end_tokens(text: &str) -> &str {
    let mut text = text.trim();
    while let Some(shorter) = END_TOKENS.iter().find_map(|token| text.strip_suffix(token)) {
        text = shorter.trim_end();
    }
    text
}

/// Reads the calls that follow a mark which ends at a byte. What follows them is not looked at.
pub(super) fn read(text: &str, end: usize, offered: &dyn Fn(&str) -> bool) -> Payload {
    let mut calls = Vec::new();
    // The bracket of `functools[` and the name of `<function=` belong to what is read.
    let before = text.get(..end).unwrap_or_default();
    let start = if before.ends_with("functools[") { end - 1 } else { end };
    let mut cursor = Cursor::new(text, start, 1);
    let mut in_function = before.ends_with(['=', '/', '(']);
    loop {
        if calls.len() >= CALLS_MAX {
            return Payload::Calls(calls);
        }
        if !in_function {
            in_function = between(&mut cursor);
        }
        match next(&mut cursor, in_function, offered) {
            Ok(Some(found)) => calls.extend(found),
            Ok(None) if calls.is_empty() => {
                let why = "a call is marked, but none follows".to_owned();
                return Payload::Broken { why, is_cut: cursor.rest().is_empty() };
            }
            Ok(None) => return Payload::Calls(calls),
            Err(fault) => {
                let why = format!("a marked call cannot be read: {fault}");
                return Payload::Broken { why, is_cut: fault.is_cut };
            }
        }
        in_function = false;
    }
}

/// Reads what may stand between calls. Tells whether it ended with the mark of a named function.
fn between(cursor: &mut Cursor<'_>) -> bool {
    loop {
        cursor.take_while(|c| c.is_whitespace() || matches!(c, ';' | ',' | '`' | '}' | ']'));
        if let Some(mark) = MARKS.iter().find(|mark| **mark != "functools[" && cursor.take(mark)) {
            if mark.ends_with(['=', '/', '(']) {
                return true;
            }
        } else if !BETWEEN.iter().any(|mark| cursor.take(mark)) && !language(cursor) {
            return false;
        }
    }
}

/// Reads the language of a fence inside of a tag.
fn language(cursor: &mut Cursor<'_>) -> bool {
    ["json\n", "xml\n", "python\n"].iter().any(|word| cursor.take(word))
}

fn next(
    cursor: &mut Cursor<'_>,
    in_function: bool,
    offered: &dyn Fn(&str) -> bool,
) -> Result<Option<Vec<Written>>, Fault> {
    if in_function {
        return function(cursor).map(Some);
    }
    match cursor.peek() {
        Some('[') => {
            let mut ahead = cursor.clone();
            ahead.take("[");
            ahead.blank();
            if python::called(&ahead).is_some() {
                return python::list(cursor).map(|calls| Some(written(calls)));
            }
            values(cursor)
        }
        Some('{') => values(cursor),
        _ if python::called(cursor).is_some() => {
            python::call(cursor).map(|call| Some(written(vec![call])))
        }
        _ => {
            let mut ahead = cursor.clone();
            let name = ahead.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
            for mark in ["[ARGS]", "\n"] {
                ahead.take(mark);
            }
            ahead.take_while(|c| c == ' ');
            if name.is_empty() || ahead.peek() != Some('{') {
                let is_bare = !name.is_empty() && offered(name) && ahead.rest().is_empty();
                return if is_bare { Err(ahead.fault("arguments are expected")) } else { Ok(None) };
            }
            let arguments = Arguments::Value(ahead.value()?);
            *cursor = ahead;
            Ok(Some(vec![Written { id: String::new(), name: name.to_owned(), arguments }]))
        }
    }
}

fn values(cursor: &mut Cursor<'_>) -> Result<Option<Vec<Written>>, Fault> {
    let value = cursor.value()?;
    match shape::marked(&value) {
        Shape::Calls(calls) => Ok(Some(calls)),
        Shape::Broken(why) => Err(cursor.fault(why)),
        Shape::Other => Err(cursor.fault("a name and arguments are expected")),
    }
}

/// Reads `name>{..}` and its like, or parameters in tags of their own.
fn function(cursor: &mut Cursor<'_>) -> Result<Vec<Written>, Fault> {
    cursor.take("\"");
    let name =
        cursor.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')).to_owned();
    cursor.take_while(|c| matches!(c, '"' | '>' | ')' | ' ' | '\n' | '=' | ','));
    if name.is_empty() {
        return Err(cursor.fault("a name is expected"));
    }
    let arguments = if cursor.peek() == Some('{') {
        let value = cursor.value()?;
        cursor.take_while(|c| matches!(c, ')' | '>'));
        Arguments::Value(value)
    } else {
        Arguments::Tagged(parameters(cursor)?)
    };
    Ok(vec![Written { id: String::new(), name, arguments }])
}

/// Reads `<parameter=name>value</parameter>` up to the end of the function.
fn parameters(cursor: &mut Cursor<'_>) -> Result<Map<String, Value>, Fault> {
    let mut arguments = Map::new();
    loop {
        cursor.take_while(char::is_whitespace);
        if cursor.take("</function>") {
            return Ok(arguments);
        }
        if !cursor.take("<parameter=") {
            return Err(cursor.fault("arguments are expected"));
        }
        let name = cursor.take_while(|c| c != '>').to_owned();
        cursor.take(">");
        let rest = cursor.rest();
        let Some((value, _)) = rest.split_once("</parameter>") else {
            cursor.take_while(|_| true);
            return Err(cursor.fault("a parameter is not closed"));
        };
        cursor.skip(value.len());
        cursor.take("</parameter>");
        if arguments.insert(name, within_tags(value).into()).is_some() {
            return Err(cursor.fault("a parameter is given twice"));
        }
    }
}

/// Returns a value without the line breaks that set it off from its tags, one at each. All other
/// white space is the value's own.
fn within_tags(value: &str) -> &str {
    let value = value.strip_prefix("\r\n").or_else(|| value.strip_prefix('\n')).unwrap_or(value);
    value.strip_suffix("\r\n").or_else(|| value.strip_suffix('\n')).unwrap_or(value)
}

/// Reads JSON that nothing marks as a call, and further calls that follow it at once.
pub(super) fn unmarked(
    text: &str,
    at: usize,
    offered: &dyn Fn(&str) -> bool,
) -> Result<Shape, Fault> {
    let mut cursor = Cursor::new(text, at, 1);
    let first = cursor.value()?;
    let mut calls = match shape::unmarked(&first, offered) {
        Shape::Calls(calls) => calls,
        other => return Ok(other),
    };
    while calls.len() < CALLS_MAX {
        cursor.take_while(|c| c.is_whitespace() || matches!(c, ';' | ',' | ']'));
        if cursor.peek() != Some('{') {
            break;
        }
        // What follows is a further call, or it is no part of this.
        match shape::unmarked(&cursor.value()?, offered) {
            Shape::Calls(more) if more.iter().all(|call| offered(&call.name)) => calls.extend(more),
            _ => break,
        }
    }
    Ok(Shape::Calls(calls))
}

/// Gives calls of Python the form of all others.
pub(super) fn written(calls: Vec<(String, Arguments)>) -> Vec<Written> {
    calls
        .into_iter()
        .take(CALLS_MAX)
        .map(|(name, arguments)| Written { id: String::new(), name, arguments })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::FinishReason::Stop;

    use super::super::fixture::{outline, reply};
    use super::super::native;
    use crate::validate::Toolbox;

    #[test]
    fn a_value_between_tags_keeps_its_white_space() {
        let schema = json!({
            "type": "object",
            "properties": {
                "content": {"type": "string", "maxLength": 40},
                "maybe": {"type": ["string", "null"]},
                "unit": {"enum": ["c", "f"]},
                "count": {"type": "integer"},
                "deep": {"type": "object", "properties": {"a": {"type": "string"}}},
                "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
            },
        });
        let mut toolbox = Toolbox::default();
        toolbox.add("write", Some(schema));
        toolbox.add("bare", None);
        for (name, value, expected) in [
            ("content", "x", json!("x")),
            ("content", "\n    if x:\n        y()\n", json!("    if x:\n        y()")),
            ("content", "\r\n\tx\r\ny\r\n", json!("\tx\r\ny")),
            ("content", "\n\nx\n\n", json!("\nx\n")),
            ("content", " x ", json!(" x ")),
            ("content", "\n", json!("")),
            ("content", "", json!("")),
            ("content", "\n 5 \n", json!(" 5 ")),
            ("maybe", "\n  x\n", json!("  x")),
            ("unit", "\n c \n", json!("c")),
            ("count", "\n 5 \n", json!(5)),
            ("count", "\n\n5\n\n", json!(5)),
            ("either", " true ", json!(true)),
            ("deep", "\n\u{a0} {\"a\": \" b \"}\n\n", json!({"a": " b "})),
        ] {
            let call = format!(
                "<tool_call>\n<function=write>\n<parameter={name}>{value}</parameter>\n</function>\n\
                 </tool_call>"
            );
            let read = |content: &str| outline(&native::read(&toolbox, &reply(Stop, content)));
            assert_eq!(read(&call), json!([["write", {name: expected}]]), "{call:?}");
            if expected.is_string() && name == "content" {
                let bare = call.replace("=write", "=bare");
                assert_eq!(read(&bare), json!([["bare", {name: expected}]]), "{bare:?}");
            }
        }
        // A text that is too long is not made to fit.
        let long = format!(
            "<function=write><parameter=content>x{}</parameter></function>",
            " ".repeat(40)
        );
        let found = outline(&native::read(&toolbox, &reply(Stop, &long)));
        assert_eq!(found[0][2], "invalid_arguments", "{found}");
    }
}
