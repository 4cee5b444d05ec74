//! What a statement of PostgreSQL is given for an argument: a text, which the server reads as a
//! value of the type that it expects there. It is never read as part of the statement.

use bytes::BytesMut;
use serde_json::Value;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};

/// A value as a text, or null.
#[derive(Debug)]
pub(super) struct Bound(Option<String>);

impl Bound {
    /// Writes an argument for a parameter of a type.
    pub(super) fn new(value: &Value, expected: &Type) -> Result<Self, String> {
        let text = match value {
            Value::Null => return Ok(Self(None)),
            value => written(value, expected)?,
        };
        if text.contains('\0') {
            return Err(
                "a text with a NUL character is nothing that PostgreSQL can hold".to_owned()
            );
        }
        Ok(Self(Some(text)))
    }
}

fn written(value: &Value, expected: &Type) -> Result<String, String> {
    if *expected == Type::JSON || *expected == Type::JSONB {
        return Ok(value.to_string());
    }
    match expected.kind() {
        Kind::Domain(inner) => return written(value, inner),
        Kind::Array(item) => {
            let Value::Array(items) = value else {
                return Err(format!("it has to be a list of {}", item.name()));
            };
            return list(items, item);
        }
        _ => {}
    }
    let is_number = [Type::INT2, Type::INT4, Type::INT8, Type::NUMERIC].contains(expected);
    Ok(match value {
        Value::Bool(truth) if is_number => u8::from(*truth).to_string(),
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    })
}

/// Writes a list as a text in braces, with every item in quotes but for null.
fn list(items: &[Value], item_type: &Type) -> Result<String, String> {
    let mut text = "{".to_owned();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        match item {
            Value::Null => text.push_str("NULL"),
            // A list within a list is a further dimension.
            Value::Array(inner) if !is_document(item_type) => {
                text.push_str(&list(inner, item_type)?);
            }
            item => {
                text.push('"');
                for c in written(item, item_type)?.chars() {
                    if matches!(c, '"' | '\\') {
                        text.push('\\');
                    }
                    text.push(c);
                }
                text.push('"');
            }
        }
    }
    text.push('}');
    Ok(text)
}

fn is_document(item: &Type) -> bool {
    *item == Type::JSON || *item == Type::JSONB
}

impl ToSql for Bound {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match &self.0 {
            None => IsNull::Yes,
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                IsNull::No
            }
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_written_for_their_type() {
        for (value, expected, text) in [
            (json!(null), Type::INT4, None),
            (json!("it's"), Type::TEXT, Some("it's")),
            (json!(1.5), Type::TEXT, Some("1.5")),
            (json!(true), Type::BOOL, Some("true")),
            (json!(true), Type::INT4, Some("1")),
            (json!({"a": 1}), Type::TEXT, Some("{\"a\":1}")),
            (json!("a"), Type::JSONB, Some("\"a\"")),
            (json!(["a\"b", null, "c\\", ""]), Type::TEXT_ARRAY, Some(r#"{"a\"b",NULL,"c\\",""}"#)),
            (json!([[1, 2], [3, 4]]), Type::INT4_ARRAY, Some(r#"{{"1","2"},{"3","4"}}"#)),
            (json!([["a"], {"b": 1}]), Type::JSONB_ARRAY, Some(r#"{"[\"a\"]","{\"b\":1}"}"#)),
        ] {
            let bound = Bound::new(&value, &expected).unwrap();
            assert_eq!(bound.0.as_deref(), text, "{value} as {expected}");
        }
        for (value, expected, part) in [
            (json!("{1}"), Type::INT4_ARRAY, "it has to be a list of int4"),
            (json!("a\0"), Type::TEXT, "NUL character"),
            (json!(["a\0"]), Type::TEXT_ARRAY, "NUL character"),
        ] {
            let fault = Bound::new(&value, &expected).unwrap_err();
            assert!(fault.contains(part), "{fault}");
        }
    }
}
