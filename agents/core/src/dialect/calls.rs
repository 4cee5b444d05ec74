//! Reads calls and builds the feedback on what cannot be read, for all dialects.

use std::sync::Arc;

use serde_json::{Map, Value};
use wire::entry::{Feedback, ReadCall, Reason};
use wire::json::{LEVELS_MAX, is_kept};
use wire::{FinishReason, ModelReply, Reading, SharedText};

use super::{RESPOND_TO_USER, extract, lenient, union};
use crate::validate::{FAULTS_MAX, Known, Toolbox};

/// The most characters of a model's words that a message of ours quotes.
const QUOTED_CHARS_MAX: usize = 80;

/// A call as a model wrote it.
pub(super) struct Written {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Arguments,
}

/// The arguments of a call as a model wrote them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Arguments {
    /// Text that should be a JSON object.
    Text(String),
    /// A value inside the object that is the call.
    Value(Value),
    /// Values by name: each a text as it stands between the tags of its parameter, unless they say
    /// that it is none.
    Tagged(Map<String, Value>),
    /// Free text, which may stand for the only parameter.
    Input(String),
}

impl Arguments {
    fn into_raw(self) -> String {
        match self {
            Self::Text(text) | Self::Input(text) => text,
            Self::Value(value) => value.to_string(),
            Self::Tagged(texts) => Value::Object(texts).to_string(),
        }
    }

    fn object(&self) -> Result<Value, String> {
        match self {
            Self::Text(text) | Self::Input(text) => object(text),
            Self::Value(value) => as_object(value.clone()),
            Self::Tagged(texts) => Ok(Value::Object(texts.clone())),
        }
    }
}

/// A name that ends the work, and the parameter that holds the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending<'a> {
    pub(super) name: &'a str,
    pub(super) answer: &'a str,
}

/// The way out that every dialect has.
pub(super) const RESPOND: Ending<'_> = Ending { name: RESPOND_TO_USER, answer: "answer" };

/// Reads the calls of a reply: parse, validate, mend. Faulty calls stay, each with its fault.
pub(super) fn reading(
    toolbox: &Toolbox,
    endings: &[Ending<'_>],
    text: String,
    written: Vec<Written>,
) -> Reading {
    let is_alone = written.len() == 1;
    let mut calls = Vec::with_capacity(written.len());
    for call in written {
        let ending = endings.iter().find(|ending| ending.name == call.name);
        calls.push(match ending {
            Some(ending) if is_alone => match answer(*ending, &call.arguments) {
                Ok(text) => return Reading::Final { text },
                Err(faults) => {
                    let feedback = invalid(faults, union::text_parameter(ending.answer));
                    let arguments = call.arguments.object().unwrap_or_default();
                    read_as(call, arguments, Some(feedback))
                }
            },
            Some(_) => not_alone(call),
            None => read(toolbox, call),
        });
    }
    Reading::Calls { text, calls }
}

/// Adds to the call of a reading what the model wrote for it: everything up to its end, and the
/// fence that closes there. What follows a call is not the model's to write.
pub(super) fn worded(reading: Reading, text: &str, end: usize) -> Reading {
    let Reading::Calls { text: said, mut calls } = reading else { return reading };
    let (call, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let fence = rest.trim_start_matches([' ', '\t', '\r', '\n', '}', ']']);
    let marks = fence.len() - fence.trim_start_matches(['`', '~']).len();
    let closing = if marks < 3 { 0 } else { rest.len() - fence.len() + marks };
    let closing = rest.get(..closing).unwrap_or_default();
    for read in &mut calls {
        format!("{call}{closing}").trim().clone_into(&mut read.written);
    }
    Reading::Calls { text: said, calls }
}

fn not_alone(call: Written) -> ReadCall {
    let arguments = call.arguments.object().unwrap_or_default();
    read_as(call, arguments, Some(feedback(Reason::NotAlone)))
}

fn read(toolbox: &Toolbox, call: Written) -> ReadCall {
    let Some(known) = toolbox.find(&call.name) else {
        let mut feedback = feedback(Reason::UnknownTool);
        feedback.valid_names = toolbox.names();
        let parsed = call.arguments.object().unwrap_or_else(|fault| {
            feedback.faults.push(fault);
            Value::Null
        });
        return read_as(call, parsed, Some(feedback));
    };
    let (arguments, faults) = match bound(known, &call.arguments) {
        Ok(parsed) => match known.check(parsed) {
            Ok(arguments) => return read_as(call, arguments, None),
            Err(found) => found,
        },
        Err(fault) => (Value::Null, vec![fault]),
    };
    let schema = known.parameters.clone().unwrap_or_default();
    read_as(call, arguments, Some(invalid(faults, schema)))
}

/// Returns arguments as an object. Free text that is none stands for the only parameter; where no
/// parameters are known it stays as it is.
fn bound(known: &Known, arguments: &Arguments) -> Result<Value, String> {
    let text = match arguments {
        Arguments::Input(text) => text,
        Arguments::Tagged(texts) => {
            let value = |text: &str| lenient::whole(text, 0).ok();
            return Ok(known.untagged(texts.clone(), &value));
        }
        Arguments::Text(_) | Arguments::Value(_) => return arguments.object(),
    };
    match (object(text), known.only_parameter(), &known.parameters) {
        (Ok(object), _, _) => Ok(object),
        // What set out to be an object and is none must not become a text by its failure.
        (Err(fault), _, _) if extract::is_object_like(text.trim(), 0) => Err(fault),
        (Err(_), Some(name), _) => {
            Ok(Map::from_iter([(name.to_owned(), text.clone().into())]).into())
        }
        (Err(_), None, None) => Ok(text.clone().into()),
        (Err(fault), None, Some(_)) => Err(fault),
    }
}

/// Returns the answer that ends the work, or everything that is wrong with it.
fn answer(ending: Ending<'_>, arguments: &Arguments) -> Result<SharedText, Vec<String>> {
    let name = ending.answer;
    let mut object = arguments.object().map_err(|fault| vec![fault])?;
    let fault = match object.get_mut(name) {
        Some(Value::String(text)) if text.trim().is_empty() => "is empty",
        Some(Value::String(text)) => {
            let text = SharedText::from(std::mem::take(text));
            return Ok(text.part(text.trim()));
        }
        Some(_) => "is not a string",
        None => "is missing",
    };
    let mut faults = vec![format!("{name:?} {fault}")];
    let others = object.as_object().into_iter().flat_map(Map::keys).filter(|key| *key != name);
    faults.extend(others.take(FAULTS_MAX).map(|key| format!("{} is unknown", quoted(key))));
    Err(faults)
}

fn invalid(faults: Vec<String>, schema: Value) -> Feedback {
    let schema = Some(schema).filter(|schema| !schema.is_null());
    Feedback { faults, schema, ..feedback(Reason::InvalidArguments) }
}

/// Parses arguments. None at all are an empty object, and JSON within JSON is decoded once.
pub(super) fn object(raw: &str) -> Result<Value, String> {
    as_object(parse(raw)?)
}

fn as_object(value: Value) -> Result<Value, String> {
    let value = match value {
        Value::String(inner) => parse(&inner)?,
        other => other,
    };
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(Value::Object(Map::new())),
        other => Err(format!("the arguments must be a JSON object, not {}", kind(&other))),
    }
}

/// Names the kind of a value in a sentence.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "a list",
        Value::String(_) => "a string",
        Value::Number(_) => "a number",
        Value::Bool(_) => "a truth value",
        Value::Null => "null",
        Value::Object(_) => "an object",
    }
}

fn parse(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Value::Null);
    }
    lenient::whole(text, 0).map_err(|fault| {
        if fault.is_cut {
            format!("the arguments end before their JSON does: {fault}")
        } else {
            format!("the arguments are not JSON: {fault}")
        }
    })
}

fn read_as(call: Written, arguments: Value, fault: Option<Feedback>) -> ReadCall {
    let (arguments, fault) = if is_kept(&arguments) {
        (arguments, fault)
    } else {
        let what = format!(
            "the arguments nest deeper than {LEVELS_MAX} levels, or have a key that is not theirs"
        );
        (Value::Null, fault.or_else(|| Some(invalid(vec![what], Value::Null))))
    };
    ReadCall {
        id: call.id,
        name: call.name,
        arguments: Arc::new(arguments),
        raw: call.arguments.into_raw(),
        written: String::new(),
        fault,
    }
}

/// Makes feedback that still lacks its particulars and its words.
pub(super) fn feedback(reason: Reason) -> Feedback {
    Feedback {
        code: reason.code(),
        reason: Some(reason),
        message: String::new(),
        faults: Vec::new(),
        schema: None,
        valid_names: Vec::new(),
    }
}

/// Makes the reading of a reply that cannot be used.
pub(super) fn fault(reason: Reason, reply: &ModelReply) -> Reading {
    Reading::Fault { feedback: feedback(reason), raw: raw(reply) }
}

/// Tells whether the end of a reply is missing by the provider's own account.
pub(super) fn is_cut(reply: &ModelReply) -> bool {
    match reply.finish {
        FinishReason::Length | FinishReason::ContentFilter => true,
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other => false,
    }
}

/// Tells whether a reply was cut where a call ends, so that the end itself may be the cut: all that
/// follows is a fence.
pub(super) fn is_cut_at(reply: &ModelReply, after: Option<&str>) -> bool {
    let is_last = |after: &str| after.trim_matches(['`', '~', ' ', '\n', '\r']).is_empty();
    is_cut(reply) && after.is_none_or(is_last)
}

/// Returns a whole reply as text: what was said, then a line for each call.
pub(super) fn raw(reply: &ModelReply) -> String {
    let mut raw = reply.content.to_string();
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
