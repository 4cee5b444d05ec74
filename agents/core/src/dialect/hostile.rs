//! Whatever a model writes is read without a panic, and nothing that is faulty is acted on.

use proptest::prelude::*;
use wire::plan::Dialect;
use wire::{FinishReason, ModelReply, ModelRole, Planned, Reading, ToolCall};

use super::{Parsed, RESPOND_TO_USER, fixture, parse, read, replies};
use crate::validate::{self, Catalogue};

/// Pieces of replies, so that random text comes near to what is read.
const KNOWN: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u12",
    "\n",
    "```",
    "```json",
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<thought>",
    "</thought>",
    "<|channel>thought",
    "<channel|>",
    "<response>",
    "<|channel|>analysis<|message|>",
    "<|channel|>final<|message|>",
    "<|end|>",
    "<|start|>assistant",
    "<｜DSML｜invoke name=\"",
    "<｜DSML｜parameter name=\"",
    "</｜DSML｜parameter>",
    "<|tool_call>call:",
    "<|\"|>",
    "<tool_call|>",
    "<TOOLCALL>[",
    "[CALL_ID]",
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<function=",
    "<parameter=",
    "functools[",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<|tool_call_begin|>functions.",
    "<|channel|>commentary to=",
    "<|message|>",
    "<arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<invoke name=\"",
    "<parameter name=\"",
    "<|im_end|>",
    "</s>",
    "search(query='x')",
    "Call: ",
    "Thought: ",
    "\nAction:",
    "\nAction Input: ",
    "\nObservation: ",
    "Final Answer: ",
    "Question: ",
    "\"action\"",
    "\"action_input\"",
    "\"function\"",
    "{\"thought\": \"t\", \"action\": {\"function\": \"now\", \"arguments\": {}}}",
    "{\"action\": \"now\", \"action_input\": {}}",
    "'",
    "=",
    "(",
    ")",
    "\"tool\"",
    "\"arguments\"",
    "\"thought\"",
    "\"search\"",
    "\"query\"",
    "{\"query\":\"x\"}",
    "{\"tool\":\"search\",\"arguments\":",
    "{\"tool\":\"respond_to_user\",\"arguments\":",
    "{\"answer\":\"a\"}",
    "{\"task\":\"t\",\"selected_tool\":\"",
    "\"selected_action\":",
    "\"task\":",
    "respond_to_user",
    "final_answer",
    "null",
    "1e999",
    "-0",
    "é",
    "\u{feff}",
    "\0",
    "{\"$serde_json::private::RawValue\":\"",
    "{\"$serde_json::private::RawValue\":\"1\"}",
];

const DIALECTS: &[Dialect] = &[Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React];

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(KNOWN).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => any::<Vec<u8>>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just("{\"tool\":\"now\",\"arguments\":{}}".to_owned()),
        9 => proptest::collection::vec(piece(), 0..8).prop_map(|pieces| pieces.concat()),
    ]
}

fn call() -> impl Strategy<Value = ToolCall> {
    let name = prop_oneof![
        3 => proptest::sample::select(&["search", "calculate", "now", RESPOND_TO_USER][..])
            .prop_map(str::to_owned),
        1 => text(),
    ];
    (name, text(), any::<u8>()).prop_map(|(name, arguments, id)| ToolCall {
        id: id.to_string(),
        name,
        arguments,
    })
}

fn reply() -> impl Strategy<Value = ModelReply> {
    use FinishReason::{ContentFilter, Length, Other, Stop, ToolCalls};
    let finish = proptest::sample::select(&[Stop, Length, ToolCalls, ContentFilter, Other][..]);
    (finish, text(), proptest::collection::vec(call(), 0..4))
        .prop_map(|(finish, text, calls)| ModelReply { calls, ..fixture::reply(finish, &text) })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn readings_are_safe_to_act_on(
        reply in reply(),
        dialect in proptest::sample::select(DIALECTS),
        role in proptest::sample::select(&[ModelRole::Thinker, ModelRole::Actor][..]),
    ) {
        let catalogue = fixture::catalogue(dialect, true);
        let reading = read(role, &catalogue, None, &reply).reading;
        let written = serde_json::to_string(&reading).unwrap();
        prop_assert_eq!(serde_json::from_str::<Reading>(&written).unwrap(), reading.clone());
        match reading {
            Reading::Planned(planned) => prop_assert!(false, "nobody plans: {planned:?}"),
            Reading::Thought { text } => {
                prop_assert_eq!(role, ModelRole::Thinker);
                prop_assert!(!text.trim().is_empty());
            }
            Reading::Continued { text } => prop_assert!(false, "no word of the agent's: {text}"),
            Reading::Final { text } => {
                prop_assert_eq!(role, ModelRole::Actor);
                prop_assert!(!text.trim().is_empty());
                let is_written = dialect == Dialect::Native && reply.calls.is_empty();
                prop_assert!(!is_written || reply.finish != FinishReason::Length);
            }
            Reading::Cut { .. } => {
                prop_assert_eq!((role, dialect), (ModelRole::Actor, Dialect::Native));
                prop_assert_eq!(reply.finish, FinishReason::Length);
            }
            Reading::Calls { calls, .. } => {
                prop_assert_eq!(role, ModelRole::Actor);
                prop_assert!(!calls.is_empty());
                match dialect {
                    Dialect::Native if reply.calls.is_empty() => {
                        prop_assert_ne!(reply.finish, FinishReason::Length);
                    }
                    Dialect::Native => prop_assert_eq!(calls.len(), reply.calls.len()),
                    Dialect::Schema => {
                        prop_assert_eq!(calls.len(), 1);
                        prop_assert_ne!(reply.finish, FinishReason::Length);
                    }
                    Dialect::Json | Dialect::React => prop_assert_eq!(calls.len(), 1),
                }
                for call in calls.iter().filter(|call| call.fault.is_none()) {
                    let offer = catalogue.plan().offer(&call.name);
                    prop_assert!(offer.is_some(), "{} is not offered", call.name);
                    let schema = &offer.unwrap().spec.parameters;
                    prop_assert!(validate::validator(schema).unwrap().is_valid(&call.arguments));
                }
            }
            Reading::Fault { feedback, .. } => prop_assert!(!feedback.message.is_empty()),
        }
    }

    #[test]
    fn readings_of_a_step_that_is_planned_are_safe_to_act_on(
        reply in reply(),
        dialect in proptest::sample::select(DIALECTS),
        tool in proptest::sample::select(&["search", "calculate", "now", RESPOND_TO_USER][..]),
        role in proptest::sample::select(&[ModelRole::Thinker, ModelRole::Actor][..]),
    ) {
        let catalogue = Catalogue::new(fixture::planning(dialect).into());
        let plan = catalogue.plan();
        let planned = Planned {
            tool: tool.to_owned(),
            task: "t".to_owned(),
            thoughts: String::new(),
            summary: String::new(),
        };
        let planned = Some(&planned).filter(|_| role == ModelRole::Actor);
        match read(role, &catalogue, planned, &reply).reading {
            Reading::Thought { text } | Reading::Continued { text } => {
                prop_assert!(false, "a text of nobody: {text}");
            }
            Reading::Planned(Planned { tool, task, .. }) => {
                prop_assert_eq!(role, ModelRole::Thinker);
                let answers = tool == RESPOND_TO_USER;
                prop_assert!(answers || plan.offer(&tool).is_some(), "{tool} is not offered");
                prop_assert!(answers || !task.is_empty());
            }
            Reading::Final { text } => {
                prop_assert_eq!((role, tool), (ModelRole::Actor, RESPOND_TO_USER));
                prop_assert!(!text.trim().is_empty());
            }
            Reading::Cut { .. } => {
                prop_assert_eq!((role, tool), (ModelRole::Actor, RESPOND_TO_USER));
                prop_assert_eq!(reply.finish, FinishReason::Length);
            }
            Reading::Calls { calls, .. } => {
                prop_assert_eq!(role, ModelRole::Actor);
                prop_assert!(!calls.is_empty());
                for call in calls.iter().filter(|call| call.fault.is_none()) {
                    prop_assert_eq!(&call.name, tool);
                    let schema = &plan.offer(tool).unwrap().spec.parameters;
                    prop_assert!(validate::validator(schema).unwrap().is_valid(&call.arguments));
                }
            }
            Reading::Fault { feedback, .. } => prop_assert!(!feedback.message.is_empty()),
        }
    }

    #[test]
    fn damaged_replies_call_only_what_is_offered(
        (at, from, to, with) in (any::<usize>(), any::<usize>(), any::<usize>(), piece()),
    ) {
        let replies = replies::replies();
        let (form, _, reply, _) = &replies[at % replies.len()];
        let mut chars: Vec<char> = reply.chars().collect();
        let from = from % (chars.len() + 1);
        let to = (from + to % 8).min(chars.len());
        chars.splice(from..to, with.chars());
        let damaged: String = chars.into_iter().collect();
        let toolbox = replies::bare_tools();
        match parse(replies::dialect(form), &toolbox, &damaged) {
            Parsed::ToolCalls { calls } => {
                prop_assert!(!calls.is_empty());
                prop_assert!(calls.iter().all(|call| toolbox.find(&call.name).is_some()));
            }
            Parsed::Final { text } => prop_assert!(!text.trim().is_empty()),
            Parsed::Error { why, .. } => prop_assert!(!why.is_empty()),
        }
    }
}

#[test]
fn arguments_that_could_not_be_read_again_from_an_entry_are_a_fault() {
    let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    let hidden = |text: &str| format!(r#"{{"$serde_json::private::RawValue":"{text}"}}"#);
    let in_text = |json: &str| format!("{json:?}");
    for (argument, is_sound) in [
        (nested(60), true),
        (in_text(&nested(60)), true),
        (nested(64), false),
        (nested(110), false),
        (in_text(&nested(120)), false),
        (hidden("boom"), false),
        (hidden("2"), false),
        (format!("[{}]", hidden("2")), false),
    ] {
        for name in ["note", "unknown"] {
            for dialect in DIALECTS {
                let arguments = format!(r#"{{"text":"x","filter":{argument}}}"#);
                let parameters = serde_json::json!({
                    "type": "object",
                    "properties": {"filter": {"type": "object"}, "text": {"type": "string"}},
                });
                let mut plan = fixture::plan(*dialect, false);
                plan.tools[0].spec.name = wire::Name::new("note").unwrap();
                plan.tools[0].spec.parameters = parameters;
                let catalogue = Catalogue::new(plan.into());
                let (content, calls) = match dialect {
                    Dialect::Native => {
                        let (id, name) = ("1".to_owned(), name.to_owned());
                        (String::new(), vec![ToolCall { id, name, arguments }])
                    }
                    Dialect::Schema => {
                        (format!(r#"{{"tool":"{name}","arguments":{arguments}}}"#), vec![])
                    }
                    Dialect::Json => (
                        format!(
                            r#"{{"thought":"t","action":{{"function":"{name}","arguments":{arguments}}}}}"#
                        ),
                        vec![],
                    ),
                    Dialect::React => {
                        (format!("Thought: t\nAction: {name}\nAction Input: {arguments}"), vec![])
                    }
                };
                let reply = ModelReply { calls, ..fixture::reply(FinishReason::Stop, &content) };
                let reading = read(ModelRole::Actor, &catalogue, None, &reply).reading;
                let case = format!("{dialect:?} {name} {argument}: {reading:?}");
                let read_again: Reading =
                    serde_json::from_str(&serde_json::to_string(&reading).unwrap()).unwrap();
                assert_eq!(read_again, reading, "{case}");
                if let Reading::Calls { calls, .. } = reading {
                    let is_made = calls.iter().all(|call| call.fault.is_none());
                    assert_eq!(is_made, is_sound && name == "note", "{case}");
                } else {
                    assert!(!is_sound, "{case}");
                }
            }
        }
    }
}

#[test]
fn long_replies_are_read_in_time_that_grows_with_their_length() {
    let planning = Catalogue::new(fixture::planning(Dialect::Native).into());
    for piece in KNOWN.iter().chain(&["{\"a\":", "{\"a\":\"", "[[", "``` {", "\nAction: x", "({'"])
    {
        let text = piece.repeat(200_000 / piece.len());
        for dialect in DIALECTS {
            parse(*dialect, &replies::bare_tools(), &text);
        }
        read(ModelRole::Thinker, &planning, None, &fixture::reply(FinishReason::Stop, &text));
    }
}
