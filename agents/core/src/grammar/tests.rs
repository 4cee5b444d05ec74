//! What a grammar accepts and refuses, by a small interpreter of its text.

mod arbitrary;
mod forms;
mod gbnf;
mod instance;
mod refused;

use proptest::prelude::*;
use serde_json::{Value, json};
use wire::plan::Dialect;

use self::arbitrary::Random;
use self::gbnf::Grammar;
use super::to_gbnf;
use crate::dialect::{fixture, offered};
use crate::validate::validator;

/// The three tools of the published example, with what its grammar accepts.
fn three_tools() -> Value {
    let tool = |name: &str, parameters: &[&str]| {
        let properties: serde_json::Map<_, _> =
            parameters.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        json!({
            "type": "object",
            "properties": {
                "tool": {"const": name},
                "arguments": {"type": "object", "properties": properties, "required": parameters},
            },
            "required": ["tool", "arguments"],
        })
    };
    json!({"oneOf": [
        tool("search_internet", &["query"]),
        tool("create_event", &["datetime", "title"]),
        tool("respond_to_user", &["answer"]),
    ]})
}

#[test]
fn item_000_4_the_published_grammar_comes_out() {
    let text = to_gbnf(&three_tools()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("char ")).collect();
    let expected = [
        r#"space ::= " "?"#,
        r#"0-tool ::= "\"search_internet\"""#,
        r#"string ::= "\"" char* "\"" space"#,
        r#"0-arguments ::= "{" space "\"query\"" space ":" space string "}" space"#,
        r#"0 ::= "{" space "\"tool\"" space ":" space 0-tool "," space "\"arguments\"" space ":" space 0-arguments "}" space"#,
        r#"1-tool ::= "\"create_event\"""#,
        r#"1-arguments ::= "{" space "\"datetime\"" space ":" space string "," space "\"title\"" space ":" space string "}" space"#,
        r#"1 ::= "{" space "\"tool\"" space ":" space 1-tool "," space "\"arguments\"" space ":" space 1-arguments "}" space"#,
        r#"2-tool ::= "\"respond_to_user\"""#,
        r#"2-arguments ::= "{" space "\"answer\"" space ":" space string "}" space"#,
        r#"2 ::= "{" space "\"tool\"" space ":" space 2-tool "," space "\"arguments\"" space ":" space 2-arguments "}" space"#,
        "root ::= 0 | 1 | 2",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn item_000_4_calls_of_the_published_tools_are_accepted_and_incomplete_ones_refused() {
    let grammar = Grammar::read(&to_gbnf(&three_tools()).unwrap());
    let accepted = [
        r#"{ "tool": "create_event", "arguments": {"datetime": "x", "title": "y"}}"#,
        r#"{"tool":"search_internet","arguments":{"query":"DiCaprio \"Leo\" \u00e9\n"}}"#,
        r#"{"tool":"respond_to_user","arguments":{"answer":""}} "#,
    ];
    let refused = [
        r#"{ "tool": "create_event", "arguments": {"datetime": "x"}}"#,
        r#"{ "tool": "create_event"}"#,
        r#"{"arguments":{"answer":"x"},"tool":"respond_to_user"}"#,
        r#"{"tool":"search_images","arguments":{"query":"x"}}"#,
        r#"{"tool":"search_internet","arguments":{"query":"x","more":1}}"#,
        r#"{"tool":"search_internet","arguments":{"query":1}}"#,
        r#"{"tool":"search_internet","arguments":{"query":"\ud800"}}"#,
        "{\"tool\":\"search_internet\",\"arguments\":{\"query\":\"a\nb\"}}",
        r#"{"tool":"search_internet","arguments":{"query":"x"}"#,
        r#"{  "tool":"search_internet","arguments":{"query":"x"}}"#,
        "",
    ];
    for text in accepted {
        assert!(grammar.accepts(text), "{text}");
    }
    for text in refused {
        assert!(!grammar.accepts(text), "{text}");
    }
}

#[test]
fn what_actor_models_are_offered_has_a_grammar() {
    for thinker in [true, false] {
        let plan = fixture::plan(Dialect::Schema, thinker);
        let grammar = Grammar::read(&to_gbnf(&offered(&plan)).unwrap());
        let call = json!({"tool": "respond_to_user", "arguments": {"answer": "42"}}).to_string();
        assert_eq!(grammar.accepts(&call), thinker, "{call}");
        let thought = call.replacen('{', "{\"thought\":\"so\",", 1);
        assert_eq!(grammar.accepts(&thought), !thinker, "{thought}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_valid_is_accepted_and_what_is_accepted_is_valid(seed: u64) {
        let mut random = Random::new(seed);
        let schema = arbitrary::schema(&mut random);
        let text = to_gbnf(&schema).unwrap_or_else(|error| panic!("{error}: {schema}"));
        let grammar = Grammar::read(&text);
        let validator = validator(&schema).unwrap();
        for _ in 0..4 {
            let value = instance::valid(&schema, &schema, &mut random);
            prop_assert!(validator.is_valid(&value), "{value} by {schema}");
            prop_assert!(grammar.accepts(&value.to_string()), "{value} by {schema}:\n{text}");
            for _ in 0..8 {
                let changed = instance::changed(&value, &mut random);
                let fits = grammar.accepts(&changed.to_string());
                prop_assert!(!fits || validator.is_valid(&changed), "{changed} by {schema}:\n{text}");
            }
        }
        for sentence in (0..8).filter_map(|_| grammar.sentence(&mut random)) {
            let value: Value = serde_json::from_str(&sentence).map_err(|error| {
                TestCaseError::fail(format!("{error}: {sentence} by {text}"))
            })?;
            prop_assert!(validator.is_valid(&value), "{sentence} by {schema}:\n{text}");
        }
    }

    #[test]
    fn schemas_that_were_spoilt_give_an_error_or_valid_sentences(seed: u64) {
        let mut random = Random::new(seed);
        let mut schema = arbitrary::schema(&mut random);
        for _ in 0..=random.below(4) {
            schema = instance::changed(&schema, &mut random);
        }
        if let (Ok(text), Ok(validator)) = (to_gbnf(&schema), validator(&schema)) {
            let grammar = Grammar::read(&text);
            for sentence in (0..16).filter_map(|_| grammar.sentence(&mut random)) {
                let value: Value = serde_json::from_str(&sentence).unwrap();
                prop_assert!(validator.is_valid(&value), "{sentence} by {schema}:\n{text}");
            }
        }
    }
}
