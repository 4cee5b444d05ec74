//! Hostile messages on every subject: a typed error each, and the daemon goes on.

use std::time::Duration;

use bus::Bus;
use bus::testing::NatsServer;
use bytes::Bytes;
use tests::daemon::Daemon;
use tests::job;
use tests::results::{self, Row};
use wire::subject::{CallVerb, RunVerb};
use wire::{CallKey, Headers, Name, RunId, SessionId, Subjects};

use crate::setup::{ask_until_answered, connect, on_nats};

const WAIT: Duration = Duration::from_secs(10);

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn bodies() -> Vec<(&'static str, Bytes)> {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_field = format!(r#"{{"input":{deep}}}"#);
    let long = format!(r#"{{"input":"{}"}}"#, "x".repeat(1_000_000));
    vec![
        ("empty", Bytes::new()),
        ("bad UTF-8", Bytes::from_static(b"\xff\xfe{\"input\":\"x\"}")),
        ("no JSON", Bytes::from_static(b"hello")),
        ("deep", deep.into()),
        ("deep field", deep_field.into()),
        ("huge number", Bytes::from_static(br#"{"input":1e999}"#)),
        ("wrong types", Bytes::from_static(br#"{"input":7,"session":[],"run":{}}"#)),
        ("twice the same key", Bytes::from_static(br#"{"input":"a","input":"b"}"#)),
        ("wildcard in a name", Bytes::from_static(br#"{"input":"x","session":"*.>"}"#)),
        ("reserved name", Bytes::from_static(br#"{"input":"x","session":"_memory"}"#)),
        ("blank", Bytes::from_static(br#"{"input":"  "}"#)),
        ("unknown field", Bytes::from_static(br#"{"input":"x","sudo":true}"#)),
        ("oversize", long.into()),
    ]
}

#[tokio::test]
async fn every_subject_answers_hostile_messages_with_a_typed_error() {
    let nats = NatsServer::start("max_payload: 8MB").await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let team = job::write(dir.path(), "http://127.0.0.1:9/charge", 0);
    let mut daemon = Daemon::start(&on_nats(&team, &dir.path().join("data"), &nats)).await;
    let bus = connect(&nats).await;

    let run_subject = "callboard.v1.job.agent.foreman.run";
    let subjects = [
        run_subject,
        "callboard.v1.job.agent.helper.run",
        "callboard.v1.job.run.nobody.status",
        "callboard.v1.job.run.nobody.result",
        "callboard.v1.job.run.nobody.cancel",
        "callboard.v1.job.run.nobody.answer",
        "callboard.v1.job.call.nobody.show",
        "callboard.v1.job.call.nobody.approve",
        "callboard.v1.job.call.nobody.deny",
        "callboard.v1.job.call.nobody.resolve",
        "callboard.v1.job.model.foreman",
        "callboard.v1.job.tool.now",
        "callboard.v1.job.tool.charge",
    ];
    for subject in subjects {
        for (what, body) in bodies() {
            // A message of a million characters is too long for everything but a run.
            if what == "oversize" && subject.contains(".agent.") {
                continue;
            }
            let answer = bus.request(subject, Headers::new(), body, WAIT).await;
            let answer = answer.unwrap_or_else(|error| panic!("{what} on {subject}: {error}"));
            let code = answer.headers.get("Nats-Service-Error-Code").unwrap_or_default();
            assert!(code.starts_with('E'), "{what} on {subject}: {:?}", answer.payload);
        }
    }
    for (what, size) in [("an oversize input", 1_100_000), ("an oversize body", 3_000_000)] {
        let body = format!(r#"{{"input":"{}"}}"#, "x".repeat(size));
        let answer = bus.request(run_subject, Headers::new(), body.into(), WAIT).await.unwrap();
        assert_eq!(
            answer.headers.get("Nats-Service-Error-Code").as_deref(),
            Some("E1002"),
            "{what}"
        );
    }
    refuses_foreign_reply_subjects(&bus, run_subject).await;

    let run = RunId::new("after").unwrap();
    let reply = ask_until_answered(&bus, run_subject, "hello", &run).await;
    assert!(String::from_utf8_lossy(&reply).contains("completed"));
    assert!(daemon.is_running());
}

/// A reply subject that is no inbox is never answered: the daemon must not lend out its rights.
async fn refuses_foreign_reply_subjects(bus: &Bus, subject: &str) {
    for reply in ["callboard.v1.job.tool.charge", "elsewhere.x", "$SYS.REQ.SERVER.PING"] {
        let mut watched = match reply {
            "elsewhere.x" => Some(bus.subscribe(reply, None).await.unwrap()),
            _ => None,
        };
        let body = Bytes::from_static(br#"{"input":"hello"}"#);
        bus.publish_with_reply(subject, reply, Headers::new(), body).await.unwrap();
        bus.flush().await.unwrap();
        // An ordinary request goes the same way after it, so by then the answer would be there.
        let run = RunId::fresh();
        ask_until_answered(bus, subject, "hello", &run).await;
        if let Some(watched) = &mut watched {
            let got = tokio::time::timeout(Duration::from_millis(100), watched.next()).await;
            assert!(got.is_err(), "an answer went to {reply}");
        }
    }
}

/// Every subject on which the daemon listens, from the registry of subjects.
fn served_subjects() -> Vec<String> {
    let (subjects, team) = (Subjects::default(), name(job::TEAM));
    let agents = ["foreman", "helper"].map(|agent| subjects.agent_run(&team, &name(agent)));
    let models = ["foreman", "helper"].map(|model| subjects.model(&team, &name(model)));
    let tools = ["charge", "now", "ask_user", "remember", "recall"]
        .map(|tool| subjects.tool(&team, &name(tool)));
    let run = RunId::new("nobody").unwrap();
    let runs = RunVerb::ALL.map(|verb| subjects.run(&team, &run, verb));
    let call = CallKey::new("nobody").unwrap();
    let calls = CallVerb::ALL.map(|verb| subjects.call(&team, &call, verb));
    let stops =
        [subjects.model_stop(&team, &name("foreman")), subjects.tool_stop(&team, &name("charge"))];
    let lists = [
        subjects.calls(&team),
        subjects.owner(&team),
        subjects.node_trace(&name("nobody")),
        subjects.node_stats(),
    ];
    let events = [subjects.session_events(&team, &SessionId::new("s").unwrap())];
    [&agents[..], &models, &tools, &runs, &calls, &stops, &lists, &events].concat()
}

/// Where an answer must not go, whoever asks for it there.
const FOREIGN: [&str; 6] = [
    "$JS.API.STREAM.CREATE.stolen",
    "$JS.API.STREAM.LIST",
    "$SYS.REQ.SERVER.PING",
    "callboard.v1.job.tool.charge",
    "elsewhere.x",
    "_INBOX",
];

#[tokio::test]
async fn no_answer_goes_where_it_must_not() {
    let nats = NatsServer::start("").await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let team = job::write(dir.path(), "http://127.0.0.1:9/charge", 0);
    let mut daemon = Daemon::start(&on_nats(&team, &dir.path().join("data"), &nats)).await;
    let (bus, onlooker) = (connect(&nats).await, connect(&nats).await);
    let mut all = onlooker.subscribe(">", None).await.unwrap();
    onlooker.flush().await.unwrap();

    let mut sent = 0;
    for subject in served_subjects() {
        for reply in FOREIGN {
            for body in [&b"{\"input\":\"hello\"}"[..], b"", b"\xff"] {
                let body = Bytes::from_static(body);
                bus.publish_with_reply(&subject, reply, Headers::new(), body).await.unwrap();
                sent += 1;
            }
        }
    }
    bus.flush().await.unwrap();
    // The onlooker sees what goes to these places, or it would see nothing of an answer either.
    bus.publish("$JS.API.STREAM.LIST", Headers::new(), "canary".into()).await.unwrap();
    // Ordinary requests go the same ways after all that, so by then every answer would be there.
    for agent in ["foreman", "helper"] {
        let subject = format!("callboard.v1.job.agent.{agent}.run");
        ask_until_answered(&bus, &subject, "hello", &RunId::fresh()).await;
    }
    bus.publish("onlooker.end", Headers::new(), Bytes::new()).await.unwrap();
    let (mut seen, mut canaries) = (0, 0);
    loop {
        let message = tokio::time::timeout(WAIT, all.next()).await.unwrap().unwrap();
        match message.subject.as_str() {
            "onlooker.end" => break,
            "$JS.API.STREAM.LIST" if message.payload == "canary" => canaries += 1,
            subject => {
                seen += 1;
                let own = subject == "callboard.v1.job.tool.charge" && message.reply.is_some();
                let foreign = FOREIGN.contains(&subject) && !own;
                assert!(!foreign, "an answer went to {subject}: {:?}", message.payload);
            }
        }
    }
    assert_eq!(canaries, 1, "the onlooker is blind");
    assert!(seen >= sent, "{seen} of {sent} messages were seen");
    assert!(daemon.is_running(), "{}", daemon.log());
    results::record(&Row {
        id: "T19",
        what: "hostile messages on every subject, answers asked for to where they must not go",
        held: &format!(
            "{} subjects, {sent} requests for answers elsewhere: 0 publishes there, 0 restarts",
            served_subjects().len()
        ),
        passes: "a typed error or none, 0 publishes to a foreign subject, 0 restarts",
        command: "cargo e2e hostile -- --nocapture",
    });
}
