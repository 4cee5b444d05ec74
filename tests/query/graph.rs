//! A graph that is served as Neo4j does it, in a process of its own.

use std::process::Stdio;

use tests::daemon::root;
use tests::install::install;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The password of the user `neo4j`.
pub(crate) const PASSWORD: &str = "it's $ecret";
/// The token that will do as well.
pub(crate) const TOKEN: &str = "to-ken";

pub(crate) struct Graph {
    child: Child,
    pub(crate) port: u16,
}

impl Graph {
    /// Starts a server with an empty graph.
    pub(crate) async fn start() -> Self {
        let installed = install("query/graph.sh").await;
        let mut child = Command::new(&installed[0])
            .arg(root().join("tests/query/graph.py"))
            .args([PASSWORD, TOKEN])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next_line().await.unwrap().unwrap().parse().unwrap();
        Self { child, port }
    }

    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}
