//! Calls against responders that answer in every way.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use agents_core::effect::Earlier;
use serde_json::json;
use wire::error::ErrorBody;
use wire::plan::Target;
use wire::run::{Budget, RunState};
use wire::{CallKey, EffectClass, TraceContext};

use super::*;
use crate::testing;

mod away;
mod talk;

/// Makes a call of a tool that asks nothing.
async fn call_tool(
    context: &Arc<TeamContext>,
    session: &SessionId,
    call: &CallEffect,
) -> ToolReply {
    converse(context, session, call, |_| panic!("it asks"), |input| panic!("{input:?}")).await
}

fn call(context: &TeamContext, name: &str, target: Target, effect: EffectClass) -> CallEffect {
    let run = RunId::new("r").unwrap();
    CallEffect {
        internal: false,
        agent: context.team.entry.clone(),
        call: CallKey::new("c").unwrap(),
        name: Name::new(name).unwrap(),
        target,
        arguments: json!({"task": "x"}).into(),
        task: None,
        deadline: clock::now().plus_ms(5000),
        effect,
        attempt: 1,
        earlier: Earlier::Nothing,
        budget: Budget { tokens: Some(70), ..Budget::default() },
        depth: 1,
        trace: TraceContext::root(&context.team.name, &run),
        run,
        tainted: false,
        may_go_out: true,
        reader: None,
    }
}

/// Answers every request on a subject with the same bytes.
async fn answer_on(context: &TeamContext, subject: &str, answer: String) -> crate::feed::Feed {
    let bus = context.bus.clone();
    let answers = move |parcel: bus::Parcel| {
        let (bus, answer) = (bus.clone(), answer.clone());
        async move { bus.reply(parcel.message(), Headers::new(), answer.into()).await.unwrap() }
    };
    crate::feed::start(context, subject, answers).await.unwrap()
}

fn error_of(code: ErrorCode) -> String {
    serde_json::to_string(&ErrorBody { error: WireError::new(code, "m") }).unwrap()
}

#[tokio::test]
async fn a_call_that_may_have_taken_effect_is_lost_and_not_failed() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let done = r#"{"status":"settled","outcome":{"kind":"ok","output":"x"}}"#;
    let cases = [
        (done.to_owned(), "ok"),
        (error_of(ErrorCode::InvalidArguments), "error"),
        (error_of(ErrorCode::TooLarge), "lost"),
        (error_of(ErrorCode::Internal), "lost"),
        ("not an answer".to_owned(), "lost"),
        (r#"{"status":"lost","error":{"code":"E3004","message":"m"}}"#.to_owned(), "lost"),
    ];
    let session = SessionId::new("s").unwrap();
    for (n, (answer, expected)) in cases.into_iter().enumerate() {
        let name = format!("pay{n}");
        let subject = context.subjects.tool(&context.team.name, &Name::new(&name).unwrap());
        let _tool = answer_on(&context, &subject, answer.clone()).await;
        let call = call(&context, &name, Target::Tool, EffectClass::Once);
        // What an earlier process sent is not undone by that nobody takes the question about it.
        let rejoined = if expected == "error" { "lost" } else { expected };
        let again = CallEffect { earlier: Earlier::Awaited { doubtful: false }, ..call.clone() };
        for (call, expected) in [(call, expected), (again, rejoined)] {
            let found = match call_tool(&context, &session, &call).await {
                ToolReply::Settled { outcome, .. } => outcome.as_str(),
                ToolReply::Lost { .. } => "lost",
                ToolReply::Suspended { .. } => "suspended",
                ToolReply::Asks { .. } => "asks",
            };
            assert_eq!(found, expected, "{answer}, {:?}", call.earlier);
        }
    }
}

#[tokio::test]
async fn a_called_agent_has_no_more_time_than_its_call() {
    let data = tempfile::tempdir().unwrap();
    let context = open_with(data.path(), &["clerk"]);
    let name = Name::new("clerk").unwrap();
    let subject = context.subjects.agent_run(&context.team.name, &name);
    let mut runs = context.bus.subscribe(&subject, None).await.unwrap();
    let call = call(&context, "clerk", Target::Agent, EffectClass::Read);
    let session = SessionId::new("s").unwrap();
    let calling = call_agent(&context, &session, &call);
    let asked = tokio::select! {
        asked = runs.next() => asked.unwrap(),
        done = calling => panic!("{done:?}"),
    };
    let body: RunRequest = serde_json::from_slice(&asked.payload).unwrap();
    for time in [body.timeout_ms, asked.headers.read(header::REMAINING_MS)] {
        assert!(time.is_some_and(|ms| (4_000..=5_000).contains(&ms)), "{time:?}");
    }
}

#[tokio::test]
async fn a_request_for_a_called_agent_is_what_its_caller_makes_it() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let session = SessionId::new("s").unwrap();
    let made = call(&context, "clerk", Target::Agent, EffectClass::Idempotent);
    let call = CallEffect { tainted: true, depth: 3, ..made };
    let (clerk, other) = (Name::new("clerk").unwrap(), Name::new("other").unwrap());
    let own = run_request(&session, &call);
    let parent = own.parent.clone().unwrap();
    let below = |parent| RunRequest { parent, ..own.clone() };
    let of_run = |run| Some(Parent { run: RunId::new(run).unwrap(), ..parent.clone() });
    let of_session = |id| Some(Parent { session: SessionId::new(id).unwrap(), ..parent.clone() });
    for (what, agent, sent, is_meant) in [
        ("its own", &clerk, own.clone(), true),
        ("another depth", &clerk, below(Some(Parent { depth: 1, ..parent.clone() })), true),
        ("no taint", &clerk, below(Some(Parent { tainted: false, ..parent.clone() })), true),
        ("no budget", &clerk, RunRequest { budget: None, ..own.clone() }, true),
        ("more time", &clerk, RunRequest { timeout_ms: None, ..own.clone() }, true),
        ("another agent", &other, own.clone(), false),
        ("another input", &clerk, RunRequest { input: "y".to_owned(), ..own.clone() }, false),
        ("no session", &clerk, RunRequest { session: None, ..own.clone() }, false),
        ("no run", &clerk, RunRequest { run: None, ..own.clone() }, false),
        ("another parent", &clerk, below(of_run("q")), false),
        ("a parent elsewhere", &clerk, below(of_session("t")), false),
        ("no parent", &clerk, below(None), false),
    ] {
        let found = as_called(&session, &call, agent, &sent);
        assert_eq!(found.is_some(), is_meant, "{what}");
        let Some(RunRequest { budget, timeout_ms, parent: of, .. }) = found else { continue };
        assert_eq!((budget, of.as_ref()), (Some(call.budget), Some(&parent)), "{what}");
        assert!(timeout_ms.is_some_and(|ms| ms <= 5000), "{what}: {timeout_ms:?}");
    }
}

#[tokio::test]
async fn an_attempt_that_failed_says_nothing_of_those_before_it() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let settled =
        |code| serde_json::to_string(&ToolReply::settled(CallOutcome::error(code, "m"))).unwrap();
    let session = SessionId::new("s").unwrap();
    // What the tool answers, the effect, the attempt, and what becomes of the call.
    let cases = [
        (settled(ErrorCode::ToolUnavailable), EffectClass::Idempotent, 1, "error"),
        (settled(ErrorCode::ToolUnavailable), EffectClass::Idempotent, 2, "lost"),
        (settled(ErrorCode::ToolUnavailable), EffectClass::Once, 2, "error"),
        (settled(ErrorCode::ToolFailed), EffectClass::Idempotent, 1, "error"),
        (settled(ErrorCode::ToolFailed), EffectClass::Idempotent, 2, "lost"),
        (error_of(ErrorCode::InvalidArguments), EffectClass::Idempotent, 1, "error"),
        (error_of(ErrorCode::InvalidArguments), EffectClass::Idempotent, 2, "lost"),
    ];
    for (n, (answer, effect, attempt, expected)) in cases.into_iter().enumerate() {
        let name = format!("put{n}");
        let subject = context.subjects.tool(&context.team.name, &Name::new(&name).unwrap());
        let _tool = answer_on(&context, &subject, answer.clone()).await;
        let made = call(&context, &name, Target::Tool, effect);
        let earlier = if attempt > 1 { Earlier::Doubtful } else { Earlier::Nothing };
        let call = CallEffect { attempt, earlier, ..made };
        let found = match call_tool(&context, &session, &call).await {
            ToolReply::Settled { outcome, .. } => outcome.as_str(),
            ToolReply::Lost { .. } => "lost",
            reply => panic!("{reply:?}"),
        };
        assert_eq!(found, expected, "{answer}, attempt {attempt}");
    }
}

#[tokio::test]
async fn who_has_no_room_for_a_request_is_asked_again() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let call = call(&context, "put", Target::Tool, EffectClass::Once);
    let subject = context.subjects.tool(&context.team.name, &call.name);
    let (bus, asked) = (context.bus.clone(), Arc::new(AtomicU32::new(0)));
    let times = asked.clone();
    let answers = move |parcel: bus::Parcel| {
        let answer = match times.fetch_add(1, Ordering::Relaxed) {
            0 => error_of(ErrorCode::StorageFull),
            _ => r#"{"status":"settled","outcome":{"kind":"ok","output":"x"}}"#.to_owned(),
        };
        let bus = bus.clone();
        async move { bus.reply(parcel.message(), Headers::new(), answer.into()).await.unwrap() }
    };
    let _tool = crate::feed::start(&context, &subject, answers).await.unwrap();
    let reply = call_tool(&context, &SessionId::new("s").unwrap(), &call).await;
    assert!(matches!(reply, ToolReply::Settled { .. }), "{reply:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn the_key_of_a_call_reaches_its_tool_and_a_probe_has_its_own() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let session = SessionId::new("s").unwrap();
    let call = call(&context, "pay", Target::Tool, EffectClass::Once);
    let subject = context.subjects.tool(&context.team.name, &call.name);
    let mut requests = context.bus.subscribe(&subject, None).await.unwrap();
    let bus = context.bus.clone();
    let tool = tokio::spawn(async move {
        let mut keys = Vec::new();
        for _ in 0..2 {
            let request = requests.next().await.unwrap();
            let body: ToolRequest = serde_json::from_slice(&request.payload).unwrap();
            let headers = [header::IDEMPOTENCY_KEY, header::MESSAGE_ID];
            assert!(headers.iter().all(|h| request.headers.read(h) == Some(body.call.clone())));
            keys.push(body.call);
            let done = ToolReply::settled(CallOutcome::Ok { output: json!({"done": false}) });
            let done = serde_json::to_vec(&done).unwrap();
            bus.reply(&request, Headers::new(), done.into()).await.unwrap();
        }
        keys
    });
    let probe_key = CallKey::of_probe(&call.call, 1);
    assert!(matches!(call_tool(&context, &session, &call).await, ToolReply::Settled { .. }));
    let asked = CallEffect { call: probe_key.clone(), ..call.clone() };
    let (outcome, tainted) = probe(&context, &session, &asked).await;
    assert_eq!((outcome.as_str(), tainted), ("ok", false));
    assert_eq!(tool.await.unwrap(), [call.call, probe_key]);
}

#[tokio::test]
async fn an_agent_that_may_have_begun_unheard_has_an_unknown_end() {
    let data = tempfile::tempdir().unwrap();
    let context = open_with(data.path(), &["writer0", "writer1"]);
    let cases = [(ErrorCode::RunConflict, "refused"), (ErrorCode::TooLarge, "unknown")];
    let session = SessionId::new("s").unwrap();
    for (n, (code, ended)) in cases.into_iter().enumerate() {
        let name = format!("writer{n}");
        let subject = context.subjects.agent_run(&context.team.name, &Name::new(&name).unwrap());
        let _agent = answer_on(&context, &subject, error_of(code)).await;
        let call = call(&context, &name, Target::Agent, EffectClass::Idempotent);
        let settled = call_agent(&context, &session, &call).await;
        let Input::CallSettled { outcome, usage, .. } = settled else { panic!("{settled:?}") };
        assert_eq!((outcome.as_str(), usage), (ended, Usage::default()), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_session_stood_still_is_asked_again() {
    let data = tempfile::tempdir().unwrap();
    let context = open_with(data.path(), &["writer0", "writer1", "writer2", "writer3"]);
    let reply = |run: &str| {
        let reply = json!({
            "run": run, "session": "s", "status": "completed", "output": "written", "sources": [],
            "usage": {"input_tokens": 3, "output_tokens": 4}, "trace_id": "0".repeat(32),
        });
        reply.to_string()
    };
    // What it answers the second time, and how the call ends.
    let cases = [
        (reply("c"), "ok"),
        (reply("another"), "unknown"),
        (error_of(ErrorCode::Unavailable), "unknown"),
        (error_of(ErrorCode::RunConflict), "unknown"),
    ];
    let session = SessionId::new("s").unwrap();
    for (n, (answer, ended)) in cases.into_iter().enumerate() {
        let call = call(&context, &format!("writer{n}"), Target::Agent, EffectClass::Idempotent);
        let subject = context.subjects.agent_run(&context.team.name, &call.name);
        let (bus, asked) = (context.bus.clone(), Arc::new(AtomicU32::new(0)));
        let answers = move |parcel: bus::Parcel| {
            let answer = match asked.fetch_add(1, Ordering::Relaxed) {
                0 => error_of(ErrorCode::DeadlineExceeded),
                _ => answer.clone(),
            };
            let bus = bus.clone();
            async move { bus.reply(parcel.message(), Headers::new(), answer.into()).await.unwrap() }
        };
        let _agent = crate::feed::start(&context, &subject, answers).await.unwrap();
        let settled = call_agent(&context, &session, &call).await;
        let Input::CallSettled { outcome, .. } = settled else { panic!("{settled:?}") };
        assert_eq!(outcome.as_str(), ended, "{n}");
    }
}

/// A team in which the agents exist whose calls are tested.
fn open_with(data: &Path, agents: &[&str]) -> Arc<TeamContext> {
    testing::open_changed(data, bus::Bus::local(), |team| {
        let entry = team.agents.values().next().unwrap().clone();
        team.agents.extend(agents.iter().map(|name| (Name::new(name).unwrap(), entry.clone())));
    })
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_run_may_have_begun_before_has_an_unknown_end() {
    let data = tempfile::tempdir().unwrap();
    let context = open_with(data.path(), &["writer"]);
    let session = SessionId::new("s").unwrap();
    let subject = context.subjects.agent_run(&context.team.name, &Name::new("writer").unwrap());
    let _agent = answer_on(&context, &subject, error_of(ErrorCode::Unavailable)).await;
    for (attempt, ended) in [(1, "refused"), (2, "unknown")] {
        let call = call(&context, "writer", Target::Agent, EffectClass::Idempotent);
        let earlier = if attempt > 1 { Earlier::Doubtful } else { Earlier::Nothing };
        let call = CallEffect { attempt, earlier, ..call };
        let settled = call_agent(&context, &session, &call).await;
        let Input::CallSettled { outcome, usage, .. } = settled else { panic!("{settled:?}") };
        assert_eq!((outcome.as_str(), usage), (ended, Usage::default()), "attempt {attempt}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_run_of_an_agent_that_is_gone_from_the_team_still_gives_its_reply() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let session = SessionId::new("s").unwrap();
    let call = call(&context, "writer", Target::Agent, EffectClass::Idempotent);
    let call = CallEffect { deadline: clock::now().plus_ms(3_600_000), ..call };
    let run = RunId::of_call(&call.call);
    let subject = context.subjects.run(&context.team.name, &run, RunVerb::Result);
    let mut asked = context.bus.subscribe(&subject, None).await.unwrap();
    let began = Instant::now();
    let settled = call_agent(&context, &session, &call).await;
    let Input::CallSettled { outcome, .. } = settled else { panic!("{settled:?}") };
    assert_eq!((outcome.as_str(), began.elapsed()), ("refused", Duration::ZERO));
    assert!(outcome.to_text().contains("agent writer is gone from the team"), "{outcome:?}");

    let bus = context.bus.clone();
    let node = tokio::spawn(async move {
        // A look-up takes no longer than ten minutes, and the run does.
        let request = asked.next().await.unwrap();
        let late = WireError::new(ErrorCode::DeadlineExceeded, "no reply yet");
        bus.reply_error(&request, &late).await.unwrap();
        let request = asked.next().await.unwrap();
        let reply = json!({
            "run": run, "session": "s", "status": "completed", "output": "written",
            "sources": [], "usage": {"input_tokens": 3, "output_tokens": 4}, "trace_id": "0".repeat(32),
        });
        bus.reply(&request, Headers::new(), reply.to_string().into()).await.unwrap();
    });
    let again = CallEffect { attempt: 2, earlier: Earlier::Doubtful, ..call };
    let settled = call_agent(&context, &session, &again).await;
    let Input::CallSettled { outcome, usage, .. } = settled else { panic!("{settled:?}") };
    assert_eq!((outcome, usage.total()), (CallOutcome::text("written"), 7));
    node.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_about_to_begin_is_told_to_end() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let aborted = Aborted {
        call: CallKey::new("c").unwrap(),
        name: Name::new("writer").unwrap(),
        target: Target::Agent,
        deadline: clock::now().plus_ms(600_000),
    };
    let run = RunId::of_call(&aborted.call);
    let subject = context.subjects.run(&context.team.name, &run, RunVerb::Cancel);
    let view = serde_json::to_vec(&RunView {
        session: SessionId::of_call(&aborted.call),
        agent: aborted.name.clone(),
        state: RunState::Ended { status: RunStatus::Cancelled },
        trace: TraceContext::root(&context.team.name, &run),
        joined: None,
        waiting: Vec::new(),
        run,
    });
    let mut requests = context.bus.subscribe(&subject, None).await.unwrap();
    let bus = context.bus.clone();
    let agent = tokio::spawn(async move {
        let unknown = WireError::new(ErrorCode::UnknownRun, "m");
        // A node that takes nothing does not mean that there is no run.
        let away = WireError::new(ErrorCode::Unavailable, "m");
        for error in [&unknown, &unknown, &unknown].into_iter().chain([&away; 20]) {
            let request = requests.next().await.unwrap();
            bus.reply_error(&request, error).await.unwrap();
        }
        let request = requests.next().await.unwrap();
        bus.reply(&request, Headers::new(), view.unwrap().into()).await.unwrap();
    });
    cancel_agent(&context, &aborted).await;
    agent.await.unwrap();
}

#[tokio::test]
async fn a_called_agent_is_told_what_its_offer_says() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    for (template, arguments, expected) in [
        (None, json!({"task": "Find {it}."}), "Find {it}."),
        (None, json!({"task": 5}), r#"{"task":5}"#),
        (Some("Translate: {string}"), json!({"string": "a {b} \"c\""}), "Translate: a {b} \"c\""),
        (Some("{list}{none}{null}"), json!({"list": [1, "x"], "null": null}), "[1,\"x\"]"),
        (Some("Tell a joke."), json!({}), "Tell a joke."),
    ] {
        let call = call(&context, "writer", Target::Agent, EffectClass::Idempotent);
        let (task_of, arguments) = (template.map(str::to_owned), arguments.into());
        let call = CallEffect { task: task_of, arguments, ..call };
        assert_eq!(task(&call), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_told_for_as_long_as_it_can_go_on() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let aborted = |seconds: u64| Aborted {
        call: CallKey::new("c").unwrap(),
        name: Name::new("writer").unwrap(),
        target: Target::Agent,
        deadline: clock::now().plus_ms(seconds * 1000),
    };
    // Nobody serves runs here.
    let began = Instant::now();
    cancel_agent(&context, &aborted(60)).await;
    assert!((60..66).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    cancel_agent(&context, &aborted(0)).await;
    assert!(began.elapsed().as_secs() < 70, "{:?}", began.elapsed());
}
