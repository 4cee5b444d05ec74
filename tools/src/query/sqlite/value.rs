//! Values between JSON and `SQLite`.

use rusqlite::types::{ToSqlOutput, Value as Owned, ValueRef};
use serde_json::{Number, Value};

/// Makes what a statement is given for an argument: lists and objects go in as JSON, which the
/// functions of `SQLite` such as `json_each` read.
pub(super) fn bound(value: &Value) -> Result<ToSqlOutput<'_>, String> {
    Ok(match value {
        Value::Null => ToSqlOutput::Borrowed(ValueRef::Null),
        Value::Bool(truth) => ToSqlOutput::Borrowed(ValueRef::Integer(i64::from(*truth))),
        Value::Number(number) => ToSqlOutput::Borrowed(match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => ValueRef::Integer(whole),
            // A whole number beyond 64 bits would be rounded, and then be another one.
            (None, Some(real)) if number.is_f64() => ValueRef::Real(real),
            _ => return Err(format!("{number} is more than a database of SQLite can hold")),
        }),
        Value::String(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        Value::Array(_) | Value::Object(_) => ToSqlOutput::Owned(Owned::Text(value.to_string())),
    })
}

/// Makes JSON of what a statement returned: bytes become hexadecimal digits, text that is no
/// UTF-8 is mended, and infinite numbers, which JSON does not have, become null.
pub(super) fn read(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(whole) => Value::from(whole),
        ValueRef::Real(real) => Number::from_f64(real).map_or(Value::Null, Value::Number),
        ValueRef::Text(text) => Value::String(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => {
            let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
            let digits = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
            Value::String(digits.collect())
        }
    }
}
