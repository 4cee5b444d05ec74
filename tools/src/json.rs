//! JSON that others wrote.

use serde_json::{Number, Value};

/// Reads JSON as it is meant: a whole number beyond 64 bits becomes a text of its digits, since as a
/// number it would be rounded, and then be another one.
///
/// # Errors
///
/// Those of `serde_json::from_str`.
pub(crate) fn read(text: &str) -> serde_json::Result<Value> {
    let value = serde_json::from_str(text)?;
    quoted(text).map_or(Ok(value), |text| serde_json::from_str(&text))
}

/// Returns a value as a schema speaks of it, in which a large whole number is one, rounded or not.
pub(crate) fn rounded(value: &Value) -> Value {
    match value {
        Value::String(text) if is_rounded(text) => {
            text.parse().ok().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
        }
        Value::Array(items) => items.iter().map(rounded).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), rounded(field))).collect()
        }
        other => other.clone(),
    }
}

/// Returns valid JSON with its large whole numbers in quotes, if it has any.
fn quoted(text: &str) -> Option<String> {
    let mut quoted = None::<String>;
    // What is not copied yet, and where in it is looked at.
    let (mut rest, mut at) = (text, 0);
    let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    while let Some(byte) = rest.as_bytes().get(at) {
        let behind = rest.as_bytes().get(at..).unwrap_or_default();
        match byte {
            b'"' => at += string_bytes(behind),
            b'-' | b'0'..=b'9' => {
                let bytes = behind.iter().take_while(|byte| is_of_number(byte)).count();
                let (before, number) = (rest.get(..at)?, rest.get(at..at + bytes)?);
                if is_rounded(number) {
                    let quoted = quoted.get_or_insert_default();
                    quoted.extend([before, "\"", number, "\""]);
                    (rest, at) = (rest.get(at + bytes..)?, 0);
                } else {
                    at += bytes;
                }
            }
            _ => at += 1,
        }
    }
    quoted.map(|quoted| quoted + rest)
}

/// Returns how long the string is that bytes begin with, its quotes included.
fn string_bytes(bytes: &[u8]) -> usize {
    let mut is_escaped = true;
    let end = bytes.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        // The quote at the beginning ends nothing, and an escape is of one byte.
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(bytes.len(), |end| end + 1)
}

/// Tells whether a text is a whole number.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Tells whether a number is a whole one that 64 bits do not hold.
fn is_rounded(number: &str) -> bool {
    is_whole(number) && number.parse::<i64>().is_err() && number.parse::<u64>().is_err()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_whole_number_becomes_another_one() {
        for (text, expected) in [
            ("7", json!(7)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("18446744073709551615", json!(u64::MAX)),
            ("18446744073709551616", json!("18446744073709551616")),
            ("-9223372036854775809", json!("-9223372036854775809")),
            (" [0, 1000000000000000000001 ,2]", json!([0, "1000000000000000000001", 2])),
            (
                r#"{"a":1000000000000000000001,"b":{"c":-1000000000000000000002}}"#,
                json!({"a": "1000000000000000000001", "b": {"c": "-1000000000000000000002"}}),
            ),
            // A fraction is what was measured, and every reader rounds it.
            ("[1e300, 3.10, 0.10000000000000000000001]", json!([1e300, 3.1, 0.1])),
            // What is in a text is no number.
            (
                r#"["1000000000000000000001","\"1000000000000000000001","\\",1000000000000000000001]"#,
                json!([
                    "1000000000000000000001",
                    "\"1000000000000000000001",
                    "\\",
                    "1000000000000000000001"
                ]),
            ),
            (
                r#"{"1000000000000000000001\\":"ä","ö":1000000000000000000001}"#,
                json!({"1000000000000000000001\\": "ä", "ö": "1000000000000000000001"}),
            ),
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_schema_is_shown_numbers() {
        for text in [
            r#"{"a":[1000000000000000000001,"x","12","-",""],"b":-1000000000000000000001}"#,
            r#"[1.5,null,true,"18446744073709551615"]"#,
        ] {
            let plain: Value = serde_json::from_str(text).unwrap();
            assert_eq!(rounded(&read(text).unwrap()), plain, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "x", "1e999", "{1000000000000000000001:1}", "01000000000000000000001"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
