//! What a model is shown and may say that carries one task out.

use wire::FinishReason::{self, Length, Stop};
use wire::plan::AskedModel;
use wire::{Message, ModelRole, ToolCall};

use super::super::super::fixture::{feedback, outline, planning, reply};
use super::super::super::{Act, Called, Exchange, Step, prompt as prompt_of, read as read_of};
use super::super::tests::{asks, step};
use super::*;

const DIALECTS: [Dialect; 4] = [Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React];

fn read_text(dialect: Dialect, tool: &str, finish: FinishReason, content: &str) -> Value {
    let catalogue = Catalogue::new(planning(dialect).into());
    let reply = reply(finish, content);
    outline(&read_of(ModelRole::Actor, &catalogue, Some(&asks(tool, "x")), &reply).reading)
}

#[test]
fn only_the_selected_tool_is_called() {
    use Dialect::{Json, Native, React, Schema};
    let schema = |tool: &str, arguments: &str| {
        format!("{{\"tool\": \"{tool}\", \"arguments\": {arguments}}}")
    };
    let blob = |tool: &str| {
        format!(
            "Action:\n```json\n{{\"action\": \"{tool}\", \"action_input\": {{\"query\": \"x\"}}}}\n```"
        )
    };
    let query = "{\"query\": \"x\"}";
    let searched = json!([["search", {"query": "x"}]]);
    let fault = |code: &str| json!({ "fault": code });
    let cases = [
        (Schema, Stop, schema("search", query), searched.clone()),
        (Schema, Stop, schema("search", "{}"), json!([["search", {}, "invalid_arguments"]])),
        (Schema, Stop, schema("now", "{}"), json!([["now", {}, "unknown_tool"]])),
        (Schema, Stop, schema("fly", "{}"), json!([["fly", {}, "unknown_tool"]])),
        (Schema, Stop, schema("respond_to_user", "{\"answer\": \"a\"}"), fault("malformed_reply")),
        (Schema, Length, schema("search", query), fault("truncated_reply")),
        (Schema, Stop, "x".to_owned(), fault("malformed_reply")),
        (Native, Stop, "Call: search(query='x')".to_owned(), searched.clone()),
        (Native, Stop, "I have searched.".to_owned(), fault("malformed_reply")),
        (Native, Length, "I have".to_owned(), fault("truncated_reply")),
        (Native, Length, String::new(), fault("truncated_reply")),
        (Native, Stop, String::new(), fault("empty_reply")),
        (
            Json,
            Stop,
            format!("{{\"action\": {{\"function\": \"search\", \"arguments\": {query}}}}}"),
            searched.clone(),
        ),
        (
            Json,
            Stop,
            "{\"action\": {\"function\": \"now\", \"arguments\": {}}}".to_owned(),
            json!([["now", {}, "unknown_tool"]]),
        ),
        (React, Stop, blob("search"), searched),
        (React, Stop, blob("calculate"), json!([["calculate", {"query": "x"}, "unknown_tool"]])),
        (React, Stop, "Final Answer: x".to_owned(), fault("malformed_reply")),
    ];
    for (dialect, finish, content, expected) in cases {
        let found = read_text(dialect, "search", finish, &content);
        assert_eq!(found, expected, "{dialect:?} {content}");
    }
}

#[test]
fn feedback_on_another_tool_names_the_one_that_was_selected() {
    let catalogue = Catalogue::new(planning(Dialect::Native).into());
    let mut reply = reply(Stop, "");
    for name in ["search", "now", RESPOND_TO_USER] {
        let arguments = "{\"query\": \"x\"}".to_owned();
        reply.calls.push(ToolCall { id: String::new(), name: name.to_owned(), arguments });
    }
    let planned = asks("search", "x");
    let reading = read_of(ModelRole::Actor, &catalogue, Some(&planned), &reply).reading;
    let Reading::Calls { calls, .. } = reading else { panic!("{reading:?}") };
    let faults: Vec<Option<&Feedback>> = calls.iter().map(|call| call.fault.as_ref()).collect();
    let [None, Some(now), Some(answer)] = faults.as_slice() else { panic!("{faults:?}") };
    for feedback in [now, answer] {
        assert_eq!(feedback.code, FeedbackCode::UnknownTool);
        assert_eq!(feedback.valid_names, ["search"]);
    }
    let plan = planning(Dialect::Schema);
    let catalogue = Catalogue::new(plan.clone().into());
    let broken = super::super::super::fixture::reply(Stop, "{}");
    let reading = read_of(ModelRole::Actor, &catalogue, Some(&planned), &broken).reading;
    let Reading::Fault { feedback, .. } = reading else { panic!("{reading:?}") };
    assert_eq!(feedback.schema, Some(union::only(&plan.tools[0])));
    assert_eq!(feedback.valid_names, ["search"]);
}

#[test]
fn an_answer_is_taken_as_text_or_out_of_the_form_of_a_dialect() {
    let answer = json!({"final": "42"});
    let schema = r#"{"tool": "respond_to_user", "arguments": {"answer": "42"}}"#;
    let json_form = |name: &str, key: &str| {
        format!(
            "{{\"thought\": \"t\", \"action\": {{\"function\": \"{name}\", \"arguments\": {{\"{key}\": \"42\"}}}}}}"
        )
    };
    for dialect in DIALECTS {
        let cases = [
            ("42".to_owned(), answer.clone()),
            ("<think>hm</think> 42\n".to_owned(), answer.clone()),
            (schema.to_owned(), answer.clone()),
            (format!("```json\n{schema}\n```"), answer.clone()),
            (json_form("respond_to_user", "answer"), answer.clone()),
            (json_form("finish_conversation", "final_answer"), answer.clone()),
            ("{\"age\": 25}".to_owned(), json!({"final": "{\"age\": 25}"})),
            ("Use `search` for {x}.".to_owned(), json!({"final": "Use `search` for {x}."})),
            ("search(query='x')".to_owned(), json!([["search", {"query": "x"}, "unknown_tool"]])),
            (
                schema.replace("answer", "text"),
                json!([["respond_to_user", {"text": "42"}, "invalid_arguments"]]),
            ),
            (" ".to_owned(), json!({"fault": "empty_reply"})),
            ("<think>hm".to_owned(), json!({"fault": "truncated_reply"})),
        ];
        for (content, expected) in cases {
            let found = read_text(dialect, RESPOND_TO_USER, Stop, &content);
            assert_eq!(found, expected, "{dialect:?} {content}");
        }
    }
    let labelled = "Thought: done\nFinal Answer: 42";
    assert_eq!(read_text(Dialect::React, RESPOND_TO_USER, Stop, labelled), answer);
    for dialect in DIALECTS {
        for (content, text) in [("It is 4", "It is 4"), ("", ""), ("<think>hm", "")] {
            let found = read_text(dialect, RESPOND_TO_USER, Length, content);
            assert_eq!(found, json!({ "cut": text }), "{dialect:?} {content}");
        }
    }
}

fn sent(dialect: Dialect, steps: &[Step]) -> Prompt {
    let plan = planning(dialect);
    let history = [Exchange { user: "Hello".to_owned(), answer: "Hi".into(), tainted: false }];
    let transcript = Transcript { plan: &plan, history: &history, request: "Who?", steps };
    prompt_of(ModelRole::Actor, &Catalogue::new(plan.clone().into()), &transcript)
}

fn in_work(tool: &str, task: &str) -> Step {
    Step { planned: Some(asks(tool, task)), ..Step::default() }
}

#[test]
fn a_model_is_shown_one_tool_and_one_task() {
    let steps = [step("search", "find her", &["Vittoria, 25"]), in_work("calculate", "25^0.24")];
    for dialect in DIALECTS {
        for (steps, before) in [(&steps[..], true), (&steps[1..], false)] {
            let prompt = sent(dialect, steps);
            let texts: Vec<&str> = prompt.messages.iter().map(|it| it.content()).collect();
            let [system, asked] = texts.as_slice() else { panic!("{dialect:?}: {texts:?}") };
            assert!(system.starts_with("You answer questions."), "{system}");
            assert!(asked.contains("The task is: 25^0.24\n"), "{asked}");
            assert!(asked.contains("calling calculate"), "{asked}");
            let blocks = "Task: find her\nResult: Vittoria, 25";
            assert_eq!(asked.contains(blocks), before, "{asked}");
            for foreign in ["Hello", "Who?", "not shown", "respond_to_user", "Searches", "Tells"] {
                assert!(!texts.iter().any(|text| text.contains(foreign)), "{dialect:?} {foreign}");
            }
            let described = system.contains("- calculate: Evaluates an expression.\n");
            assert_eq!(described, dialect != Dialect::Native, "{system}");
            let tools: Vec<&str> = prompt.head.tools.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(tools == ["calculate"], dialect == Dialect::Native);
            let schema = prompt.head.response_schema.clone().map(|response| response.schema);
            let only = union::only(&planning(dialect).tools[1]);
            assert_eq!(schema, (dialect == Dialect::Schema).then_some(only));
            assert_eq!(prompt.head.stop.is_empty(), dialect != Dialect::React);
            assert_eq!(prompt.keep, 0, "the next task may be of another tool");
        }
    }
}

#[test]
fn a_tool_with_a_model_of_its_own_is_asked_in_that_models_dialect() {
    let mut plan = planning(Dialect::Schema);
    let own = AskedModel { model: Name::new("math").unwrap(), dialect: Dialect::Native };
    plan.tools[1].actor = Some(own);
    let steps = [in_work("calculate", "25^0.24")];
    let transcript = Transcript { plan: &plan, history: &[], request: "Who?", steps: &steps };
    let catalogue = Catalogue::new(plan.clone().into());
    let prompt = prompt_of(ModelRole::Actor, &catalogue, &transcript);
    assert_eq!(prompt.head.tools.len(), 1);
    assert_eq!(prompt.head.response_schema, None);
    let called = reply(Stop, "Call: calculate(expression='1')");
    let reading = read_of(ModelRole::Actor, &catalogue, steps[0].planned.as_ref(), &called).reading;
    assert_eq!(outline(&reading), json!([["calculate", {"expression": "1"}]]));
}

#[test]
fn the_answer_is_asked_for_as_text_with_all_that_is_known() {
    let steps =
        [step("search", "find her", &["Vittoria, 25"]), in_work(RESPOND_TO_USER, "name her")];
    for dialect in DIALECTS {
        let prompt = sent(dialect, &steps);
        assert_eq!(*prompt.head, Head::default());
        let texts: Vec<&str> = prompt.messages.iter().map(|it| it.content()).collect();
        assert_eq!(texts[1..3], ["Hello", "Hi"]);
        assert_eq!(
            texts[3],
            "The user request is: Who?\n\nThe steps so far:\n\nTask: find her\nResult: Vittoria, \
             25\n\nThe task is: name her\n\nWrite the answer to the user now."
        );
    }
}

#[test]
fn a_reply_that_cannot_be_used_is_shown_with_what_is_wrong() {
    let faulty = Called {
        read: wire::entry::ReadCall {
            id: "c".to_owned(),
            name: "calculate".to_owned(),
            arguments: json!({"digits": 1}).into(),
            raw: "{\"digits\":1}".to_owned(),
            written: String::new(),
            fault: None,
        },
        key: None,
        result: Some("it lacks expression".to_owned()),
    };
    let feedback = feedback(Reason::NoCall, "no call");
    for dialect in DIALECTS {
        let mut current = in_work("calculate", "25^0.24");
        current.acts = vec![
            Act::Feedback { raw: "hm".to_owned(), feedback: feedback.clone() },
            Act::Calls { text: "so".to_owned(), calls: vec![faulty.clone()], reasoning: None },
        ];
        let prompt = sent(dialect, &[current]);
        let messages: Vec<&Message> = prompt.messages.iter().map(|message| &**message).collect();
        assert_eq!(messages.len(), 6, "{dialect:?}");
        assert_eq!(messages[2].content(), "hm");
        assert!(messages[3].content().contains("no call"));
        assert!(messages[3].content().ends_with("free of these faults, and write nothing else."));
        match (dialect, messages[4], messages[5]) {
            (Dialect::Native, Message::Assistant { calls, .. }, Message::Tool { call_id, .. }) => {
                assert_eq!((calls[0].id.as_str(), call_id.as_str()), ("c", "c"));
            }
            (_, Message::Assistant { content, .. }, Message::User { .. }) => {
                assert!(content.contains("digits"), "{content}");
            }
            (_, said, told) => panic!("{dialect:?}: {said:?} {told:?}"),
        }
        assert!(messages[5].content().contains("it lacks expression"));
    }
}
