//! Finished spans, made from facts alone.
//!
//! Names and attributes follow the OpenTelemetry conventions for generative AI, v1.41.1. Contents
//! of messages are never part of a span.

use serde_json::{Map, Value, json};
use wire::entry::{FeedbackCode, TurnReport, Unread};
use wire::plan::{Offer, Target};
use wire::trace::SpanKind;
use wire::{
    CallKey, CallOutcome, ModelRole, Name, Plan, Planned, RunId, RunReply, SessionId, SpanRecord,
    Timestamp, TraceContext, Usage, WireError,
};

/// The names of attributes, those of the conventions first.
pub mod attribute {
    /// `chat`, `execute_tool` or `invoke_agent`.
    pub const OPERATION_NAME: &str = "gen_ai.operation.name";
    /// The provider's kind.
    pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
    /// The model as the team calls it.
    pub const REQUEST_MODEL: &str = "gen_ai.request.model";
    /// The model as the provider calls it.
    pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
    /// Why the model stopped; a list with one entry per reply.
    pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
    /// Tokens read.
    pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
    /// Tokens written.
    pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
    /// What was used cost so much by the prices of the team file, in billionths of a US dollar.
    pub const COST_NANO_USD: &str = "callboard.usage.cost_nano_usd";
    /// Calls that were made, those of called agents included.
    pub const CALLS: &str = "callboard.usage.calls";
    /// The agent.
    pub const AGENT_NAME: &str = "gen_ai.agent.name";
    /// The session.
    pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
    /// The tool.
    pub const TOOL_NAME: &str = "gen_ai.tool.name";
    /// `function` for a tool, `extension` for an agent called as a tool.
    pub const TOOL_TYPE: &str = "gen_ai.tool.type";
    /// The call's key.
    pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
    /// The code of what went wrong.
    pub const ERROR_TYPE: &str = "error.type";
    /// The part that a model plays.
    pub const ROLE: &str = "callboard.role";
    /// The team.
    pub const TEAM: &str = "callboard.team";
    /// The run.
    pub const RUN_ID: &str = "callboard.run.id";
    /// The step of the run, from 1; on a run, how many steps it took.
    pub const STEP: &str = "callboard.step";
    /// The model turn of the run, from 0.
    pub const TURN: &str = "callboard.turn";
    /// What the planner selected for the step: a tool, an agent, or the answer.
    pub const SELECTED_TOOL: &str = "callboard.selected_tool";
    /// How the actor model is asked.
    pub const DIALECT: &str = "callboard.dialect";
    /// What may be repeated.
    pub const EFFECT: &str = "callboard.effect";
    /// How often the provider was asked.
    pub const ATTEMPTS: &str = "callboard.attempts";
    /// The model as the team calls it, if another one was asked.
    pub const SERVED_BY: &str = "callboard.served_by";
    /// How often the run was taken up again.
    pub const RESUMES: &str = "callboard.resumes";
    /// The run that the message joined.
    pub const JOINED: &str = "callboard.joined";
    /// Whether the run read untrusted words.
    pub const TAINTED: &str = "callboard.tainted";
    /// How it ended.
    pub const OUTCOME: &str = "callboard.outcome";
    /// Why a reply could not be used.
    pub const FEEDBACK: &str = "callboard.feedback";
    /// How many bytes of a reply stand after what counts of it, and were not read.
    pub const UNREAD_BYTES: &str = "callboard.unread_bytes";
}

/// What the conventions call an error that has no code of its own.
const ERROR_OTHER: &str = "_OTHER";
/// The provider of agents: this runtime.
const PROVIDER_SELF: &str = "callboard";
/// The provider of a model turn that no provider answered.
const PROVIDER_UNKNOWN: &str = "unknown";

/// What all spans of a run have in common.
#[derive(Clone, Copy, Debug)]
pub struct RunFacts<'a> {
    /// The agent's plan.
    pub plan: &'a Plan,
    /// The session.
    pub session: &'a SessionId,
    /// The run.
    pub run: &'a RunId,
    /// The run's own span.
    pub trace: &'a TraceContext,
}

/// A model turn that is over.
#[derive(Clone, Copy, Debug)]
pub struct TurnFacts<'a> {
    /// Its number in the run, from 0.
    pub turn: u32,
    /// The step it belongs to, from 1.
    pub step: u32,
    /// The part that the model played.
    pub role: ModelRole,
    /// The model's name in the team.
    pub model: &'a Name,
    /// What the planner wants done in the step, if it has said so.
    pub planned: Option<&'a Planned>,
    /// When it was asked.
    pub start: Timestamp,
    /// When the answer was there.
    pub end: Timestamp,
    /// What the model reported, if it answered, and what it used with its price.
    pub report: Option<(&'a TurnReport, Usage)>,
    /// Why the reply could not be used, if so.
    pub feedback: Option<FeedbackCode>,
    /// What follows in the reply and was not read, if anything does.
    pub unread: Option<&'a Unread>,
    /// Why there is no reply, if so.
    pub error: Option<&'a WireError>,
}

/// A call that is over.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// Its key.
    pub call: &'a CallKey,
    /// What was called.
    pub offer: &'a Offer,
    /// The step it belongs to, from 1.
    pub step: u32,
    /// When it was decided.
    pub start: Timestamp,
    /// When its outcome was there.
    pub end: Timestamp,
    /// How it ended.
    pub outcome: &'a CallOutcome,
    /// Tokens that it used, if it was a run of another agent.
    pub usage: Usage,
}

/// Makes the span of a model turn.
pub fn model_span(facts: &RunFacts<'_>, turn: &TurnFacts<'_>) -> SpanRecord {
    let mut attributes = facts.attributes("chat");
    let provider = turn.report.map_or(PROVIDER_UNKNOWN, |(report, _)| report.provider.as_str());
    set(&mut attributes, attribute::PROVIDER_NAME, provider);
    set(&mut attributes, attribute::REQUEST_MODEL, turn.model.as_str());
    set(&mut attributes, attribute::ROLE, turn.role.as_str());
    set(&mut attributes, attribute::STEP, turn.step);
    set(&mut attributes, attribute::TURN, turn.turn);
    if turn.role == ModelRole::Actor {
        let (_, dialect) = facts.plan.acting_model(turn.planned);
        set(&mut attributes, attribute::DIALECT, dialect.as_str());
    }
    if let Some(planned) = turn.planned {
        set(&mut attributes, attribute::SELECTED_TOOL, planned.tool.as_str());
    }
    if let Some((report, usage)) = turn.report {
        set(&mut attributes, attribute::RESPONSE_MODEL, report.model.as_str());
        set(&mut attributes, attribute::FINISH_REASONS, json!([report.finish.as_str()]));
        set(&mut attributes, attribute::ATTEMPTS, report.attempts);
        if let Some(name) = &report.served_by {
            set(&mut attributes, attribute::SERVED_BY, name.as_str());
        }
        set_usage(&mut attributes, usage);
    }
    if let Some(code) = turn.feedback {
        set(&mut attributes, attribute::FEEDBACK, code.as_str());
    }
    if let Some(unread) = turn.unread {
        set(&mut attributes, attribute::UNREAD_BYTES, unread.bytes);
    }
    SpanRecord {
        context: facts.trace.of_turn(facts.run, turn.turn),
        parent: Some(*facts.trace),
        kind: SpanKind::Client,
        ..facts.span(
            format!("chat {}", turn.model),
            (turn.start, turn.end),
            attributes,
            turn.error.map(failure),
        )
    }
}

/// Makes the span of a call. The run of an agent that was called hangs below it.
pub fn call_span(facts: &RunFacts<'_>, call: &CallFacts<'_>) -> SpanRecord {
    let name = &call.offer.spec.name;
    let mut attributes = facts.attributes("execute_tool");
    let kind = match call.offer.target {
        Target::Tool => "function",
        Target::Agent => "extension",
    };
    set(&mut attributes, attribute::TOOL_NAME, name.as_str());
    set(&mut attributes, attribute::TOOL_TYPE, kind);
    set(&mut attributes, attribute::TOOL_CALL_ID, call.call.as_str());
    set(&mut attributes, attribute::STEP, call.step);
    set(&mut attributes, attribute::EFFECT, call.offer.effect.as_str());
    set(&mut attributes, attribute::OUTCOME, call.outcome.as_str());
    if call.usage != Usage::default() {
        set_usage(&mut attributes, call.usage);
    }
    let error = match call.outcome {
        CallOutcome::Ok { .. } => None,
        CallOutcome::Error { error } | CallOutcome::Ended { error, .. } => Some(failure(error)),
        CallOutcome::Unknown { note } => Some((ERROR_OTHER, note.clone())),
    };
    SpanRecord {
        context: facts.trace.of_call(call.call),
        parent: Some(*facts.trace),
        ..facts.span(format!("execute_tool {name}"), (call.start, call.end), attributes, error)
    }
}

/// Makes the span of a run that is over, below its caller's span if there is one.
pub fn run_span(
    facts: &RunFacts<'_>,
    caller: Option<&TraceContext>,
    start: Timestamp,
    end: Timestamp,
    reply: &RunReply,
    steps: u32,
    resumes: u32,
) -> SpanRecord {
    let mut attributes = facts.attributes("invoke_agent");
    set(&mut attributes, attribute::PROVIDER_NAME, PROVIDER_SELF);
    set(&mut attributes, attribute::STEP, steps);
    set(&mut attributes, attribute::RESUMES, resumes);
    set(&mut attributes, attribute::OUTCOME, reply.status.as_str());
    if let Some(joined) = &reply.joined {
        set(&mut attributes, attribute::JOINED, joined.as_str());
    }
    if reply.tainted {
        set(&mut attributes, attribute::TAINTED, true);
    }
    set_usage(&mut attributes, reply.usage);
    SpanRecord {
        parent: caller.copied(),
        ..facts.span(
            format!("invoke_agent {}", facts.plan.agent),
            (start, end),
            attributes,
            reply.error.as_ref().map(failure),
        )
    }
}

impl RunFacts<'_> {
    fn attributes(&self, operation: &str) -> Map<String, Value> {
        let mut attributes = Map::new();
        set(&mut attributes, attribute::OPERATION_NAME, operation);
        set(&mut attributes, attribute::AGENT_NAME, self.plan.agent.as_str());
        set(&mut attributes, attribute::CONVERSATION_ID, self.session.as_str());
        set(&mut attributes, attribute::TEAM, self.plan.team.as_str());
        set(&mut attributes, attribute::RUN_ID, self.run.as_str());
        attributes
    }

    /// Makes a span of the run itself; the callers put it in its place.
    fn span(
        &self,
        name: String,
        (start, end): (Timestamp, Timestamp),
        mut attributes: Map<String, Value>,
        error: Option<(&str, String)>,
    ) -> SpanRecord {
        if let Some((kind, _)) = error {
            set(&mut attributes, attribute::ERROR_TYPE, kind);
        }
        SpanRecord {
            context: *self.trace,
            parent: None,
            name,
            kind: SpanKind::Internal,
            start,
            end,
            session: self.session.clone(),
            run: self.run.clone(),
            agent: self.plan.agent.clone(),
            attributes,
            error: error.map(|(_, message)| message),
        }
    }
}

fn failure(error: &WireError) -> (&'static str, String) {
    (error.code.as_str(), error.to_string())
}

fn set(attributes: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    attributes.insert(name.to_owned(), value.into());
}

fn set_usage(attributes: &mut Map<String, Value>, usage: Usage) {
    set(attributes, attribute::INPUT_TOKENS, usage.input_tokens);
    set(attributes, attribute::OUTPUT_TOKENS, usage.output_tokens);
    if usage.cost_nano_usd > 0 {
        set(attributes, attribute::COST_NANO_USD, usage.cost_nano_usd);
    }
    if usage.calls > 0 {
        set(attributes, attribute::CALLS, usage.calls);
    }
}

#[cfg(test)]
mod tests {
    use wire::plan::Dialect;
    use wire::{ErrorCode, FinishReason, RunStatus};

    use super::*;
    use crate::dialect::fixture;

    fn ids() -> (SessionId, RunId, TraceContext) {
        let run = RunId::new("r").unwrap();
        let trace = TraceContext::root(&Name::new("demo").unwrap(), &run);
        (SessionId::new("s").unwrap(), run, trace)
    }

    const START: Timestamp = Timestamp::from_micros(1_000);
    const END: Timestamp = Timestamp::from_micros(3_000);

    #[test]
    fn a_model_turn_is_a_chat_below_its_run() {
        let ((session, run, trace), plan) = (ids(), fixture::plan(Dialect::Schema, true));
        let facts = RunFacts { plan: &plan, session: &session, run: &run, trace: &trace };
        let report = TurnReport {
            role: ModelRole::Actor,
            usage: Usage::of_tokens(7, 3),
            finish: FinishReason::Length,
            provider: "openai".to_owned(),
            model: "tiny-1".to_owned(),
            attempts: 2,
            served_by: Some(Name::new("spare").unwrap()),
        };
        let unread = Unread::of(" and more ");
        let answered = TurnFacts {
            turn: 5,
            step: 3,
            role: ModelRole::Actor,
            model: &plan.actor,
            planned: None,
            start: START,
            end: END,
            report: Some((&report, report.usage)),
            feedback: Some(FeedbackCode::TruncatedReply),
            unread: unread.as_ref(),
            error: None,
        };
        let span = model_span(&facts, &answered);
        assert_eq!((span.context, span.parent), (trace.of_turn(&run, 5), Some(trace)));
        assert_eq!((span.name.as_str(), span.kind), ("chat small", SpanKind::Client));
        assert_eq!((span.start, span.end, &span.error), (START, END, &None));
        let expected = json!({
            "gen_ai.operation.name": "chat",
            "gen_ai.agent.name": "lead",
            "gen_ai.conversation.id": "s",
            "callboard.team": "demo",
            "callboard.run.id": "r",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "small",
            "callboard.role": "actor",
            "callboard.step": 3,
            "callboard.turn": 5,
            "callboard.dialect": "schema",
            "gen_ai.response.model": "tiny-1",
            "gen_ai.response.finish_reasons": ["length"],
            "callboard.attempts": 2,
            "callboard.served_by": "spare",
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.output_tokens": 3,
            "callboard.feedback": "truncated_reply",
            "callboard.unread_bytes": 8,
        });
        assert_eq!(Value::Object(span.attributes), expected);

        let error = WireError::new(ErrorCode::ModelUnavailable, "ask the model: refused");
        let role = ModelRole::Thinker;
        let failed =
            TurnFacts { role, report: None, feedback: None, error: Some(&error), ..answered };
        let span = model_span(&facts, &failed);
        assert_eq!(span.error.as_deref(), Some("E2002 ask the model: refused"));
        assert_eq!(span.attributes.get(attribute::ERROR_TYPE), Some(&json!("E2002")));
        assert_eq!(span.attributes.get(attribute::PROVIDER_NAME), Some(&json!("unknown")));
        assert!(!span.attributes.contains_key(attribute::DIALECT));
    }

    #[test]
    fn a_call_is_a_tool_execution_below_its_run() {
        let ((session, run, trace), mut plan) = (ids(), fixture::plan(Dialect::Native, true));
        plan.tools[0].target = Target::Agent;
        let facts = RunFacts { plan: &plan, session: &session, run: &run, trace: &trace };
        let key = CallKey::new("k").unwrap();
        let note = "may have happened".to_owned();
        let failed = CallOutcome::error(ErrorCode::ToolTimeout, "no answer in 5 s");
        let cases = [
            (CallOutcome::text("r"), "ok", None, None),
            (failed, "error", Some("E3004"), Some("E3004 no answer in 5 s")),
            (CallOutcome::Unknown { note }, "unknown", Some("_OTHER"), Some("may have happened")),
        ];
        for (outcome, word, code, message) in &cases {
            for (offer, kind) in [(&plan.tools[0], "extension"), (&plan.tools[1], "function")] {
                let usage = Usage::of_tokens(1, 2);
                let (call, start, end) = (&key, START, END);
                let span = call_span(
                    &facts,
                    &CallFacts { call, offer, step: 1, start, end, outcome, usage },
                );
                assert_eq!((span.context, span.parent), (trace.of_call(&key), Some(trace)));
                assert_eq!(span.name, format!("execute_tool {}", offer.spec.name));
                assert_eq!(span.error.as_deref(), *message);
                let is = |name: &str| span.attributes.get(name).and_then(Value::as_str);
                assert_eq!(is(attribute::OUTCOME), Some(*word));
                assert_eq!(is(attribute::ERROR_TYPE), *code);
                assert_eq!(is(attribute::TOOL_TYPE), Some(kind));
                assert_eq!(is(attribute::TOOL_CALL_ID), Some("k"));
                assert_eq!(is(attribute::EFFECT), Some("read"));
                assert_eq!(span.attributes.get(attribute::OUTPUT_TOKENS), Some(&json!(2)));
            }
        }
    }

    #[test]
    fn a_run_is_an_agent_invocation_below_its_caller() {
        let ((session, run, trace), plan) = (ids(), fixture::plan(Dialect::Native, true));
        let facts = RunFacts { plan: &plan, session: &session, run: &run, trace: &trace };
        let caller = trace.of_call(&CallKey::new("k").unwrap());
        let mut reply = RunReply {
            run: run.clone(),
            session: session.clone(),
            status: RunStatus::Completed,
            output: "secret".to_owned(),
            sources: Vec::new(),
            usage: Usage::of_tokens(1, 2),
            trace_id: trace.trace_id(),
            error: None,
            joined: None,
            tainted: false,
        };
        let span = run_span(&facts, Some(&caller), START, END, &reply, 4, 1);
        assert_eq!((span.context, span.parent), (trace, Some(caller)));
        assert_eq!((span.name.as_str(), span.kind), ("invoke_agent lead", SpanKind::Internal));
        assert_eq!(span.attributes.get(attribute::STEP), Some(&json!(4)));
        assert_eq!(span.attributes.get(attribute::RESUMES), Some(&json!(1)));
        assert_eq!(span.attributes.get(attribute::OUTCOME), Some(&json!("completed")));
        assert!(!serde_json::to_string(&span).unwrap().contains("secret"), "no contents in spans");

        assert!(!span.attributes.contains_key(attribute::JOINED));
        reply.joined = Some(RunId::new("other").unwrap());
        let span = run_span(&facts, None, START, END, &reply, 0, 0);
        assert_eq!(span.attributes.get(attribute::JOINED), Some(&json!("other")));

        reply.status = RunStatus::Failed;
        reply.error = Some(WireError::new(ErrorCode::StepLimit, "10 steps are used"));
        let span = run_span(&facts, None, START, END, &reply, 10, 0);
        assert_eq!(span.parent, None);
        assert_eq!(span.attributes.get(attribute::ERROR_TYPE), Some(&json!("E4001")));
    }
}
