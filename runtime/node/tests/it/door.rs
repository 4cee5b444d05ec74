//! The door of a team: what it makes of requests that are not what they say, or that come early.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use node::Node;
use serde_json::{Value, json};
use wire::subject::{CallVerb, RunVerb};
use wire::{CallKey, ErrorCode, Headers, RunId, header};

use crate::house;

const TEAM: &str = r#"
[team]
name = "crew"
description = "Says what its script says."
entry = "lead"

[models.main]
provider = "scripted"
script = "script.jsonl"

[agents.lead]
description = "Answers."
instructions = "You lead."
model = "main"
tools = ["note"]

[tools.note]
kind = "builtin"
builtin = "remember"
concurrency = 1
"#;

async fn start(data: &Path) -> Node {
    let file = data.join("crew.toml");
    std::fs::write(&file, TEAM).unwrap();
    std::fs::write(data.join("script.jsonl"), "{\"when\": \".\", \"content\": \"Well.\"}\n")
        .unwrap();
    house::start(&file, data).await
}

async fn request(node: &Node, subject: &str, headers: Headers, body: Value) -> (String, Value) {
    let payload = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
    let answer = house::ask(node, subject, headers, payload.into()).await;
    let code = answer.headers.get(header::SERVICE_ERROR_CODE).unwrap_or("none".into());
    (code.into_owned(), serde_json::from_slice(&answer.payload).unwrap())
}

#[tokio::test]
async fn only_a_run_that_awaits_it_is_the_parent_of_another() {
    let data = tempfile::tempdir().unwrap();
    let node = start(data.path()).await;
    let team = node.team("crew").unwrap();
    let subject = team.subjects().agent_run(&team.team().name, &team.team().entry);
    let ask = |body: Value| request(&node, &subject, Headers::new(), body);
    let below = |run: &str, session: &str, depth: u32| {
        json!({
            "input": "x", "run": run, "parent": {"session": session, "run": "p", "depth": depth},
        })
    };
    assert_eq!(ask(json!({"input": "x", "run": "p"})).await.0, "none");
    // The session is there and knows better.
    assert_eq!(ask(below("c1", "p", 1)).await.0, "E1001");
    // One that is not there confirms nothing, and nobody asks for a run without an id.
    assert_eq!(ask(below("c2", "elsewhere", u32::MAX)).await.0, "E1001");
    let unnamed = json!({"input": "x", "parent": {"session": "p", "run": "p", "depth": 1}});
    assert_eq!(ask(unnamed).await.0, "E1001");
    node.drain(Duration::from_secs(5)).await;
}

/// Requests at once; more than there are places for.
const FLOOD: usize = 3000;

#[tokio::test]
async fn look_ups_without_end_are_refused_and_keep_nobody_else_out() {
    let data = tempfile::tempdir().unwrap();
    let node = start(data.path()).await;
    let team = node.team("crew").unwrap();
    let (subjects, name) = (team.subjects(), &team.team().name);
    let agent = subjects.agent_run(name, &team.team().entry);
    let ask = async |subject: &str, body: Value| {
        let (code, answer) = request(&node, subject, Headers::new(), body).await;
        (code, answer["error"]["retry_after_ms"].as_u64())
    };
    assert_eq!(ask(&agent, json!({"input": "x", "run": "p"})).await.0, "none");

    let unknown = |verb| subjects.run(name, &RunId::new("unknown").unwrap(), verb);
    let call = CallKey::new("unknown").unwrap();
    let claim = json!({
        "input": "x", "run": "c", "parent": {"session": "p", "run": "p", "depth": 1},
    });
    // What floods the door, what comes behind it, and what that is told.
    let cases = [
        (
            (unknown(RunVerb::Status), Value::Null),
            [
                (unknown(RunVerb::Cancel), Value::Null, "E1004"),
                (unknown(RunVerb::Result), Value::Null, "E1004"),
                (agent.clone(), claim.clone(), "E1001"),
                (agent.clone(), json!({"input": "x", "run": "a"}), "none"),
            ],
        ),
        (
            (subjects.call(name, &call, CallVerb::Deny), Value::Null),
            [
                (unknown(RunVerb::Status), Value::Null, "E1004"),
                (subjects.call(name, &call, CallVerb::Show), Value::Null, "E1012"),
                (agent.clone(), claim.clone(), "E1001"),
                (agent.clone(), json!({"input": "x", "run": "b"}), "none"),
            ],
        ),
        (
            (agent.clone(), claim.clone()),
            [
                (unknown(RunVerb::Status), Value::Null, "E1004"),
                (unknown(RunVerb::Cancel), Value::Null, "E1004"),
                (unknown(RunVerb::Result), Value::Null, "E1004"),
                (agent.clone(), json!({"input": "x", "run": "c"}), "none"),
            ],
        ),
    ];
    for ((flooded, body), behind) in cases {
        let flood = join_all((0..FLOOD).map(|_| ask(&flooded, body.clone())));
        let rest = join_all(behind.iter().map(|(subject, body, _)| ask(subject, body.clone())));
        let (flood, rest) = tokio::join!(flood, rest);
        let (refused, served): (Vec<_>, Vec<_>) =
            flood.into_iter().partition(|(code, _)| code == "E1006");
        assert!(!refused.is_empty() && served.len() >= 1024, "{flooded}: {}", served.len());
        assert!(refused.iter().all(|(_, retry)| *retry == Some(200)), "{flooded}: {refused:?}");
        for ((subject, _, expected), (code, _)) in behind.iter().zip(rest) {
            assert_eq!(code, *expected, "{subject} behind {flooded}");
        }
        // There are places again, and as many as before.
        let (code, _) = ask(&flooded, body).await;
        assert_eq!(code, served[0].0, "{flooded}");
    }
    node.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_call_whose_answer_nobody_may_get_is_not_made() {
    let data = tempfile::tempdir().unwrap();
    let node = start(data.path()).await;
    let team = node.team("crew").unwrap();
    let subject = team.subjects().tool(&team.team().name, &wire::Name::new("note").unwrap());
    let facts = || async {
        team.settle().await;
        team.store().facts(10).unwrap().len()
    };
    let call = |key: &str| {
        let arguments = json!({"text": key});
        json!({"call": key, "arguments": arguments, "session": "s", "run": "r", "agent": "lead"})
    };
    let body = serde_json::to_vec(&call("c1")).unwrap();
    let bus = node.bus();
    bus.publish_with_reply(&subject, "$JS.API.INFO", Headers::new(), body.into()).await.unwrap();
    // Taken after the first, so it tells when that is done with.
    assert_eq!(request(&node, &subject, Headers::new(), call("c2")).await.0, "none");
    assert_eq!(facts().await, 1);
    node.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_run_is_known_as_soon_as_it_is_accepted() {
    let data = tempfile::tempdir().unwrap();
    let node = start(data.path()).await;
    let team = node.team("crew").unwrap();
    let name = &team.team().name.clone();
    let subject = team.subjects().agent_run(name, &team.team().entry);
    // Many at once, so that the store lags behind the journal.
    let runs = (0..300).map(async |n| {
        let run = format!("r{n}");
        let body = json!({"input": "x", "run": run, "session": format!("s{n}")});
        let headers = Headers::new().with(header::REPLY_MODE, header::REPLY_ACCEPTED);
        assert_eq!(request(&node, &subject, headers, body).await.0, "none");
        let cancel = team.subjects().run(name, &RunId::new(&run).unwrap(), RunVerb::Cancel);
        let (code, view) = request(&node, &cancel, Headers::new(), Value::Null).await;
        assert_eq!(code, "none", "{view}");
    });
    join_all(runs).await;
    node.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_run_that_is_asked_for_in_two_sessions_at_once_begins_in_one() {
    let data = tempfile::tempdir().unwrap();
    let node = start(data.path()).await;
    let team = node.team("crew").unwrap();
    let subject = team.subjects().agent_run(&team.team().name, &team.team().entry);
    for n in 0..20 {
        let run = format!("r{n}");
        let sessions = [Some("one"), Some("other"), None];
        let asked = sessions.map(|session| {
            let body = json!({"input": "x", "run": run, "session": session});
            request(&node, &subject, Headers::new(), body)
        });
        let mut codes = Vec::new();
        let mut begun = BTreeSet::new();
        for (code, reply) in join_all(asked).await {
            begun.extend(reply["session"].as_str().map(str::to_owned));
            codes.push(code);
        }
        // Who names no session has that in which it is.
        assert_eq!(begun.len(), 1, "{run}: {begun:?} {codes:?}");
        let conflict = ErrorCode::RunConflict.as_str();
        assert!(codes.iter().all(|code| code == "none" || code == conflict), "{codes:?}");
        assert!(codes.iter().any(|code| code == conflict), "{codes:?}");
    }
    node.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_run_has_one_place_however_often_it_is_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let team = TEAM.replace("entry = \"lead\"", "entry = \"lead\"\nruns_max = 2");
    // No turn ends before its run is cancelled.
    let script = json!({"content": "Too late.", "delay_ms": 600_000});
    let node = house::start_with(data.path(), &team, &[("script.jsonl", &[script])]).await;
    let team = node.team("crew").unwrap();
    let name = &team.team().name.clone();
    let subject = team.subjects().agent_run(name, &team.team().entry);
    let body = |run: &str| json!({"input": "x", "run": run, "session": format!("s-{run}")});
    let begin = async |run: &str| {
        let headers = Headers::new().with(header::REPLY_MODE, header::REPLY_ACCEPTED);
        request(&node, &subject, headers, body(run)).await.0
    };
    let cancel = async |run: &str| {
        let cancel = team.subjects().run(name, &RunId::new(run).unwrap(), RunVerb::Cancel);
        request(&node, &cancel, Headers::new(), Value::Null).await.0
    };
    for (run, code) in [
        ("r1", "none"),
        ("r1", "none"),
        ("r1", "none"),
        ("r2", "none"),
        ("r3", "E1006"),
        // All places are taken, one of them by this one.
        ("r1", "none"),
    ] {
        assert_eq!(begin(run).await, code, "{run}");
    }
    let meanwhile = async {
        while !node.is_draining() {
            tokio::task::yield_now().await;
        }
        assert_eq!(begin("r4").await, ErrorCode::Unavailable.as_str());
        assert_eq!(begin("r2").await, "none");
        let waiting = (0..3).map(|_| request(&node, &subject, Headers::new(), body("r1")));
        let (waiting, cancelled) = tokio::join!(join_all(waiting), cancel("r1"));
        assert_eq!(cancelled, "none");
        for (code, reply) in waiting {
            assert_eq!(
                (code.as_str(), &reply["run"]),
                (ErrorCode::Cancelled.as_str(), &json!("r1"))
            );
        }
        let other = json!({"input": "y", "run": "r2", "session": "s-r2"});
        let (code, _) = request(&node, &subject, Headers::new(), other).await;
        assert_eq!(code, ErrorCode::RunConflict.as_str());
        assert_eq!(cancel("r2").await, "none");
    };
    tokio::join!(node.drain(Duration::from_secs(20)), meanwhile);
}
