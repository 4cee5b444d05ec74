//! A graph that is served as Neo4j does it, in a process of its own.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::daemon::root;
use crate::install::install;

/// The password of the user `neo4j`.
pub const PASSWORD: &str = "it's $ecret";
/// The token that will do as well.
pub const TOKEN: &str = "to-ken";

/// How long a statement may take, on a busy machine.
const STATEMENT_MAX: Duration = Duration::from_secs(60);

/// A server that runs, with one database `neo4j`.
pub struct Graph {
    child: Child,
    /// Where it listens on 127.0.0.1.
    pub port: u16,
}

impl Graph {
    /// Starts a server with an empty graph.
    pub async fn start() -> Self {
        let installed = install("query/graph.sh").await;
        let mut child = Command::new(installed.first().expect("a Python"))
            .arg(root().join("tests/query/graph.py"))
            .args([PASSWORD, TOKEN])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the graph starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let line = lines.next_line().await.expect("a line").expect("a port");
        Self { child, port: line.parse().expect("a number") }
    }

    /// Performs a statement outside of any team.
    pub async fn perform(&self, statement: &str) {
        let url = format!("http://127.0.0.1:{}/db/neo4j/query/v2", self.port);
        let sent = reqwest::Client::new()
            .post(url)
            .timeout(STATEMENT_MAX)
            .bearer_auth(TOKEN)
            .body(json!({"statement": statement}).to_string())
            .send()
            .await;
        let text = sent.expect("an answer").text().await.expect("its text");
        let told: Value = serde_json::from_str(&text).expect("JSON");
        assert!(told.get("errors").is_none(), "{statement}: {told}");
    }

    /// Ends the server at once.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("it is gone");
    }
}
