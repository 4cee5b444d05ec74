//! Brings what references point at to where it stays when a schema is taken apart.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The most bytes that are copied to be pointed at: as much as a schema may have, since each thing
/// pointed at may hold the next.
const COPIED_BYTES_MAX: usize = 64 * 1024;

/// Keywords whose values are data, in which nothing is a reference.
pub(super) const DATA: [&str; 5] = ["const", "enum", "default", "examples", "example"];

/// Keywords whose values hold schemas by names, which may be those of keywords.
pub(super) const NAMED: [&str; 5] =
    ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

/// Keywords of the root whose values are the definitions.
pub(super) const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Returns a schema all of whose references point at definitions at its root: what another one
/// points at, such as the root or what stands below a union, is added to these. A reference that
/// leads nowhere stays as it is.
pub(super) fn gathered(schema: &Value) -> Cow<'_, Value> {
    let mut found = Vec::new();
    collect(schema, false, &mut found);
    let definitions = schema.get("$defs").and_then(Value::as_object);
    let is_taken = |name: &str| definitions.is_some_and(|named| named.contains_key(name));
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut added = Map::new();
    let mut room = COPIED_BYTES_MAX;
    let mut numbers = 1_usize..;
    for reference in found {
        if names.contains_key(reference) || is_definition(reference) {
            continue;
        }
        let pointed_at = reference.strip_prefix('#').and_then(|path| schema.pointer(path));
        let Some(mut copy) = pointed_at.cloned() else { continue };
        if reference == "#"
            && let Value::Object(root) = &mut copy
        {
            root.retain(|name, _| !matches!(name.as_str(), "$defs" | "definitions" | "$schema"));
        }
        let Some(rest) = room.checked_sub(copy.to_string().len()) else { continue };
        room = rest;
        let mut fresh = numbers.by_ref().map(|number| format!("part{number}"));
        let Some(name) = fresh.find(|name| !is_taken(name)) else { break };
        names.insert(reference.to_owned(), format!("#/$defs/{name}"));
        added.insert(name, copy);
    }
    if names.is_empty() {
        return Cow::Borrowed(schema);
    }
    let mut schema = schema.clone();
    if let Value::Object(root) = &mut schema
        && let Value::Object(definitions) = root.entry("$defs").or_insert_with(|| json!({}))
    {
        definitions.extend(added);
        redirect(&mut schema, false, &names);
    }
    Cow::Owned(schema)
}

fn is_definition(reference: &str) -> bool {
    let name =
        ["#/$defs/", "#/definitions/"].iter().find_map(|place| reference.strip_prefix(place));
    name.is_some_and(|name| !name.contains('/'))
}

/// Finds the references in a schema, or in schemas by their names.
pub(super) fn collect<'a>(schema: &'a Value, is_named: bool, found: &mut Vec<&'a str>) {
    match schema {
        Value::Object(keywords) => {
            for (name, value) in keywords {
                match value {
                    _ if is_named => collect(value, false, found),
                    Value::String(reference) if name == "$ref" => found.push(reference),
                    _ if DATA.contains(&name.as_str()) => {}
                    _ => collect(value, NAMED.contains(&name.as_str()), found),
                }
            }
        }
        Value::Array(schemas) => schemas.iter().for_each(|schema| collect(schema, false, found)),
        _ => {}
    }
}

/// Has the references lead to other places, found as by [`collect`].
fn redirect(schema: &mut Value, is_named: bool, names: &BTreeMap<String, String>) {
    match schema {
        Value::Object(keywords) => {
            for (name, value) in keywords {
                match value {
                    _ if is_named => redirect(value, false, names),
                    Value::String(reference) if name == "$ref" => {
                        if let Some(name) = names.get(reference) {
                            reference.clone_from(name);
                        }
                    }
                    _ if DATA.contains(&name.as_str()) => {}
                    _ => redirect(value, NAMED.contains(&name.as_str()), names),
                }
            }
        }
        Value::Array(schemas) => {
            for schema in schemas {
                redirect(schema, false, names);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_references_lead_to_definitions() {
        let point = json!({"type": "object", "properties": {"x": {"type": "number"}}});
        let cases = [
            (
                json!({"anyOf": [{"properties": {"a": point, "b": {"$ref": "#/anyOf/0/properties/a"}}}]}),
                json!({"anyOf": [{"properties": {"a": point, "b": {"$ref": "#/$defs/part1"}}}],
                    "$defs": {"part1": point}}),
            ),
            (
                json!({"properties": {"next": {"$ref": "#"}, "also": {"$ref": "#"}}, "$defs": {"part1": {}}}),
                json!({"properties": {"next": {"$ref": "#/$defs/part2"}, "also": {"$ref": "#/$defs/part2"}},
                    "$defs": {"part1": {}, "part2": {"properties": {
                        "next": {"$ref": "#/$defs/part2"}, "also": {"$ref": "#/$defs/part2"}}}}}),
            ),
            (
                json!({"properties": {"default": {"$ref": "#/properties/x"}, "x": point}}),
                json!({"properties": {"default": {"$ref": "#/$defs/part1"}, "x": point},
                    "$defs": {"part1": point}}),
            ),
            (
                json!({"$ref": "#/definitions/A/properties/b", "definitions": {"A": {"properties": {"b": point}}}}),
                json!({"$ref": "#/$defs/part1", "definitions": {"A": {"properties": {"b": point}}},
                    "$defs": {"part1": point}}),
            ),
        ];
        for (schema, expected) in cases {
            assert_eq!(*gathered(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn what_leads_nowhere_or_is_too_large_stays_as_it_is() {
        let large = json!({"description": "x".repeat(COPIED_BYTES_MAX)});
        for schema in [
            json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/definitions/B"}}}),
            json!({"$ref": "#/properties/none"}),
            json!({"$ref": "https://example.com/s", "items": {"$ref": "#anchor"}}),
            json!({"const": {"$ref": "#"}, "enum": [{"$ref": "#"}], "default": {"$ref": "#"}}),
            json!({"properties": {"$ref": {"type": "string"}}}),
            json!({"properties": {"a": large, "b": {"$ref": "#/properties/a"}}}),
            json!(true),
        ] {
            assert!(matches!(gathered(&schema), Cow::Borrowed(_)), "{schema}");
        }
    }
}
