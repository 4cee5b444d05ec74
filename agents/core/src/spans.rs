//! Finished spans, made from facts alone.
//!
//! Names and attributes follow the OpenTelemetry conventions for generative AI, v1.41.1. Contents
//! of messages are never part of a span.

use serde_json::{Map, Value, json};
use wire::entry::{FeedbackCode, TurnReport, Unread};
use wire::plan::{Offer, Target};
use wire::semconv::{self, ERROR_OTHER, PROVIDER_SELF, PROVIDER_UNKNOWN, operation};
use wire::trace::SpanKind;
use wire::{
    CallKey, CallOutcome, ModelRole, Name, Plan, Planned, RunId, RunReply, SessionId, SpanRecord,
    Timestamp, TraceContext, Usage, WireError,
};

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
    let mut attributes = facts.attributes(operation::CHAT);
    let provider = turn.report.map_or(PROVIDER_UNKNOWN, |(report, _)| report.provider.as_str());
    set(&mut attributes, semconv::PROVIDER_NAME, provider);
    set(&mut attributes, semconv::REQUEST_MODEL, turn.model.as_str());
    set(&mut attributes, semconv::ROLE, turn.role.as_str());
    set(&mut attributes, semconv::STEP, turn.step);
    set(&mut attributes, semconv::TURN, turn.turn);
    if turn.role == ModelRole::Actor {
        let (_, dialect) = facts.plan.acting_model(turn.planned);
        set(&mut attributes, semconv::DIALECT, dialect.as_str());
    }
    if let Some(planned) = turn.planned {
        set(&mut attributes, semconv::SELECTED_TOOL, planned.tool.as_str());
    }
    if let Some((report, usage)) = turn.report {
        set(&mut attributes, semconv::RESPONSE_MODEL, report.model.as_str());
        set(&mut attributes, semconv::FINISH_REASONS, json!([report.finish.as_str()]));
        set(&mut attributes, semconv::ATTEMPTS, report.attempts);
        if let Some(name) = &report.served_by {
            set(&mut attributes, semconv::SERVED_BY, name.as_str());
        }
        set_usage(&mut attributes, usage);
    }
    if let Some(code) = turn.feedback {
        set(&mut attributes, semconv::FEEDBACK, code.as_str());
    }
    if let Some(unread) = turn.unread {
        set(&mut attributes, semconv::UNREAD_BYTES, unread.bytes);
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
    let mut attributes = facts.attributes(operation::EXECUTE_TOOL);
    let kind = match call.offer.target {
        Target::Tool => "function",
        Target::Agent => "extension",
    };
    set(&mut attributes, semconv::TOOL_NAME, name.as_str());
    set(&mut attributes, semconv::TOOL_TYPE, kind);
    set(&mut attributes, semconv::TOOL_CALL_ID, call.call.as_str());
    set(&mut attributes, semconv::STEP, call.step);
    set(&mut attributes, semconv::EFFECT, call.offer.effect.as_str());
    set(&mut attributes, semconv::OUTCOME, call.outcome.as_str());
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
    let mut attributes = facts.attributes(operation::INVOKE_AGENT);
    set(&mut attributes, semconv::PROVIDER_NAME, PROVIDER_SELF);
    set(&mut attributes, semconv::STEP, steps);
    set(&mut attributes, semconv::RESUMES, resumes);
    set(&mut attributes, semconv::OUTCOME, reply.status.as_str());
    if let Some(joined) = &reply.joined {
        set(&mut attributes, semconv::JOINED, joined.as_str());
    }
    if reply.tainted {
        set(&mut attributes, semconv::TAINTED, true);
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
        set(&mut attributes, semconv::OPERATION_NAME, operation);
        set(&mut attributes, semconv::AGENT_NAME, self.plan.agent.as_str());
        set(&mut attributes, semconv::CONVERSATION_ID, self.session.as_str());
        set(&mut attributes, semconv::TEAM, self.plan.team.as_str());
        set(&mut attributes, semconv::RUN_ID, self.run.as_str());
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
            set(&mut attributes, semconv::ERROR_TYPE, kind);
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
            events: Vec::new(),
            links: Vec::new(),
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
    set(attributes, semconv::INPUT_TOKENS, usage.input_tokens);
    set(attributes, semconv::OUTPUT_TOKENS, usage.output_tokens);
    if usage.cost_nano_usd > 0 {
        set(attributes, semconv::COST_NANO_USD, usage.cost_nano_usd);
    }
    if usage.calls > 0 {
        set(attributes, semconv::CALLS, usage.calls);
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
        assert_eq!(span.attributes.get(semconv::ERROR_TYPE), Some(&json!("E2002")));
        assert_eq!(span.attributes.get(semconv::PROVIDER_NAME), Some(&json!("unknown")));
        assert!(!span.attributes.contains_key(semconv::DIALECT));
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
                assert_eq!(is(semconv::OUTCOME), Some(*word));
                assert_eq!(is(semconv::ERROR_TYPE), *code);
                assert_eq!(is(semconv::TOOL_TYPE), Some(kind));
                assert_eq!(is(semconv::TOOL_CALL_ID), Some("k"));
                assert_eq!(is(semconv::EFFECT), Some("read"));
                assert_eq!(span.attributes.get(semconv::OUTPUT_TOKENS), Some(&json!(2)));
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
        assert_eq!(span.attributes.get(semconv::STEP), Some(&json!(4)));
        assert_eq!(span.attributes.get(semconv::RESUMES), Some(&json!(1)));
        assert_eq!(span.attributes.get(semconv::OUTCOME), Some(&json!("completed")));
        assert!(!serde_json::to_string(&span).unwrap().contains("secret"), "no contents in spans");

        assert!(!span.attributes.contains_key(semconv::JOINED));
        reply.joined = Some(RunId::new("other").unwrap());
        let span = run_span(&facts, None, START, END, &reply, 0, 0);
        assert_eq!(span.attributes.get(semconv::JOINED), Some(&json!("other")));

        reply.status = RunStatus::Failed;
        reply.error = Some(WireError::new(ErrorCode::StepLimit, "10 steps are used"));
        let span = run_span(&facts, None, START, END, &reply, 10, 0);
        assert_eq!(span.parent, None);
        assert_eq!(span.attributes.get(semconv::ERROR_TYPE), Some(&json!("E4001")));
    }
}
