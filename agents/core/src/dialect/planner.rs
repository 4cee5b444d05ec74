//! The planner: what is known in, one tool and a task for it out.
//!
//! It stands in the thinker's place. The model that acts is then shown the task and that one tool
//! (`task`), and the planner its result. What the planner replies is asked for by a schema where
//! its dialect is one of a provider's means, and read tolerantly in any case.

use serde_json::{Value, json};
use wire::chat::{Head, ResponseSchema};
use wire::entry::{Feedback, Reason};
use wire::plan::{Audience, Dialect};
use wire::{ModelReply, ModelRole, Name, Plan, Planned, Reading};

use super::extract::{self, Found};
use super::lenient::Fault;
use super::told::Told;
use super::{Prompt, RESPOND_TO_USER, Transcript, calls, text, thinking};
use crate::validate::Catalogue;

mod name;
pub(super) mod task;

/// The keys of the object, in the order in which they are asked for.
const SUMMARY: &str = "context_information_summary";
const THOUGHTS: &str = "thoughts";
const TASK: &str = "task";
const TOOL: &str = "selected_tool";

/// Another key for [`TOOL`], which is read as well.
const ACTION: &str = "selected_action";

/// The bracket round the object, which may be missing at its end.
const SPARE: usize = 1;

/// Renders what is known, and asks for the next step.
pub(super) fn prompt(catalogue: &Catalogue, transcript: &Transcript<'_>) -> Prompt {
    let mut told = Told::begin(Audience::Planner, catalogue, transcript);
    told.request(true);
    let head = catalogue.head(ModelRole::Thinker, |plan| Head {
        response_schema: response_schema(plan),
        ..Head::default()
    });
    let (_, current) = transcript.split();
    told.ask_and(head, |told| text::in_work(current, told))
}

/// Returns the schema of a reply: the tool is one of those that are offered, or the answer.
pub(super) fn schema(plan: &Plan) -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {
            SUMMARY: text,
            THOUGHTS: text,
            TASK: text,
            TOOL: {"type": "string", "enum": names(plan)},
        },
        "required": [SUMMARY, THOUGHTS, TASK, TOOL],
        "additionalProperties": false,
    })
}

fn names(plan: &Plan) -> Vec<String> {
    let offered = plan.tools.iter().map(|offer| offer.spec.name.to_string());
    offered.chain([RESPOND_TO_USER.to_owned()]).collect()
}

fn response_schema(plan: &Plan) -> Option<ResponseSchema> {
    match plan.planner.as_ref()?.dialect {
        Dialect::Native | Dialect::Schema => {
            Name::new("plan").ok().map(|name| ResponseSchema { name, schema: schema(plan) })
        }
        // These are for servers that hold a reply to nothing.
        Dialect::Json | Dialect::React => None,
    }
}

/// Reads the step that a reply asks for. A cut reply asks for nothing.
pub(super) fn read(plan: &Plan, reply: &ModelReply) -> Reading {
    let spoken = thinking::removed(&reply.content);
    if spoken.cut {
        return calls::fault(Reason::Cut, reply);
    }
    let text = &*spoken.text;
    let feedback = match found(text) {
        Ok(Some(found)) if calls::is_cut_at(reply, text.get(found.end..)) => {
            return calls::fault(Reason::Cut, reply);
        }
        Ok(Some(found)) => match planned(plan, &found.value) {
            Ok(planned) => return Reading::Planned(planned),
            Err(feedback) => *feedback,
        },
        Ok(None) if calls::is_cut(reply) => return calls::fault(Reason::Cut, reply),
        Err(fault) if fault.is_cut => return calls::fault(Reason::Cut, reply),
        Ok(None) if text.is_empty() && reply.calls.is_empty() => {
            return calls::fault(Reason::Empty, reply);
        }
        Ok(None) => malformed(plan, vec!["there is no JSON object in the reply".to_owned()]),
        Err(fault) => malformed(plan, vec![format!("the JSON object cannot be read: {fault}")]),
    };
    Reading::Fault { feedback, raw: calls::raw(reply) }
}

/// Finds the object that is the reply: the first one that names a task or a tool, else the first.
fn found(text: &str) -> Result<Option<Found>, Fault> {
    let is_plan = |value: &Value| [TASK, TOOL, ACTION].iter().any(|key| value.get(key).is_some());
    match extract::object(text, 0, SPARE, is_plan)? {
        Some(found) => Ok(Some(found)),
        None => extract::object(text, 0, SPARE, |_| true),
    }
}

/// Takes the object apart, or tells everything that is wrong with it.
fn planned(plan: &Plan, value: &Value) -> Result<Planned, Box<Feedback>> {
    let tool_key = if value.get(TOOL).is_some() { TOOL } else { ACTION };
    let mut faults = Vec::new();
    for (name, key) in [(TASK, TASK), (TOOL, tool_key)] {
        if value.get(key).is_none() {
            faults.push(format!("{name:?} is missing"));
        }
    }
    let [summary, thoughts, task, written] = [SUMMARY, THOUGHTS, TASK, tool_key].map(|key| {
        match value.get(key) {
            Some(Value::String(text)) => return text.trim().to_owned(),
            None | Some(Value::Null) => {}
            Some(other) => {
                faults.push(format!("{key:?} must be a string, not {}", calls::kind(other)));
            }
        }
        String::new()
    });
    let tool = name::meant(plan, &written);
    let is_blank =
        task.is_empty() && matches!(value.get(TASK), Some(Value::Null | Value::String(_)));
    if is_blank && tool != Some(RESPOND_TO_USER) {
        faults.push(format!("{TASK:?} is empty"));
    }
    match tool {
        Some(tool) if faults.is_empty() => {
            Ok(Planned { tool: tool.to_owned(), task, thoughts, summary })
        }
        Some(_) => Err(malformed(plan, faults).into()),
        None => Err(unknown(plan, &written, faults).into()),
    }
}

fn unknown(plan: &Plan, written: &str, mut faults: Vec<String>) -> Feedback {
    faults.push(format!("{TOOL:?} names {}, which is not offered", calls::quoted(written)));
    Feedback { faults, valid_names: names(plan), ..calls::feedback(Reason::UnknownTool) }
}

fn malformed(plan: &Plan, faults: Vec<String>) -> Feedback {
    let (schema, valid_names) = (Some(schema(plan)), names(plan));
    Feedback { faults, schema, valid_names, ..calls::feedback(Reason::NotOfForm) }
}

/// Returns what follows the object that is the reply.
pub(super) fn rest(text: &str) -> &str {
    let found = found(text).ok().flatten();
    found.and_then(|found| text.get(found.end..)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
