//! Models that answer anything: thoughts, calls good and bad, answers, garbage, nothing.

use agents_core::dialect::RESPOND_TO_USER;
use serde_json::json;
use wire::entry::{Feedback, FeedbackCode, ModelOutcome, ReadCall, Reading, TurnReport};
use wire::{ErrorCode, FinishReason, ModelRole, Plan, Planned, Usage, WireError};

use crate::rng::Rng;

pub(crate) fn reply(
    rng: &mut Rng,
    plan: &Plan,
    planned: Option<&Planned>,
    role: ModelRole,
) -> ModelOutcome {
    if rng.percent(2) {
        return failed();
    }
    let reading = match role {
        _ if rng.percent(8) => fault(FeedbackCode::MalformedReply),
        ModelRole::Thinker if plan.planner.is_some() => Reading::Planned(self::planned(rng, plan)),
        ModelRole::Thinker => Reading::Thought { text: format!("thought {}", rng.below(100)) },
        // A thought in place of an act is refused, and the run then ends by its clock.
        ModelRole::Actor if rng.percent(1) => Reading::Thought { text: String::new() },
        ModelRole::Actor if planned.is_some_and(|planned| planned.tool == RESPOND_TO_USER) => {
            Reading::Final { text: format!("answer {}", rng.below(1000)).into() }
        }
        ModelRole::Actor if planned.is_none() && rng.percent(3) => {
            Reading::Continued { text: "WAIT more".to_owned() }
        }
        ModelRole::Actor if planned.is_none() && rng.percent(40) => {
            Reading::Final { text: format!("answer {}", rng.below(1000)).into() }
        }
        ModelRole::Actor => {
            let most = if rng.percent(20) { 4 } else { 2 };
            let count = 1 + rng.below(most);
            // A model that is given one tool calls another at times, which is refused.
            let tool = planned.filter(|_| !rng.percent(2)).map(|planned| planned.tool.as_str());
            let calls = (0..count).map(|_| call(rng, plan, tool)).collect();
            Reading::Calls { text: String::new(), calls }
        }
    };
    let usage = Usage::of_tokens(rng.below(40), rng.below(20));
    let turn = TurnReport {
        role,
        usage,
        finish: FinishReason::Stop,
        provider: "sim".to_owned(),
        model: "sim".to_owned(),
        attempts: 1,
        served_by: None,
        detail: wire::chat::TurnDetail::default(),
    };
    ModelOutcome::Read { reading, unread: None, reasoning: None, turn: Box::new(turn) }
}

pub(crate) fn failed() -> ModelOutcome {
    ModelOutcome::Failed { error: WireError::new(ErrorCode::ModelUnavailable, "no answer") }
}

fn planned(rng: &mut Rng, plan: &Plan) -> Planned {
    let tool = if rng.percent(35) {
        RESPOND_TO_USER.to_owned()
    } else {
        rng.pick(&plan.tools).spec.name.to_string()
    };
    let task = format!("task {}", rng.below(100));
    Planned { tool, task, thoughts: String::new(), summary: String::new() }
}

fn call(rng: &mut Rng, plan: &Plan, tool: Option<&str>) -> ReadCall {
    let offer = tool.and_then(|tool| plan.offer(tool)).unwrap_or_else(|| rng.pick(&plan.tools));
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
    ReadCall {
        id: String::new(),
        name,
        arguments: arguments.into(),
        raw,
        written: String::new(),
        fault: fault.map(feedback),
    }
}

fn fault(code: FeedbackCode) -> Reading {
    Reading::Fault { feedback: feedback(code), raw: "?".to_owned() }
}

fn feedback(code: FeedbackCode) -> Feedback {
    Feedback {
        code,
        reason: None,
        message: String::new(),
        faults: Vec::new(),
        schema: None,
        valid_names: Vec::new(),
    }
}
