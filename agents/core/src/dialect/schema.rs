//! Dialect `schema`: one JSON object under a schema, by constrained decoding.

use serde_json::{Map, Value};
use wire::chat::{Head, ResponseSchema};
use wire::entry::Reason;
use wire::plan::Audience;
use wire::{ModelReply, ModelRole, Name, Plan, Reading};

use super::calls::{self, Arguments, RESPOND, Written};
use super::{Prompt, RESPOND_TO_USER, Transcript, text, thinking, union};
use crate::validate::{Catalogue, FAULTS_MAX, Toolbox};

/// Renders the run as text, then the thought, then the demand for one call.
pub(super) fn prompt(catalogue: &Catalogue, transcript: &Transcript<'_>) -> Prompt {
    let head = catalogue.head(ModelRole::Actor, |plan| Head {
        response_schema: response_schema(plan),
        ..Head::default()
    });
    text::prompt(Audience::Actor, catalogue, transcript, head)
}

fn response_schema(plan: &Plan) -> Option<ResponseSchema> {
    Name::new("call").ok().map(|name| ResponseSchema { name, schema: union::of(plan) })
}

/// Reads the one object that a reply consists of; the plan is for the feedback. A cut reply is never a call.
pub(super) fn read(toolbox: &Toolbox, plan: Option<&Plan>, reply: &ModelReply) -> Reading {
    let spoken = thinking::removed(&reply.content);
    if spoken.cut || calls::is_cut(reply) {
        return calls::fault(Reason::Cut, reply);
    }
    if spoken.text.is_empty() {
        return calls::fault(Reason::Empty, reply);
    }
    match call(unfenced(&spoken.text)) {
        Ok(call) => {
            let arguments = Arguments::Value(call.arguments);
            let written = Written { id: String::new(), name: call.tool, arguments };
            calls::reading(toolbox, &[RESPOND], call.thought.trim().to_owned(), vec![written])
        }
        Err(faults) => {
            let mut feedback = calls::feedback(Reason::NotOfForm);
            feedback.faults = faults;
            feedback.schema = plan.map(union::of);
            feedback.valid_names = toolbox.names();
            feedback.valid_names.push(RESPOND_TO_USER.to_owned());
            Reading::Fault { feedback, raw: calls::raw(reply) }
        }
    }
}

struct Call {
    thought: String,
    tool: String,
    arguments: Value,
}

/// Takes the object apart, or lists everything that is wrong with its shape.
fn call(text: &str) -> Result<Call, Vec<String>> {
    let object: Map<String, Value> = match serde_json::from_str(text) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Err(vec!["the reply is JSON, but no object".to_owned()]),
        Err(error) => return Err(vec![format!("the reply is not JSON: {error}")]),
    };
    let mut call = Call { thought: String::new(), tool: String::new(), arguments: Value::Null };
    let mut faults = Vec::new();
    for name in ["tool", "arguments"] {
        if !object.contains_key(name) {
            faults.push(format!("{name:?} is missing"));
        }
    }
    for (name, value) in object {
        match (name.as_str(), value) {
            ("thought", Value::String(text)) => call.thought = text,
            ("tool", Value::String(text)) => call.tool = text,
            ("thought" | "tool", _) => faults.push(format!("{name:?} is not a string")),
            ("arguments", value) => call.arguments = value,
            _ => faults.push(format!("{} does not belong to a call", calls::quoted(&name))),
        }
    }
    faults.truncate(FAULTS_MAX);
    if faults.is_empty() { Ok(call) } else { Err(faults) }
}

/// Removes a code fence round the whole text, which some models write even around JSON.
fn unfenced(text: &str) -> &str {
    let Some(inside) = text.strip_prefix("```") else { return text };
    let inside = inside.strip_suffix("```").unwrap_or(inside);
    inside.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).trim()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::FinishReason::{self, ContentFilter, Length, Stop};
    use wire::plan::Dialect;

    use super::super::fixture::{catalogue, outline, reply};
    use super::*;

    fn read_text(finish: FinishReason, content: &str) -> Reading {
        let catalogue = catalogue(Dialect::Schema, false);
        read(catalogue.toolbox(), Some(catalogue.plan()), &reply(finish, content))
    }

    #[test]
    fn replies_are_read_as_one_call_answer_or_fault() {
        let good = r#"{"tool":"search","arguments":{"query":"x"}}"#;
        let search = json!([["search", {"query": "x"}]]);
        let cases = [
            (Stop, good.to_owned(), search.clone()),
            (Stop, format!("<think>{good}</think> {good}\n"), search.clone()),
            (Stop, format!("```json\n{good}\n```"), search.clone()),
            (Stop, format!("```{good}```"), search.clone()),
            (Stop, format!("```\n{good}"), search),
            (
                Stop,
                r#"{"thought":"t","tool":"now","arguments":{}}"#.to_owned(),
                json!([["now", {}]]),
            ),
            (Stop, r#"{"tool":"now","arguments":null}"#.to_owned(), json!([["now", {}]])),
            (Stop, r#"{"tool":"now","arguments":"{}"}"#.to_owned(), json!([["now", {}]])),
            (
                Stop,
                r#"{"tool":"nope","arguments":{}}"#.to_owned(),
                json!([["nope", {}, "unknown_tool"]]),
            ),
            (
                Stop,
                r#"{"tool":"search","arguments":{"query":5}}"#.to_owned(),
                json!([["search", {"query": 5}, "invalid_arguments"]]),
            ),
            (
                Stop,
                r#"{"tool":"calculate","arguments":{"expression":"1","digits":117512345678901234567}}"#
                    .to_owned(),
                json!([[
                    "calculate",
                    {"expression": "1", "digits": 1.175_123_456_789_012_3e20},
                    "invalid_arguments",
                ]]),
            ),
            (
                Stop,
                r#"{"tool":"respond_to_user","arguments":{"answer":"42"}}"#.to_owned(),
                json!({"final": "42"}),
            ),
            (
                Stop,
                r#"{"tool":"respond_to_user","arguments":{"answer":" "}}"#.to_owned(),
                json!([["respond_to_user", {"answer": " "}, "invalid_arguments"]]),
            ),
            (
                Stop,
                r#"{"tool":"respond_to_user","arguments":{}}"#.to_owned(),
                json!([["respond_to_user", {}, "invalid_arguments"]]),
            ),
            (Length, good.to_owned(), json!({"fault": "truncated_reply"})),
            (ContentFilter, good.to_owned(), json!({"fault": "truncated_reply"})),
            (Stop, format!("<think>{good}"), json!({"fault": "truncated_reply"})),
            (Stop, "  ".to_owned(), json!({"fault": "empty_reply"})),
            (Stop, "I think so.".to_owned(), json!({"fault": "malformed_reply"})),
            (Stop, format!("{good} {good}"), json!({"fault": "malformed_reply"})),
            (Stop, format!("[{good}]"), json!({"fault": "malformed_reply"})),
            (Stop, r#"{"tool":"now"}"#.to_owned(), json!({"fault": "malformed_reply"})),
            (
                Stop,
                r#"{"tool":["now"],"arguments":{}}"#.to_owned(),
                json!({"fault": "malformed_reply"}),
            ),
            (
                Stop,
                r#"{"type":"feedback_success","tool":"now","arguments":{}}"#.to_owned(),
                json!({"fault": "malformed_reply"}),
            ),
            (Stop, "[".repeat(100_000), json!({"fault": "malformed_reply"})),
        ];
        for (finish, content, expected) in cases {
            assert_eq!(
                outline(&read_text(finish, &content)),
                expected,
                "{finish:?} {content:.200}"
            );
        }
    }

    #[test]
    fn the_thought_of_a_reply_stands_beside_its_call() {
        let reading = read_text(Stop, r#"{"thought":" why ","tool":"now","arguments":{}}"#);
        let Reading::Calls { text, .. } = reading else { panic!("not read as calls: {reading:?}") };
        assert_eq!(text, "why");
    }

    #[test]
    fn feedback_on_the_shape_names_every_fault_and_the_way_out() {
        let reading = read_text(Stop, r#"{"thought":1,"tool":2,"more":3}"#);
        let Reading::Fault { feedback, raw } = reading else { panic!("no fault: {reading:?}") };
        assert_eq!(feedback.faults.len(), 4, "{feedback:?}");
        assert_eq!(feedback.valid_names, ["search", "calculate", "now", RESPOND_TO_USER]);
        let plan = catalogue(Dialect::Schema, false).plan().clone();
        assert_eq!(feedback.schema, Some(super::super::offered(&plan)));
        assert_eq!(raw, r#"{"thought":1,"tool":2,"more":3}"#);
    }
}
