//! Reads calls and builds the feedback on what cannot be read, for all dialects.

use serde_json::{Map, Value};
use wire::entry::{Feedback, FeedbackCode, ReadCall};
use wire::{FinishReason, ModelReply, Plan, Reading};

use super::{RESPOND_TO_USER, union};
use crate::validate::Catalogue;

/// The most characters of a model's words that a message of ours quotes.
const QUOTED_CHARS_MAX: usize = 80;

/// A call as a model wrote it.
pub(super) struct Written<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

/// Reads the calls of a reply: parse, validate, mend. Faulty calls stay, each with its fault.
pub(super) fn reading(catalogue: &Catalogue, text: String, written: &[Written<'_>]) -> Reading {
    if let [only] = written
        && only.name == RESPOND_TO_USER
    {
        return match answer(only.arguments) {
            Ok(text) => Reading::Final { text },
            Err(fault) => {
                let feedback = invalid(only.name, vec![fault], union::answer_parameters());
                let arguments = object(only.arguments).unwrap_or_default();
                Reading::Calls { text, calls: vec![faulty(only, arguments, feedback)] }
            }
        };
    }
    let calls = written.iter().map(|call| read(catalogue, call)).collect();
    Reading::Calls { text, calls }
}

fn read(catalogue: &Catalogue, call: &Written<'_>) -> ReadCall {
    let parsed = object(call.arguments);
    if call.name == RESPOND_TO_USER {
        let message = format!(
            "{RESPOND_TO_USER} ends the work, so it must be the only call of a reply; call it when \
             the results of the other calls are there"
        );
        let feedback = feedback(FeedbackCode::MalformedReply, message);
        return faulty(call, parsed.unwrap_or_default(), feedback);
    }
    let Some(entry) = catalogue.find(call.name) else {
        let message =
            format!("no tool named {} is offered; use one of the valid names", quoted(call.name));
        let mut feedback = feedback(FeedbackCode::UnknownTool, message);
        feedback.valid_names = names(catalogue.plan());
        let parsed = parsed.unwrap_or_else(|fault| {
            feedback.faults.push(fault);
            Value::Null
        });
        return faulty(call, parsed, feedback);
    };
    let (arguments, faults) = match parsed {
        Ok(parsed) => match entry.check(parsed.clone()) {
            Ok(arguments) => {
                return ReadCall {
                    id: call.id.to_owned(),
                    name: call.name.to_owned(),
                    arguments,
                    raw: call.arguments.to_owned(),
                    fault: None,
                };
            }
            Err(faults) => (parsed, faults),
        },
        Err(fault) => (Value::Null, vec![fault]),
    };
    let feedback = invalid(call.name, faults, entry.offer.spec.parameters.clone());
    faulty(call, arguments, feedback)
}

/// Returns the answer that a call of [`RESPOND_TO_USER`] carries, or what is wrong with it.
fn answer(arguments: &str) -> Result<String, String> {
    match object(arguments)?.get("answer") {
        Some(Value::String(text)) if text.trim().is_empty() => {
            Err("\"answer\" is empty".to_owned())
        }
        Some(Value::String(text)) => Ok(text.trim().to_owned()),
        Some(_) => Err("\"answer\" is not a string".to_owned()),
        None => Err("\"answer\" is missing".to_owned()),
    }
}

fn invalid(name: &str, faults: Vec<String>, schema: Value) -> Feedback {
    let message = format!("the arguments of {name} do not obey its schema");
    let feedback = feedback(FeedbackCode::InvalidArguments, message);
    Feedback { faults, schema: Some(schema), ..feedback }
}

/// Parses arguments. None at all are an empty object, and JSON within JSON is decoded once.
pub(super) fn object(raw: &str) -> Result<Value, String> {
    let value = match parse(raw)? {
        Value::String(inner) => parse(&inner)?,
        other => other,
    };
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(Value::Object(Map::new())),
        other => Err(format!(
            "the arguments must be a JSON object, not {}",
            match other {
                Value::Array(_) => "an array",
                Value::String(_) => "a string",
                Value::Number(_) => "a number",
                Value::Bool(_) | Value::Null | Value::Object(_) => "a single value",
            }
        )),
    }
}

fn parse(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|error| {
        if error.is_eof() {
            format!("the arguments end before their JSON does: {error}")
        } else {
            format!("the arguments are not JSON: {error}")
        }
    })
}

fn faulty(call: &Written<'_>, arguments: Value, fault: Feedback) -> ReadCall {
    ReadCall {
        id: call.id.to_owned(),
        name: call.name.to_owned(),
        arguments,
        raw: call.arguments.to_owned(),
        fault: Some(fault),
    }
}

/// Returns the names that may be called.
pub(super) fn names(plan: &Plan) -> Vec<String> {
    plan.tools.iter().map(|offer| offer.spec.name.to_string()).collect()
}

/// Makes feedback that still lacks its particulars.
pub(super) fn feedback(code: FeedbackCode, message: impl Into<String>) -> Feedback {
    Feedback {
        code,
        message: message.into(),
        faults: Vec::new(),
        schema: None,
        valid_names: Vec::new(),
    }
}

/// Makes the reading of a reply that cannot be used.
pub(super) fn fault(code: FeedbackCode, message: &str, reply: &ModelReply) -> Reading {
    Reading::Fault { feedback: feedback(code, message), raw: raw(reply) }
}

/// Tells whether the end of a reply is missing by the provider's own account.
pub(super) fn is_cut(reply: &ModelReply) -> bool {
    match reply.finish {
        FinishReason::Length | FinishReason::ContentFilter => true,
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other => false,
    }
}

/// Returns a whole reply as text: what was said, then a line for each call.
pub(super) fn raw(reply: &ModelReply) -> String {
    let mut raw = reply.content.clone();
    for call in &reply.calls {
        if !raw.is_empty() {
            raw.push('\n');
        }
        raw.push_str(&call.name);
        raw.push(' ');
        raw.push_str(&call.arguments);
    }
    raw
}

/// Quotes a model's word, cut to [`QUOTED_CHARS_MAX`].
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    format!("{short:?}")
}
