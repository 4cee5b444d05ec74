use serde_json::{Value, json};
use wire::FinishReason::Stop;
use wire::Reading;

use super::super::fixture::{outline, reply};
use super::super::native;
use crate::validate::Toolbox;

fn read(content: &str) -> Reading {
    let mut toolbox = Toolbox::default();
    for name in ["weather", "sum", "note", "clock", "calculate"] {
        toolbox.add(name, None);
    }
    native::read(&toolbox, &reply(Stop, content))
}

fn found(content: &str) -> Value {
    outline(&read(content))
}

const CALL: &str = r#"{"name": "weather", "arguments": {"city": "Oslo"}}"#;

fn call() -> Value {
    json!([["weather", {"city": "Oslo"}]])
}

fn unreadable() -> Value {
    json!({"fault": "malformed_reply"})
}

#[test]
fn a_call_by_itself_is_made_whatever_precedes_it_elsewhere() {
    for said in [
        "I need more information.",
        "This gives me the information:",
        "It looks like rain in Oslo, so I look.",
        "It would be good to know. I look:",
        "Looks like I need the weather:",
        "I read https://example.com/format first:",
        "I ask example.com:",
        "I write to me@example.org.",
        "Here is an example of my work. I look it up:",
        "For example, it may rain.\nI look it up:",
        "The format is clear.\n\nNow I call it:",
        "I reformat it:",
    ] {
        for text in [format!("{said}\n{CALL}"), format!("{said}\n```json\n{CALL}\n```")] {
            assert_eq!(found(&text), call(), "{text}");
            let Reading::Calls { text: beside, .. } = read(&text) else { panic!("{text}") };
            assert_eq!(beside, said);
        }
    }
    let named = format!("I ask example.com: {CALL}");
    assert_eq!(found(&named), call());
}

#[test]
fn a_call_that_is_shown_as_an_example_is_prose() {
    for said in [
        "For example, a call looks like this:",
        "A call looks like this:",
        "**Your call would look like:**",
        "The call would be as follows:",
        "The call would be",
        "Example:",
        "### Example",
        "Here's an example.",
        "Use the JSON format:",
        "You can write, e.g. this one:",
        "It rains. For instance, you ask:",
        "Some examples:\n\n1. Oslo:",
        "Some examples:\n- Oslo",
    ] {
        for text in [
            format!("{said}\n{CALL}"),
            format!("{said}\n\n```json\n{CALL}\n```\nThat is all."),
            format!("{said}\n```json\n[\n{CALL},\n{CALL}\n]\n```"),
        ] {
            assert_eq!(found(&text), json!({ "final": text }), "{text}");
        }
    }
}

#[test]
fn an_answer_in_a_notation_of_its_own_is_no_broken_call() {
    for answer in [
        r#"{"wei": 25000000000000000000}"#,
        r#"{"username": "clock", "wei": 25000000000000000000}"#,
        r#"{"name": "Ada", "wei": 25000000000000000000}"#,
        r#"[{"wei": 25000000000000000000}]"#,
        "```json\n{\"items\": [ ... ]}\n```",
        "```js\n{ plugins: [react()] }\n```",
        "```css\nnote { color: red; }\n```",
        "sum {x | x in A}",
        "calculate(25^0.24) = 2.165",
        "sum(1, 2) = 3",
        "sum(1, x == 2)",
        "[sum(1, 2), 3]",
        r#"{"name": "fly", "parameters": {"type": "object", "properties": {}}}"#,
    ] {
        assert_eq!(found(answer), json!({ "final": answer }), "{answer}");
    }
    for broken in [
        r#"{"name": "weather", "arguments": {"wei": 25000000000000000000}}"#,
        r#"{"tool" : 'weather', "arguments": {"city"="Oslo"}}"#,
        "{name: \"weather\", arguments: {\"city\"=\"Oslo\"}}",
        r#"[{"function": {"name": "weather", "arguments": {"city"="Oslo"}}}]"#,
        r#"{"name": "weather", "arguments": {"type": "object", "properties": {}}}"#,
        "weather{\"city\"=\"Oslo\"}",
        "weather(city=Oslo)",
        "weather(\n  city=Oslo\n)",
        "weather('Oslo', unit='c')",
        "[weather(city=Oslo)]",
    ] {
        assert_eq!(found(broken), unreadable(), "{broken}");
    }
}

#[test]
fn what_follows_a_marked_call_takes_nothing_from_it() {
    let listed = format!("[TOOL_CALLS] [{CALL}]");
    let tagged = format!("<tool_call>{CALL}</tool_call>");
    for sound in [listed, tagged] {
        for after in [
            r#"{"temperature": 18}"#,
            r#"{"temperature": 18"#,
            r#"{"name": "fly", "arguments": {}}"#,
            r#"[TOOL_RESULTS] {"temperature": 18}"#,
            "<tool_response>{\"temperature\": 18}</tool_response>",
            "[1] source",
            "weather: {\"temperature\": 18}",
            "Note (see docs)",
            "Result(5)",
            "It rains.",
            "",
        ] {
            for gap in [" ", "\n\n", "\n```\n"] {
                let text = format!("{sound}{gap}{after}");
                assert_eq!(found(&text), call(), "{text}");
            }
        }
        for after in ["<tool_call>{\"temperature\": 18}</tool_call>", "<tool_call>{\"name\": "] {
            let text = format!("{sound}\n{after}");
            assert!(found(&text).get("fault").is_some(), "{text}: {}", found(&text));
        }
        let twice = format!("{sound}\n{CALL}");
        assert_eq!(found(&twice).as_array().map(Vec::len), Some(2), "{twice}");
    }
}

#[test]
fn channels_are_not_said_beside_a_call() {
    let sent = "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>\
        {\"city\": \"Oslo\"}<|call|>";
    let thinks = "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant";
    for (text, expected) in [
        (sent.to_owned(), ""),
        (format!("{thinks}{sent}"), ""),
        (format!("<|start|>assistant{thinks}{sent}"), ""),
        (format!("Let me see. {sent}"), "Let me see."),
    ] {
        let Reading::Calls { text: beside, calls } = read(&text) else { panic!("{text}") };
        assert_eq!((beside.as_str(), calls.len()), (expected, 1), "{text}");
    }
}

#[test]
fn a_call_keeps_the_id_that_its_model_gave_it() {
    let one = "weather[CALL_ID]abcDEF123[ARGS]{\"city\": \"Oslo\"}";
    for (text, expected) in [
        (format!("[TOOL_CALLS]{one}"), vec!["abcDEF123"]),
        (format!("[TOOL_CALLS]{one}[TOOL_CALLS]clock[CALL_ID]x[ARGS]{{}}"), vec!["abcDEF123", "x"]),
        ("[TOOL_CALLS]weather[ARGS]{\"city\": \"Oslo\"}".to_owned(), vec![""]),
    ] {
        let Reading::Calls { calls, .. } = read(&text) else { panic!("{text}") };
        let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, expected, "{text}");
        assert_eq!(found(&text)[0], call()[0], "{text}");
    }
}

#[test]
fn what_precedes_a_call_in_tags_of_its_own_is_said() {
    let invoke = |tag: &str| {
        format!(
            "<{tag}invoke name=\"weather\">\n<{tag}parameter name=\"city\" string=\"true\">Oslo\
             </{tag}parameter>\n</{tag}invoke>"
        )
    };
    let [plain, dsml, doubled] = ["", "｜DSML｜", "｜｜DSML｜｜"].map(invoke);
    for text in [
        format!("<minimax:tool_call>\n{plain}\n</minimax:tool_call>"),
        format!("<｜DSML｜function_calls>\n{dsml}\n</｜DSML｜function_calls>"),
        format!("<｜DSML｜tool_calls>\n{dsml}\n</｜DSML｜tool_calls>"),
        format!("<｜｜DSML｜｜tool_calls>\n{doubled}\n</｜｜DSML｜｜tool_calls>"),
        dsml,
        "<seed:tool_call>\n<function=weather>\n<parameter=city>Oslo</parameter>\n</function>\n\
         </seed:tool_call>"
            .to_owned(),
        "<|tool_call>call:weather{city:<|\"|>Oslo<|\"|>}<tool_call|>".to_owned(),
        "<start_function_call>call:weather{city:<escape>Oslo<escape>}<end_function_call>"
            .to_owned(),
        format!("<TOOLCALL>[{CALL}]</TOOLCALL>"),
    ] {
        let said = format!("Let me see. {text}");
        let Reading::Calls { text: beside, .. } = read(&said) else { panic!("{text}") };
        assert_eq!((beside.as_str(), found(&said)), ("Let me see.", call()), "{text}");
    }
}

#[test]
fn parameters_that_are_no_texts_are_json() {
    let written = |attribute: &str, value: &str| {
        format!(
            "<｜DSML｜invoke name=\"note\"><｜DSML｜parameter name=\"a\"{attribute}>{value}\
             </｜DSML｜parameter></｜DSML｜invoke>"
        )
    };
    for (attribute, value, expected) in [
        (" string=\"true\"", "5", json!("5")),
        ("", "5", json!("5")),
        (" string=\"false\"", "5", json!(5)),
        (" string=\"false\"", "\n[1, \"two\"]\n", json!([1, "two"])),
        (" string=\"false\"", "null", json!(null)),
        (" string=\"false\"", "no JSON", json!("no JSON")),
        (" string=\"true\"", "<think>a ｜DSML｜</think>", json!("<think>a ｜DSML｜</think>")),
    ] {
        let text = written(attribute, value);
        assert_eq!(found(&text), json!([["note", {"a": expected}]]), "{text}");
    }
}
