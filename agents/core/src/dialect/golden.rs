//! Prompts of a whole run in full, and the properties that all prompts have.

use std::sync::Arc;

use serde_json::{Value, json};
use wire::entry::{ReadCall, Reason};
use wire::plan::Dialect;
use wire::{CallKey, Message, ModelRole, Planned};

use super::fixture::{feedback, plan};
use super::{Act, Called, Exchange, Prompt, Step, Transcript, fixture};
use crate::validate::Catalogue;

const REQUEST: &str = "Who is Leonardo DiCaprio's current girlfriend and what is her age raised to \
the 0.24 power?";

const THINK_FIRST: &str = "What comes first: a call that finds out or does something, or the \
answer itself? Say it in one or two sentences.";

const ACT_FIRST: &str = "Decide what comes first: a call that finds out or does something, or the \
answer itself. Reply with one JSON object, nothing else.";

fn called(id: &str, key: &str, name: &str, arguments: Value, result: Option<&str>) -> Called {
    Called {
        read: ReadCall {
            id: id.to_owned(),
            name: name.to_owned(),
            raw: arguments.to_string().replace(':', ": "),
            arguments: arguments.into(),
            written: String::new(),
            fault: None,
        },
        key: Some(CallKey::new(key).unwrap()),
        result: result.map(str::to_owned),
    }
}

fn calls(text: &str, calls: Vec<Called>) -> Act {
    Act::Calls { text: text.to_owned(), calls, reasoning: None }
}

/// A call that was not made, as its arguments are wrong.
fn faulty() -> Called {
    let fault = feedback(Reason::InvalidArguments, "no");
    let mut faulty = called("", "k", "search", json!({"query": 1}), Some(&fault.to_text()));
    faulty.read.fault = Some(fault);
    faulty.key = None;
    faulty
}

fn history() -> Vec<Exchange> {
    let exchange = |user: &str, answer: &str| Exchange {
        user: user.into(),
        answer: answer.into(),
        tainted: false,
    };
    vec![exchange("Too old.", "Not shown."), exchange("Tell me a joke", "No.")]
}

/// The run as it is before its last turn; the step in work has its thought if there is a thinker.
fn steps(thinker: bool) -> Vec<Step> {
    let thought = |text: &str| thinker.then(|| text.to_owned());
    vec![
        Step {
            thought: thought("I need to search for his girlfriend."),
            planned: None,
            acts: vec![calls(
                "",
                vec![called(
                    "c1",
                    "key1",
                    "search",
                    json!({"query": "DiCaprio girlfriend"}),
                    Some("Vittoria Ceretti, 25 years old"),
                )],
            )],
        },
        Step {
            thought: thought("Now 25 to the power of 0.24."),
            planned: None,
            acts: vec![
                Act::Feedback {
                    raw: "well".to_owned(),
                    feedback: feedback(Reason::NotOfForm, "no"),
                },
                calls(
                    "Computing.",
                    vec![
                        called(
                            "c1",
                            "key2",
                            "calculate",
                            json!({"expression": "25^0.24"}),
                            Some("2.16524"),
                        ),
                        called("", "key3", "calculate", json!({"expression": "1+1"}), Some("2")),
                    ],
                ),
            ],
        },
        Step { thought: thought("I can answer: Vittoria Ceretti, 2.16524."), ..Step::default() },
    ]
}

fn prompt_of(role: ModelRole, transcript: &Transcript<'_>) -> Prompt {
    let catalogue = Catalogue::new(Arc::new(transcript.plan.clone()));
    let prompt = super::prompt(role, &catalogue, transcript);
    assert_eq!(prompt.faults, []);
    prompt
}

fn rendered(prompt: &Prompt) -> String {
    let mut lines = Vec::new();
    for (index, message) in prompt.messages.iter().enumerate() {
        if index == prompt.keep {
            lines.push("[not kept]".to_owned());
        }
        match &**message {
            Message::System { content } => lines.push(format!("SYSTEM {content}")),
            Message::User { content } => lines.push(format!("USER {content}")),
            Message::Assistant { content, calls, .. } => {
                lines.push(format!("ASSISTANT {content}"));
                for call in calls {
                    lines.push(format!("  CALL {} {} {}", call.id, call.name, call.arguments));
                }
            }
            Message::Tool { call_id, name, content } => {
                lines.push(format!("TOOL {call_id} {name} {content}"));
            }
        }
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n") + "\n"
}

#[test]
fn the_thinker_sees_the_run_as_text() {
    let plan = plan(Dialect::Native, true);
    let mut steps = steps(true);
    steps[2].thought = None;
    let (history, request) = (history(), REQUEST);
    let transcript = Transcript { plan: &plan, history: &history, request, steps: &steps };
    let prompt = prompt_of(ModelRole::Thinker, &transcript);
    assert_eq!(*prompt.head, wire::chat::Head::default());
    assert_eq!(rendered(&prompt), include_str!("golden/thinker.txt"));
}

#[test]
fn a_schema_actor_sees_the_run_as_text_and_makes_one_call() {
    let plan = plan(Dialect::Schema, true);
    let (history, request, steps) = (history(), REQUEST, steps(true));
    let transcript = Transcript { plan: &plan, history: &history, request, steps: &steps };
    let prompt = prompt_of(ModelRole::Actor, &transcript);
    assert!(prompt.head.tools.is_empty());
    assert_eq!(prompt.head.response_schema.as_ref().unwrap().schema, super::offered(&plan));
    assert_eq!(rendered(&prompt), include_str!("golden/schema.txt"));
}

#[test]
fn a_native_actor_sees_the_conversation_as_it_was_led() {
    let plan = plan(Dialect::Native, true);
    let (history, request, steps) = (history(), REQUEST, steps(true));
    let transcript = Transcript { plan: &plan, history: &history, request, steps: &steps };
    let prompt = prompt_of(ModelRole::Actor, &transcript);
    assert!(prompt.head.response_schema.is_none());
    assert_eq!(prompt.head.tools.len(), 2);
    assert_eq!(rendered(&prompt), include_str!("golden/native.txt"));
}

#[test]
fn a_json_actor_sees_its_own_form_and_feedback() {
    let plan = plan(Dialect::Json, true);
    let (history, request, mut steps) = (history(), REQUEST, steps(true));
    steps[1].acts.insert(1, calls("Look.", vec![faulty()]));
    let transcript = Transcript { plan: &plan, history: &history, request, steps: &steps };
    let prompt = prompt_of(ModelRole::Actor, &transcript);
    assert_eq!(*prompt.head, wire::chat::Head::default());
    assert_eq!(rendered(&prompt), include_str!("golden/json.txt"));
}

#[test]
fn a_react_actor_sees_actions_and_observations_and_stops_before_the_next() {
    let plan = plan(Dialect::React, false);
    let (history, request, steps) = (history(), REQUEST, steps(false));
    let transcript = Transcript { plan: &plan, history: &history, request, steps: &steps };
    let prompt = prompt_of(ModelRole::Actor, &transcript);
    assert_eq!(prompt.head.stop, ["\nObservation"]);
    assert_eq!(rendered(&prompt), include_str!("golden/react.txt"));
}

#[test]
fn a_schema_actor_without_a_thinker_thinks_in_its_reply() {
    let plan = plan(Dialect::Schema, false);
    let mut steps = steps(false);
    steps.truncate(2);
    steps[1].acts.truncate(1);
    steps[1].acts.push(calls("Look.", vec![faulty()]));
    let transcript = Transcript { plan: &plan, history: &[], request: "Who?", steps: &steps };
    let prompt = prompt_of(ModelRole::Actor, &transcript);
    assert_eq!(rendered(&prompt), include_str!("golden/schema_alone.txt"));
}

#[test]
fn every_call_that_is_shown_has_an_id_of_its_own_and_one_answer() {
    let plan = plan(Dialect::Native, false);
    let once = |id: &str, key: &str| called(id, key, "search", json!({}), Some("r"));
    let keyless = || Called { key: None, ..once("", "k") };
    let unsettled = called("y", "k8", "search", json!({}), None);
    let acts = |acts: Vec<Called>| Step { acts: vec![calls("", acts)], ..Step::default() };
    let steps = [
        acts(vec![once("call00007", "k1"), once("call00007", "k2"), once("", "k3"), keyless()]),
        acts(vec![once("k2", "k2"), once("call00004", "k5"), keyless()]),
        acts(vec![once("x", "k7"), unsettled]),
    ];
    let transcript = Transcript { plan: &plan, history: &[], request: "Q", steps: &steps };
    let prompt = prompt_of(ModelRole::Actor, &transcript);
    let mut asked = Vec::new();
    let mut answered = Vec::new();
    for message in &prompt.messages {
        match &**message {
            Message::Assistant { calls, .. } => asked.extend(calls.iter().map(|c| c.id.clone())),
            Message::Tool { call_id, .. } => answered.push(call_id.clone()),
            Message::System { .. } | Message::User { .. } => {}
        }
    }
    assert_eq!(asked, ["call00007", "k2", "k3", "call00004", "call00005", "k5", "call000070"]);
    assert_eq!(asked, answered);
}

/// The run of a planner as it is before its last turn.
fn planned_steps() -> Vec<Step> {
    let planned = |tool: &str, task: &str| Planned {
        tool: tool.to_owned(),
        task: task.to_owned(),
        thoughts: "not shown".to_owned(),
        summary: "not shown".to_owned(),
    };
    let search = json!({"query": "DiCaprio girlfriend"});
    let found = called("c1", "key1", "search", search, Some("Vittoria Ceretti, 25 years old"));
    vec![
        Step {
            thought: None,
            planned: Some(planned("search", "Find his girlfriend.")),
            acts: vec![calls("", vec![found])],
        },
        Step {
            thought: None,
            planned: Some(planned("calculate", "25 to the power of 0.24")),
            acts: vec![
                Act::Feedback { raw: "well".to_owned(), feedback: feedback(Reason::NoCall, "no") },
                calls("Computing.", vec![faulty()]),
            ],
        },
        Step {
            thought: None,
            planned: Some(planned(super::RESPOND_TO_USER, "Name her, and the power.")),
            acts: vec![Act::Feedback {
                raw: "{}".to_owned(),
                feedback: feedback(Reason::NotOfForm, "no"),
            }],
        },
    ]
}

#[test]
fn a_planner_a_model_with_a_task_and_one_that_answers_see_what_they_need() {
    let golden = |name: &str| match name {
        "planner" => include_str!("golden/planner.txt"),
        "task_native" => include_str!("golden/task_native.txt"),
        "task_schema" => include_str!("golden/task_schema.txt"),
        "task_json" => include_str!("golden/task_json.txt"),
        "task_react" => include_str!("golden/task_react.txt"),
        _ => include_str!("golden/answer.txt"),
    };
    let steps = planned_steps();
    let (history, request) = (history(), REQUEST);
    for dialect in [Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React] {
        let plan = fixture::planning(dialect);
        let of = |role, steps: &[Step]| {
            let transcript = Transcript { plan: &plan, history: &history, request, steps };
            rendered(&prompt_of(role, &transcript))
        };
        let task = format!("task_{}", dialect.as_str());
        assert_eq!(of(ModelRole::Actor, &steps[..2]), golden(&task), "{task}");
        assert_eq!(of(ModelRole::Actor, &steps), golden("answer"), "{dialect:?}");
        let unplanned = Step { planned: None, ..steps[2].clone() };
        let steps = [&steps[..2], &[unplanned]].concat();
        assert_eq!(of(ModelRole::Thinker, &steps), golden("planner"), "{dialect:?}");
    }
}

#[test]
fn a_run_begins_with_its_first_question() {
    let question = |role, dialect, thinker, steps: &[Step]| {
        let plan = plan(dialect, thinker);
        let transcript = Transcript { plan: &plan, history: &[], request: "Q", steps };
        let prompt = prompt_of(role, &transcript);
        prompt.messages.last().unwrap().content().to_owned()
    };
    for steps in [&[][..], &[Step::default()]] {
        for dialect in [Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React] {
            assert_eq!(question(ModelRole::Thinker, dialect, true, steps), THINK_FIRST);
        }
        assert_eq!(question(ModelRole::Actor, Dialect::Schema, false, steps), ACT_FIRST);
        assert_eq!(question(ModelRole::Actor, Dialect::Native, false, steps), "Q");
        assert_eq!(question(ModelRole::Actor, Dialect::Json, false, steps), "Q");
        assert_eq!(question(ModelRole::Actor, Dialect::React, false, steps), "Question: Q");
    }
}

#[test]
fn a_long_unusable_reply_is_cut_when_it_is_shown_again() {
    let raw = "ä".repeat(3000);
    let shown = super::shown(&raw);
    assert_eq!(shown.chars().count(), super::RAW_SHOWN_CHARS_MAX + " [cut]".len());
    assert_eq!(super::shown("short"), "short");
}

#[test]
fn an_unusable_reply_is_shown_again_without_its_thinking() {
    for (raw, expected) in [
        ("<think>hm</think>well", &["well"][..]),
        ("<think>hm</think>well<|im_end|>", &["well"]),
        ("well <think>hm", &["well"]),
        ("<think>hm", &[]),
        ("{\"thought\": \"<think>hm\"}", &["{\"thought\": \"<think>hm\"}"]),
    ] {
        for dialect in [Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React] {
            let plan = plan(dialect, false);
            let feedback = feedback(Reason::NotOfForm, "no");
            let acts = vec![Act::Feedback { raw: super::shown_again(raw), feedback }];
            let steps = [Step { acts, ..Step::default() }];
            let transcript =
                Transcript { plan: &plan, history: &[], request: REQUEST, steps: &steps };
            let prompt = prompt_of(ModelRole::Actor, &transcript);
            let said =
                prompt.messages.iter().filter(|it| matches!(***it, Message::Assistant { .. }));
            let said: Vec<&str> = said.map(|message| message.content()).collect();
            assert_eq!(said, expected, "{dialect:?} {raw}");
        }
    }
}
