//! The planner: what is known in, one tool and a task for it out.
//!
//! It stands in the thinker's place. The model that acts is then shown the task and that one tool
//! (`task`), and the planner its result. What the planner replies is asked for by a schema where
//! its dialect is one of a provider's means, and read tolerantly in any case.

use serde_json::{Value, json};
use wire::chat::{Head, ResponseSchema};
use wire::entry::{Feedback, FeedbackCode};
use wire::plan::Dialect;
use wire::{ModelReply, Name, Plan, Planned, Reading};

use super::extract::{self, Found};
use super::lenient::Fault;
use super::{Act, Prompt, RESPOND_TO_USER, Step, Transcript, calls, thinking};

mod exchange;
mod name;
pub(super) mod task;
mod wording;

use exchange::Exchange;

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
pub(super) fn prompt(transcript: &Transcript<'_>) -> Prompt {
    let plan = transcript.plan;
    let (_, current) = transcript.split();
    let mut told = Exchange::after_history(wording::planner_system(plan), transcript);
    let keep = told.len();
    told.user(wording::planner_request(transcript));
    for act in current.map(|step| step.acts.as_slice()).unwrap_or_default() {
        told.unusable(act, wording::PLAN_AGAIN);
    }
    told.keeping(keep, Head { response_schema: response_schema(plan), ..Head::default() })
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

/// Returns what the calls of a step came to, as the models of later steps are told.
fn results(step: &Step) -> String {
    let called = step.acts.iter().rev().find_map(Act::settled);
    let results = called.into_iter().flat_map(|(_, calls)| calls);
    results.filter_map(|call| call.result.as_deref()).collect::<Vec<_>>().join("\n")
}

/// Reads the step that a reply asks for. A cut reply asks for nothing.
pub(super) fn read(plan: &Plan, reply: &ModelReply) -> Reading {
    let spoken = thinking::removed(&reply.content);
    if spoken.cut {
        return calls::truncated(reply);
    }
    let text = spoken.text.as_str();
    let feedback = match found(text) {
        Ok(Some(found)) if calls::is_cut_at(reply, text.get(found.end..)) => {
            return calls::truncated(reply);
        }
        Ok(Some(found)) => match planned(plan, &found.value) {
            Ok(planned) => return Reading::Planned(planned),
            Err(feedback) => *feedback,
        },
        Ok(None) if calls::is_cut(reply) => return calls::truncated(reply),
        Err(fault) if fault.is_cut => return calls::truncated(reply),
        Ok(None) if text.is_empty() && reply.calls.is_empty() => {
            let message = "the reply is empty; reply with one JSON object";
            return calls::fault(FeedbackCode::EmptyReply, message, reply);
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

fn unknown(plan: &Plan, written: &str, faults: Vec<String>) -> Feedback {
    let message = format!(
        "no tool named {} is offered; select one of the valid names",
        calls::quoted(written)
    );
    let feedback = calls::feedback(FeedbackCode::UnknownTool, message);
    Feedback { faults, valid_names: names(plan), ..feedback }
}

fn malformed(plan: &Plan, faults: Vec<String>) -> Feedback {
    let message = "the reply is not one JSON object with a task and the tool for it";
    let feedback = calls::feedback(FeedbackCode::MalformedReply, message);
    Feedback { faults, schema: Some(schema(plan)), valid_names: names(plan), ..feedback }
}

#[cfg(test)]
mod tests;
