//! Starts a node for a test, and asks it as a client does.

use std::path::Path;
use std::time::Duration;

use bus::{Bus, Message};
use bytes::Bytes;
use journal::Holder;
use node::{Node, NodeOptions};
use wire::{Headers, Subjects, Timestamp};

/// The longest wait for an answer, on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Starts a node on an embedded bus of its own.
pub(crate) async fn start(team_file: &Path, data: &Path) -> Node {
    let team = config::load(team_file).unwrap();
    let holder = Holder {
        pid: std::process::id(),
        program: "test".to_owned(),
        listen: None,
        nats: None,
        since: Timestamp::from_micros(0),
    };
    let options = NodeOptions {
        data: data.to_owned(),
        holder,
        subjects: Subjects::default(),
        reserve_bytes: 0,
    };
    Node::start(vec![team], Bus::local(), options).await.unwrap()
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
