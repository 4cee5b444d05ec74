//! The team of the tables and the inputs that happen to it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wire::entry::{
    Feedback, FeedbackCode, Input, ModelOutcome, ModelReplied, ReadCall, Reading, Submitted,
    TurnReport,
};
use wire::plan::{
    AskedModel, Dialect, Form, Limits, Offer, Permission, Permissions, Probe, Prompts, Target,
    WhenBusy,
};
use wire::run::{Budget, Parent};
use wire::{
    CallKey, CallOutcome, Digest, EffectClass, ErrorCode, FinishReason, ModelRole, Name, Plan,
    Planned, Resolution, RunId, SessionId, Timestamp, ToolSpec, TraceContext, Usage, WireError,
    call_digest,
};

/// Takes a run up that was at work.
pub(super) const RESUMED: Input = Input::Resumed { waiting: false, drained: false };

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(super) fn run(text: &str) -> RunId {
    RunId::new(text).unwrap()
}

pub(super) fn session() -> SessionId {
    SessionId::new("s").unwrap()
}

pub(super) fn call(slot: u64, index: u32) -> CallKey {
    CallKey::derive(&name("team"), &session(), slot, index)
}

/// An agent that thinks, with a tool of each effect class and an agent that it may call.
pub(super) fn thinker() -> Plan {
    let offer = |text: &str, target, effect| {
        let spec = ToolSpec {
            name: name(text),
            description: text.to_owned(),
            parameters: json!({"type": "object"}),
        };
        Offer { permission: Permission::Allow, ..Offer::new(spec, target, effect, 5000) }
    };
    Plan {
        team: name("team"),
        agent: name("lead"),
        description: "leads".to_owned(),
        instructions: "Lead.".to_owned(),
        thinker: Some(name("big")),
        planner: None,
        actor: name("small"),
        dialect: Dialect::Native,
        continue_word: None,
        coerce: true,
        tools: vec![
            offer("look", Target::Tool, EffectClass::Read),
            offer("put", Target::Tool, EffectClass::Idempotent),
            offer("pay", Target::Tool, EffectClass::Once),
            offer("writer", Target::Agent, EffectClass::Once),
        ],
        limits: Limits {
            steps_max: 4,
            calls_per_step_max: 3,
            depth_max: 2,
            tokens_max: 1000,
            reply_tokens_max: 200,
            feedback_max: 2,
            resumes_max: 2,
            deadline_ms: 60_000,
            model_timeout_ms: 9000,
            queue_max: 2,
            history_messages_max: 20,
            history_tokens_max: Some(1000),
            approval_timeout_ms: 10_000,
            calls_max: u64::MAX,
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

/// The plan with another offer of a tool.
pub(super) fn offering(mut plan: Plan, tool: &str, change: impl FnOnce(&mut Offer)) -> Plan {
    let offer = plan.tools.iter_mut().find(|offer| offer.spec.name.as_str() == tool);
    change(offer.unwrap());
    plan
}

/// The plan with a probe `seen` for a tool.
pub(super) fn probed(plan: Plan, tool: &str) -> Plan {
    let probe = Probe { tool: name("seen"), takes_arguments: true, timeout_ms: 1000 };
    offering(plan, tool, |offer| offer.probe = Some(probe))
}

/// The same agent with one model for thought and act.
pub(super) fn actor() -> Plan {
    Plan { thinker: None, ..thinker() }
}

/// The same agent with a planner, and with a model of its own for one of the tools.
pub(super) fn planner() -> Plan {
    let asked = |text: &str, dialect| Some(AskedModel { model: name(text), dialect });
    let mut plan = Plan { planner: asked("big", Dialect::Native), ..actor() };
    plan.tools[1].actor = asked("clerk", Dialect::Schema);
    plan
}

/// The plan with other limits.
pub(super) fn with(mut plan: Plan, change: impl FnOnce(&mut Limits)) -> Plan {
    change(&mut plan.limits);
    plan
}

/// A message that is accepted at second 0 with a minute to go.
pub(super) fn submitted(id: &str) -> Submitted {
    let text = format!("ask {id}");
    Submitted {
        run: run(id),
        agent: name("lead"),
        plan: Digest::of(b"plan"),
        body: Digest::of(text.as_bytes()),
        text,
        deadline: Timestamp::from_micros(60_000_000),
        budget: Budget::default(),
        trace: TraceContext::root(&name("team"), &run(id)),
        caller_span: None,
        parent: None,
        begins: false,
    }
}

pub(super) fn submit(id: &str) -> Input {
    Input::Submitted(submitted(id))
}

pub(super) fn submit_with(id: &str, tokens: Option<u64>, steps: Option<u32>) -> Input {
    Input::Submitted(Submitted {
        budget: Budget { tokens, steps, ..Budget::default() },
        ..submitted(id)
    })
}

pub(super) fn submit_below(id: &str, depth: u32) -> Input {
    let session = SessionId::new("above").unwrap();
    let parent = Some(Parent { session, run: run("above"), depth, tainted: false });
    Input::Submitted(Submitted { parent, ..submitted(id) })
}

pub(super) fn submit_tainted(id: &str) -> Input {
    let session = SessionId::new("above").unwrap();
    let parent = Some(Parent { session, run: run("above"), depth: 1, tainted: true });
    Input::Submitted(Submitted { parent, ..submitted(id) })
}

pub(super) fn replied(
    id: &str,
    turn: u32,
    role: ModelRole,
    tokens: u64,
    reading: Reading,
) -> Input {
    let report = TurnReport {
        role,
        usage: Usage::of_tokens(tokens, 0),
        finish: FinishReason::Stop,
        provider: "scripted".to_owned(),
        model: "m".to_owned(),
        attempts: 1,
        served_by: None,
        detail: wire::chat::TurnDetail::default(),
    };
    Input::ModelReplied(ModelReplied {
        run: run(id),
        turn,
        outcome: ModelOutcome::Read {
            reading,
            unread: None,
            reasoning: None,
            turn: Box::new(report),
        },
    })
}

pub(super) fn continued(id: &str, turn: u32, text: &str) -> Input {
    replied(id, turn, ModelRole::Actor, 10, Reading::Continued { text: text.to_owned() })
}

pub(super) fn thought(id: &str, turn: u32, text: &str) -> Input {
    replied(id, turn, ModelRole::Thinker, 10, Reading::Thought { text: text.to_owned() })
}

pub(super) fn planned(id: &str, turn: u32, tool: &str, task: &str) -> Input {
    let planned = Planned {
        tool: tool.to_owned(),
        task: task.to_owned(),
        thoughts: String::new(),
        summary: String::new(),
    };
    replied(id, turn, ModelRole::Thinker, 10, Reading::Planned(planned))
}

pub(super) fn answer(id: &str, turn: u32, text: &str) -> Input {
    replied(id, turn, ModelRole::Actor, 10, Reading::Final { text: text.into() })
}

pub(super) fn feedback(code: FeedbackCode, message: &str) -> Feedback {
    Feedback {
        code,
        reason: None,
        message: message.to_owned(),
        faults: Vec::new(),
        schema: None,
        valid_names: Vec::new(),
    }
}

pub(super) fn garbage(id: &str, turn: u32) -> Input {
    unusable(id, turn, "{{")
}

pub(super) fn unusable(id: &str, turn: u32, raw: &str) -> Input {
    let feedback = feedback(FeedbackCode::MalformedReply, "this is no JSON");
    let reading = Reading::Fault { feedback, raw: raw.to_owned() };
    replied(id, turn, ModelRole::Actor, 10, reading)
}

pub(super) fn read_call(tool: &str, arguments: Value) -> ReadCall {
    ReadCall {
        id: String::new(),
        name: tool.to_owned(),
        raw: arguments.to_string(),
        arguments: arguments.into(),
        written: String::new(),
        fault: None,
    }
}

/// Calls of tools, each with its place among the calls as its argument.
pub(super) fn calls(id: &str, turn: u32, tools: &[&str]) -> Input {
    calls_using(id, turn, 10, tools)
}

pub(super) fn calls_using(id: &str, turn: u32, tokens: u64, tools: &[&str]) -> Input {
    let calls = tools
        .iter()
        .enumerate()
        .map(|(index, tool)| read_call(tool, json!({"n": index})))
        .collect();
    let reading = Reading::Calls { text: String::new(), calls };
    replied(id, turn, ModelRole::Actor, tokens, reading)
}

/// One call with a fault, after any number of good ones.
pub(super) fn faulty(id: &str, turn: u32, good: &[&str], tool: &str, code: FeedbackCode) -> Input {
    let mut calls: Vec<ReadCall> =
        good.iter().map(|tool| read_call(tool, json!({"n": 0}))).collect();
    let fault = Some(feedback(code, "no good"));
    calls.push(ReadCall { fault, ..read_call(tool, json!({})) });
    replied(id, turn, ModelRole::Actor, 10, Reading::Calls { text: String::new(), calls })
}

pub(super) fn model_failed(id: &str, turn: u32) -> Input {
    let error = WireError::new(ErrorCode::ModelUnavailable, "no answer in 3 attempts");
    Input::ModelReplied(ModelReplied {
        run: run(id),
        turn,
        outcome: ModelOutcome::Failed { error },
    })
}

pub(super) fn settle(slot: u64, index: u32, outcome: CallOutcome, tokens: u64) -> Input {
    let usage = Usage::of_tokens(tokens, 0);
    Input::CallSettled { call: call(slot, index), outcome, usage, tainted: false, hop: None }
}

/// A result that holds untrusted words though its tool is trusted.
pub(super) fn done_tainted(slot: u64, index: u32) -> Input {
    let outcome = CallOutcome::text("done");
    Input::CallSettled {
        call: call(slot, index),
        outcome,
        usage: Usage::default(),
        tainted: true,
        hop: None,
    }
}

pub(super) fn done(slot: u64, index: u32) -> Input {
    settle(slot, index, CallOutcome::text("done"), 0)
}

pub(super) fn failed(slot: u64, index: u32) -> Input {
    settle(slot, index, CallOutcome::error(ErrorCode::ToolFailed, "it broke"), 0)
}

pub(super) fn unknown(slot: u64, index: u32) -> Input {
    settle(slot, index, CallOutcome::Unknown { note: "no answer".to_owned() }, 0)
}

pub(super) fn suspend(slot: u64, index: u32) -> Input {
    Input::CallSuspended { call: call(slot, index), attempt: None, question: "may I?".to_owned() }
}

pub(super) fn lost(slot: u64, index: u32, attempt: u32) -> Input {
    let error = WireError::new(ErrorCode::ToolTimeout, "no answer");
    Input::CallLost {
        call: call(slot, index),
        attempt,
        error,
        usage: Usage::default(),
        tainted: false,
        hop: None,
    }
}

pub(super) fn found(slot: u64, index: u32, probe: u32, output: Value) -> Input {
    Input::CallProbed {
        call: call(slot, index),
        probe,
        outcome: CallOutcome::Ok { output },
        tainted: false,
    }
}

/// Leave for a call of a tool with the arguments that [`calls`] gives it.
pub(super) fn allow(slot: u64, index: u32, tool: &str) -> Input {
    let digest = call_digest(&name(tool), &json!({"n": index}));
    Input::CallApproved { call: call(slot, index), digest }
}

pub(super) fn deny(slot: u64, index: u32, reason: &str) -> Input {
    Input::CallDenied { call: call(slot, index), reason: reason.to_owned() }
}

pub(super) fn expire(slot: u64, index: u32) -> Input {
    Input::ApprovalExpired { call: call(slot, index) }
}

pub(super) fn resolve(slot: u64, index: u32, attempt: u32, result: Option<Value>) -> Input {
    let resolution = match result {
        Some(result) => Resolution::Done { result },
        None => Resolution::NotDone,
    };
    Input::CallResolved { call: call(slot, index), attempt, resolution }
}

pub(super) fn cancel(id: &str) -> Input {
    Input::CancelRequested { run: run(id), reason: "enough".to_owned() }
}

pub(super) fn late(id: &str) -> Input {
    Input::DeadlinePassed { run: run(id) }
}

pub(super) fn published(id: &str) -> Input {
    Input::ReplyPublished { run: run(id) }
}

pub(super) fn told(slot: u64, index: u32) -> Input {
    Input::CancelDelivered { call: call(slot, index) }
}
