//! Every form of schema with texts that its grammar accepts and refuses.

use serde_json::{Value, json};

use super::super::to_gbnf;
use super::arbitrary::Random;
use super::gbnf::Grammar;
use crate::validate::validator;

/// A schema, then what is accepted, then what is refused.
type Case = (Value, &'static [&'static str], &'static [&'static str]);

fn check(cases: &[Case]) {
    let mut random = Random::new(7);
    for (schema, accepted, refused) in cases {
        let text = to_gbnf(schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
        let grammar = Grammar::read(&text);
        let validator = validator(schema).unwrap();
        for sentence in *accepted {
            assert!(grammar.accepts(sentence), "{sentence} by {schema}:\n{text}");
            assert!(validator.is_valid(&serde_json::from_str(sentence).unwrap()), "{sentence}");
        }
        for sentence in *refused {
            assert!(!grammar.accepts(sentence), "{sentence} by {schema}:\n{text}");
        }
        for sentence in (0..200).filter_map(|_| grammar.sentence(&mut random)) {
            let value: Value = serde_json::from_str(&sentence)
                .unwrap_or_else(|error| panic!("{error}: {sentence} by {schema}"));
            assert!(validator.is_valid(&value), "{sentence} by {schema}:\n{text}");
        }
    }
}

#[test]
fn values_that_hold_no_others() {
    check(&[
        (json!({"type": "null"}), &["null", "null "], &["", "nil"]),
        (json!({"type": "boolean"}), &["true", "false"], &["1", "True"]),
        (
            json!({"type": "integer"}),
            &["0", "-1", "9999999999999999"],
            &["-0", "01", "1.0", "1e3", "+1"],
        ),
        (json!({"type": "number"}), &["0", "-0.5", "1e21", "2.5E-7"], &[".5", "1.", "1e999", "01"]),
        (
            json!({"type": "string"}),
            &[r#""""#, r#""\\\"\/\b\f\n\r\t\u12aF""#, "\"\u{80}😀\""],
            &["\"\t\"", "\"\u{7f}\"", r#""\x""#, r#""\ud83d\ude00""#, "x"],
        ),
        (
            json!({"type": "string", "minLength": 1, "maxLength": 2}),
            &[r#""a""#, r#""\n😀""#],
            &[r#""""#, r#""abc""#],
        ),
        (json!({"type": "string", "maxLength": 0}), &[r#""""#], &[r#""a""#]),
        (json!({"type": ["string", "null"]}), &[r#""a""#, "null"], &["1"]),
        (json!({"type": ["integer", "number"]}), &["1", "1.5"], &["null"]),
        (json!({"const": "a\"b\\c\u{7f}\n"}), &["\"a\\\"b\\\\c\u{7f}\\n\""], &["\"a\""]),
        (
            json!({"const": {"b": [1, 2.5, null], "a": "ü"}}),
            &[r#"{"b":[1,2.5,null],"a":"ü"}"#],
            &["{}"],
        ),
        (
            json!({"type": "string", "enum": ["x", 1, "long"], "maxLength": 2}),
            &[r#""x""#],
            &["1", r#""long""#],
        ),
        (json!({"enum": [1, 2, 1]}), &["1", "2"], &["3"]),
        (json!({"minimum": 3}), &["3", "4.25"], &["2", "\"x\""]),
    ]);
}

#[test]
fn bounds_of_numbers() {
    check(&[
        (
            json!({"type": "integer", "minimum": 1, "maximum": 12}),
            &["1", "9", "10", "12"],
            &["0", "13", "-1", "100"],
        ),
        (
            json!({"type": "integer", "minimum": -5, "maximum": 5}),
            &["-5", "-1", "0", "5"],
            &["-6", "6", "-0"],
        ),
        (
            json!({"type": "integer", "minimum": -300, "maximum": -20}),
            &["-20", "-99", "-300"],
            &["-19", "-301", "20", "0"],
        ),
        (
            json!({"type": "integer", "exclusiveMinimum": 0}),
            &["1", "9999999999999999"],
            &["0", "-1"],
        ),
        (
            json!({"type": "integer", "minimum": 0.5, "exclusiveMaximum": 3.5, "multipleOf": 1}),
            &["1", "3"],
            &["0", "4"],
        ),
        (json!({"type": "integer", "minimum": 3, "exclusiveMinimum": 3}), &["4"], &["3"]),
        (json!({"type": "integer", "minimum": 7, "maximum": 7.0}), &["7"], &["6", "8", "77"]),
        (
            json!({"type": "number", "minimum": 0, "maximum": 2}),
            &["0", "0.5", "1.999999", "2", "2.0"],
            &["-0.1", "2.1", "-0", "3"],
        ),
        (
            json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
            &["0.1", "0.000001"],
            &["0", "0.0", "1", "1.0"],
        ),
        (
            json!({"type": "number", "minimum": -1, "exclusiveMaximum": 0}),
            &["-1", "-0.5", "-1.0"],
            &["0", "-0", "-0.0", "-1.1"],
        ),
        (
            json!({"type": "number", "exclusiveMinimum": -2}),
            &["-1.999999", "0", "77.5"],
            &["-2", "-2.0", "-3"],
        ),
        (json!({"type": "number", "maximum": 0}), &["0", "-0.5", "-1234.5"], &["0.1", "1"]),
        (json!({"type": "number", "minimum": 5, "maximum": 5}), &["5", "5.0"], &["5.1", "4"]),
    ]);
}

#[test]
fn every_integer_range_is_exact() {
    for (low, high) in
        [(0, 0), (0, 9), (7, 103), (99, 100), (-12, 130), (-101, -9), (100, 199), (1, 999)]
    {
        let schema = json!({"type": "integer", "minimum": low, "maximum": high});
        let grammar = Grammar::read(&to_gbnf(&schema).unwrap());
        for number in -1100..=1100 {
            let inside = low <= number && number <= high;
            assert_eq!(grammar.accepts(&number.to_string()), inside, "{number} by {schema}");
        }
    }
}

#[test]
fn arrays() {
    check(&[
        (
            json!({"type": "array", "items": {"type": "integer"}}),
            &["[]", "[1]", "[ 1, 2 , 3]"],
            &["[,]", "[1,]", "[\"a\"]"],
        ),
        (
            json!({"type": "array", "items": {"type": "null"}, "minItems": 1}),
            &["[null]", "[null,null]"],
            &["[]"],
        ),
        (
            json!({"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 3}),
            &["[null,null]", "[null,null,null]"],
            &["[null]", "[null,null,null,null]"],
        ),
        (
            json!({"type": "array", "items": {"type": "null"}, "maxItems": 1, "uniqueItems": true}),
            &["[]", "[null]"],
            &["[null,null]"],
        ),
        (json!({"type": "array", "maxItems": 0}), &["[]"], &["[1]"]),
        (json!({"type": "array", "items": false}), &["[]"], &["[1]"]),
        (json!({"type": "array"}), &["[]", "[1,\"a\",{\"b\":[]}]"], &["{}"]),
        (
            json!({"items": {"enum": ["a", "b"]}, "maxItems": 2}),
            &["[\"a\",\"b\"]"],
            &["[\"c\"]", "1"],
        ),
    ]);
}

#[test]
fn objects() {
    let three = |required: &[&str]| {
        json!({"type": "object", "required": required, "properties": {
            "a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"},
        }})
    };
    check(&[
        (
            three(&[]),
            &[
                "{}",
                r#"{"a":null}"#,
                r#"{"c":null}"#,
                r#"{"a":null,"c":null}"#,
                r#"{"b":null, "c":null}"#,
                r#"{"a":null,"b":null,"c":null}"#,
            ],
            &[
                r#"{"b":null,"a":null}"#,
                r#"{,"a":null}"#,
                r#"{"a":null,}"#,
                r#"{"a":null"b":null}"#,
            ],
        ),
        (
            three(&["b"]),
            &[r#"{"b":null}"#, r#"{"b":null,"a":null,"c":null}"#, r#"{"b":null,"c":null}"#],
            &["{}", r#"{"a":null,"b":null}"#],
        ),
        (
            three(&["a", "b", "c"]),
            &[r#"{"a":null,"b":null,"c":null}"#],
            &[r#"{"a":null,"b":null}"#],
        ),
        (json!({"type": "object", "properties": {}}), &["{}", "{ }"], &[r#"{"a":1}"#]),
        (json!({"type": "object"}), &["{}", r#"{"a":1,"b":[true]}"#], &["[]"]),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1}),
            &[r#"{"a":1}"#],
            &["{}", r#"{"a":"b"}"#],
        ),
        (json!({"type": "object", "additionalProperties": false}), &["{}"], &[r#"{"a":1}"#]),
        (
            json!({"type": "object", "required": ["x"], "additionalProperties": {"type": "integer"}}),
            &[r#"{"x":1}"#],
            &["{}", r#"{"x":null}"#],
        ),
        (
            json!({"type": "object", "properties": {"a": false, "b": true}, "minProperties": 0, "maxProperties": 1}),
            &["{}", r#"{"b":[[1]]}"#],
            &[r#"{"a":1}"#],
        ),
        (
            json!({"properties": {"a b": {"const": 1}, "a-b": {"const": 2}, "a\"\\": {"const": 3}}, "required": ["a b", "a-b", "a\"\\"]}),
            &[r#"{"a b":1,"a-b":2,"a\"\\":3}"#],
            &[],
        ),
    ]);
}

#[test]
fn alternatives_and_what_applies_at_once() {
    let by_kind = json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}},
    "oneOf": [
        {"properties": {"kind": {"const": "a"}, "x": {"type": "null"}}, "required": ["kind", "x"]},
        {"properties": {"kind": {"enum": ["b", "c"]}}, "required": ["kind"]},
    ]});
    check(&[
        (json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), &["1", r#""a""#], &["null"]),
        (json!({"anyOf": [{"type": "integer"}, false, {"enum": []}]}), &["1"], &["null"]),
        (
            json!({"oneOf": [{"type": "integer"}, {"type": ["string", "null"]}]}),
            &["1", "null"],
            &["true"],
        ),
        (json!({"oneOf": [{"const": 1}, {"const": 2}]}), &["1", "2"], &["3"]),
        (
            by_kind,
            &[r#"{"id":1,"kind":"a","x":null}"#, r#"{"id":1,"kind":"c"}"#],
            &[r#"{"kind":"b"}"#, r#"{"id":1,"kind":"a"}"#],
        ),
        (
            json!({"allOf": [
                {"type": "object", "properties": {"a": {"type": "integer", "minimum": 2}}, "required": ["a"]},
                {"properties": {"a": {"maximum": 3}, "b": {"type": "null"}}, "required": ["b"]},
            ]}),
            &[r#"{"a":2,"b":null}"#],
            &[r#"{"a":4,"b":null}"#, r#"{"a":2}"#],
        ),
        (
            json!({"allOf": [
                {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": false},
                {"properties": {"b": {"type": "null"}}},
            ]}),
            &["{}", r#"{"a":null}"#],
            &[r#"{"b":null}"#],
        ),
        (
            json!({"allOf": [{"type": ["integer", "string"]}, {"type": ["number", "null"]}]}),
            &["1"],
            &["1.5", "null"],
        ),
        (json!({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]}), &[r#""b""#], &[r#""a""#]),
        (
            json!({"$ref": "#/$defs/n", "maximum": 5, "$defs": {"n": {"type": "integer", "minimum": 4}}}),
            &["4", "5"],
            &["3", "6"],
        ),
    ]);
}

#[test]
fn references() {
    check(&[
        (json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}), &["null"], &["1"]),
        (
            json!({"type": "object", "properties": {"next": {"$ref": "#"}}}),
            &["{}", r#"{"next":{"next":{}}}"#],
            &[r#"{"next":1}"#],
        ),
        (
            json!({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}),
            &["[]", "[[],[[]]]"],
            &["[1]"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"$ref": "#/properties/b", "description": "as b"}, "b": {"type": "null"}}}),
            &[r#"{"a":null,"b":null}"#],
            &[r#"{"a":1}"#],
        ),
    ]);
}

#[test]
fn patterns() {
    let pattern = |pattern: &str| json!({"type": "string", "pattern": pattern});
    check(&[
        (
            pattern("^[+-][0-9]{2}:[0-9]{2}$"),
            &[r#""+02:00""#, r#""-11:30""#],
            &[r#""02:00""#, r#""+2:00""#],
        ),
        (pattern("^$"), &[r#""""#], &[r#""a""#]),
        (pattern("^(a|bc)*(?:-\\d+)?$"), &[r#""""#, r#""abca-12""#], &[r#""b""#, r#""-""#]),
        (
            pattern("^\\w{2,}\\.[\\w\\-é]?$"),
            &[r#""ab.""#, r#""a_9.-""#, r#""ab.é""#],
            &[r#""a.""#, r#""ab""#],
        ),
        (pattern("^[a-zA-Z0-9_-]+@[x.]$"), &[r#""a-b@.""#], &[r#""@x""#]),
    ]);
}
