use serde_json::{Value, json};
use wire::chat::TurnDetail;
use wire::entry::{FeedbackCode, Reason, TurnReport, Unread};
use wire::hop::{Endpoint, Hop, HopEvent, HopReport};
use wire::plan::{Dialect, Served, Target};
use wire::{
    CallKey, CallOutcome, Capture, ErrorCode, FinishReason, Levels, ModelRole, Reading, RunStatus,
};

use super::*;
use crate::dialect::fixture;

const START: Timestamp = Timestamp::from_micros(1_000);
const END: Timestamp = Timestamp::from_micros(3_000);
const LEFT: Left = Left { tokens: Some(90), steps: Some(7), calls: None, cost_nano_usd: None };

/// The facts of a run whose spans are looked up.
fn stored<'a>(
    plan: &'a Plan,
    (session, run, trace): (&'a SessionId, &'a RunId, &'a RunTrace),
) -> RunFacts<'a> {
    RunFacts { plan, session, run, trace, sink: TraceSink::Store, left: LEFT }
}

fn ids() -> (SessionId, RunId, RunTrace) {
    let run = RunId::new("r").unwrap();
    let trace = TraceContext::root(&Name::new("demo").unwrap(), &run);
    (SessionId::new("s").unwrap(), run, RunTrace::new(trace))
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn report() -> TurnReport {
    TurnReport {
        role: ModelRole::Actor,
        usage: Usage::of_tokens(7, 3),
        finish: FinishReason::Length,
        provider: "openai".to_owned(),
        model: "tiny-1".to_owned(),
        attempts: 2,
        served_by: None,
        detail: TurnDetail::default(),
    }
}

fn fault() -> Reading {
    let feedback = fixture::feedback(Reason::Cut, "it is cut");
    Reading::Fault { feedback, raw: "{\"na".to_owned() }
}

/// The part of `attributes` that `expected` names; the rest has no content.
#[track_caller]
fn assert_has(attributes: &Attributes, expected: &Value) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(attributes[name.as_str()], value.clone().into(), "{name}");
    }
}

#[test]
fn a_model_turn_is_a_chat_below_its_run() {
    let ((session, run, trace), plan) = (ids(), fixture::plan(Dialect::Schema, true));
    let facts = stored(&plan, (&session, &run, &trace));
    let (report, reading) = (report(), fault());
    let unread = Unread::of(" and more ");
    let answered = TurnFacts {
        turn: 5,
        step: 3,
        role: ModelRole::Actor,
        model: &plan.actor,
        max_tokens: 500,
        planned: None,
        rounds: 1,
        start: START,
        end: END,
        report: Some((&report, report.usage)),
        lost: Usage::default(),
        told: &[],
        outcome: Ok(&reading),
        unread: unread.as_ref(),
    };
    let span = model_span(&facts, &answered);
    assert_eq!((span.context, span.parent), (trace.of_turn(&run, 5), Some(*trace.span())));
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
        "gen_ai.request.max_tokens": 500,
        "gen_ai.output.type": "json",
        "callboard.model": "small",
        "callboard.role": "actor",
        "callboard.step": 3,
        "callboard.turn": 5,
        "callboard.dialect": "schema",
        "callboard.budget.tokens_left": 90,
        "callboard.budget.steps_left": 7,
        "callboard.feedback.rounds": 1,
        "gen_ai.response.model": "tiny-1",
        "gen_ai.response.finish_reasons": ["length"],
        "callboard.attempts": 2,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "callboard.feedback": "truncated_reply",
        "callboard.unread_bytes": 8,
    });
    assert_eq!(FeedbackCode::TruncatedReply.as_str(), "truncated_reply");
    assert_eq!(serde_json::to_value(span.attributes).unwrap(), expected);

    let error = WireError::new(ErrorCode::ModelUnavailable, "ask the model: refused");
    let role = ModelRole::Thinker;
    let lost = Usage { cost_nano_usd: 7, ..Usage::of_tokens(5, 1) };
    let failed = TurnFacts { role, report: None, lost, outcome: Err(&error), ..answered };
    let span = model_span(&facts, &failed);
    assert_eq!(span.error.as_deref(), Some("E2002 ask the model: refused"));
    assert_has(
        &span.attributes,
        &json!({"error.type": "E2002", "gen_ai.provider.name": "unknown", "callboard.dialect": null}),
    );
}

#[test]
fn a_model_turn_says_whom_it_asked_and_how() {
    let ((session, run, trace), mut plan) = (ids(), fixture::plan(Dialect::Native, false));
    let place = Endpoint { address: "llm.test".to_owned(), port: 443 };
    let served = Served {
        provider: "openai".to_owned(),
        model: "gpt-x".to_owned(),
        server: Some(place),
        stream: true,
        temperature: Some(0.0),
        top_k: Some(40),
        stop: vec!["END".to_owned()],
        ..Served::default()
    };
    let spare = Served { model: "llama".to_owned(), ..Served::default() };
    plan.served = [(name("small"), served), (name("spare"), spare)].into();
    let facts = stored(&plan, (&session, &run, &trace));
    let detail = TurnDetail {
        response_id: Some("id-1".to_owned()),
        cache_read_tokens: Some(4),
        cache_creation_tokens: None,
        reasoning_tokens: Some(2),
        first_chunk_us: Some(250_000),
        lost: Vec::new(),
    };
    let report = TurnReport { detail, ..report() };
    let reading = Reading::Final { text: "x".into() };
    let turn = TurnFacts {
        turn: 0,
        step: 1,
        role: ModelRole::Actor,
        model: &plan.actor,
        max_tokens: 500,
        planned: None,
        rounds: 0,
        start: START,
        end: END,
        report: Some((&report, report.usage)),
        lost: Usage::default(),
        told: &[],
        outcome: Ok(&reading),
        unread: None,
    };
    let span = model_span(&facts, &turn);
    assert_eq!(span.name, "chat gpt-x");
    assert_has(
        &span.attributes,
        &json!({
            "gen_ai.request.model": "gpt-x", "callboard.model": "small", "server.port": 443,
            "server.address": "llm.test", "gen_ai.request.stream": true,
            "gen_ai.request.temperature": 0.0, "gen_ai.request.top_k": 40.0,
            "gen_ai.request.stop_sequences": ["END"], "gen_ai.response.id": "id-1",
            "gen_ai.usage.cache_read.input_tokens": 4, "gen_ai.request.seed": null,
            "gen_ai.usage.cache_creation.input_tokens": null, "callboard.feedback.rounds": null,
            "gen_ai.usage.reasoning.output_tokens": 2,
            "gen_ai.response.time_to_first_chunk": 0.25, "callboard.served_by": null,
        }),
    );
    let report = TurnReport { served_by: Some(name("spare")), ..report.clone() };
    let span = model_span(&facts, &TurnFacts { report: Some((&report, report.usage)), ..turn });
    assert_eq!(span.name, "chat llama");
    assert_has(
        &span.attributes,
        &json!({"callboard.served_by": "spare", "callboard.model": "small", "server.port": null}),
    );
}

#[test]
fn a_call_is_a_tool_execution_below_its_run() {
    let ((session, run, trace), mut plan) = (ids(), fixture::plan(Dialect::Native, true));
    plan.tools[0].target = Target::Agent;
    let facts = stored(&plan, (&session, &run, &trace));
    let (key, arguments) = (CallKey::new("k").unwrap(), json!({"query": "x"}));
    let note = "may have happened".to_owned();
    let failed = CallOutcome::error(ErrorCode::ToolTimeout, "no answer in 5 s");
    let cases = [
        (CallOutcome::text("r"), "ok", None, None),
        (failed, "error", Some("E3004"), Some("E3004 no answer in 5 s")),
        (CallOutcome::Unknown { note }, "unknown", Some("_OTHER"), Some("may have happened")),
    ];
    for (outcome, word, code, message) in &cases {
        for (offer, kind) in [(&plan.tools[0], "extension"), (&plan.tools[1], "function")] {
            let call = CallFacts {
                call: &key,
                offer,
                arguments: &arguments,
                turn: 0,
                step: 1,
                attempts: 2,
                start: START,
                end: END,
                outcome,
                usage: Usage::of_tokens(1, 2),
                served_by: None,
                events: &[],
            };
            let span = call_span(&facts, &call);
            assert_eq!((span.context, span.parent), (trace.of_call(&key), Some(*trace.span())));
            assert_eq!(span.name, format!("execute_tool {}", offer.spec.name));
            assert_eq!(span.error.as_deref(), *message);
            assert_has(
                &span.attributes,
                &json!({
                    "callboard.outcome": word, "error.type": code, "gen_ai.tool.type": kind,
                    "gen_ai.tool.call.id": "k", "callboard.effect": "read",
                    "callboard.attempts": 2, "gen_ai.usage.output_tokens": 2,
                    "callboard.budget.tokens_left": 90,
                    "gen_ai.tool.call.arguments": null,
                    "callboard.content.arguments_bytes": null,
                }),
            );
        }
    }
}

#[test]
fn a_call_of_a_tool_that_asks_a_model_says_which_one_used_what() {
    let ((session, run, trace), mut plan) = (ids(), fixture::plan(Dialect::Native, true));
    let served = |provider: &str, model: &str| Served {
        provider: provider.to_owned(),
        model: model.to_owned(),
        ..Served::default()
    };
    plan.served =
        [(name("small"), served("ollama", "llama")), (name("spare"), served("openai", "gpt-x"))]
            .into();
    let spare = name("spare");
    let used = Usage::of_tokens(1, 2);
    let said = |provider: &str, model: &str, by: Option<&str>| {
        json!({"gen_ai.provider.name": provider, "gen_ai.request.model": model,
            "callboard.model": "small", "callboard.served_by": by, "callboard.turn": 3})
    };
    let nothing = json!({"gen_ai.request.model": null, "callboard.model": null});
    let cases = [
        (Some("small"), None, used, said("ollama", "llama", None), Some(used)),
        (Some("small"), Some(&spare), used, said("openai", "gpt-x", Some("spare")), Some(used)),
        // What was refused before a model was asked counts nowhere, and agents tell their own turns.
        (Some("small"), None, Usage::default(), nothing.clone(), None),
        (None, None, used, nothing, None),
    ];
    for (model, served_by, usage, told, counted) in cases {
        plan.tools[1].model = model.map(name);
        let facts = stored(&plan, (&session, &run, &trace));
        let call = CallFacts {
            call: &CallKey::new("k").unwrap(),
            offer: &plan.tools[1],
            arguments: &json!({}),
            turn: 3,
            step: 2,
            attempts: 1,
            start: START,
            end: END,
            outcome: &CallOutcome::text("r"),
            usage,
            served_by,
            events: &[],
        };
        let span = call_span(&facts, &call);
        assert_has(&span.attributes, &told);
        assert_eq!(span.model_usage(), counted, "{told}");
    }
}

#[test]
fn an_attempt_is_a_hop_below_its_call() {
    let ((session, run, trace), mut plan) = (ids(), fixture::plan(Dialect::Native, true));
    plan.traces.store = Capture::Redacted;
    let facts = stored(&plan, (&session, &run, &trace));
    let (call, tool) = (CallKey::new("k").unwrap(), name("search"));
    let at = |address: &str, port| Endpoint { address: address.to_owned(), port };
    let text = |text: &str| Some(text.to_owned());
    let http = |server, path| Hop::Http {
        method: "GET".to_owned(),
        scheme: text("http"),
        server,
        path,
        event: None,
    };
    let event = || HopEvent { kind: "made".to_owned(), source: "/team".to_owned() };
    let nats = |subject: &str, publishes, event| Hop::Nats {
        subject: subject.to_owned(),
        publishes,
        event,
    };
    let mcp = |server| Hop::Mcp { tool: "find".to_owned(), server };
    let database = |system: &str| Hop::Database {
        system: system.to_owned(),
        namespace: name("films"),
        server: None,
    };
    let answered = HopReport { status: Some(404), version: text("1.1"), ..HopReport::default() };
    let elsewhere =
        HopReport { server: Some(at("::1", 81)), scheme: text("https"), ..HopReport::default() };
    let ended = HopReport { exit_code: Some(3), process: Some(77), ..HopReport::default() };
    let agreed = HopReport { version: text("2025-11-25"), ..HopReport::default() };
    let cases = [
        (
            http(Some(at("h", 80)), text("/a/{x}")),
            Some(&answered),
            ("GET /a/{x}", SpanKind::Client),
            json!({"http.request.method": "GET", "url.full": "http://h:80/a/{x}",
                "url.template": "/a/{x}", "server.address": "h", "server.port": 80,
                "http.response.status_code": 404, "network.protocol.version": "1.1",
                "error.type": "404"}),
        ),
        (
            http(None, None),
            Some(&elsewhere),
            ("GET", SpanKind::Client),
            json!({"url.full": "https://[::1]:81", "url.template": null, "error.type": "E3004"}),
        ),
        (http(None, None), None, ("GET", SpanKind::Client), json!({"url.full": null})),
        (
            nats("a.{x}", false, None),
            None,
            ("request a.{x}", SpanKind::Producer),
            json!({"messaging.system": "nats", "messaging.operation.name": "request",
                "messaging.operation.type": "send", "messaging.destination.template": "a.{x}",
                "messaging.destination.name": null, "messaging.message.id": "k",
                "messaging.message.conversation_id": "s"}),
        ),
        (
            nats("a.b", true, Some(event())),
            None,
            ("publish a.b", SpanKind::Producer),
            json!({"messaging.destination.name": "a.b", "cloudevents.event_id": "k",
                "cloudevents.event_type": "made", "cloudevents.event_source": "/team",
                "cloudevents.event_spec_version": "1.0"}),
        ),
        (
            mcp(None),
            Some(&agreed),
            ("tools/call find", SpanKind::Client),
            json!({"mcp.method.name": "tools/call", "gen_ai.tool.name": "find",
                "network.transport": "pipe", "mcp.protocol.version": "2025-11-25"}),
        ),
        (
            mcp(Some(at("m", 90))),
            None,
            ("tools/call find", SpanKind::Client),
            json!({"network.transport": "tcp", "network.protocol.name": "http",
                "server.address": "m"}),
        ),
        (
            Hop::Command { program: "wc".to_owned() },
            Some(&ended),
            ("wc", SpanKind::Client),
            json!({"process.executable.name": "wc", "process.exit.code": 3, "process.pid": 77}),
        ),
        (
            database("sqlite"),
            None,
            ("films", SpanKind::Client),
            json!({"db.system.name": "sqlite", "db.namespace": "films"}),
        ),
    ];
    for (hop, report, (span_name, kind), attributes) in &cases {
        let attempt = AttemptFacts {
            attempt: 2,
            report: *report,
            error: Some(("E3004", "no answer")),
            ..attempt_at(&call, &tool, hop)
        };
        let span = hop_span(&facts, &attempt);
        assert_eq!(span.context, trace.of_attempt(&call, 2));
        assert_eq!(span.parent, Some(trace.of_call(&call)));
        assert_eq!((span.name.as_str(), span.kind), (*span_name, *kind));
        assert_eq!(span.error.as_deref(), Some("no answer"));
        assert_has(&span.attributes, attributes);
        assert_has(&span.attributes, &json!({"callboard.attempt": 2, "callboard.rejoined": null}));
        let well = hop_span(&facts, &AttemptFacts { error: None, report: None, ..attempt });
        assert_eq!((well.error, well.attributes.get("error.type")), (None, None));
    }
}

fn attempt_at<'a>(call: &'a CallKey, tool: &'a Name, hop: &'a Hop) -> AttemptFacts<'a> {
    AttemptFacts {
        call,
        tool,
        hop,
        attempt: 1,
        rejoined: false,
        start: START,
        end: END,
        report: None,
        error: None,
    }
}

fn ended(reply: &RunReply) -> EndFacts<'_> {
    EndFacts {
        caller: None,
        start: START,
        end: END,
        input: "What is it?",
        reply,
        steps: 4,
        resumes: 1,
        feedback: 2,
        history_shown: 3,
        history_left_out: 0,
        events: &[],
        joined: None,
    }
}

#[test]
fn a_run_is_an_agent_invocation_below_its_caller() {
    let ((session, run, trace), plan) = (ids(), fixture::plan(Dialect::Native, true));
    let facts = stored(&plan, (&session, &run, &trace));
    let caller = trace.of_call(&CallKey::new("k").unwrap());
    let mut reply = RunReply {
        run: run.clone(),
        session: session.clone(),
        status: RunStatus::Completed,
        output: "secret".into(),
        sources: Vec::new(),
        usage: Usage::of_tokens(1, 2),
        trace_id: trace.span().trace_id(),
        error: None,
        joined: None,
        tainted: false,
    };
    let events = [event(semconv::event::RESUMED, START, [(semconv::RESUMES, 1)])];
    let facts_of_end = EndFacts { caller: Some(&caller), events: &events, ..ended(&reply) };
    let span = run_span(&facts, &facts_of_end);
    assert_eq!((span.context, span.parent), (*trace.span(), Some(caller)));
    assert_eq!((span.name.as_str(), span.kind), ("invoke_agent lead", SpanKind::Internal));
    assert_eq!(span.events, events);
    assert_has(
        &span.attributes,
        &json!({
            "callboard.step": 4, "callboard.resumes": 1, "callboard.feedback.rounds": 2,
            "callboard.outcome": "completed", "callboard.joined": null,
            "callboard.history.shown": 3, "callboard.history.left_out": null,
            "gen_ai.agent.description": "Answers questions.", "callboard.budget.steps_left": 7,
        }),
    );
    assert!(!serde_json::to_string(&span).unwrap().contains("secret"), "no contents in spans");

    reply.joined = Some(RunId::new("other").unwrap());
    let other = trace.span().child("run", "other");
    let span = run_span(&facts, &EndFacts { joined: Some(&other), ..ended(&reply) });
    assert_has(&span.attributes, &json!({"callboard.joined": "other"}));
    assert_eq!(span.links, [SpanLink { context: other, attributes: Attributes::new() }]);

    reply.status = RunStatus::Failed;
    reply.error = Some(WireError::new(ErrorCode::StepLimit, "10 steps are used"));
    let span = run_span(&facts, &ended(&reply));
    assert_eq!(span.parent, None);
    assert_has(&span.attributes, &json!({"error.type": "E4001"}));
}

/// What the spans of a run hold by the level of its traces and that of the tool.
#[test]
fn spans_hold_what_their_plan_permits() {
    let (none, metadata, redacted, full) =
        (Capture::None, Capture::Metadata, Capture::Redacted, Capture::Full);
    let long = "x".repeat(5000);
    // The level of the traces, of the tool, what a call holds of its arguments and their size.
    let cases = [
        (none, None, None, None),
        (none, Some(full), None, None),
        (metadata, None, None, Some(5012)),
        (metadata, Some(none), None, None),
        (redacted, None, Some(5000), Some(5012)),
        (redacted, Some(metadata), None, Some(5012)),
        (redacted, Some(none), None, None),
        (full, None, Some(5000), Some(5012)),
        (full, Some(redacted), Some(4091), Some(5012)),
        (full, Some(metadata), None, Some(5012)),
    ];
    for (level, tool, held, size) in cases {
        let ((session, run, trace), mut plan) = (ids(), fixture::plan(Dialect::Native, false));
        plan.traces = Levels { store: level, export: none, off: false };
        plan.tools[0].capture = tool;
        let plan = &plan;
        let facts = stored(plan, (&session, &run, &trace));
        let (key, arguments) = (CallKey::new("k").unwrap(), json!({"query": long}));
        let call = CallFacts {
            call: &key,
            offer: &plan.tools[0],
            arguments: &arguments,
            turn: 0,
            step: 1,
            attempts: 1,
            start: START,
            end: END,
            outcome: &CallOutcome::text("found"),
            usage: Usage::default(),
            served_by: None,
            events: &[],
        };
        let span = call_span(&facts, &call);
        let told = format!("{level:?} {tool:?}");
        let query = span
            .attributes
            .get(semconv::TOOL_CALL_ARGUMENTS)
            .and_then(|a| a.as_nested()?.get("query"));
        let length = query.and_then(Value::as_str).map(|text| text.find('[').unwrap_or(text.len()));
        assert_eq!(length, held, "{told}");
        let found = span.attributes.number(semconv::ARGUMENTS_BYTES);
        assert_eq!(found, size, "{told}");
        // An address that was made of arguments is as much as these.
        let hop = Hop::Http {
            method: "GET".to_owned(),
            scheme: None,
            server: None,
            path: None,
            event: None,
        };
        let server = Some(Endpoint { address: "acme.test".to_owned(), port: 443 });
        let report = HopReport { server, scheme: Some("https".to_owned()), ..HopReport::default() };
        let attempt = attempt_at(&key, &plan.tools[0].spec.name, &hop);
        let made = hop_span(&facts, &AttemptFacts { report: Some(&report), ..attempt });
        assert_eq!(made.attributes.get("url.full").is_some(), held.is_some(), "{told}");
        let result = span.attributes.get(semconv::TOOL_CALL_RESULT);
        assert_eq!(result.is_some(), held.is_some(), "{told}");
        // A sentence may repeat what came back. What the trace's own level takes of it, it takes later.
        let outcome = CallOutcome::error(ErrorCode::ToolFailed, long.as_str());
        let failed = call_span(&facts, &CallFacts { outcome: &outcome, ..call });
        let attempt = AttemptFacts {
            call: &key,
            tool: &plan.tools[0].spec.name,
            hop: &Hop::Command { program: "wc".to_owned() },
            attempt: 1,
            rejoined: false,
            start: START,
            end: END,
            report: None,
            error: Some(("E3003", &outcome.to_text())),
        };
        for error in [failed.error, hop_span(&facts, &attempt).error] {
            let error = error.unwrap();
            match tool {
                Some(Capture::None | Capture::Metadata) => assert_eq!(error, "E3003", "{told}"),
                Some(Capture::Redacted) => assert!(error.contains("[cut, "), "{told}: {error}"),
                Some(Capture::Full) | None => assert!(error.contains(&long), "{told}: {error}"),
            }
        }
    }
}
