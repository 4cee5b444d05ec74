//! Tries the texts of a plan on a run in which everything happens that a run may come to.

use std::sync::Arc;

use serde_json::{Value, json};
use wire::entry::{Feedback, FeedbackCode, ReadCall};
use wire::{ModelRole, Plan};

use super::super::{Act, Called, Step, Transcript, prompt};
use super::TextFault;
use crate::validate::Catalogue;

/// Lists what is wrong with the texts of a plan, each fault once.
pub(in super::super) fn faults(plan: &Arc<Plan>) -> Vec<TextFault> {
    let catalogue = Catalogue::new(plan.clone());
    let mut faults = catalogue.wording().faults.clone();
    let steps = run(plan);
    let roles = [plan.thinker.as_ref().map(|_| ModelRole::Thinker), Some(ModelRole::Actor)];
    for role in roles.into_iter().flatten() {
        for turn in turns(role, &steps) {
            let request = "What is the weather like?";
            let transcript = Transcript { plan, history: &[], request, steps: &turn };
            faults.extend(prompt(role, &catalogue, &transcript).faults);
        }
    }
    let mut told: Vec<TextFault> = Vec::new();
    for fault in faults {
        // What goes wrong first is enough; the rest of a text often follows from it.
        if !told.iter().any(|known| (known.role, known.text) == (fault.role, fault.text)) {
            told.push(fault);
        }
    }
    told
}

/// Returns the run as it is before each turn of a role.
pub(in super::super) fn turns(role: ModelRole, steps: &[Step]) -> Vec<Vec<Step>> {
    let mut turns = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let replies = match role {
            ModelRole::Thinker => 0,
            ModelRole::Actor => step.acts.len(),
        };
        for acts in 0..=replies {
            let mut seen: Vec<Step> = steps.iter().take(index + 1).cloned().collect();
            if let Some(current) = seen.last_mut() {
                current.acts.truncate(acts);
                if role == ModelRole::Thinker {
                    current.thought = None;
                }
            }
            turns.push(seen);
        }
    }
    turns
}

fn run(plan: &Plan) -> Vec<Step> {
    let thought = |text: &str| plan.thinker.as_ref().map(|_| text.to_owned());
    let step = |said: &str, acts: Vec<Act>| Step { thought: thought(said), planned: None, acts };
    let made = |text: &str, calls: Vec<Called>| Act::Calls { text: text.to_owned(), calls };
    let tool = plan.tools.first();
    let name = tool.map_or("look", |tool| tool.spec.name.as_str());
    let schema = tool.map_or(json!({"type": "object"}), |tool| tool.spec.parameters.clone());
    let call = |result: &str| called(name, json!({"city": "Jakarta", "days": 2}), result, None);
    let error = r#"{"error":{"code":"E3002","message":"the tool failed"}}"#;
    let fault = |code, schema| Feedback {
        code,
        message: "this cannot be used".to_owned(),
        faults: vec!["something is missing".to_owned()],
        schema,
        valid_names: vec![name.to_owned()],
    };
    let invalid = Some(fault(FeedbackCode::InvalidArguments, Some(schema.clone())));
    let unknown = Some(fault(FeedbackCode::UnknownTool, None));
    let unusable =
        |code, schema| Act::Feedback { raw: "hm".to_owned(), feedback: fault(code, schema) };
    vec![
        step("Look first.", vec![made("", vec![call("It is 24.5 degrees.")])]),
        step(
            "",
            vec![
                unusable(FeedbackCode::MalformedReply, Some(schema)),
                unusable(FeedbackCode::EmptyReply, None),
                made("", vec![called(name, json!({}), "", invalid)]),
                made("Again.", vec![called("fly", Value::Null, "", unknown)]),
                made("And again.", vec![call("{\"temperature\": 24.5}"), call("[1, 2]")]),
            ],
        ),
        step("Once more.", vec![made("", vec![call(error)])]),
        step("That is it.", vec![Act::Answered { text: "It is 24.5 degrees.".to_owned() }]),
        step("Answer.", vec![Act::Steered { text: "And tomorrow?".to_owned() }]),
    ]
}

fn called(name: &str, arguments: Value, result: &str, fault: Option<Feedback>) -> Called {
    let result = fault.as_ref().map_or_else(|| result.to_owned(), Feedback::to_text);
    Called {
        read: ReadCall {
            id: String::new(),
            name: name.to_owned(),
            raw: arguments.to_string(),
            arguments,
            written: String::new(),
            fault,
        },
        key: None,
        result: Some(result),
    }
}
