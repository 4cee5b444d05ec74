//! What the tests of dialects share: a plan, replies, readings in short.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use wire::entry::{Feedback, Reason};
use wire::plan::{
    AskedModel, Dialect, Form, Limits, Offer, Permissions, Prompts, Target, WhenBusy,
};
use wire::{
    Digest, EffectClass, FinishReason, ModelReply, Name, Plan, Reading, Reasoning, ToolSpec, Usage,
};

use crate::validate::Catalogue;

fn offer(name: &str, description: &str, parameters: Value) -> Offer {
    let description = description.to_owned();
    let spec = ToolSpec { name: Name::new(name).unwrap(), description, parameters };
    Offer::new(spec, Target::Tool, EffectClass::Read, 1000)
}

pub(crate) fn plan(dialect: Dialect, thinker: bool) -> Plan {
    Plan {
        team: Name::new("demo").unwrap(),
        agent: Name::new("lead").unwrap(),
        description: "Answers questions.".to_owned(),
        instructions: "You answer questions.".to_owned(),
        thinker: thinker.then(|| Name::new("big").unwrap()),
        planner: None,
        actor: Name::new("small").unwrap(),
        dialect,
        continue_word: None,
        coerce: true,
        tools: vec![
            offer(
                "search",
                "Searches the internet.",
                json!({"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}),
            ),
            offer(
                "calculate",
                "Evaluates an expression.",
                json!({"type":"object","properties":{"expression":{"type":"string"},"digits":{"type":"integer"}},
                       "required":["expression"],"additionalProperties":false}),
            ),
        ],
        limits: Limits {
            steps_max: 10,
            calls_per_step_max: 8,
            depth_max: 4,
            tokens_max: 100_000,
            reply_tokens_max: 1000,
            feedback_max: 2,
            resumes_max: 3,
            deadline_ms: 60_000,
            model_timeout_ms: 10_000,
            queue_max: 4,
            history_messages_max: 2,
            history_tokens_max: Some(100_000),
            approval_timeout_ms: 10_000,
            calls_max: 200,
            repeats_max: 5,
            cost_max_nano_usd: None,
        },
        prompts: Prompts::default(),
        form: Form::default(),
        permissions: Permissions::default(),
        prices: BTreeMap::new(),
        when_busy: WhenBusy::Queue,
        served: BTreeMap::new(),
        traces: wire::Levels::default(),
        keeps_unfinished: true,
        edition: wire::plan::EDITION,
    }
}

/// The plan with a third tool that takes no arguments.
pub(crate) fn catalogue(dialect: Dialect, thinker: bool) -> Catalogue {
    let mut plan = plan(dialect, thinker);
    let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
    plan.tools.push(offer("now", "Tells the time.", none));
    Catalogue::new(Arc::new(plan))
}

/// The plan of [`catalogue`] with a planner, a fourth tool and an alias.
pub(crate) fn planning(dialect: Dialect) -> Plan {
    let mut plan = Plan::clone(catalogue(dialect, false).plan());
    let model = Name::new("big").unwrap();
    plan.planner = Some(AskedModel { model, dialect: Dialect::Native });
    let question = json!({"type": "object", "properties": {"question": {"type": "string"}}});
    plan.tools.push(offer("ask_user", "Asks the user.", question));
    plan.tools[1].aliases = vec!["calculate_number".to_owned()];
    plan
}

/// Feedback in words of its own.
pub(crate) fn feedback(reason: Reason, message: &str) -> Feedback {
    Feedback {
        code: reason.code(),
        reason: Some(reason),
        message: message.to_owned(),
        faults: Vec::new(),
        schema: None,
        valid_names: Vec::new(),
    }
}

pub(crate) fn reply(finish: FinishReason, content: &str) -> ModelReply {
    ModelReply {
        content: content.into(),
        calls: Vec::new(),
        reasoning: None,
        finish,
        usage: Usage::default(),
        provider: "scripted".to_owned(),
        model: "m".to_owned(),
        attempts: 1,
        served_by: None,
        detail: wire::chat::TurnDetail::default(),
    }
}

/// What a model thought, beside a message and its calls.
pub(crate) fn reasoning(calls: Vec<Value>) -> Arc<Reasoning> {
    let message = json!({"reasoning_content": "hm \"é\""});
    Arc::new(Reasoning { by: Digest::of(b"m"), message, calls })
}

/// A reading in short: `[[name, arguments, fault?]..]`, or an object that says what else it is.
pub(crate) fn outline(reading: &Reading) -> Value {
    match reading {
        Reading::Thought { text } => json!({ "thought": text }),
        Reading::Continued { text } => json!({ "continued": text }),
        Reading::Planned(planned) => json!({ "planned": [planned.tool, planned.task] }),
        Reading::Final { text } => json!({ "final": text }),
        Reading::Cut { text } => json!({ "cut": text }),
        Reading::Fault { feedback, .. } => json!({ "fault": feedback.code }),
        Reading::Calls { calls, .. } => calls
            .iter()
            .map(|call| match &call.fault {
                None => json!([call.name, call.arguments]),
                Some(fault) => json!([call.name, call.arguments, fault.code]),
            })
            .collect(),
    }
}
