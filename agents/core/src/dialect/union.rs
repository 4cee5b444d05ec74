//! The schema of a reply that makes exactly one call: one alternative per tool, the answer last.

use serde_json::{Map, Value, json};
use wire::Plan;
use wire::plan::Offer;

use super::RESPOND_TO_USER;

/// Returns the schema of the actor model's reply.
///
/// `tool` precedes `arguments`, and a thought precedes both, as constrained decoding writes
/// properties in the order of the schema.
pub(super) fn of(plan: &Plan) -> Value {
    let mut definitions = Map::new();
    let mut alternatives = Vec::with_capacity(plan.tools.len() + 1);
    let thinks = plan.thinking_model().is_none();
    for (index, offer) in plan.tools.iter().enumerate() {
        let arguments = Hoist::new(index).parameters(&offer.spec.parameters, &mut definitions);
        alternatives.push(alternative(thinks, offer.spec.name.as_str(), &arguments));
    }
    alternatives.push(alternative(thinks, RESPOND_TO_USER, &answer_parameters()));
    let schema = Map::from_iter([("oneOf".to_owned(), alternatives.into())]);
    with_definitions(schema, definitions)
}

/// Returns the schema of the reply of a model that can only call one tool: its alternative alone.
pub(super) fn only(offer: &Offer) -> Value {
    let mut definitions = Map::new();
    let arguments = Hoist::new(0).parameters(&offer.spec.parameters, &mut definitions);
    match alternative(false, offer.spec.name.as_str(), &arguments) {
        Value::Object(schema) => with_definitions(schema, definitions),
        schema => schema,
    }
}

fn with_definitions(mut schema: Map<String, Value>, definitions: Map<String, Value>) -> Value {
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), definitions.into());
    }
    schema.into()
}

/// Returns the schema of the arguments of [`RESPOND_TO_USER`].
pub(super) fn answer_parameters() -> Value {
    text_parameter("answer")
}

/// Returns the schema of arguments that are one text.
pub(super) fn text_parameter(name: &str) -> Value {
    json!({
        "type": "object",
        "properties": {name: {"type": "string"}},
        "required": [name],
        "additionalProperties": false,
    })
}

fn alternative(thinks: bool, name: &str, arguments: &Value) -> Value {
    if thinks {
        json!({
            "type": "object",
            "properties": {
                "thought": {"type": "string"},
                "tool": {"const": name},
                "arguments": arguments,
            },
            "required": ["thought", "tool", "arguments"],
            "additionalProperties": false,
        })
    } else {
        json!({
            "type": "object",
            "properties": {"tool": {"const": name}, "arguments": arguments},
            "required": ["tool", "arguments"],
            "additionalProperties": false,
        })
    }
}

/// Moves the definitions of one tool to the root and points its references there.
///
/// A definition `Point` of tool 2 becomes `2-Point`, so that tools cannot take each other's; the
/// name differs in its last part because some servers tell definitions apart by that alone.
struct Hoist {
    prefix: String,
    /// A reference points into the parameters themselves, not at a definition.
    refers_to_root: bool,
}

impl Hoist {
    fn new(index: usize) -> Self {
        Self { prefix: index.to_string(), refers_to_root: false }
    }

    fn parameters(mut self, parameters: &Value, definitions: &mut Map<String, Value>) -> Value {
        let Value::Object(parameters) = parameters else {
            return json!({"type": "object", "properties": {}});
        };
        let mut own = Map::new();
        for (key, value) in parameters {
            match (key.as_str(), value) {
                // Both would change what the references in the schema are relative to.
                ("$schema" | "$id", _) => {}
                ("$defs" | "definitions", Value::Object(named)) => {
                    for (name, schema) in named {
                        let name = format!("{}-{name}", self.prefix);
                        definitions.entry(name).or_insert(self.schema(schema));
                    }
                }
                _ => {
                    own.insert(key.clone(), self.keyword(key, value));
                }
            }
        }
        if own.is_empty() {
            own = Map::from_iter([
                ("type".to_owned(), json!("object")),
                ("properties".to_owned(), json!({})),
            ]);
        }
        if !self.refers_to_root {
            return own.into();
        }
        let reference = format!("#/$defs/{}", self.prefix);
        definitions.insert(self.prefix, own.into());
        json!({ "$ref": reference })
    }

    fn schema(&mut self, schema: &Value) -> Value {
        match schema {
            Value::Object(keywords) => keywords
                .iter()
                .map(|(key, value)| (key.clone(), self.keyword(key, value)))
                .collect::<Map<_, _>>()
                .into(),
            Value::Array(schemas) => schemas.iter().map(|schema| self.schema(schema)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
        }
    }

    fn keyword(&mut self, key: &str, value: &Value) -> Value {
        match (key, value) {
            ("$ref" | "$dynamicRef", Value::String(reference)) => self.reference(reference).into(),
            // These hold values, which may look like schemas but are none.
            ("const" | "enum" | "default" | "examples" | "example", _) => value.clone(),
            // The keys of these are names, which may look like keywords but are none.
            (
                "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions",
                Value::Object(named),
            ) => named
                .iter()
                .map(|(name, schema)| (name.clone(), self.schema(schema)))
                .collect::<Map<_, _>>()
                .into(),
            _ => self.schema(value),
        }
    }

    fn reference(&mut self, reference: &str) -> String {
        let definition =
            ["#/$defs/", "#/definitions/"].into_iter().find_map(|at| reference.strip_prefix(at));
        if let Some(name) = definition {
            return format!("#/$defs/{}-{name}", self.prefix);
        }
        match reference.strip_prefix('#') {
            Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                self.refers_to_root = true;
                format!("#/$defs/{}{pointer}", self.prefix)
            }
            _ => reference.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::plan::Dialect;

    use super::super::fixture;
    use super::*;
    use crate::validate::validator;

    fn plan(parameters: &[Value]) -> Plan {
        let mut plan = fixture::plan(Dialect::Schema, true);
        plan.tools.truncate(1);
        let offer = plan.tools.remove(0);
        for (index, parameters) in parameters.iter().enumerate() {
            let mut offer = offer.clone();
            offer.spec.name = wire::Name::new(&format!("t{index}")).unwrap();
            offer.spec.parameters = parameters.clone();
            plan.tools.push(offer);
        }
        plan
    }

    #[test]
    fn there_is_one_closed_alternative_per_tool_and_the_answer_is_the_last() {
        let mut plan = plan(&[json!({"type": "object", "properties": {"a": {"type": "integer"}}})]);
        let answer = json!({
            "type": "object",
            "properties": {"answer": {"type": "string"}},
            "required": ["answer"],
            "additionalProperties": false,
        });
        let closed = |properties: Value, required: Value| {
            json!({"type": "object", "properties": properties, "required": required,
                   "additionalProperties": false})
        };
        let arguments = &plan.tools[0].spec.parameters;
        let expected = json!({"oneOf": [
            closed(json!({"tool": {"const": "t0"}, "arguments": arguments}), json!(["tool", "arguments"])),
            closed(json!({"tool": {"const": RESPOND_TO_USER}, "arguments": answer}), json!(["tool", "arguments"])),
        ]});
        // Compared as text, since the order of properties is the order of generation.
        assert_eq!(of(&plan).to_string(), expected.to_string());

        plan.thinker = None;
        let first = of(&plan)["oneOf"][0]["properties"].as_object().unwrap().clone();
        assert_eq!(first.keys().collect::<Vec<_>>(), ["thought", "tool", "arguments"]);
    }

    #[test]
    fn references_keep_their_meaning_inside_the_union() {
        let point = |kind: &str| json!({"type": "object", "properties": {"x": {"type": kind}}, "required": ["x"]});
        let plan = plan(&[
            json!({"$id": "https://example.com/a", "$defs": {"Point": point("integer")},
                   "properties": {"p": {"$ref": "#/$defs/Point"}}, "required": ["p"]}),
            json!({"definitions": {"Point": point("string"), "Path": {"type": "array", "items": {"$ref": "#/definitions/Point"}}},
                   "properties": {"p": {"$ref": "#/definitions/Path/items"}}, "required": ["p"]}),
            json!({"type": "object", "properties": {"next": {"$ref": "#"}, "v": {"type": "integer"},
                   "w": {"$ref": "#/properties/v"}}, "additionalProperties": false}),
            json!({"properties": {"const": {"$ref": "#/$defs/V"}, "$ref": {"type": "string"}},
                   "required": ["const"], "$defs": {"V": {"const": {"$ref": "#/$defs/V"}}}}),
            json!({}),
        ]);
        let schema = of(&plan);
        let validator = validator(&schema).unwrap();
        let cases = [
            ("t0", json!({"p": {"x": 1}}), true),
            ("t0", json!({"p": {"x": "1"}}), false),
            ("t1", json!({"p": {"x": "1"}}), true),
            ("t1", json!({"p": {"x": 1}}), false),
            ("t2", json!({"next": {"next": {"v": 1}}, "w": 2}), true),
            ("t2", json!({"next": {"next": {"v": "1"}}}), false),
            ("t2", json!({"w": "2"}), false),
            ("t3", json!({"const": {"$ref": "#/$defs/V"}}), true),
            ("t3", json!({"const": 1}), false),
            ("t3", json!({"const": {"$ref": "#/$defs/V"}, "$ref": 1}), false),
            ("t4", json!({}), true),
            ("t4", json!([]), false),
            ("t5", json!({}), false),
            (RESPOND_TO_USER, json!({"answer": "a"}), true),
            (RESPOND_TO_USER, json!({}), false),
        ];
        for (tool, arguments, expected) in cases {
            let call = json!({"tool": tool, "arguments": arguments});
            assert_eq!(validator.is_valid(&call), expected, "{call} by {schema}");
            // A tool that is offered alone means the same.
            let Some(offer) = plan.offer(tool) else { continue };
            let alone = only(offer);
            assert!(alone.get("oneOf").is_none() && alone["properties"]["tool"]["const"] == tool);
            let is_valid = crate::validate::validator(&alone).unwrap().is_valid(&call);
            assert_eq!(is_valid, expected, "{call} by {alone}");
        }
    }
}
