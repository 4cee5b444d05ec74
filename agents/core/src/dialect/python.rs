//! Reads calls in the notation of Python: `name(a=1, b='x')`.

use serde_json::{Map, Value};

use super::calls::Arguments;
use super::lenient::{Cursor, Fault};

/// Reads one call. A single value without a name stands for the only parameter.
pub(super) fn call(cursor: &mut Cursor<'_>) -> Result<(String, Arguments), Fault> {
    let name = dotted(cursor);
    cursor.take_while(|c| c == ' ');
    if name.is_empty() || !cursor.take("(") {
        return Err(cursor.fault("a call is expected"));
    }
    let mut arguments = Map::new();
    let mut alone = None;
    loop {
        cursor.blank();
        if cursor.take(")") {
            break;
        }
        match keyword(cursor) {
            Some(key) if alone.is_none() => {
                let value = cursor.value()?;
                if arguments.insert(key, value).is_some() {
                    return Err(cursor.fault("an argument is given twice"));
                }
            }
            None if alone.is_none() && arguments.is_empty() => alone = Some(cursor.value()?),
            _ => return Err(cursor.fault("arguments need their names")),
        }
        cursor.blank();
        if !cursor.take(",") && cursor.peek() != Some(')') {
            return Err(cursor.fault("a comma or a closing bracket is expected"));
        }
    }
    let arguments = match alone {
        None => Arguments::Value(arguments.into()),
        Some(Value::String(text)) => Arguments::Input(text),
        Some(value) => Arguments::Value(value),
    };
    Ok((name.to_owned(), arguments))
}

/// Reads a list of calls, the opening bracket included.
pub(super) fn list(cursor: &mut Cursor<'_>) -> Result<Vec<(String, Arguments)>, Fault> {
    if !cursor.take("[") {
        return Err(cursor.fault("a list is expected"));
    }
    let mut calls = Vec::new();
    loop {
        cursor.blank();
        if cursor.take("]") {
            return Ok(calls);
        }
        calls.push(call(cursor)?);
        cursor.blank();
        if !cursor.take(",") && cursor.peek() != Some(']') {
            return Err(cursor.fault("a comma or a closing bracket is expected"));
        }
    }
}

/// Tells whether a call comes next, and returns its name.
pub(super) fn called<'a>(cursor: &Cursor<'a>) -> Option<&'a str> {
    let mut ahead = cursor.clone();
    let name = dotted(&mut ahead);
    ahead.take_while(|c| c == ' ');
    (!name.is_empty() && ahead.take("(")).then_some(name)
}

/// Tells whether a call that comes next gives a value its name, as mathematics and prose do not.
pub(super) fn names(cursor: &Cursor<'_>) -> bool {
    let given = cursor.rest().split_once('(').map_or("", |(_, given)| given);
    let given = given.split(')').next().unwrap_or_default();
    given.split(',').any(|part| keyword(&mut Cursor::new(part.trim_start(), 0, 0)).is_some())
}

/// Reads a name, which may hold dots and hyphens inside.
fn dotted<'a>(cursor: &mut Cursor<'a>) -> &'a str {
    match cursor.peek() {
        Some(c) if c.is_alphabetic() || c == '_' => {
            cursor.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'))
        }
        _ => "",
    }
}

fn keyword(cursor: &mut Cursor<'_>) -> Option<String> {
    let mut ahead = cursor.clone();
    let name = ahead.identifier();
    ahead.take_while(|c| c == ' ');
    if name.is_empty() || !ahead.take("=") || ahead.peek() == Some('=') {
        return None;
    }
    *cursor = ahead;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_read_with_their_arguments() {
        let cases = [
            ("f()", Some(json!([["f", {}]]))),
            (
                "f(a=1, b='it\\'s', c=[True, None],)",
                Some(json!([["f", {"a": 1, "b": "it's", "c": [true, null]}]])),
            ),
            ("a.b-c(x = {'k': (1)})", None),
            ("a.b-c(x = {'k': 1})", Some(json!([["a.b-c", {"x": {"k": 1}}]]))),
            ("[f(a=1), g()]", Some(json!([["f", {"a": 1}], ["g", {}]]))),
            ("f('alone')", Some(json!([["f", "alone"]]))),
            ("f({\"a\": 1})", Some(json!([["f", {"a": 1}]]))),
            ("f(1, 2)", None),
            ("f(a=1, 2)", None),
            ("f(a=1, a=2)", None),
            ("f(a=g(1))", None),
            ("f(a={b=1})", None),
            ("f(a=1", None),
            ("f", None),
            ("[f(a=1)", None),
        ];
        for (text, expected) in cases {
            let mut cursor = Cursor::new(text, 0, 0);
            let calls = if text.starts_with('[') {
                list(&mut cursor)
            } else {
                call(&mut cursor).map(|call| vec![call])
            };
            let calls = calls.map(|calls| {
                let value = |(name, arguments): (String, Arguments)| match arguments {
                    Arguments::Value(value) => json!([name, value]),
                    Arguments::Tagged(texts) => json!([name, texts]),
                    Arguments::Text(text) | Arguments::Input(text) => json!([name, text]),
                };
                calls.into_iter().map(value).collect::<Value>()
            });
            assert_eq!(calls.ok(), expected, "{text}");
        }
    }
}
