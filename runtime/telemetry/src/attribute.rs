//! Turns attributes from JSON into those of OpenTelemetry.

use opentelemetry::{Array, KeyValue, StringValue, Value};
use serde_json::Value as Json;
use wire::Attributes;

/// Turns the attributes of a span; those that are null are left out.
pub(crate) fn attributes(from: &Attributes) -> Vec<KeyValue> {
    let turn = |(key, json): (&str, &Json)| Some(KeyValue::new(key.to_owned(), value(json)?));
    from.iter().filter_map(turn).collect()
}

/// Turns one value. What OpenTelemetry has no form for becomes its JSON text.
fn value(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::String(text) => Value::String(text.clone().into()),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::I64(whole),
            (None, Some(real)) if !number.is_u64() => Value::F64(real),
            _ => Value::String(number.to_string().into()),
        },
        Json::Array(items) => match strings(items) {
            Some(texts) => Value::Array(Array::String(texts)),
            None => Value::String(json.to_string().into()),
        },
        Json::Object(_) => Value::String(json.to_string().into()),
    })
}

fn strings(items: &[Json]) -> Option<Vec<StringValue>> {
    items.iter().map(|item| item.as_str().map(|text| text.to_owned().into())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_json_has_a_value() {
        let texts = |texts: &[&'static str]| {
            Value::Array(Array::String(texts.iter().map(|text| (*text).into()).collect()))
        };
        let cases = [
            (json!(null), None),
            (json!(true), Some(Value::Bool(true))),
            (json!(-7), Some(Value::I64(-7))),
            (json!(0.25), Some(Value::F64(0.25))),
            (json!(u64::MAX), Some(Value::String("18446744073709551615".into()))),
            (json!("x"), Some(Value::String("x".into()))),
            (json!(["a", "b"]), Some(texts(&["a", "b"]))),
            (json!([]), Some(texts(&[]))),
            (json!([1, "a"]), Some(Value::String("[1,\"a\"]".into()))),
            (json!({"a": 1}), Some(Value::String("{\"a\":1}".into()))),
        ];
        for (json, expected) in cases {
            assert_eq!(value(&json), expected, "{json}");
        }
    }
}
