use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bus::testing::NatsServer;
use bus::{Listening, NatsOptions, Parcel};
use clap::Parser;
use journal::DataLock;
use serde_json::{Value, json};

use super::*;
use crate::place::holder;

#[derive(Parser)]
struct Only {
    #[command(flatten)]
    ask: Ask,
}

#[test]
fn who_finds_no_daemon_is_told_of_the_teams_that_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::new(Some(dir.path())).unwrap();
    let hold = |team: &str| DataLock::acquire(&dir.path().join(team), &holder("serve")).unwrap();
    let _served = hold("shop");
    drop(hold("crew"));
    let dir = dir.path().display();
    let told =
        format!("; served from data in {dir}: shop; served by nobody, with data in {dir}: crew");
    let away = WireError::new(ErrorCode::Unavailable, "nobody is there");
    let cases: [(&[&str], WireError, &str); 4] = [
        (&["ask", "shap", "hi"], away.clone(), &told),
        (&["ask", "shap/lead", "hi"], away.clone(), &told),
        (&["ask", "shap", "hi", "--url", "http://h"], away.clone(), ""),
        (&["ask", "shap", "hi"], away.retry_after(1000), ""),
    ];
    for (args, error, more) in cases {
        let args = Only::parse_from(args).ask;
        let Failure::Error(found) = mistyped(error.clone().into(), &args, &place) else {
            panic!("{error}")
        };
        assert_eq!(found.message, format!("{}{more}", error.message));
    }
}

/// Answers what is asked on a subject with one after the other, the last of them again and again.
async fn answering(bus: &Bus, subject: &str, answers: Vec<Value>) -> Listening {
    let (on, next) = (bus.clone(), Arc::new(AtomicUsize::new(0)));
    let answer = move |parcel: Parcel| -> Option<bus::Work> {
        let number = next.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
        let (bus, answer) = (on.clone(), client::encode(&answers[number]).unwrap());
        Some(Box::pin(async move {
            bus.reply(parcel.message(), Headers::new(), answer).await.unwrap();
        }))
    };
    bus.take(subject, None, answer).await.unwrap()
}

fn ended(run: &str) -> Value {
    json!({
        "run": run, "session": "s", "status": "completed", "output": "Well.", "sources": [],
        "usage": wire::Usage::default(), "trace_id": "t",
    })
}

#[tokio::test]
async fn the_reply_of_a_run_that_has_ended_is_asked_for_if_it_does_not_come() {
    let (bus, subjects) = (Bus::local(), Subjects::default());
    let (team, run) = (Name::new("crew").unwrap(), RunId::new("r").unwrap());
    let trace = wire::TraceContext::root(&team, &run);
    let view = |state: &str| {
        let mut view = json!({"run": "r", "session": "s", "agent": "lead", "trace": trace});
        view["state"] = json!(state);
        view["status"] = json!("completed");
        view
    };
    let away = json!({"error": WireError::new(ErrorCode::Unavailable, "the node drains")});
    let on = |verb| subjects.run(&team, &run, verb);
    let views = vec![view("queued"), view("ended")];
    let _status = answering(&bus, &on(RunVerb::Status), views).await;
    let _result = answering(&bus, &on(RunVerb::Result), vec![away, ended("r")]).await;
    let door = Door::Nats(bus.clone(), subjects.clone(), String::new());
    let asking = asking(door, &team, &run);
    let reply = asking.watch().await.unwrap();
    assert_eq!((reply.run.as_str(), reply.output.as_ref()), ("r", "Well."));
}

/// A run that was not asked for.
fn asking(door: Door, team: &Name, run: &RunId) -> Asking {
    let (team, run) = (team.clone(), run.clone());
    Asking { door, team, run, may_be_begun: AtomicBool::new(false), again: Notify::new() }
}

#[test]
fn who_asks_over_nats_is_told_how_to_answer_the_very_call_that_asks() {
    let (team, run) = (Name::new("crew").unwrap(), RunId::new("r").unwrap());
    let open = json!({
        "call": "k", "kind": "question", "run": "r", "session": "s", "agent": "lead",
        "tool": "ask_user", "arguments": {}, "digest": "ab".repeat(32), "attempt": 1,
        "question": "Which?", "waits": true, "since": 0,
    });
    let door = Door::Nats(Bus::local(), Subjects::default(), String::new());
    let told = asking(door, &team, &run).waits(&serde_json::from_value(open).unwrap());
    let way = r#"{"text":"..","call":"k"} on callboard.v1.crew.run.r.answer"#;
    assert_eq!(told, format!("lead waits for an answer: Which?\n  {way}\n"));
}

/// Who is told that a run failed asks anew under another id.
#[tokio::test]
async fn a_reply_that_cannot_be_had_leaves_its_run_open_and_a_refusal_does_not() {
    let (bus, subjects) = (Bus::local(), Subjects::default());
    let (team, run) = (Name::new("crew").unwrap(), RunId::new("r").unwrap());
    let request: RunRequest = serde_json::from_value(json!({"input": "x", "run": "r"})).unwrap();
    for (agent, code, is_open) in [
        ("large", ErrorCode::TooLarge, true),
        ("away", ErrorCode::Unavailable, false),
        ("bad", ErrorCode::BadRequest, false),
        ("late", ErrorCode::DeadlineExceeded, true),
    ] {
        let agent = Name::new(agent).unwrap();
        let told = json!({"error": WireError::new(code, "it is so")});
        let _agent = answering(&bus, &subjects.agent_run(&team, &agent), vec![told]).await;
        let asking = asking(Door::Nats(bus.clone(), subjects.clone(), String::new()), &team, &run);
        let Err(Failure::Error(error)) = asking.ask(&agent, &request).await else {
            panic!("{agent} refuses")
        };
        assert_eq!((error.code, asking.is_open(error.code)), (code, is_open), "{agent}");
    }
    // What is refused for its own size, or not even sent, is not begun.
    let agent = Name::new("large").unwrap();
    let told = json!({"error": WireError::new(ErrorCode::TooLarge, "it is so")});
    let _agent = answering(&bus, &subjects.agent_run(&team, &agent), vec![told]).await;
    for bytes in [INPUT_BYTES_MAX + 1, 64 << 20] {
        let long = RunRequest { input: "x".repeat(bytes), ..request.clone() };
        let asking = asking(Door::Nats(bus.clone(), subjects.clone(), String::new()), &team, &run);
        let failed = asking.ask(&agent, &long).await;
        let Err(Failure::Error(error)) = failed else { panic!("{failed:?}") };
        assert!(error.code == ErrorCode::TooLarge && !asking.is_open(error.code), "{error}");
    }
}

#[tokio::test]
async fn a_run_is_asked_for_again_when_the_connection_is_mended() {
    let mut server = NatsServer::start("").await.unwrap();
    let connect = async || Bus::connect(NatsOptions::new([server.url()])).await.unwrap();
    let (bus, daemon) = (connect().await, connect().await);
    let (subjects, team) = (Subjects::default(), Name::new("crew").unwrap());
    let (run, agent) = (RunId::new("r").unwrap(), Name::new("lead").unwrap());
    let subject = subjects.agent_run(&team, &agent);
    let mut requests = daemon.subscribe(&subject, Some("q")).await.unwrap();
    daemon.flush().await.unwrap();
    let request: RunRequest = serde_json::from_value(json!({"input": "x", "run": "r"})).unwrap();
    let asking = asking(Door::Nats(bus, subjects, String::new()), &team, &run);
    let asked = asking.ask(&agent, &request);
    let answered = async {
        let first = requests.next().await.unwrap();
        server.stop().unwrap();
        server.restart().await.unwrap();
        let again = requests.next().await.unwrap();
        assert_eq!(again.payload, first.payload);
        daemon.reply(&again, Headers::new(), client::encode(&ended("r")).unwrap()).await.unwrap();
    };
    let both = async { tokio::join!(asked, answered) };
    let (reply, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    assert_eq!(reply.unwrap().run.as_str(), "r");
    assert!(asking.may_be_begun.into_inner());
}

#[tokio::test]
async fn a_run_that_the_daemon_does_not_know_is_asked_for_again() {
    let (bus, subjects) = (Bus::local(), Subjects::default());
    let (team, run) = (Name::new("crew").unwrap(), RunId::new("r").unwrap());
    let agent = Name::new("lead").unwrap();
    let unknown = json!({"error": WireError::new(ErrorCode::UnknownRun, "no run r is known")});
    let status = subjects.run(&team, &run, RunVerb::Status);
    let _status = answering(&bus, &status, vec![unknown]).await;
    let mut requests = bus.subscribe(&subjects.agent_run(&team, &agent), None).await.unwrap();
    let request: RunRequest =
        serde_json::from_value(json!({"input": "x", "run": "r", "timeout_ms": 60_000})).unwrap();
    let asking = asking(Door::Nats(bus.clone(), subjects, String::new()), &team, &run);
    let asked = async {
        tokio::select! {
            reply = asking.ask(&agent, &request) => reply,
            reply = asking.watch() => reply,
        }
    };
    let answered = async {
        // Nobody hears of the first one.
        let lost = requests.next().await.unwrap();
        let again = requests.next().await.unwrap();
        assert_eq!(again.payload, lost.payload);
        bus.reply(&again, Headers::new(), client::encode(&ended("r")).unwrap()).await.unwrap();
    };
    let both = async { tokio::join!(asked, answered) };
    let (reply, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    assert_eq!(reply.unwrap().run.as_str(), "r");
    assert!(asking.may_be_begun.into_inner());
}
