//! Brings JSON Schemas of older drafts, which most servers write, into 2020-12.

use serde_json::{Map, Value};

/// Keywords whose values are data and not schemas.
pub(crate) const DATA: [&str; 4] = ["const", "default", "enum", "examples"];

/// Keywords whose values are schemas by names of the server's own.
pub(crate) const NAMED: [&str; 5] =
    ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Returns a schema of draft 4 to 2020-12 as one of 2020-12.
///
/// What older drafts say otherwise is rewritten: lists of items, dependencies and exclusive bounds
/// as truth values. The rest means the same in all of them.
pub(crate) fn modern(schema: &Value) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let mut out = Map::new();
    let has_list = members.get("items").is_some_and(Value::is_array);
    for (key, value) in members {
        match (key.as_str(), value) {
            ("$schema", _) => {}
            ("items", Value::Array(items)) => {
                out.insert("prefixItems".to_owned(), items.iter().map(modern).collect());
            }
            ("additionalItems", value) => {
                if has_list {
                    out.insert("items".to_owned(), modern(value));
                }
            }
            ("dependencies", Value::Object(dependencies)) => dependent(dependencies, &mut out),
            ("exclusiveMinimum", Value::Bool(is)) => {
                exclusive(members, "minimum", key, *is, &mut out);
            }
            ("exclusiveMaximum", Value::Bool(is)) => {
                exclusive(members, "maximum", key, *is, &mut out);
            }
            (key, value) if DATA.contains(&key) => {
                out.insert(key.to_owned(), value.clone());
            }
            (key, Value::Object(named)) if NAMED.contains(&key) => {
                let named = named.iter().map(|(name, schema)| (name.clone(), modern(schema)));
                out.insert(key.to_owned(), Value::Object(named.collect()));
            }
            (key, Value::Array(list)) => {
                out.insert(key.to_owned(), list.iter().map(modern).collect());
            }
            (key, value) => {
                out.insert(key.to_owned(), modern(value));
            }
        }
    }
    Value::Object(out)
}

fn dependent(dependencies: &Map<String, Value>, out: &mut Map<String, Value>) {
    let (lists, schemas): (Vec<_>, Vec<_>) =
        dependencies.iter().partition(|(_, value)| value.is_array());
    if !lists.is_empty() {
        let lists = lists.into_iter().map(|(name, list)| (name.clone(), list.clone()));
        out.insert("dependentRequired".to_owned(), Value::Object(lists.collect()));
    }
    if !schemas.is_empty() {
        let schemas = schemas.into_iter().map(|(name, schema)| (name.clone(), modern(schema)));
        out.insert("dependentSchemas".to_owned(), Value::Object(schemas.collect()));
    }
}

/// Turns the truth value of draft 4 into the bound itself.
fn exclusive(
    members: &Map<String, Value>,
    bound: &str,
    key: &str,
    is_exclusive: bool,
    out: &mut Map<String, Value>,
) {
    if let Some(value) = members.get(bound).filter(|_| is_exclusive) {
        out.insert(key.to_owned(), value.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::check_parameters;

    #[test]
    fn older_drafts_are_read() {
        let draft_7 = "http://json-schema.org/draft-07/schema#";
        let cases = [
            (json!({"$schema": draft_7, "type": "object"}), json!({"type": "object"})),
            (
                json!({"type": "object", "properties": {"items": {"type": "array",
                    "items": [{"type": "string"}], "additionalItems": false}}}),
                json!({"type": "object", "properties": {"items": {"type": "array",
                    "prefixItems": [{"type": "string"}], "items": false}}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array",
                    "items": {"type": "string"}, "additionalItems": false}}}),
                json!({"type": "object", "properties": {"a": {"type": "array",
                    "items": {"type": "string"}}}}),
            ),
            (
                json!({"type": "object", "dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
                json!({"type": "object", "dependentRequired": {"a": ["b"]},
                    "dependentSchemas": {"c": {"required": ["d"]}}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"minimum": 1, "exclusiveMinimum": true,
                    "maximum": 9, "exclusiveMaximum": false}}}),
                json!({"type": "object", "properties": {"a": {"minimum": 1, "exclusiveMinimum": 1,
                    "maximum": 9}}}),
            ),
            (
                json!({"type": "object", "properties": {"$schema": {"type": "string"}},
                    "default": {"items": [1]}}),
                json!({"type": "object", "properties": {"$schema": {"type": "string"}},
                    "default": {"items": [1]}}),
            ),
            (
                json!({"type": "object", "definitions": {"a": {"type": "string"}},
                    "properties": {"a": {"$ref": "#/definitions/a"}},
                    "anyOf": [{"required": ["a"]}, true]}),
                json!({"type": "object", "definitions": {"a": {"type": "string"}},
                    "properties": {"a": {"$ref": "#/definitions/a"}},
                    "anyOf": [{"required": ["a"]}, true]}),
            ),
        ];
        for (old, expected) in cases {
            let new = modern(&old);
            assert_eq!(new, expected);
            assert_eq!(check_parameters(&new), Ok(()), "{old}");
        }
    }
}
