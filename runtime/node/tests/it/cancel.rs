//! T33: a run is cancelled at each of its steps. Nothing begins once the cancel is acknowledged,
//! and what was under way ends, down to the connections.

use serde_json::json;
use wire::run::RunState;
use wire::subject::RunVerb;
use wire::{Event, EventKind, RunReply, RunStatus};

use crate::steps::{self, SOON, Silent, accept, begun, rest, tell, until, view};

#[tokio::test]
async fn t33_nothing_begins_after_a_cancel_and_everything_ends() {
    for (agent, input, asked, outcomes) in [
        ("thinks", "hello", true, vec![]),
        ("acts", "hello", true, vec![]),
        ("fetches", "fetch it", true, vec!["unknown"]),
        ("asks", "ask me", false, vec!["error"]),
        ("top", "go down", true, vec!["error"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let silent = Silent::start().await;
        let node = steps::start(folder.path(), &silent).await;
        let team = node.teams().next().unwrap();
        let mut everything = node.bus().subscribe(">", None).await.unwrap();
        let run = accept(&node, agent, input, "r1").await;
        until(&format!("{agent} is there"), SOON, async || {
            let state = view(&node, &run, RunVerb::Status).await.state;
            if asked { silent.asked() == 1 } else { matches!(state, RunState::Waiting { .. }) }
        })
        .await;
        assert!(!begun(&node, &mut everything).await.is_empty(), "{agent}: nothing is seen");

        let cancelled = view(&node, &run, RunVerb::Cancel).await;
        let ended = RunState::Ended { status: RunStatus::Cancelled };
        assert_eq!(cancelled.state, ended, "{agent}");
        let before = begun(&node, &mut everything).await;
        rest(&node, &silent).await;
        let after = begun(&node, &mut everything).await;
        assert!(after.is_empty(), "{agent}: begun after the acknowledgement: {after:?}");
        assert!(before.is_empty(), "{agent}: begun while it was cancelled: {before:?}");
        assert_eq!(silent.asked(), usize::from(asked), "{agent}");

        let reply = tell(&node, &run, RunVerb::Result, json!({})).await;
        let reply: RunReply = serde_json::from_slice(&reply.payload).unwrap();
        let told: Vec<&str> = reply.sources.iter().map(|source| source.status.as_str()).collect();
        assert_eq!((reply.status, told), (RunStatus::Cancelled, outcomes), "{agent}: {reply:?}");
        // The runs of called agents are over as well, down to the last.
        team.settle().await;
        for row in team.store().runs(10).unwrap() {
            let status = row.ended.map(|end| end.status);
            assert_eq!(status, Some(RunStatus::Cancelled), "{agent}: {row:?}");
        }
        node.drain(SOON).await;
    }
    // For whoever collects results; see `tests/src/results.rs`.
    let row = json!({
        "id": "T33", "what": "a run is cancelled at each of its steps",
        "held": "5 steps: 0 effects begun after the acknowledgement, the whole tree at rest within 3 s",
        "passes": "0 effects after the acknowledgement, at rest within 3 s",
        "command": "cargo test -p node --test it t33_ -- --nocapture",
    });
    println!("\nRESULT {row}");
}

#[tokio::test]
async fn questions_are_answered_by_their_calls_or_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::start().await;
    let node = steps::start(folder.path(), &silent).await;
    let team = node.teams().next().unwrap();
    let mut events = node
        .bus()
        .subscribe(&team.subjects().all_session_events(&team.team().name), None)
        .await
        .unwrap();
    let run = accept(&node, "asks", "ask me twice", "r1").await;
    let mut asked = Vec::new();
    while asked.len() < 2 {
        let event: Event = serde_json::from_slice(&events.next().await.unwrap().payload).unwrap();
        if let EventKind::CallSuspended { call, question, .. } = event.kind {
            asked.push((question, call));
        }
    }
    asked.sort();
    let [(colour, first), (size, second)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((colour.as_str(), size.as_str()), ("which colour?", "which size?"));

    let answer = tell(&node, &run, RunVerb::Answer, json!({"text": "x", "call": "c"})).await;
    assert_eq!(answer.headers.get("Nats-Service-Error-Code").as_deref(), Some("E1010"));
    let body = json!({"text": "large", "call": second});
    let answer = tell(&node, &run, RunVerb::Answer, body.clone()).await;
    let left: wire::run::RunView = serde_json::from_slice(&answer.payload).unwrap();
    let question = colour.clone();
    let kind = wire::OpenKind::Question;
    let expected = RunState::Waiting { call: first.clone(), question, kind, others: vec![] };
    assert_eq!(left.state, expected);
    let again = tell(&node, &run, RunVerb::Answer, body).await;
    assert_eq!(again.headers.get("Nats-Service-Error-Code").as_deref(), Some("E1010"));
    tell(&node, &run, RunVerb::Answer, json!({"text": "blue"})).await;
    let reply = tell(&node, &run, RunVerb::Result, json!({})).await;
    let reply: RunReply = serde_json::from_slice(&reply.payload).unwrap();
    let outputs: Vec<&str> = reply.sources.iter().map(|source| source.output.as_str()).collect();
    assert_eq!((reply.output.as_str(), outputs), ("done", vec!["blue", "large"]));
    node.drain(SOON).await;
}

#[tokio::test]
async fn who_finds_no_room_is_told_whose_it_is_and_control_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::start().await;
    let node = steps::start(folder.path(), &silent).await;
    let team = node.teams().next().unwrap();
    for n in 0..team.team().runs_max {
        accept(&node, "acts", "hello", &format!("r{n}")).await;
    }
    let subject = team.subjects().agent_run(&team.team().name, &team.team().entry);
    let body = json!({"input": "hello"}).to_string();
    let refused = crate::house::ask(&node, &subject, wire::Headers::new(), body.into()).await;
    let refused: wire::error::ErrorBody = serde_json::from_slice(&refused.payload).unwrap();
    let told = (refused.error.code, refused.error.scope, refused.error.retry_after_ms.is_some());
    assert_eq!(told, (wire::ErrorCode::Overloaded, Some(wire::Scope::Team), true));
    for n in 0..team.team().runs_max {
        let run = wire::RunId::new(&format!("r{n}")).unwrap();
        let ended = RunState::Ended { status: RunStatus::Cancelled };
        assert_eq!(view(&node, &run, RunVerb::Cancel).await.state, ended);
    }
    rest(&node, &silent).await;
    until("there is room again", SOON, async || {
        let body = json!({"input": "ask me", "session": "s"}).to_string();
        let subject =
            team.subjects().agent_run(&team.team().name, &wire::Name::new("asks").unwrap());
        let headers = wire::Headers::new().with(wire::header::REPLY_MODE, "accepted");
        let answer = crate::house::ask(&node, &subject, headers, body.into()).await;
        answer.headers.get("Nats-Service-Error-Code").is_none()
    })
    .await;
    node.drain(SOON).await;
}
