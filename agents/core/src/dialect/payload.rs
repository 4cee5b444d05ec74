//! Reads what follows the mark of a call.

use serde_json::{Map, Value};

use super::calls::{Arguments, Written};
use super::lenient::{self, Cursor, Fault};
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
    "<|tool_call>",
    "<start_function_call>",
    "<TOOLCALL>",
    "<seed:tool_call>",
    "<minimax:tool_call>",
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
    "<invoke name=",
    DSML[0],
    DSML[1],
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|channel|>commentary to=",
    "<|channel|>analysis to=",
    "<|start|>assistant to=",
];

/// What the tags of a call begin with in DSML, where models double the bars at times. Without it they
/// are those of `<function_calls>`.
const DSML: [&str; 2] = ["<｜DSML｜", "<｜｜DSML｜｜"];

/// What marks the end of calls, or stands between them.
const BETWEEN: &[&str] = &[
    "</tool_call>",
    "</tool_calls>",
    "</function_call>",
    "</function_calls>",
    "</function>",
    "<|tool_call_end|>",
    "<tool_call|>",
    "<end_function_call>",
    "</TOOLCALL>",
    "</seed:tool_call>",
    "</minimax:tool_call>",
    "<|python_end|>",
    "<|END_ACTION|>",
    "<|action_end|>",
    "[/TOOL_CALLS]",
    "[/TOOL_CALL]",
    "</invoke>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<|tool_calls_section_end|>",
    "<|call|>",
    "<|start|>assistant",
];

/// What may stand between a name and its arguments.
const AFTER_NAME: &[&str] = &[
    "[ARGS]",
    "<｜tool▁sep｜>",
    "<|tool_call_argument_begin|>",
    "<|channel|>commentary",
    "<|constrain|>",
    "<|message|>",
    "```",
    "json",
    "code",
];

/// What stands before the id that a model gives a call, after its name.
const ID: &str = "[CALL_ID]";

/// The attribute of a parameter whose value is JSON; without it the schema decides.
const NO_TEXT: &str = "string=\"false\"";

/// What a call begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// No mark of its own.
    Unmarked,
    Mark,
    /// The mark of a function, which its name follows.
    Function,
}

impl Begin {
    fn of(mark: &str) -> Self {
        let is_function = mark.ends_with(['=', '/', '(']) && !mark.ends_with(" to=");
        if is_function { Self::Function } else { Self::Mark }
    }
}

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

/// Reads the calls that follow a mark which ends at a byte. What follows them is not looked at:
/// once there are calls, only a mark says that another one is meant.
pub(super) fn read(text: &str, end: usize, offered: &dyn Fn(&str) -> bool) -> Payload {
    let mut calls: Vec<Written> = Vec::new();
    // The bracket of `functools[` and the name of `<function=` belong to what is read.
    let before = text.get(..end).unwrap_or_default();
    if let Some(tag) = DSML.iter().find(|tag| before.ends_with(**tag)) {
        return read(&plain(text.get(end - tag.len()..).unwrap_or_default(), tag), 0, offered);
    }
    let start = if before.ends_with("functools[") { end - 1 } else { end };
    let mut cursor = Cursor::new(text, start, 1);
    let mut begin = Begin::of(before);
    while calls.len() < CALLS_MAX {
        if begin != Begin::Function {
            begin = between(&mut cursor, begin);
        }
        let is_meant = calls.is_empty() || begin != Begin::Unmarked;
        match next(&mut cursor, begin == Begin::Function, offered) {
            Ok(Some(found)) if is_meant || found.iter().all(|call| offered(&call.name)) => {
                calls.extend(found);
            }
            Ok(None) if calls.is_empty() => {
                let why = "a call is marked, but none follows".to_owned();
                return Payload::Broken { why, is_cut: cursor.rest().is_empty() };
            }
            Err(fault) if is_meant => {
                let why = format!("a marked call cannot be read: {fault}");
                return Payload::Broken { why, is_cut: fault.is_cut };
            }
            Ok(Some(_) | None) | Err(_) => break,
        }
        begin = Begin::Unmarked;
    }
    Payload::Calls(calls)
}

/// Gives tags that all begin alike their plain names.
fn plain(text: &str, tag: &str) -> String {
    let name = tag.trim_start_matches('<');
    text.replace(tag, "<").replace(&format!("</{name}"), "</")
}

/// Reads what may stand between calls. Returns what the next one begins with.
fn between(cursor: &mut Cursor<'_>, mut begin: Begin) -> Begin {
    loop {
        cursor.take_while(|c| c.is_whitespace() || matches!(c, ';' | ',' | '`' | '}' | ']'));
        if let Some(mark) = MARKS.iter().find(|mark| **mark != "functools[" && cursor.take(mark)) {
            begin = Begin::of(mark);
            if begin == Begin::Function {
                return begin;
            }
        } else if !BETWEEN.iter().any(|mark| cursor.take(mark)) && !language(cursor) {
            return begin;
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
        _ => named(cursor, offered),
    }
}

/// Reads a name and the arguments that follow it.
fn named(
    cursor: &mut Cursor<'_>,
    offered: &dyn Fn(&str) -> bool,
) -> Result<Option<Vec<Written>>, Fault> {
    let mut ahead = cursor.clone();
    let mut name = word(&mut ahead);
    if name == "function" && ahead.take("<｜tool▁sep｜>") && ahead.peek() != Some('{') {
        name = word(&mut ahead);
    }
    if name == "call" && !offered(name) && ahead.take(":") {
        name = word(&mut ahead);
    }
    let name = name.strip_prefix("functions.").filter(|_| !offered(name)).unwrap_or(name);
    let mut number = ahead.clone();
    if number.take(":") && !number.take_while(|c| c.is_ascii_digit()).is_empty() {
        ahead = number;
    }
    let mut id = "";
    loop {
        ahead.take_while(char::is_whitespace);
        if ahead.take(ID) {
            id = word(&mut ahead);
        } else if !AFTER_NAME.iter().any(|mark| ahead.take(mark)) {
            break;
        }
    }
    let arguments = match ahead.peek() {
        _ if name.is_empty() => return Ok(None),
        Some('{') => Arguments::Value(ahead.value()?),
        Some('<') if ahead.rest().starts_with("<arg_key>") => Arguments::Tagged(pairs(&mut ahead)?),
        Some('<') if offered(name) && ahead.rest().starts_with("</tool_call>") => {
            Arguments::Value(Value::Null)
        }
        None if offered(name) => return Err(ahead.fault("arguments are expected")),
        Some(_) | None => return Ok(None),
    };
    *cursor = ahead;
    Ok(Some(vec![Written { id: id.to_owned(), name: name.to_owned(), arguments }]))
}

fn word<'t>(cursor: &mut Cursor<'t>) -> &'t str {
    cursor.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
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
    let name = word(cursor).to_owned();
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

/// Reads `<parameter=name>value</parameter>`, or the name as an attribute, up to the end of the
/// function.
fn parameters(cursor: &mut Cursor<'_>) -> Result<Map<String, Value>, Fault> {
    let mut arguments = Map::new();
    loop {
        cursor.take_while(char::is_whitespace);
        if cursor.take("</function>") || cursor.take("</invoke>") {
            return Ok(arguments);
        }
        let (name, others) = if cursor.take("<parameter=") {
            (cursor.take_while(|c| c != '>'), "")
        } else if cursor.take("<parameter name=\"") {
            (cursor.take_while(|c| c != '"'), cursor.take_while(|c| c != '>'))
        } else {
            return Err(cursor.fault("arguments are expected"));
        };
        cursor.take(">");
        let value = within_tags(up_to(cursor, "</parameter>")?);
        let json = if others.contains(NO_TEXT) { lenient::whole(value, 0).ok() } else { None };
        give(&mut arguments, name, json.unwrap_or_else(|| value.into()), cursor)?;
    }
}

/// Reads `<arg_key>name</arg_key><arg_value>value</arg_value>`, any number of times.
fn pairs(cursor: &mut Cursor<'_>) -> Result<Map<String, Value>, Fault> {
    let mut arguments = Map::new();
    while cursor.take("<arg_key>") {
        let name = up_to(cursor, "</arg_key>")?;
        cursor.take_while(char::is_whitespace);
        if !cursor.take("<arg_value>") {
            return Err(cursor.fault("a value is expected"));
        }
        let value = up_to(cursor, "</arg_value>")?;
        give(&mut arguments, name.trim(), within_tags(value).into(), cursor)?;
        cursor.take_while(char::is_whitespace);
    }
    Ok(arguments)
}

/// Reads what stands before a tag, and the tag.
fn up_to<'t>(cursor: &mut Cursor<'t>, close: &str) -> Result<&'t str, Fault> {
    let Some((value, _)) = cursor.rest().split_once(close) else {
        cursor.take_while(|_| true);
        return Err(cursor.fault("a parameter is not closed"));
    };
    cursor.skip(value.len() + close.len());
    Ok(value)
}

fn give(
    arguments: &mut Map<String, Value>,
    name: &str,
    value: Value,
    cursor: &Cursor<'_>,
) -> Result<(), Fault> {
    match arguments.insert(name.to_owned(), value) {
        Some(_) => Err(cursor.fault("a parameter is given twice")),
        None => Ok(()),
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
                "list": {"type": "array", "items": {"type": "integer"}},
                "words": {"type": "array", "items": {"type": "string"}},
                "sure": {"type": "boolean"},
                "deep": {"type": "object", "properties": {"a": {"type": "string"}}},
                "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
            },
        });
        // Tags hold nothing but texts, so that strictness has no meaning there.
        let [toolbox, strict] = [true, false].map(|coerce| {
            let mut toolbox = Toolbox::new(coerce);
            toolbox.add("write", Some(schema.clone()));
            toolbox.add("bare", None);
            toolbox
        });
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
            ("list", "[1, 2]", json!([1, 2])),
            ("list", "[1, 2,]", json!([1, 2])),
            ("words", "\n['a', \"b\"]\n", json!(["a", "b"])),
            ("sure", "True", json!(true)),
            ("sure", "\nFalse\n", json!(false)),
            ("content", "True", json!("True")),
            ("content", "['a']", json!("['a']")),
            ("either", "False", json!(false)),
            ("deep", "\n\u{a0} {\"a\": \" b \"}\n\n", json!({"a": " b "})),
        ] {
            let call = format!(
                "<tool_call>\n<function=write>\n<parameter={name}>{value}</parameter>\n</function>\n\
                 </tool_call>"
            );
            let by = |toolbox: &Toolbox, content: &str| {
                outline(&native::read(toolbox, &reply(Stop, content)))
            };
            let read = |content: &str| by(&toolbox, content);
            for toolbox in [&toolbox, &strict] {
                assert_eq!(by(toolbox, &call), json!([["write", {name: expected}]]), "{call:?}");
            }
            if expected.is_string() && name == "content" {
                let bare = call.replace("=write", "=bare");
                assert_eq!(read(&bare), json!([["bare", {name: expected}]]), "{bare:?}");
            }
        }
        for unclear in ["yes", "true or false", "TRUE", "1", "'True'", "[true]"] {
            let call = format!("<function=write><parameter=sure>{unclear}</parameter></function>");
            let found = outline(&native::read(&toolbox, &reply(Stop, &call)));
            assert_eq!(found[0][2], "invalid_arguments", "{found}");
        }
        // A text that is too long is not made to fit.
        let long = format!(
            "<function=write><parameter=content>x{}</parameter></function>",
            " ".repeat(40)
        );
        let found = outline(&native::read(&toolbox, &reply(Stop, &long)));
        assert_eq!(found[0][2], "invalid_arguments", "{found}");
        let inside = "<function=write><parameter=list>[\"1\"]</parameter></function>";
        let found = [&toolbox, &strict].map(|it| outline(&native::read(it, &reply(Stop, inside))));
        assert_eq!(found[0], json!([["write", {"list": [1]}]]));
        assert_eq!(found[1][0][2], "invalid_arguments", "{}", found[1]);
    }
}
