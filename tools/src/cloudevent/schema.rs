//! Reads what an event type says of its data.

use serde_json::{Map, Value, json};

use crate::schema::check_parameters;

/// Keys at the root of a JSON Schema of an object, beside one of which `type` tells it from
/// parameters by their names.
const ROOT_KEYS: [&str; 9] = [
    "properties",
    "required",
    "$schema",
    "$defs",
    "additionalProperties",
    "patternProperties",
    "oneOf",
    "anyOf",
    "allOf",
];

/// Makes the JSON Schema of parameters of the text in `schemaData`.
///
/// The text is a JSON Schema of an object, or an object of parameters by their names, each with
/// `type` and `description`: then all of them are needed. No text, or an empty object, means no
/// parameters.
pub fn parameters(schema_data: Option<&str>) -> Result<Value, String> {
    let text = schema_data.map(str::trim).unwrap_or_default();
    if text.is_empty() {
        return Ok(closed(Map::new()));
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("schemaData is no JSON: {error}"))?;
    let Value::Object(members) = value else {
        return Err("schemaData is no JSON object".to_owned());
    };
    let schema = if is_schema(&members) {
        Value::Object(members)
    } else {
        let mut properties = Map::new();
        for (name, described) in members {
            let property =
                property(&described).map_err(|what| format!("parameter {name:?} {what}"))?;
            properties.insert(name, property);
        }
        closed(properties)
    };
    check_parameters(&schema).map_err(|what| format!("schemaData is no schema: {what}"))?;
    Ok(schema)
}

/// Tells a JSON Schema from parameters by their names, one of which may be called `type`.
fn is_schema(members: &Map<String, Value>) -> bool {
    members.get("type").is_some_and(Value::is_string)
        || ROOT_KEYS
            .iter()
            .any(|key| *key != "properties" && *key != "required" && members.contains_key(*key))
        || members.get("required").is_some_and(Value::is_array)
        || members
            .get("properties")
            .and_then(Value::as_object)
            .is_some_and(|properties| !properties.get("type").is_some_and(Value::is_string))
}

fn closed(properties: Map<String, Value>) -> Value {
    let required: Vec<String> = properties.keys().cloned().collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("additionalProperties".to_owned(), json!(false));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    Value::Object(schema)
}

/// Makes the schema of one parameter; a type that is not known is a text.
fn property(described: &Value) -> Result<Value, String> {
    let Value::Object(members) = described else {
        return Err("is not described by an object such as {\"type\": \"string\"}".to_owned());
    };
    let mut property = members.clone();
    let written = match members.get("type") {
        None => "string",
        Some(Value::String(written)) => written,
        Some(Value::Array(_)) => return Ok(Value::Object(property)),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            return Err("has a type that is no text".to_owned());
        }
    };
    match written.split_once(':') {
        Some(("list", item)) => {
            property.insert("type".to_owned(), json!("array"));
            property.insert("items".to_owned(), json!({"type": json_type(item)}));
        }
        Some(_) | None => {
            property.insert("type".to_owned(), json!(json_type(written)));
        }
    }
    Ok(Value::Object(property))
}

fn json_type(written: &str) -> &'static str {
    match written.trim().to_ascii_lowercase().as_str() {
        "int" | "integer" => "integer",
        "float" | "double" | "number" => "number",
        "bool" | "boolean" => "boolean",
        "object" => "object",
        "array" | "list" => "array",
        _ => "string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(properties: &Value, required: &[&str]) -> Value {
        let mut schema =
            json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    }

    #[test]
    fn both_forms_become_a_schema_of_an_object() {
        let full = json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string", "enum": ["x", "y"]},
            "b": {"type": "object", "properties": {"c": {"type": "integer"}}}}});
        let cases = [
            (None, object(&json!({}), &[])),
            (Some(String::new()), object(&json!({}), &[])),
            (Some(" {} ".to_owned()), object(&json!({}), &[])),
            (Some(full.to_string()), full),
            (
                Some(
                    json!({"location": {"type": "string", "description": "The city"},
                        "days": {"type": "int"}, "usage": {"type": "float"},
                        "words": {"type": "list:string"}, "sizes": {"type": "list:int"},
                        "shares": {"type": "list:float", "description": "Parts."},
                        "odd": {"type": "duration"}, "bare": {}})
                    .to_string(),
                ),
                object(
                    &json!({"location": {"type": "string", "description": "The city"},
                        "days": {"type": "integer"}, "usage": {"type": "number"},
                        "words": {"type": "array", "items": {"type": "string"}},
                        "sizes": {"type": "array", "items": {"type": "integer"}},
                        "shares": {"type": "array", "description": "Parts.",
                            "items": {"type": "number"}},
                        "odd": {"type": "string"}, "bare": {"type": "string"}}),
                    &["location", "days", "usage", "words", "sizes", "shares", "odd", "bare"],
                ),
            ),
            // Parameters may be called as the words of schemas are.
            (
                Some(r#"{"type":{"type":"string"},"properties":{"type":"string"}}"#.to_owned()),
                object(
                    &json!({"type": {"type": "string"}, "properties": {"type": "string"}}),
                    &["type", "properties"],
                ),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parameters(text.as_deref()), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_broken_is_told() {
        let cases = [
            ("{\"unit\":{\"The unit\"}}", "schemaData is no JSON"),
            ("[]", "schemaData is no JSON object"),
            ("{\"a\": 1}", "parameter \"a\" is not described by an object"),
            ("{\"a\": {\"type\": 1}}", "parameter \"a\" has a type that is no text"),
            ("{\"type\": \"string\"}", "schemaData is no schema"),
            ("{\"a\": {\"minimum\": \"x\"}}", "schemaData is no schema"),
        ];
        for (text, expected) in cases {
            let error = parameters(Some(text)).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
