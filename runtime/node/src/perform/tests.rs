//! Calls against responders that answer in every way.

use bus::Message;
use serde_json::json;
use wire::error::ErrorBody;
use wire::plan::Target;
use wire::run::{Budget, RunState};
use wire::{CallKey, TraceContext};

use super::*;
use crate::testing;

fn call(context: &TeamContext, name: &str, target: Target, effect: EffectClass) -> CallEffect {
    let run = RunId::new("r").unwrap();
    CallEffect {
        agent: context.team.entry.clone(),
        call: CallKey::new("c").unwrap(),
        name: Name::new(name).unwrap(),
        target,
        arguments: json!({"task": "x"}),
        deadline: clock::now().plus_ms(5000),
        effect,
        budget: Budget { tokens: Some(70), steps: None },
        depth: 1,
        trace: TraceContext::root(&context.team.name, &run),
        run,
    }
}

/// Answers every request on a subject with the same bytes.
async fn answer_on(context: &TeamContext, subject: &str, answer: String) -> crate::feed::Feed {
    let bus = context.bus.clone();
    let answers = move |message: Message| {
        let (bus, answer) = (bus.clone(), answer.clone());
        tokio::spawn(async move {
            bus.reply(&message, Headers::new(), answer.into()).await.unwrap();
        });
        true
    };
    crate::feed::start(&context.bus, subject, answers).await.unwrap()
}

fn error_of(code: ErrorCode) -> String {
    serde_json::to_string(&ErrorBody { error: WireError::new(code, "m") }).unwrap()
}

#[tokio::test]
async fn a_call_that_may_have_taken_effect_is_unknown_and_not_failed() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let done = r#"{"status":"settled","outcome":{"kind":"ok","output":"x"}}"#;
    let cases = [
        (done.to_owned(), EffectClass::Once, "ok"),
        (error_of(ErrorCode::InvalidArguments), EffectClass::Once, "error"),
        (error_of(ErrorCode::TooLarge), EffectClass::Once, "unknown"),
        (error_of(ErrorCode::TooLarge), EffectClass::Read, "error"),
        (error_of(ErrorCode::Internal), EffectClass::Once, "unknown"),
        ("not an answer".to_owned(), EffectClass::Once, "unknown"),
        ("not an answer".to_owned(), EffectClass::Idempotent, "error"),
    ];
    let session = SessionId::new("s").unwrap();
    for (n, (answer, effect, expected)) in cases.into_iter().enumerate() {
        let name = format!("pay{n}");
        let subject = context.subjects.tool(&context.team.name, &Name::new(&name).unwrap());
        let _tool = answer_on(&context, &subject, answer.clone()).await;
        let call = call(&context, &name, Target::Tool, effect);
        let ToolReply::Settled { outcome, .. } = call_tool(&context, &session, &call).await else {
            panic!("{answer} settles the call");
        };
        assert_eq!(outcome.as_str(), expected, "{answer} of a tool that is {effect:?}");
    }
}

#[tokio::test]
async fn an_agent_that_left_no_count_used_all_it_was_given() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let cases = [(ErrorCode::RunConflict, 0), (ErrorCode::TooLarge, 70)];
    let session = SessionId::new("s").unwrap();
    for (n, (code, expected)) in cases.into_iter().enumerate() {
        let name = format!("writer{n}");
        let subject = context.subjects.agent_run(&context.team.name, &Name::new(&name).unwrap());
        let _agent = answer_on(&context, &subject, error_of(code)).await;
        let call = call(&context, &name, Target::Agent, EffectClass::Idempotent);
        let (outcome, usage) = call_agent(&context, &session, &call).await;
        assert_eq!((outcome.as_str(), usage.total()), ("error", expected), "{code}");
    }
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
