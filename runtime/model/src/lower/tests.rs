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
    let cases: [(Value, Value, &[&str]); 10] = [
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
                "properties": {"a": {"type": ["string", "integer", "null"], "enum": ["x", 1, null]},
                    "b": {"anyOf": [{"const": 1, "type": "integer"}, {"type": "null"}]},
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
            json!({"type": "object", "properties": {"a": {"type": ["object", "null"], "properties": {}},
                "b": false}, "required": ["a", "b", "c"]}),
            closed(&json!({
                "a": {"type": ["object", "null"], "properties": {}, "required": [], "additionalProperties": false},
                "b": {"type": ["string", "number", "boolean", "null"]},
                "c": {"type": ["string", "number", "boolean", "null"]}})),
            &["a value of any type", "false"],
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
fn strict_servers_get_a_type_of_every_value_and_items_of_every_array() {
    let any = json!({"type": ["string", "number", "boolean", "null"]});
    let cases: [(Value, Value, &[&str]); 19] = [
        (json!({"const": "now"}), json!({"const": "now", "type": "string"}), &[]),
        (json!({"enum": ["a", "b"]}), json!({"enum": ["a", "b"], "type": "string"}), &[]),
        (json!({"enum": [1, 0.5]}), json!({"enum": [1, 0.5], "type": ["integer", "number"]}), &[]),
        (
            json!({"enum": [true, null]}),
            json!({"enum": [true, null], "type": ["boolean", "null"]}),
            &[],
        ),
        (json!({"type": "integer", "const": 1}), json!({"type": "integer", "const": 1}), &[]),
        (json!({"enum": [["a"]]}), json!({"type": "array", "items": any}), &[ANY, "enum"]),
        (json!({"enum": []}), any.clone(), &[ANY, "enum"]),
        (
            json!({"const": {"kind": "x", "of": {"n": 1, "none": null}}}),
            closed(&json!({"kind": {"const": "x", "type": "string"},
                "of": closed(&json!({"n": {"const": 1, "type": "integer"},
                    "none": {"const": null, "type": "null"}}))})),
            &[],
        ),
        (
            json!({"type": ["object", "string"], "enum": [{"a": 1}, "b"]}),
            json!({"anyOf": [closed(&json!({"a": {"const": 1, "type": "integer"}})),
                {"const": "b", "type": "string"}]}),
            &[],
        ),
        (json!({"type": "array"}), json!({"type": "array", "items": any}), &[ANY]),
        (
            json!({"type": ["array", "null"], "items": true}),
            json!({"type": ["array", "null"], "items": any}),
            &[ANY],
        ),
        (
            json!({"items": {"type": "string"}}),
            json!({"type": "array", "items": {"type": "string"}}),
            &[],
        ),
        (json!({"minimum": 1}), json!({"type": "number", "minimum": 1}), &[]),
        (json!({"minLength": 1}), json!({"type": "string"}), &["minLength"]),
        (
            json!({"minLength": 1, "minimum": 1}),
            json!({"minimum": 1, "type": any["type"]}),
            &[ANY, "minLength"],
        ),
        (json!({"description": "d"}), json!({"description": "d", "type": any["type"]}), &[ANY]),
        (
            json!({"type": "string", "format": "date-time"}),
            json!({"type": "string", "format": "date-time"}),
            &[],
        ),
        (json!({"type": "string", "format": "uri"}), json!({"type": "string"}), &["format"]),
        (json!({"format": "int64", "type": "integer"}), json!({"type": "integer"}), &["format"]),
    ];
    for (schema, expected, dropped) in cases {
        let root = json!({"type": "object", "properties": {"a": schema}, "required": ["a"]});
        let (found, _, left_out) = lowered(Target::OpenAiStrict, &root);
        assert_eq!(found["properties"]["a"], expected, "{schema}");
        assert_eq!(left_out, dropped, "{schema}");
    }
}

/// What is said of a place at which anything may stand.
const ANY: &str = "a value of any type";

#[test]
fn what_all_have_to_fit_is_made_one_before_objects_are_closed() {
    let text = json!({"type": "string"});
    let whole = json!({"type": "integer"});
    let definitions =
        json!({"A": {"type": "object", "properties": {"a": text}, "required": ["a"]}});
    let both = closed(&json!({"a": text, "b": whole}));
    let cases: [(Value, Value, &[&str]); 12] = [
        (
            json!({"allOf": [
                {"type": "object", "properties": {"a": text}, "required": ["a"]},
                {"type": "object", "properties": {"b": whole}, "required": ["b", "a"],
                    "additionalProperties": false}]}),
            both.clone(),
            &[],
        ),
        (
            json!({"type": "object", "properties": {"a": text}, "required": ["a", "b"],
                "allOf": [{"properties": {"b": {"type": "number"}}},
                    {"allOf": [{"properties": {"b": whole}}]}]}),
            both.clone(),
            &[],
        ),
        // A base and what is added to it, as OpenAPI says it.
        (
            json!({"allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": whole}, "required": ["b"]}]}),
            both.clone(),
            &[],
        ),
        (
            json!({"properties": {"b": whole}, "required": ["b"], "allOf": [{"$ref": "#/$defs/A"}]}),
            both.clone(),
            &[],
        ),
        (json!({"allOf": [{"$ref": "#/$defs/A"}]}), json!({"$ref": "#/$defs/A"}), &[]),
        (
            json!({"allOf": [{"type": "string"}, {"enum": ["a"]}]}),
            json!({"type": "string", "enum": ["a"]}),
            &[],
        ),
        (
            json!({"allOf": [{"type": "string"}, {"type": "integer"}, {"enum": ["a"]}]}),
            json!({"type": "string", "enum": ["a"]}),
            &["allOf"],
        ),
        (
            json!({"allOf": [{"type": "string", "enum": ["a", "b"]}, {"enum": ["c", "b"]}]}),
            json!({"type": "string", "enum": ["b"]}),
            &[],
        ),
        (
            json!({"allOf": [{"type": "string", "enum": ["a"]}, {"enum": ["c"]}]}),
            json!({"type": "string", "enum": ["a"]}),
            &["allOf"],
        ),
        (
            json!({"allOf": [{"type": "array", "items": text, "minItems": 0},
                {"minItems": 1}, {"minItems": 0}]}),
            json!({"type": "array", "items": text, "minItems": 1}),
            &[],
        ),
        // Alternatives are told apart by what stands beside them, too.
        (
            json!({"type": "object", "allOf": [{"properties": {"a": text}, "required": ["a"]}],
                "anyOf": [{"required": ["b"], "properties": {"b": whole}},
                    {"properties": {"a": {"const": "x"}}}]}),
            json!({"anyOf": [both.clone(), closed(&json!({"a": {"type": "string", "const": "x"}}))]}),
            &[],
        ),
        (
            json!({"type": "object", "oneOf": [{"$ref": "#/$defs/A"},
                {"properties": {"b": whole}, "required": ["b"]}]}),
            json!({"anyOf": [{"$ref": "#/$defs/A"}, closed(&json!({"b": whole}))]}),
            &[],
        ),
    ];
    for (schema, expected, dropped) in cases {
        for target in [Target::OpenAiStrict, Target::Anthropic] {
            let root = json!({"type": "object", "properties": {"p": schema}, "required": ["p"],
                "$defs": definitions});
            let (mut found, _, left_out) = lowered(target, &root);
            let found = found["properties"]["p"].take();
            assert_eq!(sorted(found), sorted(expected.clone()), "{target:?} {schema}");
            assert_eq!(left_out, dropped, "{target:?} {schema}");
        }
    }
}

/// Returns a schema with what is required in the order of the alphabet.
fn sorted(mut schema: Value) -> Value {
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.sort_by_key(Value::to_string);
    }
    match &mut schema {
        Value::Object(keywords) => {
            for value in keywords.values_mut() {
                *value = sorted(value.take());
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(|value| *value = sorted(value.take())),
        _ => {}
    }
    schema
}

#[test]
fn schemas_inside_each_other_have_an_end() {
    let union = |inner: Value| json!({"type": "object", "oneOf": [inner, {"required": ["a"]}]});
    let all = |inner: Value| json!({"minProperties": 1, "allOf": [inner, {"$ref": "#/$defs/A"}]});
    let property = |inner: Value| json!({"properties": {"a": inner}, "$ref": "#/$defs/A"});
    let wraps: [&dyn Fn(Value) -> Value; 3] = [&union, &all, &property];
    for wrap in wraps {
        let reference = |depth: usize| json!({"$ref": format!("#/$defs/D{depth}"), "minLength": 1});
        let deep = |last: Value| (0..40).fold(last, |inner, _| wrap(inner));
        let definitions = (0..20_usize).map(|n| (format!("D{n}"), deep(reference((n + 1) % 20))));
        let mut schema = deep(reference(0));
        schema["$defs"] = definitions.collect::<Map<_, _>>().into();
        schema["$defs"]["A"] = json!({"type": "object", "properties": {"b": {}}});
        for target in [Target::OpenAiStrict, Target::Anthropic, Target::LlamaCpp] {
            let length = lower(&schema, target).schema.to_string().len();
            assert!(length < 20 * schema.to_string().len(), "{target:?} {length}");
        }
        assert!(parameters(&schema).schema["properties"].is_object());
    }
}

#[test]
fn alternatives_inside_what_stands_beside_others_are_not_copied_without_end() {
    let deep = (0..30).fold(json!({"type": "string"}), |inner, _| {
        json!({"type": "object", "properties": {"a": inner}, "required": ["a"],
            "anyOf": [{"properties": {"b": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]})
    });
    for target in [Target::OpenAiStrict, Target::Anthropic, Target::LlamaCpp] {
        let (found, _, dropped) = lowered(target, &deep);
        let limit = DIVISIONS_MAX * deep.to_string().len();
        assert!(found.to_string().len() < limit, "{target:?}");
        assert_eq!(dropped, ["anyOf"], "{target:?}");
    }
}

#[test]
fn alternatives_that_are_taken_as_they_are_may_be_many() {
    let alternatives = vec![json!({"$ref": "#/$defs/A"}); DIVISIONS_MAX + 1];
    let union = json!({"type": "object", "oneOf": alternatives});
    let schema = json!({"type": "object", "properties": {"a": union}, "required": ["a"],
        "$defs": {"A": {"type": "object", "properties": {}}}});
    for target in [Target::OpenAiStrict, Target::Anthropic] {
        let (found, _, dropped) = lowered(target, &schema);
        let kept = found["properties"]["a"]["anyOf"].as_array().map(Vec::len);
        assert_eq!((kept, dropped), (Some(DIVISIONS_MAX + 1), vec![]), "{target:?}");
    }
}

#[test]
fn references_lead_somewhere_in_what_is_taken_apart() {
    let tree = json!({"oneOf": [{"type": "null"},
        {"type": "object", "properties": {"next": {"$ref": "#"}, "at": {"type": "number"},
            "to": {"$ref": "#/oneOf/1/properties/at"}}}]});
    for target in [Target::OpenAiStrict, Target::Anthropic, Target::LlamaCpp] {
        let Lowered { schema, .. } = lower(&tree, target);
        let text = schema.to_string();
        let references: Vec<&str> = text.split("\"$ref\":\"#").skip(1).collect();
        assert!(references.len() >= 2, "{target:?} {text}");
        for reference in references {
            let path = reference.split('"').next().unwrap();
            assert!(path.starts_with("/$defs/"), "{target:?} {path}");
            assert!(schema.pointer(path).is_some(), "{target:?} {path} {text}");
        }
    }
}

#[test]
fn no_reference_is_followed_into_itself() {
    let schema = json!({"$ref": "#/$defs/A", "$defs": {
        "A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A", "minProperties": 1},
            "b": {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}}, "required": ["a", "b"]},
        "B": {"type": "object", "properties": {"c": {"allOf": [{"$ref": "#/$defs/A"},
            {"$ref": "#/$defs/B"}]}}}}});
    for target in [Target::OpenAiStrict, Target::Anthropic] {
        let lowered = lower(&schema, target);
        assert!(lowered.schema.to_string().len() < 10_000, "{target:?}");
        assert!(!lowered.dropped.is_empty(), "{target:?}");
        let inner = &lowered.schema["$defs"]["A"]["properties"]["a"];
        match target {
            Target::OpenAiStrict => {
                assert_eq!(inner["properties"]["a"], json!({"$ref": "#/$defs/A"}));
            }
            // A request with a circle in it is refused.
            _ => assert_eq!(inner["type"], "string"),
        }
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
fn strict_servers_get_no_pattern_that_looks_around() {
    for (pattern, is_kept) in [
        ("^[a-z]+$", true),
        ("^(?:a|b)$", true),
        ("(?<year>[0-9]{4})", true),
        (r"^(?!\.)(?!.*\.\.)[a-z.]+$", false),
        ("^(?=a)b$", false),
        ("(?<=a)b", false),
        ("(?<!a)b", false),
    ] {
        let schema = json!({"type": "object", "additionalProperties": false,
            "properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]});
        let (found, _, dropped) = lowered(Target::OpenAiStrict, &schema);
        assert_eq!(found["properties"]["a"].get("pattern").is_some(), is_kept, "{pattern}");
        assert_eq!(dropped.is_empty(), is_kept, "{pattern}");
    }
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
        {"type": "string", "enum": ["a"]}]});
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
        json!({"$ref": 1, "required": ["a"]}),
        json!({"allOf": 1, "oneOf": 1, "type": "object", "items": 1}),
        json!({"allOf": [{"$ref": "#"}, {"type": "object"}]}),
    ] {
        for target in [Target::OpenAiStrict, Target::Anthropic, Target::LlamaCpp] {
            assert!(lower(&schema, target).schema.is_object(), "{schema}");
        }
    }
}
