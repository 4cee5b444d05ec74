//! Replies with and without the word, in every dialect, whole and in pieces.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use wire::FinishReason::Stop;
use wire::{Message, ModelRole, Plan};

use super::super::fixture::{self, outline, plan};
use super::super::{Act, Step, Transcript, prompt, read};
use super::*;
use crate::validate::Catalogue;

const WORD: &str = "CONTINUE";

fn going_on(dialect: Dialect) -> Plan {
    Plan { continue_word: Some(WORD.to_owned()), ..plan(dialect, false) }
}

#[test]
fn a_text_that_begins_with_the_word_is_not_the_answer() {
    let json_answer = |text: &str| {
        json!({"thought": "", "action": {"function": "respond_to_user", "arguments": {"answer": text}}})
            .to_string()
    };
    let schema_answer = |text: &str| {
        json!({"thought": "", "tool": "respond_to_user", "arguments": {"answer": text}}).to_string()
    };
    let search = r#"{"name": "search", "arguments": {"query": "x"}}"#;
    let going = |text: &str| json!({ "continued": text });
    let over = |text: &str| json!({ "final": text });
    let cases: [(Dialect, String, Value); 23] = [
        (Dialect::Native, "CONTINUE I look it up.".into(), going("CONTINUE I look it up.")),
        (Dialect::Native, " \n**CONTINUE**: first this".into(), going("**CONTINUE**: first this")),
        (Dialect::Native, "# CONTINUE\nx".into(), going("# CONTINUE\nx")),
        (Dialect::Native, "CONTINUE".into(), going("CONTINUE")),
        (Dialect::Native, "_CONTINUE_ x".into(), going("_CONTINUE_ x")),
        (Dialect::Native, "<think>CONTINUE?</think>CONTINUE: x".into(), going("CONTINUE: x")),
        (Dialect::Native, "<think>CONTINUE</think>42".into(), over("42")),
        (Dialect::Native, "CONTINUED in part two".into(), over("CONTINUED in part two")),
        (Dialect::Native, "CONTINUE_RUN is set".into(), over("CONTINUE_RUN is set")),
        (Dialect::Native, "Continue with a spoon.".into(), over("Continue with a spoon.")),
        (Dialect::Native, "It is 42. CONTINUE".into(), over("It is 42.")),
        (Dialect::Native, "a\nCONTINUE: b".into(), over("a\nb")),
        (
            Dialect::Native,
            format!("CONTINUE\n<tool_call>{search}</tool_call>"),
            json!([["search", {"query": "x"}]]),
        ),
        (
            Dialect::Native,
            "CONTINUE\n<tool_call>{\"name\": 1".into(),
            json!({"fault": "truncated_reply"}),
        ),
        (
            Dialect::React,
            "CONTINUE I will search next.".into(),
            going("CONTINUE I will search next."),
        ),
        (
            Dialect::React,
            "Thought: CONTINUE, more is missing".into(),
            going("Thought: CONTINUE, more is missing"),
        ),
        (
            Dialect::React,
            "Final Answer: CONTINUE soon".into(),
            going("Final Answer: CONTINUE soon"),
        ),
        (Dialect::React, "Final Answer: done (CONTINUE)".into(), over("done")),
        (Dialect::Json, json_answer("CONTINUE x"), going(&json_answer("CONTINUE x"))),
        (
            Dialect::Json,
            "CONTINUE I think of `search`.".into(),
            going("CONTINUE I think of `search`."),
        ),
        (Dialect::Json, "I think about it.".into(), json!({"fault": "malformed_reply"})),
        (Dialect::Schema, schema_answer("**CONTINUE** x"), going(&schema_answer("**CONTINUE** x"))),
        (Dialect::Schema, "CONTINUE {".into(), json!({"fault": "malformed_reply"})),
    ];
    for (dialect, content, expected) in cases {
        let catalogue = Catalogue::new(Arc::new(going_on(dialect)));
        let reply = fixture::reply(Stop, &content);
        let reading = read(ModelRole::Actor, &catalogue, None, &reply).reading;
        assert_eq!(outline(&reading), expected, "{dialect:?} {content:?}");
    }
    let plain = Catalogue::new(Arc::new(plan(Dialect::Native, false)));
    let read = read(ModelRole::Actor, &plain, None, &fixture::reply(Stop, "CONTINUE x"));
    assert_eq!(outline(&read.reading), over("CONTINUE x"), "without a word of the agent's");
}

#[test]
fn the_model_is_shown_its_words_and_asked_again() {
    for dialect in [Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React] {
        for thinker in [false, true] {
            let plan = Plan { continue_word: Some(WORD.to_owned()), ..plan(dialect, thinker) };
            let said = Act::Continued { text: "CONTINUE half".to_owned() };
            let thought = thinker.then(|| "think".to_owned());
            let steps = [
                Step { thought: thought.clone(), acts: vec![said], ..Step::default() },
                Step { thought, ..Step::default() },
            ];
            let transcript = Transcript { plan: &plan, history: &[], request: "q", steps: &steps };
            let before = Transcript { steps: &steps[..1], ..transcript };
            let catalogue = Catalogue::new(Arc::new(plan.clone()));
            for role in [ModelRole::Actor, ModelRole::Thinker] {
                let prompt = prompt(role, &catalogue, &transcript);
                let at = prompt.messages.iter().position(|message| {
                    matches!(&**message, Message::Assistant { content, .. } if content.ends_with("CONTINUE half"))
                });
                let at = at.unwrap_or_else(|| panic!("{dialect:?} {role:?}: {prompt:?}"));
                let next = prompt.messages.get(at + 1).map(|message| message.content());
                assert_eq!(next, Some("Go on."), "{dialect:?} {role:?}");
                assert!(at + 2 <= prompt.keep, "{dialect:?} {role:?}");
                let kept = super::super::prompt(role, &catalogue, &before);
                assert!(prompt.messages.starts_with(&kept.messages[..kept.keep]), "{dialect:?}");
            }
        }
    }
}

#[test]
fn the_word_goes_with_its_markup_and_leaves_no_gap() {
    for (text, expected) in [
        ("", ""),
        ("nothing here", "nothing here"),
        ("CONTINUE: next", "next"),
        ("CONTINUE", ""),
        ("**CONTINUE** next", "next"),
        ("**CONTINUE: next**", "**next**"),
        ("- CONTINUE - next", "- next"),
        ("one CONTINUE two", "one two"),
        ("one. CONTINUE.", "one."),
        ("one (`CONTINUE`) two", "one two"),
        ("say \"CONTINUE\", then go", "say, then go"),
        ("a\nCONTINUE\nb", "a\nb"),
        ("CONTINUE CONTINUE x", "x"),
        ("CONT\"CONTINUE\"INUE ", "CONT INUE "),
        ("CONTINUE,CONTINUE", ""),
        ("DISCONTINUE CONTINUED MAX_CONTINUE", "DISCONTINUE CONTINUED MAX_CONTINUE"),
        ("weiterCONTINUE 继续CONTINUE", "weiterCONTINUE 继续CONTINUE"),
    ] {
        assert_eq!(without(WORD, text), expected, "{text:?}");
    }
    assert_eq!(without("[MORE]", "[MORE] a[MORE]b"), "ab");
    assert!(begins("[MORE]", "**[MORE]** x") && !begins("[MORE]", "x [MORE]"));
    assert_eq!(without("", "text"), "text");
}

/// Tells whether the word stands in a text by itself.
fn has_word(text: &str) -> bool {
    text.match_indices(WORD).any(|(at, _)| stands_alone(WORD, text, at, None))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_shows_the_word_whole_or_in_pieces(
        parts in proptest::collection::vec(
            proptest::sample::select(&["CONTINUE", "CONT", "INUE", "C", "E", "x", "é", " ", "\n", "*", "_", ".", ":", "\"", "DIS"][..]),
            0..14,
        ),
    ) {
        let text = parts.concat();
        let whole = without(WORD, &text);
        prop_assert!(!has_word(&whole), "{whole:?}");
        let mut veil = Veil::new(WORD);
        let mut shown: String = parts.iter().map(|part| veil.push(part)).collect();
        shown.push_str(&veil.finish());
        prop_assert!(!has_word(&shown), "{shown:?}");
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        prop_assert_eq!(letters(&shown), letters(&whole));
    }
}

#[test]
fn pieces_are_let_through_as_soon_as_they_cannot_be_the_word() {
    let mut veil = Veil::new(WORD);
    let shown: Vec<String> = ["Hel", "lo CO", "NT", "act ", "**CONTIN", "UE", "** now", "."]
        .map(|piece| veil.push(piece))
        .into();
    assert_eq!(shown, ["Hel", "lo", "", " CONTact", "", "", " now", "."]);
    assert_eq!(veil.finish(), "");
}
