//! A node with scripted models over the embedded bus: the way of a run, and what a restart keeps.

use std::path::Path;
use std::time::Duration;

use bus::Message;
use node::Node;
use wire::{Headers, ModelRequest, Name, RunReply, RunRequest, RunStatus, SessionId};

use crate::house;

const QUESTION: &str =
    "Who is Leonardo DiCaprio's current girlfriend and what is her age raised to the 0.24 power?";

async fn start(data: &Path) -> Node {
    let teams = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/teams");
    house::start(&teams.join("quickstart.toml"), data).await
}

async fn ask(node: &Node, request: &RunRequest) -> Message {
    let body = serde_json::to_vec(request).unwrap();
    house::ask(node, &house::entry(node), Headers::new(), body.into()).await
}

fn question(run: &str) -> RunRequest {
    RunRequest {
        input: QUESTION.to_owned(),
        session: None,
        run: Some(wire::RunId::new(run).unwrap()),
        timeout_ms: None,
        budget: None,
        parent: None,
    }
}

#[tokio::test]
async fn the_team_answers_and_its_chain_is_one_trace() {
    let data = tempfile::tempdir().unwrap();
    let node = start(data.path()).await;
    let message = ask(&node, &question("r1")).await;
    let reply: RunReply = serde_json::from_slice(&message.payload).unwrap();
    assert_eq!(reply.status, RunStatus::Completed, "{reply:?}");
    assert!(reply.output.contains("2.16524"), "{}", reply.output);
    let tools: Vec<&str> = reply.sources.iter().map(|source| source.tool.as_str()).collect();
    assert_eq!(tools, ["researcher", "mathematician"]);

    let team = node.team("quickstart").unwrap();
    team.settle().await;
    let spans = team.store().trace(&reply.trace_id).unwrap();
    let find = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let chain = [
        ("execute_tool search_internet", "invoke_agent researcher"),
        ("invoke_agent researcher", "execute_tool researcher"),
        ("execute_tool researcher", "invoke_agent lead"),
        ("execute_tool calculate", "invoke_agent mathematician"),
        ("invoke_agent mathematician", "execute_tool mathematician"),
        ("execute_tool mathematician", "invoke_agent lead"),
    ];
    for (child, parent) in chain {
        assert_eq!(find(child).parent, Some(find(parent).context), "{child}");
    }
    assert_eq!(find("invoke_agent lead").parent, None);
    node.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_request_without_a_session_begins_a_conversation_whatever_its_run_is_called() {
    const TEAM: &str = "[models.m]\nprovider = 'scripted'\nscript = 'm.jsonl'\n\
        [agents.a]\ninstructions = 'You are brief.'\nmodel = 'm'\n";
    let replies = [(); 2].map(|()| serde_json::json!({"content": "Yes."}));
    for (session, run, shown) in [(Some("42"), "x", 4), (None, "42", 2), (Some("y"), "x", 2)] {
        let folder = tempfile::tempdir().unwrap();
        let node = house::start_with(folder.path(), TEAM, &[("m.jsonl", &replies)]).await;
        let team = node.team("team").unwrap();
        let model = team.subjects().model(&team.team().name, &Name::new("m").unwrap());
        house::say(&node, "My name is Ada.", Some(&SessionId::new("42").unwrap())).await;
        let mut questions = node.bus().subscribe(&model, None).await.unwrap();
        let session = session.map(|session| SessionId::new(session).unwrap());
        let request = RunRequest { session, ..question(run) };
        let reply: RunReply = serde_json::from_slice(&ask(&node, &request).await.payload).unwrap();
        assert_eq!(reply.status, RunStatus::Completed, "{reply:?}");
        let message = questions.next().await.unwrap();
        let asked: ModelRequest = serde_json::from_slice(&message.payload).unwrap();
        assert_eq!(asked.messages.len(), shown, "{request:?}");
        node.drain(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn the_same_run_id_gets_the_same_bytes_also_after_a_restart_and_without_the_store() {
    let data = tempfile::tempdir().unwrap();
    let node = start(data.path()).await;
    let first = ask(&node, &question("r1")).await.payload;
    let again = ask(&node, &question("r1")).await.payload;
    assert_eq!(first, again);
    node.drain(Duration::from_secs(5)).await;
    drop(node);

    let node = start(data.path()).await;
    let restarted = ask(&node, &question("r1")).await.payload;
    assert_eq!(first, restarted);
    node.drain(Duration::from_secs(5)).await;
    drop(node);

    std::fs::remove_dir_all(data.path().join("quickstart/store")).unwrap();
    let node = start(data.path()).await;
    let rebuilt = ask(&node, &question("r1")).await.payload;
    assert_eq!(first, rebuilt);
    let conflict = RunRequest { input: "something else".to_owned(), ..question("r1") };
    let refused = ask(&node, &conflict).await;
    assert_eq!(refused.headers.get("Nats-Service-Error-Code").as_deref(), Some("E1005"));
    node.drain(Duration::from_secs(5)).await;
}
