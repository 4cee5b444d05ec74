//! The model that acts where a planner plans: it is shown one task and the one tool for it.
//!
//! What it says beside that is not acted on. Where the planner selects the answer, the model
//! writes it as plain text.

use std::sync::Arc;

use serde_json::{Value, json};
use wire::chat::{Head, ResponseSchema};
use wire::entry::{Feedback, FeedbackCode, Reason};
use wire::plan::{Audience, Dialect, Offer};
use wire::{ModelReply, Name, Plan, Planned, Reading};

use super::super::form::{FINAL_ANSWER, STOP};
use super::super::native::{self, Ids};
use super::super::told::Told;
use super::super::wording::{Scene, Wording};
use super::super::{
    Prompt, RESPOND_TO_USER, Transcript, by, calls, extract, form, json, react, schema, text,
    thinking, union,
};
use crate::validate::{Catalogue, Toolbox};

/// Tells who reads what is said about a step: the model that makes the call, or the one that
/// writes the answer.
pub(in super::super) fn audience(plan: &Plan, planned: &Planned) -> Audience {
    match plan.offer(&planned.tool) {
        Some(_) => Audience::Task,
        None => Audience::Answer,
    }
}

/// Renders the task with the one tool for it, or what the answer has to tell.
pub(in super::super) fn prompt(
    catalogue: &Catalogue,
    transcript: &Transcript<'_>,
    planned: &Planned,
) -> Prompt {
    let plan = transcript.plan;
    let (_, dialect) = plan.acting_model(Some(planned));
    let (_, current) = transcript.split();
    let mut told = Told::begin(audience(plan, planned), catalogue, transcript);
    told.request(true);
    let Some(offer) = plan.offer(&planned.tool) else {
        return told.ask_and(Arc::default(), |told| text::in_work(current, told));
    };
    told.ask_and(Arc::new(head(dialect, offer)), |told| {
        let acts = current.map(|step| step.acts.as_slice()).unwrap_or_default();
        let mut ids = Ids::default();
        for (index, act) in acts.iter().enumerate() {
            let last = index + 1 == acts.len();
            match (dialect, act.settled()) {
                (Dialect::Native, Some((_, calls))) => {
                    let ids = calls.iter().map(|call| ids.next(call)).collect();
                    native::called(act, ids, last, told);
                }
                (Dialect::Native | Dialect::Schema | Dialect::Json | Dialect::React, _) => {
                    text::again(act, last, told);
                }
            }
        }
    })
}

fn head(dialect: Dialect, offer: &Offer) -> Head {
    match dialect {
        Dialect::Native => Head { tools: vec![offer.spec.clone()], ..Head::default() },
        Dialect::Schema => {
            let schema = |name| ResponseSchema { name, schema: union::only(offer) };
            Head { response_schema: Name::new("call").ok().map(schema), ..Head::default() }
        }
        Dialect::Json => Head::default(),
        Dialect::React => Head { stop: vec![STOP.to_owned()], ..Head::default() },
    }
}

/// Returns exactly what the model is offered that calls a tool.
pub(in super::super) fn offered(plan: &Plan, offer: &Offer) -> Value {
    let (model, dialect) = match &offer.actor {
        Some(own) => (&own.model, own.dialect),
        None => (&plan.actor, plan.dialect),
    };
    let offered = match dialect {
        Dialect::Native => json!([native::offered(offer)]),
        Dialect::Schema => union::only(offer),
        Dialect::Json | Dialect::React => {
            let (task, thoughts, summary) = (String::new(), String::new(), String::new());
            let planned = Planned { tool: offer.spec.name.to_string(), task, thoughts, summary };
            let scene =
                Scene { planned: Some(&planned), dialect: Some(dialect), ..Scene::default() };
            Wording::new(plan).before(Audience::Task, &scene).into()
        }
    };
    json!({"model": model, "dialect": dialect, "offered": offered})
}

/// Reads calls of the one tool, or the answer if that is what was selected.
pub(in super::super) fn read(
    catalogue: &Catalogue,
    planned: &Planned,
    reply: &ModelReply,
) -> Reading {
    let (plan, toolbox) = (catalogue.plan(), catalogue.toolbox());
    let (_, dialect) = plan.acting_model(Some(planned));
    match plan.offer(&planned.tool) {
        Some(offer) => {
            let reading = match dialect {
                Dialect::Json => json::read(toolbox, &plan.form, reply),
                Dialect::Native | Dialect::Schema | Dialect::React => {
                    by(dialect, toolbox, None, reply)
                }
            };
            only_calls(offer, reading, dialect, reply)
        }
        None => only_answer(plan, spoken(plan, dialect, toolbox, reply)),
    }
}

/// Holds a reading to calls of one tool.
fn only_calls(offer: &Offer, reading: Reading, dialect: Dialect, reply: &ModelReply) -> Reading {
    let tool = &offer.spec.name;
    let valid_names = vec![tool.to_string()];
    match reading {
        Reading::Calls { text, mut calls } => {
            for call in calls.iter_mut().filter(|call| call.name != tool.as_str()) {
                let fault = calls::feedback(Reason::OtherTool);
                call.fault = Some(Feedback { valid_names: valid_names.clone(), ..fault });
            }
            Reading::Calls { text, calls }
        }
        Reading::Cut { .. } => calls::fault(Reason::Cut, reply),
        Reading::Final { .. }
        | Reading::Continued { .. }
        | Reading::Thought { .. }
        | Reading::Planned(_)
            if calls::is_cut(reply) =>
        {
            calls::fault(Reason::Cut, reply)
        }
        Reading::Final { .. }
        | Reading::Continued { .. }
        | Reading::Thought { .. }
        | Reading::Planned(_) => {
            let feedback = Feedback { valid_names, ..calls::feedback(Reason::NoCall) };
            Reading::Fault { feedback, raw: calls::raw(reply) }
        }
        Reading::Fault { feedback, raw } if feedback.code == FeedbackCode::MalformedReply => {
            let schema = match dialect {
                Dialect::Schema => Some(union::only(offer)),
                Dialect::Native | Dialect::Json | Dialect::React => feedback.schema,
            };
            Reading::Fault { feedback: Feedback { schema, valid_names, ..feedback }, raw }
        }
        fault @ Reading::Fault { .. } => fault,
    }
}

/// Reads a text, and takes the answer out of the form that a model may be used to.
fn spoken(plan: &Plan, dialect: Dialect, toolbox: &Toolbox, reply: &ModelReply) -> Reading {
    let text = thinking::removed(&reply.content).text;
    let object = extract::fences(&text).next().filter(|_| text.starts_with("``")).unwrap_or(0);
    let ends = |name: &str| text.contains(name);
    if reply.calls.is_empty()
        && extract::is_object_like(&text, object)
        && form::endings(&plan.form).iter().any(|ending| ends(ending.name))
    {
        return match schema::read(toolbox, None, reply) {
            Reading::Fault { feedback, .. } if feedback.code == FeedbackCode::MalformedReply => {
                json::read(toolbox, &plan.form, reply)
            }
            reading => reading,
        };
    }
    match dialect {
        Dialect::React if ends(FINAL_ANSWER) => react::read(toolbox, reply),
        Dialect::Native | Dialect::Schema | Dialect::Json | Dialect::React => {
            native::read(toolbox, reply)
        }
    }
}

/// Holds a reading to an answer: no call is made any more.
fn only_answer(plan: &Plan, reading: Reading) -> Reading {
    let endings = form::endings(&plan.form);
    match reading {
        Reading::Calls { text, mut calls } => {
            for call in calls.iter_mut().filter(|call| {
                let is_answer = endings.iter().any(|ending| ending.name == call.name);
                call.fault.is_none() || !is_answer
            }) {
                call.fault = Some(calls::feedback(Reason::NoMoreCalls));
            }
            Reading::Calls { text, calls }
        }
        Reading::Fault { mut feedback, raw } => {
            feedback.schema = None;
            feedback.valid_names.retain(|name| name == RESPOND_TO_USER);
            Reading::Fault { feedback, raw }
        }
        Reading::Final { .. }
        | Reading::Cut { .. }
        | Reading::Continued { .. }
        | Reading::Thought { .. }
        | Reading::Planned(_) => reading,
    }
}

#[cfg(test)]
mod tests;
