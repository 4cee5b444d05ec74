//! Schemas that have no grammar, with the place and the reason.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::{DEPTH_MAX, GrammarError, to_gbnf};

fn error(schema: &Value) -> String {
    match to_gbnf(schema) {
        Ok(text) => panic!("{schema} has a grammar:\n{text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_cannot_be_expressed_is_named_with_its_place() {
    let property = |schema: Value| json!({"type": "object", "properties": {"a/b": schema}});
    let cases = [
        (json!({"type": "string", "pattern": "^a$", "minLength": 1}), "minLength"),
        (json!({"type": "string", "maxLength": 1001}), "maxLength above 1000"),
        (json!({"type": "array", "items": {"type": "null"}, "maxItems": 5000}), "maxItems above"),
        (json!({"type": "array", "uniqueItems": true}), "uniqueItems"),
        (json!({"type": "array", "prefixItems": [true]}), "prefixItems"),
        (json!({"type": "array", "contains": {}}), "contains"),
        (json!({"type": "number", "multipleOf": 0.5}), "multipleOf"),
        (json!({"type": "integer", "multipleOf": 2}), "multipleOf"),
        (json!({"type": "number", "minimum": 0.25}), "the bound 0.25"),
        (json!({"type": "object", "patternProperties": {"^a": true}}), "patternProperties"),
        (json!({"type": "object", "propertyNames": {"maxLength": 3}}), "propertyNames"),
        (json!({"type": "object", "minProperties": 2}), "minProperties"),
        (json!({"type": "object", "dependentRequired": {"a": ["b"]}}), "dependentRequired"),
        (json!({"not": {"type": "null"}}), "not cannot"),
        (json!({"if": {"type": "null"}, "then": true}), "if cannot"),
        (json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}), "may hold at once"),
        (json!({"oneOf": [{"type": "object"}, {"type": "object"}]}), "may hold at once"),
        (json!({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}), "pattern in several parts"),
        (json!({"type": "date"}), "type is not valid"),
        (json!({"type": "string", "minLength": -1}), "minLength is not valid"),
        (json!({"properties": [1]}), "properties is not valid"),
        (json!({"$ref": "#/$defs/none"}), "nothing stands at \"#/$defs/none\""),
        (json!({"$ref": "https://example.com/schema"}), "nothing stands at"),
        (json!(7), "a schema that is no object"),
        (json!({"type": "string", "minLength": 3, "maxLength": 2}), "no value is valid"),
        (json!({"type": "integer", "minimum": 3, "maximum": 2}), "no value is valid"),
        (json!({"enum": []}), "no value is valid"),
        (json!({"type": "object", "required": ["x"], "additionalProperties": false}), "no value"),
        (json!({"allOf": [{"type": "null"}, {"type": "string"}]}), "no value is valid"),
    ];
    for (schema, expected) in cases {
        let text = error(&schema);
        assert!(text.contains(expected), "{schema}: {text}");
        let text = error(&json!({"type": "array", "minItems": 1, "items": schema}));
        assert!(text.contains("the schema at /items"), "{text}");
    }
    let unsupported = property(json!({"type": "string", "pattern": "a"}));
    assert_eq!(
        error(&unsupported),
        "make a grammar of the schema at /properties/a~1b: the pattern a cannot be expressed; leave it \
         out and check the reply against the whole schema"
    );
}

#[test]
fn patterns_that_cannot_be_said_are_refused() {
    let patterns = [
        "a",
        "^a",
        "a$",
        "^a|b$",
        "^.$",
        "^[^a]$",
        "^\\s$",
        "^\\\\$",
        "^\"$",
        "^[!-~]$",
        "^[A-z]$",
        "^(?=a)a$",
        "^(?i:a)$",
        "^a+?$",
        "^(a*)*$",
        "^a{2,1}$",
        "^a{9999}$",
        "^(a$",
        "^a)$",
        "^[a$",
        "^\\b$",
        "^\\1$",
        "^\\p{L}$",
        "^a^$",
        "^[[:alpha:]]$",
        "^[]a]$",
        "^\\$",
        "^a{,2}$",
    ];
    for pattern in patterns {
        let text = error(&json!({"type": "string", "pattern": pattern}));
        assert!(text.contains("the pattern"), "{text}");
    }
    let groups = format!("^{}a{}$", "(".repeat(1000), ")".repeat(1000));
    assert!(error(&json!({"type": "string", "pattern": groups})).contains("the pattern"));
}

#[test]
fn keywords_that_change_nothing_are_passed_over() {
    for schema in [
        json!({"type": "integer", "pattern": "a", "maxLength": 3, "uniqueItems": true}),
        json!({"type": "string", "format": "date", "title": "t", "default": 1, "x-own": {}}),
        json!({"type": "null", "$schema": "s", "$id": "i", "$comment": "c", "examples": [1]}),
    ] {
        to_gbnf(&schema).unwrap();
    }
}

#[test]
fn values_without_an_end_are_refused() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
        json!({"type": "array", "items": {"$ref": "#"}, "minItems": 1}),
        json!({"anyOf": [{"$ref": "#"}, {"type": "null"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    ] {
        let result = to_gbnf(&schema);
        assert!(matches!(result, Err(GrammarError::Endless { .. })), "{schema}: {result:?}");
    }
}

#[test]
fn growth_is_bounded() {
    let deep =
        (0..=DEPTH_MAX).fold(json!(true), |items, _| json!({"type": "array", "items": items}));
    assert!(error(&deep).contains("levels"));

    let circle = json!({"allOf": [{"$ref": "#"}]});
    assert!(error(&circle).contains("levels"));

    // Each definition takes in the next one twice.
    let mut doubling = String::new();
    for index in 0..20 {
        let next = json!({"$ref": format!("#/$defs/{}", index + 1)});
        write!(doubling, "\"{index}\":{},", json!({"allOf": [next, next]})).unwrap();
    }
    let text = format!(r##"{{"$ref":"#/$defs/0","$defs":{{{doubling}"20":{{"type":"null"}}}}}}"##);
    assert!(error(&serde_json::from_str(&text).unwrap()).contains("subschemas"));

    let many: Vec<Value> = (0..5000).map(|n| json!({"type": "integer", "minimum": n})).collect();
    assert!(
        error(&json!({"anyOf": [{"type": "array", "items": {"anyOf": many}}]}))
            .contains("more than")
    );
    let long: Vec<String> = (0..100).map(|n| format!("{n}{}", "x".repeat(3000))).collect();
    assert!(error(&json!({"enum": long})).contains("bytes of grammar"));
}
