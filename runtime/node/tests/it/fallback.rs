//! A model whose server fails and the one that stands in for it, and a model with many who ask.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use node::Node;
use serde_json::{Value, json};
use wire::{
    ErrorCode, Event, EventKind, Headers, Message, ModelReply, ModelRequest, ModelRole, RunReply,
    RunRequest, RunStatus, header,
};

use crate::house;

const TEAM: &str = r#"
[models.first]
provider = "scripted"
script = "first.jsonl"
retries_max = 0
fallback = ["second"]

[models.second]
provider = "scripted"
script = "second.jsonl"
concurrency = 1
queue_max = 1

[agents.assistant]
instructions = "You answer."
model = "first"
"#;

async fn start(folder: &Path, first: &Value, second: &Value) -> Node {
    std::fs::write(folder.join("t.toml"), TEAM).unwrap();
    std::fs::write(folder.join("first.jsonl"), first.to_string()).unwrap();
    std::fs::write(folder.join("second.jsonl"), second.to_string()).unwrap();
    house::start(&folder.join("t.toml"), &folder.join("data")).await
}

#[tokio::test]
async fn the_model_that_stands_in_is_named_to_all_who_look() {
    let folder = tempfile::tempdir().unwrap();
    let broken = json!({"fault": {"status": 503, "message": "out of order"}});
    let node = start(folder.path(), &broken, &json!({"content": "Hello."})).await;
    let team = node.team("t").unwrap();
    let session = wire::SessionId::new("s").unwrap();
    let subject = team.subjects().session_events(&team.team().name, &session);
    let mut events = node.bus().subscribe(&subject, None).await.unwrap();
    let request = RunRequest {
        input: "Hi.".to_owned(),
        session: Some(session),
        run: None,
        timeout_ms: None,
        budget: None,
        parent: None,
    };
    let body = serde_json::to_vec(&request).unwrap();
    let answer = house::ask(&node, &house::entry(&node), Headers::new(), body.into()).await;
    let reply: RunReply = serde_json::from_slice(&answer.payload).unwrap();
    assert_eq!((reply.status, reply.output.as_str()), (RunStatus::Completed, "Hello."));

    let switched = loop {
        let message = events.next().await.unwrap();
        let event: Event = serde_json::from_slice(&message.payload).unwrap();
        if let EventKind::ModelSwitched { step, role, from, to, error } = event.kind {
            assert_eq!(event.id, None);
            break (step, role, from.to_string(), to.to_string(), error);
        }
    };
    let (step, role, from, to, error) = switched;
    assert_eq!((step, role, from.as_str(), to.as_str()), (1, ModelRole::Actor, "first", "second"));
    assert_eq!(error.code, ErrorCode::ModelUnavailable);
    assert!(error.message.contains("status 503, out of order"), "{error}");

    team.settle().await;
    let spans = team.store().trace(&reply.trace_id).unwrap();
    let chat = spans.iter().find(|span| span.name == "chat second").unwrap();
    for (name, value) in [
        ("callboard.model", json!("first")),
        ("gen_ai.request.model", json!("second")),
        ("gen_ai.response.model", json!("second")),
        ("callboard.served_by", json!("second")),
        ("callboard.attempts", json!(2)),
    ] {
        assert_eq!(chat.attributes.get(name), Some(&value), "{name}");
    }
    node.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_model_lets_in_no_more_turns_than_it_has_places_and_queue() {
    let folder = tempfile::tempdir().unwrap();
    let slow = json!({"content": "Hello.", "delay_ms": 300});
    let node = start(folder.path(), &slow, &slow).await;
    let team = node.team("t").unwrap();
    let subject = team.subjects().model(&team.team().name, &wire::Name::new("second").unwrap());
    let request = ModelRequest {
        role: ModelRole::Actor,
        base: None,
        head: Some(std::sync::Arc::default()),
        messages: vec![std::sync::Arc::new(Message::User { content: "Hi.".to_owned() })],
        keep: 0,
        fills: false,
        max_tokens: None,
        observed: None,
    };
    let body = serde_json::to_vec(&request).unwrap();
    let asked = (0..20).map(|_| house::ask(&node, &subject, Headers::new(), body.clone().into()));
    let answers = join_all(asked).await;
    let replies = answers
        .iter()
        .filter(|answer| serde_json::from_slice::<ModelReply>(&answer.payload).is_ok());
    assert_eq!(replies.count(), 2);
    let full = answers.iter().filter(|answer| {
        answer.headers.get(header::SERVICE_ERROR_CODE).as_deref() == Some("E1006")
    });
    assert_eq!(full.count(), 18);
    // Places and queue are free again.
    let again = house::ask(&node, &subject, Headers::new(), body.into()).await;
    assert!(serde_json::from_slice::<ModelReply>(&again.payload).is_ok());
    node.drain(Duration::from_secs(5)).await;
}
