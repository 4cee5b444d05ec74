//! Dialect `json`: one JSON object with a thought and an action, asked for by a prompt alone.

use serde_json::Value;
use wire::chat::Head;
use wire::entry::Reason;
use wire::plan::Form;
use wire::{ModelReply, ModelRole, Reading};

use super::calls::{self, Arguments, Written};
use super::extract::{self, Found};
use super::form::{self, FEEDBACK};
use super::lenient::Fault;
use super::{Prompt, Transcript, thinking, told};
use crate::validate::{Catalogue, Toolbox};

/// The brackets round the arguments of a call, which may be missing at its end.
const SPARE: usize = 2;

/// Renders the conversation: each reply in its form, each result as one JSON object.
pub(super) fn prompt(catalogue: &Catalogue, transcript: &Transcript<'_>) -> Prompt {
    let head = catalogue.head(ModelRole::Actor, |_| Head::default());
    told::prompt(catalogue, transcript, head)
}

/// Reads the first object of a reply. What follows it is not looked at.
pub(super) fn read(toolbox: &Toolbox, form: &Form, reply: &ModelReply) -> Reading {
    let spoken = thinking::removed(&reply.content);
    if spoken.cut {
        return calls::fault(Reason::Cut, reply);
    }
    if spoken.text.is_empty() {
        return if calls::is_cut(reply) {
            calls::fault(Reason::Cut, reply)
        } else {
            calls::fault(Reason::Empty, reply)
        };
    }
    let faults = match first(&spoken.text, form) {
        Ok(Some(found)) => {
            if calls::is_cut_at(reply, spoken.text.get(found.end..)) {
                return calls::fault(Reason::Cut, reply);
            }
            match call(&found.value, form) {
                Ok((thought, written)) => {
                    let endings = form::endings(form);
                    let reading = calls::reading(toolbox, &endings, thought, vec![written]);
                    return calls::worded(reading, &spoken.text, found.end);
                }
                Err(faults) => faults,
            }
        }
        Ok(None) => vec!["there is no JSON object in the reply".to_owned()],
        Err(fault) if fault.is_cut => return calls::fault(Reason::Cut, reply),
        Err(fault) => vec![format!("the JSON object cannot be read: {fault}")],
    };
    let mut feedback = calls::feedback(Reason::NotOfForm);
    feedback.faults = faults;
    feedback.schema = Some(form::schema(form));
    feedback.valid_names = toolbox.names();
    feedback.valid_names.push(form.ending.clone());
    Reading::Fault { feedback, raw: calls::raw(reply) }
}

/// Returns what follows the object that is the reply.
pub(super) fn rest<'t>(text: &'t str, form: &Form) -> &'t str {
    let found = first(text, form).ok().flatten();
    found.and_then(|found| text.get(found.end..)).unwrap_or_default()
}

/// Finds the object that is the reply: the first one in a fence, unless an action precedes it;
/// without a fence the first one at all.
fn first(text: &str, form: &Form) -> Result<Option<Found>, Fault> {
    let any = |_: &Value| true;
    let fenced = extract::fences(text).find(|at| extract::is_object_like(text, *at));
    let plain = extract::object(text, 0, SPARE, any);
    let key = form.action.as_ref().unwrap_or(&form.function);
    let is_action = |found: &Found| found.value.get(key).is_some();
    match (fenced, plain) {
        (Some(at), Ok(Some(found))) if found.start < at && !is_action(&found) => {
            extract::object(text, at, SPARE, any)
        }
        (_, plain) => plain,
    }
}

/// Takes the object apart, or lists everything that is wrong with its shape.
fn call(value: &Value, form: &Form) -> Result<(String, Written), Vec<String>> {
    let mut faults = Vec::new();
    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind.starts_with(FEEDBACK) || kind == form.success || kind == form.error {
        faults.push(format!("{} is for the runtime to send, not for you", calls::quoted(kind)));
    }
    let thought = match value.get(&form.thought) {
        Some(Value::String(text)) => text.trim().to_owned(),
        None | Some(Value::Null) => String::new(),
        Some(other) => {
            faults.push(wrong(&form.thought, "a string", other));
            String::new()
        }
    };
    let (mut name, mut arguments) = (String::new(), Value::Null);
    match action(value, form) {
        Some((_, Value::Object(action))) => {
            match action.get(&form.function).or_else(|| action.get("name")) {
                Some(Value::String(text)) => text.trim().clone_into(&mut name),
                Some(other) => faults.push(wrong(&form.function, "a string", other)),
                None => faults.push(format!("{:?} is missing", form.function)),
            }
            match action.get(&form.arguments) {
                Some(object @ Value::Object(_)) => arguments = object.clone(),
                Some(other) => faults.push(wrong(&form.arguments, "an object", other)),
                None => faults.push(format!("{:?} is missing", form.arguments)),
            }
        }
        Some((key, other)) => faults.push(wrong(key, "an object", other)),
        None => faults.push(format!("{:?} is missing", form.action.as_deref().unwrap_or_default())),
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let arguments = Arguments::Value(arguments);
    Ok((thought, Written { id: String::new(), name, arguments }))
}

/// Returns where name and arguments stand, with the key of that place.
fn action<'v>(value: &'v Value, form: &'v Form) -> Option<(&'v str, &'v Value)> {
    match &form.action {
        Some(key) => value.get(key).map(|action| (key.as_str(), action)),
        None => Some(("the reply", value)),
    }
}

fn wrong(name: &str, wanted: &str, found: &Value) -> String {
    format!("{name:?} must be {wanted}, not {}", calls::kind(found))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::FinishReason::{self, Length, Stop};
    use wire::plan::Dialect;

    use super::super::fixture::{catalogue, outline, reply};
    use super::*;

    fn read_text(finish: FinishReason, content: &str) -> Reading {
        let catalogue = catalogue(Dialect::Json, false);
        read(catalogue.toolbox(), &catalogue.plan().form, &reply(finish, content))
    }

    #[test]
    fn the_first_action_is_read_and_nothing_after_it() {
        let good =
            r#"{"thought": "t", "action": {"function": "search", "arguments": {"query": "x"}}}"#;
        let other = good.replace("\"x\"", "\"y\"");
        let feedback = r#"{"type": "feedback_success", "function": "search", "result": 1}"#;
        let search = json!([["search", {"query": "x"}]]);
        let malformed = json!({"fault": "malformed_reply"});
        let cut = json!({"fault": "truncated_reply"});
        let cases = [
            (Stop, good.to_owned(), search.clone()),
            (Stop, good.replace("function", "name"), search.clone()),
            (Stop, format!("So:\n  ``` JSON\n{good}"), search.clone()),
            (Stop, format!("```Json\n{good}\n``` and so on"), search.clone()),
            (Stop, format!("<think>{other}</think>{good}"), search.clone()),
            (Stop, format!("{good}\n{feedback}\n{other}"), search.clone()),
            (Stop, format!("{good}\n```json\n{other}\n```"), search.clone()),
            (Stop, format!("given {{\"lat\": 1}}:\n```json\n{good}\n```"), search.clone()),
            (Stop, good.replace('"', "'"), search.clone()),
            (Stop, good.strip_suffix("}}").unwrap().to_owned(), search),
            (Length, format!("{good} {feedback}"), json!([["search", {"query": "x"}]])),
            (Length, good.to_owned(), cut.clone()),
            (Stop, good.strip_suffix("}}}").unwrap().to_owned(), cut.clone()),
            (Stop, format!("<think>{good}"), cut),
            (Stop, format!("{feedback} {good}"), malformed.clone()),
            (Stop, "{\"thought\": t} ".to_owned() + good, malformed.clone()),
            (Stop, "I think so.".to_owned(), malformed),
            (Stop, " ".to_owned(), json!({"fault": "empty_reply"})),
            (
                Stop,
                r#"{"thought":"","action":{"function":"finish_conversation","arguments":{"final_answer":"a"}}}"#.to_owned(),
                json!({"final": "a"}),
            ),
            (
                Stop,
                r#"{"thought":"","action":{"function":"respond_to_user","arguments":{"answer":"a"}}}"#.to_owned(),
                json!({"final": "a"}),
            ),
            (
                Stop,
                r#"{"action":{"function":"finish_conversation","arguments":{"result":"a"}}}"#.to_owned(),
                json!([["finish_conversation", {"result": "a"}, "invalid_arguments"]]),
            ),
            (
                Stop,
                r#"{"action":{"function":"fly","arguments":{}}}"#.to_owned(),
                json!([["fly", {}, "unknown_tool"]]),
            ),
        ];
        for (finish, content, expected) in cases {
            assert_eq!(outline(&read_text(finish, &content)), expected, "{content}");
        }
    }

    #[test]
    fn every_fault_of_the_shape_is_told_at_once() {
        let cases = [
            (r#"{"thought": 1, "action": {"function": null, "arguments": []}}"#, 3),
            (r#"{"type": "feedback_error", "thought": {}, "action": "search"}"#, 3),
            (r#"{"action": {"function": ["search"], "arguments": "x"}}"#, 2),
            (r#"{"action": null}"#, 1),
            (r#"{"action": {}}"#, 2),
            ("[1, 2]", 1),
        ];
        for (content, expected) in cases {
            let reading = read_text(Stop, content);
            let Reading::Fault { feedback, raw } = reading else {
                panic!("{content}: {reading:?}")
            };
            assert_eq!(feedback.faults.len(), expected, "{feedback:?}");
            assert_eq!(feedback.valid_names, ["search", "calculate", "now", "respond_to_user"]);
            assert_eq!(raw, content);
        }
    }
}
