//! The reasoning behind calls, on its way back to the model that wrote it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use wire::subject::RunVerb;
use wire::{RunReply, RunStatus, SessionId};

use crate::house;
use crate::steps::{SOON, accept, tell, until, view};

const THOUGHT: &str = "Nobody is to read this.";

/// A server that answers each request with the next of some messages, and is silent where there is
/// none.
struct Provider {
    port: u16,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Provider {
    async fn start(messages: Vec<Option<Value>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, messages) = (requests.clone(), Arc::new(Mutex::new(VecDeque::from(messages))));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, messages.clone(), seen.clone()));
            }
        });
        Self { port, requests }
    }

    fn asked(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

async fn serve(
    mut stream: TcpStream,
    messages: Arc<Mutex<VecDeque<Option<Value>>>>,
    seen: Arc<Mutex<Vec<Value>>>,
) {
    let mut request = Vec::new();
    let body = loop {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
        let end = request.windows(4).position(|four| four == b"\r\n\r\n");
        let body = end.and_then(|end| request.get(end + 4..));
        if let Some(body) = body.and_then(|body| serde_json::from_slice(body).ok()) {
            break body;
        }
    };
    let message = messages.lock().unwrap().pop_front().flatten();
    seen.lock().unwrap().push(body);
    let Some(message) = message else {
        while stream.read_buf(&mut request).await.is_ok_and(|bytes| bytes > 0) {}
        return;
    };
    let answer = json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let answer = format!("{head}content-length: {}\r\n\r\n{answer}", answer.len());
    drop(stream.write_all(answer.as_bytes()).await);
}

async fn start(folder: &Path, port: u16) -> node::Node {
    let team = format!(
        r#"
[models.m]
provider = "openai"
base_url = "http://127.0.0.1:{port}/v1"
model = "m"
stream = false

[agents.a]
instructions = "You compute."
model = "m"
tools = ["calculate"]

[trace]
store = "full"
"#
    );
    house::start_with(folder, &team, &[]).await
}

#[tokio::test]
async fn a_turn_that_a_restart_repeats_carries_it_as_before_and_nobody_is_shown_it() {
    let call = json!({"id": "c1", "type": "function",
        "function": {"name": "calculate", "arguments": "{\"expression\":\"2+2\"}"},
        "extra_content": {"google": {"thought_signature": THOUGHT}}});
    let called = json!({"content": null, "reasoning_content": THOUGHT, "tool_calls": [call]});
    let answered = json!({"content": "It is 4.", "reasoning_content": THOUGHT});
    let provider =
        Provider::start(vec![Some(called), None, Some(answered.clone()), Some(answered)]).await;
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), provider.port).await;
    let run = accept(&node, "a", "2+2?", "r1").await;
    until("the second turn is asked for", SOON, async || provider.asked() == 2).await;
    // What is told of the run is durable, and what led to the turn with it.
    assert_eq!(view(&node, &run, RunVerb::Status).await.run, run);
    node.drain(Duration::ZERO).await;
    drop(node);

    let node = start(folder.path(), provider.port).await;
    let answer = tell(&node, &run, RunVerb::Result, json!({})).await;
    let first_reply: RunReply = serde_json::from_slice(&answer.payload).unwrap();
    assert_eq!(first_reply.status, RunStatus::Completed, "{first_reply:?}");
    let requests = provider.requests.lock().unwrap().clone();
    let [first, before, after] = requests.as_slice() else { panic!("{requests:?}") };
    assert!(!first.to_string().contains(THOUGHT), "{first}");
    let said =
        before["messages"].as_array().unwrap().iter().find(|said| said["role"] == "assistant");
    assert_eq!(said.unwrap()["reasoning_content"], THOUGHT);
    assert_eq!(said.unwrap()["tool_calls"], json!([call]));
    assert_eq!(before.to_string(), after.to_string());

    let session = SessionId::of_run(&run);
    let reply = house::say(&node, "And?", Some(&session)).await;
    assert_eq!(reply.output, "It is 4.");
    let next = provider.requests.lock().unwrap().last().cloned().unwrap();
    assert!(next.to_string().contains("It is 4."), "{next}");
    assert!(!next.to_string().contains(THOUGHT), "a run that is over leaves none: {next}");

    let team = node.teams().next().unwrap();
    team.settle().await;
    for trace in [&first_reply.trace_id, &reply.trace_id] {
        let spans = serde_json::to_string(&team.store().trace(trace).unwrap()).unwrap();
        assert!(spans.contains("It is 4.") && !spans.contains(THOUGHT), "{spans}");
    }
    assert!(!serde_json::to_string(&(first_reply, reply)).unwrap().contains(THOUGHT));
    node.drain(SOON).await;
}
