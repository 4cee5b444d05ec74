//! Finds the first object in a text, inside a fence or outside.

use serde_json::Value;

use super::lenient::{Cursor, Fault};

/// The most places in a text that are tried. Prose with more braces than this is no call, and
/// each try may read to the end of the text.
pub(super) const TRIES_MAX: usize = 64;

/// An object and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) value: Value,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Returns where the content of each fence begins: after two or more backticks or three tildes,
/// and a word for the language in any case. Whether and how the fence is closed does not matter.
pub(super) fn fences(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let mut cursor = Cursor::new(text, at, 0);
        loop {
            cursor.take_while(|c| c != '`' && c != '~');
            let mark = cursor.peek()?;
            let width = cursor.take_while(|c| c == mark).len();
            if width < if mark == '`' { 2 } else { 3 } {
                continue;
            }
            cursor.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '+'));
            cursor.take_while(char::is_whitespace);
            at = cursor.at();
            return Some(at);
        }
    })
}

/// Finds the first object that is wanted. Objects before it that are not are passed over, but
/// not one that cannot be read: what follows it may rest on it.
pub(super) fn object(
    text: &str,
    from: usize,
    spare: usize,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Option<Found>, Fault> {
    let mut at = from;
    for _ in 0..TRIES_MAX {
        let Some(brace) = text.get(at..).and_then(|rest| rest.find('{')) else { return Ok(None) };
        let start = at + brace;
        if !is_object_like(text, start) {
            at = start + 1;
            continue;
        }
        let mut cursor = Cursor::new(text, start, spare);
        let value = cursor.value()?;
        if wanted(&value) {
            return Ok(Some(Found { value, start, end: cursor.at() }));
        }
        at = cursor.at();
    }
    Ok(None)
}

/// Tells whether a brace begins an object rather than a placeholder in prose.
pub(super) fn is_object_like(text: &str, brace: usize) -> bool {
    let mut cursor = Cursor::new(text, brace, 0);
    if !cursor.take("{") {
        return false;
    }
    cursor.blank();
    if matches!(cursor.peek(), Some('"' | '\'' | '“')) || cursor.rest().is_empty() {
        return true;
    }
    let is_key = !cursor.identifier().is_empty();
    cursor.blank();
    is_key && cursor.take(":")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fences_of_any_kind_are_found() {
        let cases: &[(&str, &[&str])] = &[
            ("no fence, one `word`", &[]),
            ("```json\n{}\n```", &["{}\n```", ""]),
            ("x\n  ```JSON {}", &["{}"]),
            ("``json\n{}", &["{}"]),
            ("~~~\n{}", &["{}"]),
            ("a ~ b ```{}```", &["{}```", ""]),
        ];
        for (text, expected) in cases {
            let found: Vec<&str> = fences(text).map(|at| text.get(at..).unwrap()).collect();
            assert_eq!(found, *expected, "{text}");
        }
    }

    #[test]
    fn the_first_wanted_object_is_found() {
        let wanted = |value: &Value| value.get("a").is_some();
        let cases = [
            ("{\"a\": \"}\"} {\"a\": 2}", Ok(Some(json!({"a": "}"})))),
            ("in {place} of {} {\"b\": 1} {\"a\": 2}", Ok(Some(json!({"a": 2})))),
            ("{\"b\": {\"a\": 1}}", Ok(None)),
            ("{\"b\": x} {\"a\": 2}", Err(())),
            ("{\"b\": {\"a\": 1}", Err(())),
            ("{", Err(())),
            ("none", Ok(None)),
        ];
        for (text, expected) in cases {
            let found = object(text, 0, 0, wanted);
            let found = found.map(|found| found.map(|found| found.value)).map_err(|_| ());
            assert_eq!(found, expected, "{text}");
        }
    }
}
