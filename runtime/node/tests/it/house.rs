//! Starts a node for a test, and asks it as a client does.

use std::path::Path;
use std::time::Duration;

use bus::{Bus, Message};
use bytes::Bytes;
use journal::Holder;
use node::{Node, NodeOptions};
use tokio::time::Instant;
use wire::{Headers, RunReply, RunRequest, SessionId, Subjects, Timestamp};

/// The longest wait for an answer, on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Starts a node on an embedded bus of its own.
pub(crate) async fn start(team_file: &Path, data: &Path) -> Node {
    start_teams(&Bus::local(), &[team_file], data).await
}

/// Starts a node with several teams on a bus, if it can be started.
pub(crate) async fn try_start(
    bus: &Bus,
    team_files: &[&Path],
    data: &Path,
) -> Result<Node, node::Error> {
    let holder = Holder::this_process("test", Timestamp::from_micros(0));
    let (data, subjects) = (data.to_owned(), Subjects::default());
    let options = NodeOptions { data, holder, subjects, reserve_bytes: 0 };
    let teams = team_files.iter().map(|file| config::load(file).unwrap()).collect();
    Node::start(teams, bus.clone(), options).await
}

/// Starts a node with several teams on a bus.
pub(crate) async fn start_teams(bus: &Bus, team_files: &[&Path], data: &Path) -> Node {
    // A task of the node that has just ended may hold the store for a moment.
    let end = Instant::now() + ANSWER_MAX;
    loop {
        match try_start(bus, team_files, data).await {
            Ok(node) => return node,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

/// Returns the subject of the agent that the node's one team is asked by.
pub(crate) fn entry(node: &Node) -> String {
    let team = node.teams().next().unwrap();
    team.subjects().agent_run(&team.team().name, &team.team().entry)
}

/// Asks on a subject and waits for the answer.
pub(crate) async fn ask(node: &Node, subject: &str, headers: Headers, body: Bytes) -> Message {
    node.bus().request(subject, headers, body, ANSWER_MAX).await.unwrap()
}

/// Says something to the node's one team, in a session if one is named.
pub(crate) async fn say(node: &Node, input: &str, session: Option<&SessionId>) -> RunReply {
    let request = RunRequest {
        input: input.to_owned(),
        session: session.cloned(),
        run: None,
        timeout_ms: None,
        budget: None,
        parent: None,
    };
    let body = serde_json::to_vec(&request).unwrap();
    let answer = ask(node, &entry(node), Headers::new(), body.into()).await;
    serde_json::from_slice(&answer.payload).unwrap()
}

/// Writes a team and its scripts into a folder, and starts a node for it.
pub(crate) async fn start_with(
    folder: &Path,
    team: &str,
    scripts: &[(&str, &[serde_json::Value])],
) -> Node {
    std::fs::write(folder.join("team.toml"), team).unwrap();
    for (file, replies) in scripts {
        let lines: Vec<String> = replies.iter().map(ToString::to_string).collect();
        std::fs::write(folder.join(file), lines.join("\n")).unwrap();
    }
    start(&folder.join("team.toml"), &folder.join("data")).await
}
