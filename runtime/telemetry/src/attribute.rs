//! Turns attributes from JSON into those of OpenTelemetry.

use opentelemetry::{Array, KeyValue, StringValue, Value};
use serde_json::Value as Json;
use wire::{Attribute, Attributes};

/// Turns the attributes of a span; those that are null are left out.
pub(crate) fn attributes(from: &Attributes) -> Vec<KeyValue> {
    let turn = |(key, said): (&str, &Attribute)| Some(KeyValue::new(key.to_owned(), value(said)?));
    from.iter().filter_map(turn).collect()
}

/// Turns one value. What OpenTelemetry has no form for becomes its JSON text.
fn value(said: &Attribute) -> Option<Value> {
    Some(match said {
        Attribute::Null => return None,
        Attribute::Word(word) => Value::String((*word).into()),
        Attribute::Name(name) => Value::String(name.as_str().to_owned().into()),
        Attribute::Text(text) => Value::String(text.clone().into()),
        Attribute::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::I64(whole),
            (None, Some(real)) if !number.is_u64() => Value::F64(real),
            _ => Value::String(number.to_string().into()),
        },
        Attribute::Json(json) => match &**json {
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Array(items) => match strings(items) {
                Some(texts) => Value::Array(Array::String(texts)),
                None => Value::String(json.to_string().into()),
            },
            json => Value::String(json.to_string().into()),
        },
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
            assert_eq!(value(&json.clone().into()), expected, "{json}");
        }
    }
}
