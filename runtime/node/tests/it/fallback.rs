//! A model whose server fails and the one that stands in for it, and a model with many who ask.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use node::Node;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
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
        assert_eq!(chat.attributes[name], value.into(), "{name}");
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
        marks: None,
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

/// Starts a server that closes each connection after the next of some streams, and returns its port.
async fn streaming(streams: Vec<String>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for stream in streams {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                assert_ne!(connection.read_buf(&mut request).await.unwrap(), 0);
            }
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
            let answer = format!("{head}\r\n{stream}");
            connection.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    port
}

#[tokio::test]
async fn the_pieces_of_a_reply_that_was_cut_are_void_to_all_who_read_along() {
    let piece =
        |text: &str| format!("data: {}\n\n", json!({"choices": [{"delta": {"content": text}}]}));
    // Long enough to be published before the cut, in the middle of the word that is hidden.
    let cut = piece(&format!("{} CONT", "The answer begins. ".repeat(200)));
    let stop = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    let whole = format!("{}data: {stop}\n\ndata: [DONE]\n\n", piece("It is 4."));
    let port = streaming(vec![cut, whole]).await;
    let team = format!(
        r#"
[models.m]
provider = "openai"
base_url = "http://127.0.0.1:{port}/v1"
model = "m"

[agents.a]
instructions = "Begin a reply that is not the answer yet with CONTINUE."
model = "m"
tools = ["calculate"]
continue_word = "CONTINUE"
"#
    );
    let folder = tempfile::tempdir().unwrap();
    let node = house::start_with(folder.path(), &team, &[]).await;
    let team = node.team("team").unwrap();
    let subject = team.subjects().all_session_events(&team.team().name);
    let mut events = node.bus().subscribe(&subject, None).await.unwrap();
    let reply = house::say(&node, "How much?", None).await;
    assert_eq!((reply.status, reply.output.as_str()), (RunStatus::Completed, "It is 4."));
    let mut written = Vec::new();
    loop {
        let message = events.next().await.unwrap();
        let event: Event = serde_json::from_slice(&message.payload).unwrap();
        match event.kind {
            EventKind::Delta { text, .. } => written.push(text),
            EventKind::ModelRetried { step, role, model, error } => {
                assert_eq!(
                    (event.id, step, role, model.as_str()),
                    (None, 1, ModelRole::Actor, "m")
                );
                assert_eq!(error.code, ErrorCode::ModelProtocol, "{error}");
                let void = std::mem::take(&mut written).concat();
                assert!(void.starts_with("The answer begins. "), "{void}");
                assert!(!void.contains("CONT"), "{void}");
            }
            EventKind::RunEnded { .. } => break,
            _ => {}
        }
    }
    assert_eq!(written.concat(), "It is 4.");
    node.drain(Duration::from_secs(5)).await;
}
