//! The agent whose models reply, with the tools that the replies of the corpus call.

use std::collections::BTreeMap;
use std::sync::Arc;

use agents_core::validate::Catalogue;
use serde_json::{Value, json};
use wire::plan::{
    AskedModel, Dialect, Form, Limits, Offer, Permissions, Prompts, Target, WhenBusy,
};
use wire::{EffectClass, FinishReason, ModelReply, Name, Plan, Planned, ToolCall, ToolSpec, Usage};

/// The tools and their parameters.
pub(crate) fn tools() -> Vec<(&'static str, Value)> {
    let city = json!({"type": "object", "properties": {"city": {"type": "string"}},
                      "required": ["city"]});
    let sum = json!({
        "type": "object",
        "properties": {"numbers": {"type": "array", "items": {"type": "number"}, "maxItems": 9},
                       "a": {"type": "integer"}, "b": {"type": "integer"}},
        "additionalProperties": false,
    });
    let note = json!({
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1},
            "tag": {"anyOf": [{"type": "array", "items": {"type": ["string", "object"]}},
                              {"type": "string"}]},
            "pin": {"type": "boolean"},
        },
        "required": ["text"],
    });
    let nothing = json!({"type": "object", "properties": {}, "additionalProperties": false});
    vec![("weather", city), ("sum", sum), ("note", note), ("clock", nothing)]
}

fn offer(name: &str, parameters: Value) -> Offer {
    let description = "Does what it says.".to_owned();
    let spec = ToolSpec { name: Name::new(name).unwrap(), description, parameters };
    Offer::new(spec, Target::Tool, EffectClass::Read, 1000)
}

/// An agent with these tools and no other roles.
pub(crate) fn plan(dialect: Dialect, tools: Vec<(&str, Value)>) -> Plan {
    Plan {
        team: Name::new("demo").unwrap(),
        agent: Name::new("lead").unwrap(),
        description: "Answers questions.".to_owned(),
        instructions: "You answer questions.".to_owned(),
        thinker: None,
        planner: None,
        actor: Name::new("small").unwrap(),
        dialect,
        continue_word: None,
        coerce: true,
        tools: tools.into_iter().map(|(name, parameters)| offer(name, parameters)).collect(),
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

/// An agent of one dialect; every second one lets its model go on by a word.
pub(crate) fn catalogues(dialect: Dialect) -> [Catalogue; 2] {
    [None, Some("CONTINUE".to_owned())].map(|continue_word| {
        Catalogue::new(Arc::new(Plan { continue_word, ..plan(dialect, tools()) }))
    })
}

/// An agent that plans its steps.
pub(crate) fn planning(dialect: Dialect) -> Catalogue {
    let mut plan = plan(dialect, tools());
    let model = Name::new("big").unwrap();
    plan.planner = Some(AskedModel { model, dialect: Dialect::Json });
    plan.tools[2].aliases = vec!["note_it".to_owned(), "memo".to_owned()];
    Catalogue::new(Arc::new(plan))
}

/// An agent that thinks before each step.
pub(crate) fn thinking() -> Catalogue {
    let thinker = Some(Name::new("big").unwrap());
    Catalogue::new(Arc::new(Plan { thinker, ..plan(Dialect::Native, tools()) }))
}

pub(crate) fn planned(tool: &str) -> Planned {
    Planned {
        tool: tool.to_owned(),
        task: "t".to_owned(),
        thoughts: String::new(),
        summary: String::new(),
    }
}

pub(crate) fn reply(finish: FinishReason, content: &str, calls: Vec<ToolCall>) -> ModelReply {
    ModelReply {
        content: content.into(),
        calls,
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
