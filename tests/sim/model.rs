//! Models that answer anything: thoughts, calls good and bad, answers, garbage, nothing.

use serde_json::json;
use wire::entry::{Feedback, FeedbackCode, ModelOutcome, ReadCall, Reading, TurnReport};
use wire::{ErrorCode, FinishReason, ModelRole, Plan, Usage, WireError};

use crate::rng::Rng;

pub(crate) fn reply(rng: &mut Rng, plan: &Plan, role: ModelRole) -> ModelOutcome {
    if rng.percent(2) {
        return failed();
    }
    let reading = match role {
        _ if rng.percent(8) => fault(FeedbackCode::MalformedReply),
        ModelRole::Thinker => Reading::Thought { text: format!("thought {}", rng.below(100)) },
        // A thought in place of an act is refused, and the run then ends by its clock.
        ModelRole::Actor if rng.percent(1) => Reading::Thought { text: String::new() },
        ModelRole::Actor if rng.percent(40) => {
            Reading::Final { text: format!("answer {}", rng.below(1000)) }
        }
        ModelRole::Actor => {
            let most = if rng.percent(20) { 4 } else { 2 };
            let count = 1 + rng.below(most);
            let calls = (0..count).map(|_| call(rng, plan)).collect();
            Reading::Calls { text: String::new(), calls }
        }
    };
    let usage = Usage { input_tokens: rng.below(40), output_tokens: rng.below(20) };
    let turn = TurnReport {
        role,
        usage,
        finish: FinishReason::Stop,
        provider: "sim".to_owned(),
        model: "sim".to_owned(),
        attempts: 1,
        served_by: None,
    };
    ModelOutcome::Read { reading, turn: Box::new(turn) }
}

pub(crate) fn failed() -> ModelOutcome {
    ModelOutcome::Failed { error: WireError::new(ErrorCode::ModelUnavailable, "no answer") }
}

fn call(rng: &mut Rng, plan: &Plan) -> ReadCall {
    let offer = rng.pick(&plan.tools);
    // Few different arguments, so that models ask for the same call again.
    let arguments = json!({"n": rng.below(3)});
    let fault = match rng.below(20) {
        0 => Some(FeedbackCode::UnknownTool),
        1 => Some(FeedbackCode::InvalidArguments),
        _ => None,
    };
    let name = match fault {
        Some(FeedbackCode::UnknownTool) => "nothing".to_owned(),
        _ => offer.spec.name.to_string(),
    };
    let raw = arguments.to_string();
    ReadCall { id: String::new(), name, arguments, raw, fault: fault.map(feedback) }
}

fn fault(code: FeedbackCode) -> Reading {
    Reading::Fault { feedback: feedback(code), raw: "?".to_owned() }
}

fn feedback(code: FeedbackCode) -> Feedback {
    Feedback {
        code,
        message: String::new(),
        faults: Vec::new(),
        schema: None,
        valid_names: Vec::new(),
    }
}
