//! The parameters of a tool: a JSON Schema, or the short form `name = "type: description"`.

use serde_json::{Map, Value, json};

/// The types of the short form.
pub(crate) const TYPES: [&str; 4] = ["string", "integer", "number", "boolean"];

/// Makes the schema of the arguments; faults come with the parameter that has them.
///
/// In the short form all values are texts: a type, `[]` after it for a list, `?` after that for an
/// optional parameter, then a colon and the description.
pub(crate) fn schema(written: &Map<String, Value>) -> Result<Value, Vec<(String, String)>> {
    let short = written.values().all(Value::is_string)
        && written.get("type").is_none_or(|kind| kind != "object");
    if !short {
        return Ok(Value::Object(written.clone()));
    }
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut faults = Vec::new();
    for (name, value) in written {
        match value.as_str().and_then(parameter) {
            Some((schema, optional)) => {
                properties.insert(name.clone(), schema);
                if !optional {
                    required.push(name.as_str());
                }
            }
            None => faults.push((name.clone(), value.to_string())),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    // Some servers refuse a list of nothing.
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    schema.insert("additionalProperties".to_owned(), false.into());
    Ok(schema.into())
}

/// Reads one parameter: its schema and whether it is optional.
fn parameter(text: &str) -> Option<(Value, bool)> {
    let (kind, description) = text.split_once(':').unwrap_or((text, ""));
    let kind = kind.trim();
    let (kind, optional) = kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true));
    let (kind, list) = kind.strip_suffix("[]").map_or((kind, false), |kind| (kind, true));
    if !TYPES.contains(&kind) {
        return None;
    }
    let mut schema = Map::new();
    if list {
        schema.insert("type".to_owned(), "array".into());
        schema.insert("items".to_owned(), json!({"type": kind}));
    } else {
        schema.insert("type".to_owned(), kind.into());
    }
    if !description.trim().is_empty() {
        schema.insert("description".to_owned(), description.trim().into());
    }
    Some((Value::Object(schema), optional))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_short_form() {
        for (text, expected) in [
            ("string: the city", Some((json!({"type":"string","description":"the city"}), false))),
            ("integer?", Some((json!({"type": "integer"}), true))),
            (
                "number[]?: a: b",
                Some((
                    json!({"type":"array","items":{"type":"number"},"description":"a: b"}),
                    true,
                )),
            ),
            (" boolean : yes ", Some((json!({"type":"boolean","description":"yes"}), false))),
            ("text: the city", None),
            ("", None),
            ("?", None),
        ] {
            assert_eq!(parameter(text), expected, "{text}");
        }
    }

    #[test]
    fn keeps_the_order_and_closes_the_object() {
        let schema = schema(json!({"z": "string", "a": "integer?"}).as_object().unwrap()).unwrap();
        assert_eq!(
            schema.to_string(),
            r#"{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}},"required":["z"],"additionalProperties":false}"#
        );
    }

    #[test]
    fn requires_nothing_where_nothing_is_required() {
        for (written, properties) in
            [(json!({}), json!({})), (json!({"a": "string?"}), json!({"a": {"type": "string"}}))]
        {
            let closed = json!({"type": "object", "properties": properties,
                "additionalProperties": false});
            assert_eq!(schema(written.as_object().unwrap()), Ok(closed), "{written}");
        }
    }

    #[test]
    fn leaves_a_schema_as_it_is() {
        for written in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"type": {"type": "string"}}}),
            json!({"properties": {}}),
        ] {
            assert_eq!(schema(written.as_object().unwrap()), Ok(written.clone()));
        }
    }

    #[test]
    fn a_parameter_may_be_called_type() {
        let schema = schema(json!({"type": "string: the kind"}).as_object().unwrap()).unwrap();
        assert_eq!(schema["properties"]["type"]["type"], "string");
    }
}
