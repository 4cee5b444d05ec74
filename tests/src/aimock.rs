//! A model server that is not ours: OpenAI, Anthropic and Ollama on one port.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::install::install;

/// How long the server may take to listen, on a busy machine.
const READY_MAX: Duration = Duration::from_secs(30);

/// A server that runs until it is dropped.
pub struct Aimock {
    _child: Child,
    _dir: TempDir,
    /// Its address, without a path.
    pub url: String,
}

impl Aimock {
    /// Starts a server that answers by fixtures.
    pub async fn start(fixtures: Value) -> Self {
        let command = install("aimock/aimock.sh").await;
        let [program, arguments @ ..] = command.as_slice() else { panic!("no command") };
        let dir = tempfile::tempdir().expect("a folder can be made");
        let folder = dir.path().join("fixtures");
        std::fs::create_dir_all(&folder).expect("it can be written to");
        let fixtures = json!({"fixtures": fixtures}).to_string();
        std::fs::write(folder.join("conversation.json"), fixtures).expect("it can be written to");
        let config = dir.path().join("aimock.json");
        std::fs::write(&config, json!({"llm": {"fixtures": folder}}).to_string())
            .expect("it can be written to");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = free.local_addr().expect("it has an address").port();
        drop(free);
        let child = Command::new(program)
            .args(arguments)
            .arg("--config")
            .arg(config)
            .args(["--port", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the server starts");
        let listens = async {
            while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(READY_MAX, listens).await.expect("the server listens");
        Self { _child: child, _dir: dir, url: format!("http://127.0.0.1:{port}") }
    }

    /// Returns the requests that the server saw, oldest first.
    pub async fn requests(&self, http: &reqwest::Client) -> Vec<Value> {
        let journal = http.get(format!("{}/__aimock/journal", self.url)).send().await;
        let journal = journal.expect("the server answers").bytes().await.expect("whole");
        serde_json::from_slice(&journal).expect("in JSON")
    }
}
