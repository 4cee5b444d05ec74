//! The parameters of tools, for servers that take them only as plain objects.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::merge::{INLINED_MAX, Merge};
use super::reference::gathered;
use super::{Dropped, Target, fields_of, is_object, lower, note, step};

/// Alternatives inside each other that are looked into; those further inside may hold anything.
const DEPTH_MAX: usize = 8;

/// The longest name of a parameter that Anthropic takes.
const ANTHROPIC_NAME_CHARS_MAX: usize = 64;

/// The parameters of a tool, and what was left out of them.
#[derive(Debug, PartialEq)]
pub(crate) struct Parameters {
    /// The schema.
    pub(crate) schema: Value,
    /// What was left out.
    pub(crate) dropped: BTreeSet<Dropped>,
}

/// Returns the parameters of a tool as OpenAI takes them: an object with properties, and at its root
/// neither a reference nor alternatives. What the alternatives hold stands beside each other, and only
/// what all of them require is required. Every array has `items`.
pub(crate) fn parameters(schema: &Value) -> Parameters {
    let schema = &*gathered(schema);
    let mut flattening =
        Flattening { merge: Merge::new(schema, &[], INLINED_MAX), dropped: BTreeSet::new() };
    let keywords = schema.as_object().cloned().unwrap_or_default();
    let mut root = flattening.flat(keywords, 0);
    if root.get("type").is_none_or(|kind| *kind != "object") {
        root.insert("type".to_owned(), "object".into());
    }
    if !root.get("properties").is_some_and(Value::is_object) {
        root.insert("properties".to_owned(), json!({}));
    }
    let mut schema = root.into();
    complete_arrays(&mut schema);
    let at_root = |keyword: &str| Dropped { at: String::new(), keyword: keyword.to_owned() };
    Parameters { schema, dropped: flattening.dropped.into_iter().map(at_root).collect() }
}

/// Returns the parameters of a tool as Anthropic takes them: as OpenAI does, and without those of a
/// name over which it refuses the whole request. The model reads of them in words.
pub(crate) fn anthropic_parameters(schema: &Value) -> Parameters {
    let Parameters { mut schema, mut dropped } = parameters(schema);
    let Value::Object(root) = &mut schema else { return Parameters { schema, dropped } };
    let Some(Value::Object(properties)) = root.get_mut("properties") else {
        return Parameters { schema, dropped };
    };
    let (kept, refused): (Map<_, _>, Map<_, _>) =
        std::mem::take(properties).into_iter().partition(|(name, _)| anthropic_takes_name(name));
    *properties = kept;
    let mut notes = Vec::new();
    for (name, property) in refused {
        dropped.insert(Dropped { at: "/properties".to_owned(), keyword: step(&name) });
        let mut needed = "";
        if let Some(Value::Array(required)) = root.get_mut("required") {
            let count = required.len();
            required.retain(|other| *other != name);
            if required.len() < count {
                needed = ", required";
            }
        }
        notes.push(format!("also takes {name:?}{needed}: {property}"));
    }
    note(root, &notes);
    Parameters { schema, dropped }
}

fn anthropic_takes_name(name: &str) -> bool {
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=ANTHROPIC_NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_taken)
}

/// Returns the parameters of a tool as llama.cpp takes them, which makes a grammar of them as of any
/// schema: of alternatives at the root it would see neither the properties beside them nor, in most
/// of its templates, any.
pub(crate) fn llama_cpp_parameters(schema: &Value) -> Parameters {
    let Parameters { schema, mut dropped } = parameters(schema);
    let lowered = lower(&schema, Target::LlamaCpp);
    dropped.extend(lowered.dropped);
    Parameters { schema: lowered.schema, dropped }
}

struct Flattening<'a> {
    merge: Merge<'a>,
    dropped: BTreeSet<&'static str>,
}

impl Flattening<'_> {
    /// Returns a schema in which nothing stands beside the properties that changes what they mean.
    fn flat(&mut self, mut keywords: Map<String, Value>, depth: usize) -> Map<String, Value> {
        let mut lose = |keyword, is_lost: bool| {
            if is_lost && depth == 0 {
                self.dropped.insert(keyword);
            }
        };
        let merge = &mut self.merge;
        if let Some(reference) = keywords.shift_remove("$ref") {
            let member = merge.member(&json!({ "$ref": reference }));
            lose("$ref", member.is_none());
            merge.add(&mut keywords, member.unwrap_or_default());
        }
        let all = keywords.shift_remove("allOf");
        merge.add_all(&mut keywords, all.as_ref());
        lose("allOf", std::mem::take(&mut merge.is_lossy));
        let unions = ["oneOf", "anyOf"].map(|union| {
            let alternatives = keywords.shift_remove(union);
            lose(union, alternatives.is_some());
            alternatives
        });
        for keyword in ["enum", "not"] {
            lose(keyword, keywords.shift_remove(keyword).is_some());
        }
        for alternatives in unions.into_iter().flatten() {
            // One that points where nothing can be taken from may allow anything.
            let mut known = Vec::new();
            for alternative in fields_of(&alternatives).iter().filter(|_| depth < DEPTH_MAX) {
                let alternative = self.merge.member(alternative).unwrap_or_default();
                if !alternative.contains_key("type") || is_object(&alternative) {
                    known.push(self.flat(alternative, depth + 1));
                }
            }
            widen(&mut keywords, &known);
        }
        self.merge.is_lossy = false;
        keywords
    }
}

/// Adds what alternatives hold to the properties beside which they stand.
fn widen(keywords: &mut Map<String, Value>, alternatives: &[Map<String, Value>]) {
    let mut added: Map<String, Value> = Map::new();
    for alternative in alternatives {
        let properties = alternative.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            match added.get_mut(name) {
                Some(Value::Array(schemas)) if schemas.contains(schema) => {}
                Some(Value::Array(schemas)) => schemas.push(schema.clone()),
                _ => drop(added.insert(name.clone(), json!([schema]))),
            }
        }
    }
    if !added.is_empty() {
        let properties = keywords.entry("properties").or_insert_with(|| json!({}));
        for (name, schemas) in added {
            let schema = match fields_of(&schemas) {
                [only] => only.clone(),
                _ => json!({ "anyOf": schemas }),
            };
            if let Value::Object(properties) = properties {
                properties.entry(name).or_insert(schema);
            }
        }
    }
    let Some((first, others)) = alternatives.split_first() else { return };
    let required = |schema: &Map<String, Value>| {
        schema.get("required").map(fields_of).unwrap_or_default().to_vec()
    };
    let mut common = required(first);
    common.retain(|name| others.iter().all(|other| required(other).contains(name)));
    if !common.is_empty() {
        let mut all = required(keywords);
        common.retain(|name| !all.contains(name));
        all.extend(common);
        keywords.insert("required".to_owned(), all.into());
    }
    let is_closed = |schema: &Map<String, Value>| {
        schema.get("additionalProperties") == Some(&Value::Bool(false))
    };
    if alternatives.iter().all(is_closed) {
        keywords.insert("additionalProperties".to_owned(), false.into());
    }
}

/// Gives every array of a schema `items`, of any kind where it has none.
fn complete_arrays(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    for (name, value) in keywords.iter_mut() {
        match (name.as_str(), value) {
            (
                "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions",
                Value::Object(named),
            ) => named.values_mut().for_each(complete_arrays),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(complete_arrays);
            }
            (
                "items"
                | "additionalProperties"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties",
                schema,
            ) => complete_arrays(schema),
            _ => {}
        }
    }
    let is_array = match keywords.get("type") {
        Some(Value::Array(names)) => names.iter().any(|name| name == "array"),
        Some(name) => name == "array",
        None => false,
    };
    if is_array && !keywords.contains_key("items") {
        keywords.insert("items".to_owned(), json!({}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts what becomes of parameters, and what is left out of them.
    fn assert_parameters(cases: &[(Value, Value, &[&str])]) {
        for (schema, expected, dropped) in cases {
            let found = parameters(schema);
            assert_eq!(found.schema, *expected, "{schema}");
            let left_out: Vec<&str> =
                found.dropped.iter().map(|left| left.keyword.as_str()).collect();
            assert_eq!(left_out, *dropped, "{schema}");
            assert_eq!(parameters(&found.schema).schema, *expected, "{schema}");
        }
    }

    #[test]
    fn the_root_becomes_a_plain_object() {
        let text = json!({"type": "string"});
        let number = json!({"type": "number"});
        let cases: [(Value, Value, &[&str]); 9] = [
            (
                json!({"type": "object", "properties": {"b": text, "a": number},
                    "required": ["b"], "additionalProperties": true}),
                json!({"type": "object", "properties": {"b": text, "a": number},
                    "required": ["b"], "additionalProperties": true}),
                &[],
            ),
            (json!({}), json!({"type": "object", "properties": {}}), &[]),
            (json!(true), json!({"type": "object", "properties": {}}), &[]),
            (
                json!({"type": ["object", "null"], "enum": [null], "not": {"required": ["a"]}}),
                json!({"type": "object", "properties": {}}),
                &["enum", "not"],
            ),
            (
                json!({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object",
                    "properties": {"a": {"$ref": "#/$defs/A"}}}}}),
                json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}},
                    "$defs": {"A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}}}),
                &[],
            ),
            (
                json!({"allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": text},
                    "required": ["b"], "additionalProperties": false}],
                    "$defs": {"A": {"type": "object", "properties": {"a": text}, "required": ["a"]}}}),
                json!({"type": "object", "properties": {"a": text, "b": text},
                    "required": ["a", "b"], "additionalProperties": false,
                    "$defs": {"A": {"type": "object", "properties": {"a": text}, "required": ["a"]}}}),
                &[],
            ),
            (
                json!({"allOf": [{"properties": {"a": text}}, {"$ref": "#/$defs/none"},
                    {"minProperties": 1}, {"minProperties": 2}]}),
                json!({"type": "object", "properties": {"a": text}, "minProperties": 2}),
                &["allOf"],
            ),
            (
                json!({"$ref": "https://example.com/s"}),
                json!({"type": "object", "properties": {}}),
                &["$ref"],
            ),
            // What stands below the root is taken as it is, but for arrays of anything.
            (
                json!({"type": "object", "properties": {
                    "a": {"oneOf": [{"type": "array"}, {"type": ["array", "null"], "items": text}]},
                    "type": {"enum": ["array"]}, "items": {"not": {"type": "array"}}}}),
                json!({"type": "object", "properties": {
                    "a": {"oneOf": [{"type": "array", "items": {}},
                        {"type": ["array", "null"], "items": text}]},
                    "type": {"enum": ["array"]},
                    "items": {"not": {"type": "array", "items": {}}}}}),
                &[],
            ),
        ];
        assert_parameters(&cases);
    }

    type Takes = fn(&Value) -> Parameters;

    #[test]
    fn providers_get_what_they_take_of_the_parameters() {
        let text = json!({"type": "string"});
        let long = "a".repeat(ANTHROPIC_NAME_CHARS_MAX + 1);
        let odd = json!({"type": "object",
            "properties": {"a.b-C_1": text, "$top": {"type": "integer"}, "f[id]": text, &long: text,
                "": text, "p": {"type": "string", "pattern": r"^\d+$"}},
            "required": ["f[id]", "p"]});
        let described = format!(
            "(also takes \"$top\": {{\"type\":\"integer\"}}, \
             also takes \"f[id]\", required: {text}, also takes {long:?}: {text}, \
             also takes \"\": {text})"
        );
        let unnamed = json!({"type": "object",
            "properties": {"a.b-C_1": text, "p": {"type": "string", "pattern": r"^\d+$"}},
            "required": ["p"], "description": described});
        let mut loose = odd.clone();
        loose["properties"]["p"] = text.clone();
        let either = json!({"type": "object", "properties": {"a": text, "b": text},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
        let plain = json!({"type": "object", "properties": {"a": text, "b": text}});
        let takers: [(Takes, &Value, &Value, &[&str]); 6] = [
            (parameters, &odd, &odd, &[]),
            (
                anthropic_parameters,
                &odd,
                &unnamed,
                &[
                    "/properties/",
                    "/properties/$top",
                    &format!("/properties/{long}"),
                    "/properties/f[id]",
                ],
            ),
            (llama_cpp_parameters, &odd, &loose, &["/properties/p/pattern"]),
            (parameters, &either, &plain, &["/anyOf"]),
            (anthropic_parameters, &either, &plain, &["/anyOf"]),
            (llama_cpp_parameters, &either, &plain, &["/anyOf"]),
        ];
        for (number, (takes, schema, expected, dropped)) in takers.into_iter().enumerate() {
            let found = takes(schema);
            assert_eq!(found.schema, *expected, "{number}");
            let place = |left: &Dropped| format!("{}/{}", left.at, left.keyword);
            assert_eq!(found.dropped.iter().map(place).collect::<Vec<_>>(), *dropped, "{number}");
            assert_eq!(takes(&found.schema).schema, *expected, "{number}");
        }
    }

    #[test]
    fn alternatives_at_the_root_become_properties() {
        let text = json!({"type": "string"});
        let number = json!({"type": "number"});
        let cases: [(Value, Value, &[&str]); 5] = [
            // At least one of two, as tools of MCP servers often say it.
            (
                json!({"type": "object", "properties": {"a": text, "b": text}, "required": ["c"],
                    "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
                json!({"type": "object", "properties": {"a": text, "b": text}, "required": ["c"]}),
                &["anyOf"],
            ),
            // One of several kinds.
            (
                json!({"oneOf": [
                    {"type": "object", "properties": {"kind": {"const": "x"}, "n": number},
                        "required": ["n", "kind"], "additionalProperties": false},
                    {"type": "object", "properties": {"kind": {"const": "y"}, "n": number},
                        "required": ["kind"], "additionalProperties": false}]}),
                json!({"type": "object", "properties": {
                    "kind": {"anyOf": [{"const": "x"}, {"const": "y"}]}, "n": number},
                    "required": ["kind"], "additionalProperties": false}),
                &["oneOf"],
            ),
            // One closed alternative does not close the others.
            (
                json!({"type": "object", "properties": {"a": text}, "required": ["a"], "oneOf": [
                    {"properties": {"a": number, "b": text}, "required": ["b", "a"],
                        "additionalProperties": false},
                    {"properties": {"c": text}, "required": ["b"]}]}),
                json!({"type": "object", "properties": {"a": text, "b": text, "c": text},
                    "required": ["a", "b"]}),
                &["oneOf"],
            ),
            // What no object can be is no alternative, and one that is not known requires nothing.
            (
                json!({"anyOf": [{"properties": {"a": text}, "required": ["a"]}, {"type": "null"}],
                    "oneOf": [{"properties": {"b": text}, "required": ["b"]}, {"$ref": "other"}]}),
                json!({"type": "object", "properties": {"a": text, "b": text}, "required": ["a"]}),
                &["anyOf", "oneOf"],
            ),
            // Alternatives of alternatives.
            (
                json!({"anyOf": [{"$ref": "#/$defs/U"}, {"required": ["a"]}],
                    "$defs": {"U": {"oneOf": [{"properties": {"a": text}, "required": ["a"]},
                        {"properties": {"a": number}, "required": ["a"]}]}}}),
                json!({"type": "object",
                    "properties": {"a": {"anyOf": [text, number]}}, "required": ["a"],
                    "$defs": {"U": {"oneOf": [{"properties": {"a": text}, "required": ["a"]},
                        {"properties": {"a": number}, "required": ["a"]}]}}}),
                &["anyOf"],
            ),
        ];
        assert_parameters(&cases);
    }

    #[test]
    fn definitions_that_hold_each_other_have_an_end() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}),
            json!({"oneOf": [{"$ref": "#"}, {"properties": {"a": {"$ref": "#"}}}]}),
            json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}),
            json!({"anyOf": 1, "allOf": 2, "enum": 3, "properties": [], "required": 4}),
        ] {
            assert!(parameters(&schema).schema["properties"].is_object(), "{schema}");
        }
    }
}
