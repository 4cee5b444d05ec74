//! Schemas, and what each provider gets of them.

use super::*;

fn lowered(target: Target, schema: &Value) -> (Value, bool, Vec<String>) {
    let Lowered { schema, wrapped, dropped } = lower(schema, target);
    let keywords: BTreeSet<String> = dropped.into_iter().map(|left| left.keyword).collect();
    (schema, wrapped, keywords.into_iter().collect())
}

fn closed(properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
    json!({"type": "object", "properties": properties, "required": required,
        "additionalProperties": false})
}

#[test]
fn strict_servers_get_closed_objects_with_everything_required() {
    let cases: [(Value, Value, &[&str]); 9] = [
        (
            json!({"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}},
                "required": ["b"]}),
            closed(&json!({"b": {"type": "string"}, "a": {"type": ["integer", "null"]}})),
            &[],
        ),
        (
            json!({"type": "object", "properties": {"a": {"enum": ["x", 1]}, "b": {"const": 1},
                "c": {"$ref": "#/$defs/C", "description": "d"}, "d": {"type": ["string", "null"]}},
                "$defs": {"C": {"type": "object", "properties": {}}}}),
            json!({"type": "object",
                "properties": {"a": {"enum": ["x", 1, null]},
                    "b": {"anyOf": [{"const": 1}, {"type": "null"}]},
                    "c": {"anyOf": [{"$ref": "#/$defs/C"}, {"type": "null"}]},
                    "d": {"type": ["string", "null"]}},
                "$defs": {"C": closed(&json!({}))},
                "required": ["a", "b", "c", "d"], "additionalProperties": false}),
            &[],
        ),
        (
            json!({"type": "object", "properties": {"a": {"oneOf": [{"type": "string", "minLength": 2}, {"type": "array", "items": {"type": "number"}, "uniqueItems": true}]}},
                "required": ["a"]}),
            closed(
                &json!({"a": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]}}),
            ),
            &["minLength", "uniqueItems"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"allOf": [{"$ref": "#/$defs/A"}]}},
                "required": ["a"], "$defs": {"A": {"type": "string"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}},
                "required": ["a"], "additionalProperties": false}),
            &[],
        ),
        (
            json!({"type": "object", "properties": {"a": true, "b": {}}, "required": ["a", "b"]}),
            closed(&json!({"a": {"type": ["string", "number", "boolean", "null"]},
                "b": {"type": ["string", "number", "boolean", "null"]}})),
            &["a value of any type"],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false}),
            &["additionalProperties"],
        ),
        (
            json!({"title": "T", "default": {}, "$schema": "s", "type": "object", "properties": {}}),
            json!({"title": "T", "type": "object", "properties": {}, "required": [], "additionalProperties": false}),
            &[],
        ),
        (
            json!({"type": "object", "properties": {"properties": {"type": "string"}, "oneOf": {"type": "null"}},
                "required": ["properties", "oneOf"]}),
            closed(&json!({"properties": {"type": "string"}, "oneOf": {"type": "null"}})),
            &[],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
                "not": {"const": 1}, "if": {}, "then": {}}),
            closed(&json!({"a": {"type": "string"}})),
            &["if", "not", "then"],
        ),
    ];
    for (schema, expected, dropped) in cases {
        let (found, wrapped, left_out) = lowered(Target::OpenAiStrict, &schema);
        assert_eq!(found, expected, "{schema}");
        assert!(!wrapped, "{schema}");
        assert_eq!(left_out, dropped, "{schema}");
    }
}

#[test]
fn a_root_that_strict_servers_refuse_is_wrapped() {
    let text = json!({"type": "string"});
    let definitions = json!({"A": text});
    for (schema, inner, hoisted) in [
        (
            json!({"oneOf": [text, {"type": "null"}]}),
            json!({"anyOf": [text, {"type": "null"}]}),
            None,
        ),
        (json!({"type": "array", "items": text}), json!({"type": "array", "items": text}), None),
        (
            json!({"$ref": "#/$defs/A", "$defs": definitions}),
            json!({"$ref": "#/$defs/A"}),
            Some(&definitions),
        ),
    ] {
        let (found, wrapped, _) = lowered(Target::OpenAiStrict, &schema);
        let mut expected = closed(&json!({"reply": inner}));
        if let Some(definitions) = hoisted {
            expected["$defs"] = definitions.clone();
        }
        assert_eq!((found, wrapped), (expected, true), "{schema}");
    }
}

#[test]
fn alternatives_beside_properties_take_them_over() {
    let schema = json!({"type": "object", "description": "d", "properties": {"id": {"type": "string"}},
        "required": ["id"], "oneOf": [
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {"type": "string"}}, "required": ["b", "id"]}]});
    let alternative = |name: &str, kind: &str, order: [&str; 2]| {
        json!({"type": "object", "properties": {"id": {"type": "string"}, name: {"type": kind}},
            "required": order})
    };
    let expected = json!({"description": "d", "oneOf":
        [alternative("a", "integer", ["id", "a"]), alternative("b", "string", ["id", "b"])]});
    assert_eq!(lowered(Target::LlamaCpp, &schema), (expected, false, vec![]));
    let opaque = json!({"type": "object", "properties": {"id": {"type": "string"}},
        "anyOf": [{"$ref": "#/$defs/A"}]});
    let expected = json!({"type": "object", "properties": {"id": {"type": "string"}}});
    assert_eq!(lowered(Target::LlamaCpp, &opaque), (expected, false, vec!["anyOf".to_owned()]));
}

#[test]
fn llama_cpp_gets_what_it_makes_a_good_grammar_of() {
    for (keyword, value, kept) in [
        ("pattern", json!("^[a-z]+(-[0-9]{1,3})?$"), true),
        ("pattern", json!(r"^a\.b$"), true),
        ("pattern", json!("[a-z]+"), false),
        ("pattern", json!(r"^\d+$"), false),
        ("pattern", json!("^(?=a)b$"), false),
        ("pattern", json!(r"^a\$"), false),
        ("pattern", json!("^é(ü"), false),
        ("maxLength", json!(1000), true),
        ("maxLength", json!(2000), false),
        ("minLength", json!(3), true),
        ("maxItems", json!(5000), false),
        ("uniqueItems", json!(true), false),
        ("multipleOf", json!(2), false),
        ("format", json!("date-time"), true),
        ("minimum", json!(1), true),
        ("const", json!({"oneOf": 1}), true),
        ("x-own", json!(1), false),
    ] {
        let mut schema = json!({"type": "string", "description": "d"});
        schema[keyword] = value.clone();
        let (found, _, dropped) = lowered(Target::LlamaCpp, &schema);
        assert_eq!(found.get(keyword), kept.then_some(&value), "{keyword} {value}");
        assert_eq!(dropped.is_empty(), kept, "{keyword} {value}");
        assert_eq!(found["description"], "d");
    }
    let union = json!({"oneOf": [{"type": "object", "additionalProperties": {"type": "string", "maxLength": 9999}}]});
    let expected =
        json!({"oneOf": [{"type": "object", "additionalProperties": {"type": "string"}}]});
    assert_eq!(lowered(Target::LlamaCpp, &union).0, expected);
}

#[test]
fn anthropic_reads_in_words_what_it_does_not_take() {
    let schema = json!({"oneOf": [
        {"type": "object", "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 9, "description": "a number"},
            "s": {"type": "string", "format": "email", "pattern": "x"},
            "t": {"type": "string", "format": "regex"},
            "l": {"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 2}}},
            "required": ["n"], "additionalProperties": true},
        {"allOf": [{"type": "string"}, {"enum": ["a"]}]}]});
    let (found, wrapped, dropped) = lowered(Target::Anthropic, &schema);
    let expected = json!({"anyOf": [
        {"type": "object", "properties": {
            "n": {"type": "integer", "description": "a number (minimum: 1, maximum: 9)"},
            "s": {"type": "string", "format": "email", "description": "(pattern: \"x\")"},
            "t": {"type": "string", "description": "(format: \"regex\")"},
            "l": {"type": "array", "minItems": 1,
                "items": {"type": "array", "description": "(minItems: 2)"}}},
            "required": ["n"], "additionalProperties": false,
            "description": "(additionalProperties: true)"},
        {"allOf": [{"type": "string"}, {"enum": ["a"]}]}]});
    assert_eq!(found, expected);
    assert!(!wrapped);
    assert_eq!(
        dropped,
        ["additionalProperties", "format", "maximum", "minItems", "minimum", "pattern"]
    );
}

#[test]
fn what_is_left_out_comes_with_its_place() {
    let schema = json!({"type": "object", "minProperties": 1, "title": "T", "properties": {
            "a/b": {"type": "string", "pattern": "x"},
            "list": {"type": "array", "items": {"anyOf": [{"type": "null"}, {"uniqueItems": true}]}}},
        "$defs": {"D": {"not": {}}}});
    let places: Vec<String> = lower(&schema, Target::LlamaCpp)
        .dropped
        .into_iter()
        .map(|Dropped { at, keyword }| format!("{at} {keyword}"))
        .collect();
    assert_eq!(
        places,
        [
            " minProperties",
            "/$defs/D not",
            "/properties/a~1b pattern",
            "/properties/list/items/anyOf/1 uniqueItems",
        ]
    );
}

#[test]
fn any_value_is_lowered_to_some_schema() {
    for schema in [
        json!(null),
        json!(false),
        json!(7),
        json!([]),
        json!({"properties": 1}),
        json!({"oneOf": 1, "properties": {}}),
        json!({"allOf": [1]}),
        json!({"required": 1, "type": "object"}),
        json!({"items": [1], "$defs": []}),
        json!({"anyOf": [], "type": 5}),
        json!({"$ref": 1}),
    ] {
        for target in [Target::OpenAiStrict, Target::Anthropic, Target::LlamaCpp] {
            assert!(lower(&schema, target).schema.is_object(), "{schema}");
        }
    }
}
