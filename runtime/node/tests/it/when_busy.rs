//! What becomes of a message that comes while a run of its session is in work.

use std::time::Duration;

use node::Node;
use serde_json::json;
use wire::error::ErrorBody;
use wire::run::{Accepted, RunState};
use wire::subject::RunVerb;
use wire::{ErrorCode, Headers, Name, RunId, RunReply, RunStatus, Usage, header};

use crate::house;
use crate::steps::{SOON, tell, until, view};

const TEAM: &str = r#"
[team]
entry = "queue"

[models.m]
provider = "scripted"
script = "m.jsonl"

[agents.queue]
instructions = "Answer."
model = "m"
tools = ["ask_user"]

[agents.reject]
instructions = "Answer."
model = "m"
tools = ["ask_user"]
when_busy = "reject"

[agents.interrupt]
instructions = "Answer."
model = "m"
tools = ["ask_user"]
when_busy = "interrupt"

[agents.steer]
instructions = "Answer."
model = "m"
tools = ["ask_user"]
when_busy = "steer"
"#;

/// Starts a node and has the first run of an agent's session wait for an answer.
async fn start(folder: &std::path::Path, agent: &str) -> (Node, RunId, RunId) {
    let replies = [
        json!({"when": "First\\.$", "calls": [{"name": "ask_user", "arguments": {"question": "which?"}}]}),
        json!({"when": "blue\n\nSecond\\.$", "content": "both"}),
        json!({"when": "blue$", "content": "first"}),
        json!({"when": "which\\?[^$]*error[^$]*Second\\.$", "content": "second, after what was begun"}),
        json!({"when": "Second\\.$", "content": "second"}),
    ];
    let node = house::start_with(folder, TEAM, &[("m.jsonl", &replies)]).await;
    let first = RunId::new("r1").unwrap();
    send(&node, agent, "r1", "First.").await.unwrap();
    until("it asks", SOON, async || {
        matches!(view(&node, &first, RunVerb::Status).await.state, RunState::Waiting { .. })
    })
    .await;
    (node, first, RunId::new("r2").unwrap())
}

/// Sends a message of the one session, and returns how it is accepted.
async fn send(node: &Node, agent: &str, run: &str, input: &str) -> Result<Accepted, ErrorBody> {
    let team = node.teams().next().unwrap();
    let subject = team.subjects().agent_run(&team.team().name, &Name::new(agent).unwrap());
    let headers = Headers::new().with(header::REPLY_MODE, header::REPLY_ACCEPTED);
    let body = json!({"input": input, "run": run, "session": "s"}).to_string();
    let answer = house::ask(node, &subject, headers, body.into()).await;
    serde_json::from_slice(&answer.payload)
        .map_err(|_| serde_json::from_slice(&answer.payload).unwrap())
}

async fn result(node: &Node, run: &RunId) -> RunReply {
    let reply = tell(node, run, RunVerb::Result, json!({})).await;
    serde_json::from_slice(&reply.payload).unwrap()
}

#[tokio::test]
async fn a_message_waits_for_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    let (node, first, second) = start(folder.path(), "queue").await;
    assert_eq!(send(&node, "queue", "r2", "Second.").await.unwrap().joined, None);
    assert_eq!(view(&node, &second, RunVerb::Status).await.state, RunState::Queued);
    tell(&node, &first, RunVerb::Answer, json!({"text": "blue"})).await;
    assert_eq!(result(&node, &first).await.output, "first");
    assert_eq!(result(&node, &second).await.output, "second");
    node.drain(SOON).await;
}

#[tokio::test]
async fn a_message_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (node, first, _) = start(folder.path(), "reject").await;
    let refused = send(&node, "reject", "r2", "Second.").await.unwrap_err().error;
    assert_eq!(refused.code, ErrorCode::SessionBusy);
    assert!(refused.retry_after_ms.is_some() && refused.message.contains("r1"), "{refused}");
    // A request that is known is accepted again, and one that was refused was never there.
    assert_eq!(send(&node, "reject", "r1", "First.").await.unwrap().run, first);
    tell(&node, &first, RunVerb::Answer, json!({"text": "blue"})).await;
    assert_eq!(result(&node, &first).await.output, "first");
    let second = send(&node, "reject", "r2", "Second.").await.unwrap().run;
    assert_eq!(result(&node, &second).await.output, "second");
    node.drain(SOON).await;
}

#[tokio::test]
async fn a_message_ends_the_run_in_work() {
    let folder = tempfile::tempdir().unwrap();
    let (node, first, second) = start(folder.path(), "interrupt").await;
    send(&node, "interrupt", "r2", "Second.").await.unwrap();
    let ended = result(&node, &first).await;
    let why = ended.error.unwrap();
    assert_eq!((ended.status, why.code), (RunStatus::Cancelled, ErrorCode::Cancelled));
    assert_eq!(why.message, "interrupted by run r2");
    assert_eq!(ended.sources.len(), 1);
    assert_eq!(ended.sources[0].status, "error");
    let reply = result(&node, &second).await;
    assert_eq!((reply.output.as_str(), reply.joined), ("second, after what was begun", None));
    node.drain(SOON).await;
}

#[tokio::test]
async fn a_message_joins_the_run_in_work_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (node, first, second) = start(folder.path(), "steer").await;
    let accepted = send(&node, "steer", "r2", "Second.").await.unwrap();
    assert_eq!(accepted.joined.as_ref(), Some(&first));
    node.drain(Duration::ZERO).await;
    drop(node);

    let node = house::start(&folder.path().join("team.toml"), &folder.path().join("data")).await;
    assert_eq!(send(&node, "steer", "r2", "Second.").await.unwrap(), accepted);
    let waits = view(&node, &second, RunVerb::Status).await;
    assert!(matches!(waits.state, RunState::Waiting { .. }), "{waits:?}");
    assert_eq!((waits.joined.as_ref(), waits.waiting.len()), (Some(&first), 1), "{waits:?}");
    // Whoever joined may answer what the run asks.
    tell(&node, &second, RunVerb::Answer, json!({"text": "blue"})).await;
    let (own, joined) = (result(&node, &first).await, result(&node, &second).await);
    assert_eq!((own.output.as_str(), &own.joined), ("both", &None));
    assert!(own.usage.total() > 0, "{own:?}");
    assert_eq!((joined.status, joined.output.as_str()), (RunStatus::Completed, "both"));
    assert_eq!((joined.joined.as_ref(), joined.usage), (Some(&first), Usage::default()));

    let team = node.teams().next().unwrap();
    team.settle().await;
    let row = team.store().run(&second).unwrap().unwrap();
    assert_eq!(row.begun.joined, Some(first));
    assert_eq!(row.ended.map(|end| end.status), Some(RunStatus::Completed));
    node.drain(SOON).await;
}
