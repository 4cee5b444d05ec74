//! Arguments against mutated schemas, and grammars made of such schemas.

use std::sync::Arc;

use agents_core::dialect::{read, toolbox};
use agents_core::grammar::{TEXT_BYTES_MAX, to_gbnf};
use agents_core::validate::{Catalogue, faults, validator};
use serde_json::{Map, Value, json};
use wire::plan::Dialect;
use wire::{FinishReason, ModelRole, Reading, ToolCall};

use crate::agent;
use crate::mutate::{self, Input};
use crate::rng::Rng;

/// The most mutations of one schema.
const MUTATIONS_MAX: u64 = 4;

const KEYWORDS: &[&str] = &[
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "$ref",
    "$defs",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "multipleOf",
    "pattern",
    "format",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "uniqueItems",
    "if",
    "then",
    "else",
    "$schema",
    "$id",
    "default",
    "nullable",
    "a",
    "city",
    "~/%",
];

/// Returns a value that may stand beside some keyword.
fn value(rng: &mut Rng, whole: &Value) -> Value {
    let values = [
        json!("string"),
        json!("integer"),
        json!("number"),
        json!("boolean"),
        json!("array"),
        json!("object"),
        json!("null"),
        json!(["string", "null"]),
        json!(["city", "a"]),
        json!({}),
        json!([]),
        json!(true),
        json!(false),
        json!(null),
        json!(0),
        json!(-1),
        json!(7),
        json!(1001),
        json!(1e300),
        json!(u64::MAX),
        json!(0.1),
        json!("^[a-z]{1,3}$"),
        json!("^(a+)+$"),
        json!("("),
        json!("^\\d{2,1000}$"),
        json!("#"),
        json!("#/properties/a"),
        json!("#/$defs/a"),
        json!("https://json-schema.org/draft/2020-12/schema"),
        json!("http://json-schema.org/draft-07/schema#"),
        json!("http://127.0.0.1:1/x"),
        json!([{"type": "string"}, {"type": "integer"}]),
        json!({"a": {"$ref": "#"}}),
        json!({"a": {"type": "integer"}, "city": {"type": "string"}}),
        json!("date-time"),
        json!([{"$ref": "#"}, {"type": "null"}]),
        json!("é\"\\\n"),
    ];
    match rng.below(10) {
        0 => {
            // A part of the schema itself.
            let mut copy = whole.clone();
            let mut part = Value::Null;
            mutate::node(rng, &mut copy, &mut |_, node| part = node.clone());
            part
        }
        1 => {
            let levels = usize::try_from(rng.below(130)).unwrap();
            let key = *rng.pick(&["items", "not", "additionalProperties"]);
            (0..levels).fold(json!({"type": "string"}), |inner, _| {
                Map::from_iter([(key.to_owned(), inner)]).into()
            })
        }
        _ => rng.pick(&values).clone(),
    }
}

fn mutated(rng: &mut Rng, mut schema: Value) -> Value {
    for _ in 0..rng.below(MUTATIONS_MAX + 1) {
        let new = value(rng, &schema);
        mutate::node(rng, &mut schema, &mut |rng, node| match (rng.below(4), &mut *node) {
            (0 | 1, Value::Object(map)) => {
                map.insert((*rng.pick(KEYWORDS)).to_owned(), new.clone());
            }
            (2, _) => {
                let key = *rng.pick(&["anyOf", "oneOf", "allOf"]);
                *node = json!({key: [node.clone(), new.clone()]});
            }
            (_, _) => *node = new.clone(),
        });
    }
    schema
}

/// Makes a schema, and arguments that may have once been right.
pub(crate) fn input(rng: &mut Rng) -> Input {
    let tools = agent::tools();
    let (_, schema) = rng.pick(&tools).clone();
    let schema = mutated(rng, schema);
    let arguments = [
        r#"{"city": "Oslo"}"#,
        r#"{"numbers": [1, "2", 3.5], "a": "4", "b": null}"#,
        r#"{"text": "x", "tag": "[\"a\", \"{\\\"k\\\": [1]}\"]", "pin": "true"}"#,
        "{}",
        r#""{\"city\": \"Oslo\"}""#,
    ];
    let text = (*rng.pick(&arguments)).to_owned();
    let text = mutate::mutated(rng, text);
    Input { text, choice: rng.below(2), schema }
}

/// Reads arguments that the provider reports: what may run is valid, whatever the schema says.
pub(crate) fn arguments(input: &Input) {
    let mut plan = agent::plan(Dialect::Native, vec![("weather", input.schema.clone())]);
    plan.coerce = input.choice == 0;
    let catalogue = Catalogue::new(Arc::new(plan));
    let call =
        ToolCall { id: "1".to_owned(), name: "weather".to_owned(), arguments: input.text.clone() };
    let reply = agent::reply(FinishReason::ToolCalls, "", vec![call]);
    let reading = read(ModelRole::Actor, &catalogue, None, &reply);
    assert_eq!(reading, read(ModelRole::Actor, &catalogue, None, &reply), "it is read in two ways");
    let Reading::Calls { calls, .. } = reading.reading else {
        panic!("a call is no call: {reading:?}")
    };
    for call in calls {
        match (call.fault, validator(&input.schema)) {
            (None, Ok(validator)) => {
                let found = faults(&validator, &call.arguments);
                assert!(found.is_empty() && call.arguments.is_object(), "{found:?}");
            }
            (None, Err(fault)) => panic!("a call runs although {fault}"),
            (Some(feedback), _) => assert!(!feedback.faults.is_empty(), "a fault says nothing"),
        }
    }
}

/// Makes a grammar of a schema, and a list of tools that has it.
pub(crate) fn grammar(input: &Input) {
    let written = to_gbnf(&input.schema);
    assert_eq!(written, to_gbnf(&input.schema), "it is written in two ways");
    match written {
        Ok(text) => {
            assert!(text.starts_with("root ::=") || text.contains("\nroot ::="), "{text}");
            assert!(text.len() <= TEXT_BYTES_MAX, "it has {} bytes", text.len());
        }
        Err(error) => assert!(!error.to_string().is_empty(), "an error says nothing"),
    }
    let tools = json!([{"function": {"name": "weather", "parameters": input.schema}}]);
    assert!(
        toolbox(&tools.to_string()).is_ok() || depth(&tools) > 120,
        "a list of tools is refused"
    );
    // A damaged list is refused or read, and that is all.
    drop(toolbox(&input.text));
}

fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(map) => map.values().map(depth).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return 0,
    };
    1 + below.unwrap_or_default()
}
