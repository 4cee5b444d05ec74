//! What planners write, and what it is read as.

use wire::FinishReason::{self, ContentFilter, Length, Other, Stop};

use super::super::fixture::{feedback, outline, planning, reply};
use super::super::{Act, Called, Exchange, Step, prompt as prompt_of};
use super::*;
use crate::validate::{Catalogue, faults, validator};
use wire::entry::{FeedbackCode, ReadCall};
use wire::plan::AskedModel;
use wire::{ModelRole, ToolCall};

/// A reply of the form that is asked for.
fn plan_text(tool: &str, task: &str) -> String {
    json!({SUMMARY: "s", THOUGHTS: "t", TASK: task, TOOL: tool}).to_string()
}

fn read_text(finish: FinishReason, content: &str) -> Reading {
    read(&planning(Dialect::Native), &reply(finish, content))
}

#[test]
fn replies_are_read_as_one_step_or_fault() {
    let good = plan_text("search", "find x");
    let step = |tool: &str, task: &str| json!({"planned": [tool, task]});
    let searched = step("search", "find x");
    let fault = |code: &str| json!({ "fault": code });
    let cases: Vec<(FinishReason, String, Value)> = vec![
        (Stop, good.clone(), searched.clone()),
        (Other, good.clone(), searched.clone()),
        (Stop, format!("```json\n{good}\n```"), searched.clone()),
        (Stop, format!("Here it is:\n``` JSON\n{good}"), searched.clone()),
        (Stop, format!("<think>{}</think>\n{good}", plan_text("now", "y")), searched.clone()),
        (
            Stop,
            format!(
                "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final \
                 <|constrain|>json<|message|>{good}<|return|>",
                plan_text("now", "y")
            ),
            searched.clone(),
        ),
        (Stop, format!("{good}\n{}", plan_text("now", "y")), searched.clone()),
        (Stop, format!("known: {{\"age\": 25}}, so {good}"), searched.clone()),
        (Stop, good.replace('"', "'"), searched.clone()),
        (Stop, good.strip_suffix('}').unwrap().to_owned(), searched.clone()),
        (Stop, good.replace("\"s\"", "null"), searched.clone()),
        (Stop, r#"{"task": " find x ", "selected_tool": "search"}"#.to_owned(), searched.clone()),
        (Stop, r#"{"task": "find x", "selected_action": "search",}"#.to_owned(), searched.clone()),
        (
            Stop,
            r#"{"task": "find x", "selected_tool": "search", "selected_action": "now"}"#.to_owned(),
            searched.clone(),
        ),
        (Length, format!("{good}\nand then I would"), searched),
        // Published repairs of names.
        (Stop, plan_text("ask-user", "x"), step("ask_user", "x")),
        (Stop, plan_text("search, calculate", "x"), step("search", "x")),
        (Stop, plan_text("calculate_number", "1+1"), step("calculate", "1+1")),
        (Stop, plan_text("final_answer", "say 2"), step(RESPOND_TO_USER, "say 2")),
        (Stop, plan_text("", "say 2"), step(RESPOND_TO_USER, "say 2")),
        (Stop, plan_text(RESPOND_TO_USER, ""), step(RESPOND_TO_USER, "")),
        (Stop, r#"{"task": "x", "selected_tool": null}"#.to_owned(), step(RESPOND_TO_USER, "x")),
        // Faults.
        (Stop, plan_text("fly", "x"), fault("unknown_tool")),
        (Stop, plan_text("Search", "x"), fault("unknown_tool")),
        (Stop, plan_text("search", " "), fault("malformed_reply")),
        (Stop, r#"{"task": "x"}"#.to_owned(), fault("malformed_reply")),
        (Stop, r#"{"selected_tool": "search"}"#.to_owned(), fault("malformed_reply")),
        (
            Stop,
            r#"{"task": "x", "selected_tool": ["search"]}"#.to_owned(),
            fault("malformed_reply"),
        ),
        (Stop, r#"{"task": 1, "selected_tool": "search"}"#.to_owned(), fault("malformed_reply")),
        (Stop, "{}".to_owned(), fault("malformed_reply")),
        (Stop, "I would search.".to_owned(), fault("malformed_reply")),
        (
            Stop,
            "{\"task\": find, \"selected_tool\": \"search\"}".to_owned(),
            fault("malformed_reply"),
        ),
        (Stop, "\"search\"".to_owned(), fault("malformed_reply")),
        (Stop, " \n".to_owned(), fault("empty_reply")),
        (Stop, "<think>hm</think>".to_owned(), fault("empty_reply")),
        // A cut reply asks for nothing.
        (Length, good.clone(), fault("truncated_reply")),
        (ContentFilter, good.clone(), fault("truncated_reply")),
        (Length, format!("```json\n{good}\n``"), fault("truncated_reply")),
        (Length, String::new(), fault("truncated_reply")),
        (Length, "I would".to_owned(), fault("truncated_reply")),
        (Stop, format!("<think>{good}"), fault("truncated_reply")),
        (Stop, good.split_at(good.len() - 4).0.to_owned(), fault("truncated_reply")),
        (Stop, "{\"task\": \"find".to_owned(), fault("truncated_reply")),
        (Stop, "{".repeat(100_000), fault("malformed_reply")),
        (Stop, "{\"a\":".repeat(100_000), fault("malformed_reply")),
    ];
    for (finish, content, expected) in cases {
        assert_eq!(outline(&read_text(finish, &content)), expected, "{finish:?} {content:.200}");
    }
}

#[test]
fn thoughts_and_summary_stand_beside_the_task() {
    let Reading::Planned(planned) = read_text(Stop, &plan_text("now", "x")) else {
        panic!("not read as a plan");
    };
    assert_eq!((planned.summary.as_str(), planned.thoughts.as_str()), ("s", "t"));
}

#[test]
fn feedback_names_every_fault_and_the_way_out() {
    let missing = |key: &str| format!("{key:?} is missing");
    let cases = [
        (
            r#"{"thoughts": 1, "context_information_summary": [], "task": {}}"#,
            vec![
                missing(TOOL),
                format!("{SUMMARY:?} must be a string, not a list"),
                format!("{THOUGHTS:?} must be a string, not a number"),
                format!("{TASK:?} must be a string, not an object"),
            ],
        ),
        ("{\"a\": 1}", vec![missing(TASK), missing(TOOL)]),
        (
            r#"{"thoughts": true, "task": "", "selected_action": "now"}"#,
            vec![
                format!("{THOUGHTS:?} must be a string, not a truth value"),
                format!("{TASK:?} is empty"),
            ],
        ),
        (
            r#"{"selected_tool": "fly"}"#,
            vec![missing(TASK), format!("{TOOL:?} names \"fly\", which is not offered")],
        ),
    ];
    let plan = planning(Dialect::Native);
    for (content, expected) in cases {
        let Reading::Fault { feedback, raw } = read_text(Stop, content) else {
            panic!("{content}: no fault");
        };
        assert_eq!(feedback.faults, expected, "{content}");
        assert_eq!(feedback.valid_names, names(&plan), "{content}");
        assert_eq!(raw, content);
        let unknown = feedback.code == FeedbackCode::UnknownTool;
        assert_eq!((unknown, unknown), (content.contains("fly"), feedback.schema.is_none()));
    }
    let mut called = reply(Stop, "");
    let (name, arguments) = ("search".to_owned(), "{}".to_owned());
    called.calls.push(ToolCall { id: String::new(), name, arguments });
    let Reading::Fault { feedback, raw } = read(&plan, &called) else { panic!("no fault") };
    assert_eq!((feedback.code, raw.as_str()), (FeedbackCode::MalformedReply, "search {}"));
}

#[test]
fn the_schema_limits_the_tool_to_what_is_offered_and_keeps_its_order() {
    let plan = planning(Dialect::Native);
    let schema = schema(&plan);
    let keys: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["context_information_summary", "thoughts", "task", "selected_tool"]);
    let tools = json!(["search", "calculate", "now", "ask_user", RESPOND_TO_USER]);
    assert_eq!(schema["properties"][TOOL]["enum"], tools);
    let validator = validator(&schema).unwrap();
    let object = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    assert!(faults(&validator, &object(plan_text("now", "x"))).is_empty());
    assert!(!faults(&validator, &object(plan_text("fly", "x"))).is_empty());
    crate::grammar::to_gbnf(&schema).unwrap();

    for (dialect, is_sent) in [
        (Dialect::Native, true),
        (Dialect::Schema, true),
        (Dialect::Json, false),
        (Dialect::React, false),
    ] {
        let mut plan = planning(Dialect::Native);
        plan.planner.as_mut().unwrap().dialect = dialect;
        let transcript = Transcript { plan: &plan, history: &[], request: "Q", steps: &[] };
        let catalogue = Catalogue::new(plan.clone().into());
        let head = prompt_of(ModelRole::Thinker, &catalogue, &transcript).head;
        let sent = head.response_schema.clone().map(|response| response.schema);
        assert_eq!(sent, is_sent.then(|| schema.clone()), "{dialect:?}");
        assert!(head.tools.is_empty() && head.stop.is_empty());
    }
}

/// A step that is over.
pub(super) fn step(tool: &str, task: &str, results: &[&str]) -> Step {
    let called = |result: &&str| Called {
        read: ReadCall {
            id: String::new(),
            name: tool.to_owned(),
            arguments: json!({}).into(),
            raw: "{}".to_owned(),
            written: String::new(),
            fault: None,
        },
        key: None,
        result: Some((*result).to_owned()),
    };
    let calls = results.iter().map(called).collect();
    Step {
        planned: Some(asks(tool, task)),
        acts: vec![Act::Calls { text: String::new(), calls, reasoning: None }],
        ..Step::default()
    }
}

pub(super) fn asks(tool: &str, task: &str) -> Planned {
    Planned {
        tool: tool.to_owned(),
        task: task.to_owned(),
        thoughts: "not shown".to_owned(),
        summary: "not shown".to_owned(),
    }
}

fn last(prompt: &Prompt) -> &str {
    prompt.messages.last().unwrap().content()
}

#[test]
fn a_planner_is_told_request_history_and_what_came_of_earlier_tasks() {
    let plan = planning(Dialect::Native);
    let history = [Exchange { user: "Hello".to_owned(), answer: "Hi".into(), tainted: false }];
    let told = |steps: &[Step]| {
        let transcript = Transcript { plan: &plan, history: &history, request: "Who?", steps };
        prompt_of(ModelRole::Thinker, &Catalogue::new(plan.clone().into()), &transcript)
    };
    let first = told(&[Step::default()]);
    assert_eq!(first, told(&[]));
    let texts: Vec<&str> = first.messages.iter().map(|message| message.content()).collect();
    assert_eq!((&texts[1..3], first.keep), (&["Hello", "Hi"][..], 3));
    assert_eq!(
        texts[3],
        "The user request is: Who?\n\nNo step has been taken yet.\n\nWhat comes next? Reply with \
         one JSON object, nothing else."
    );
    for part in ["You answer questions.\n\n", "- search: Searches", "- respond_to_user: ", TOOL] {
        assert!(texts[0].contains(part), "{part} in {}", texts[0]);
    }

    let mut faulty = Step::default();
    let feedback = feedback(Reason::NotOfForm, "no good");
    faulty.acts.push(Act::Feedback { raw: "hm".to_owned(), feedback });
    let steps = [
        step("search", "find her", &["Vittoria, 25"]),
        step("calculate", "25^0.24", &["2.16524", "again"]),
        faulty,
    ];
    let later = told(&steps);
    assert_eq!(later.messages[..3], first.messages[..3]);
    let texts: Vec<&str> = later.messages.iter().map(|message| message.content()).collect();
    assert_eq!(
        texts[3],
        "The user request is: Who?\n\nThe steps so far:\n\nTask: find her\nResult: Vittoria, \
         25\n\nTask: 25^0.24\nResult: 2.16524\nagain\n\nWhat comes next? Reply with one JSON \
         object, nothing else."
    );
    assert_eq!(texts[4], "hm");
    assert!(
        last(&later).contains("no good")
            && last(&later).ends_with("free of these faults, nothing else.")
    );
}

#[test]
fn what_is_offered_is_the_plan_and_each_call_by_its_own_model() {
    let mut plan = planning(Dialect::Schema);
    let own = AskedModel { model: Name::new("math").unwrap(), dialect: Dialect::Native };
    plan.tools[1].actor = Some(own);
    let offered = super::super::offered(&plan);
    assert_eq!(offered["plan"], schema(&plan));
    let calls = &offered["calls"];
    assert_eq!(calls["search"]["model"], "small");
    let search = &calls["search"]["offered"];
    assert_eq!(search["properties"]["tool"], json!({"const": "search"}));
    assert_eq!(
        (&calls["calculate"]["model"], &calls["calculate"]["dialect"]),
        (&json!("math"), &json!("native"))
    );
    assert_eq!(calls["calculate"]["offered"][0]["function"]["name"], "calculate");
}
