//! A model server that is not ours: OpenAI, Anthropic and Ollama on one port.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::daemon::root;
use tokio::process::{Child, Command};

/// How long the server may take to listen, on a busy machine.
const READY_MAX: Duration = Duration::from_secs(30);

/// A server that runs until it is dropped.
pub(crate) struct Aimock {
    _child: Child,
    _dir: TempDir,
    /// Its address, without a path.
    pub(crate) url: String,
}

impl Aimock {
    /// Starts a server that answers by fixtures.
    pub(crate) async fn start(fixtures: Value) -> Self {
        let script = root().join("tests/aimock/aimock.sh");
        let output = Command::new("sh").arg(script).output().await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the model server is not there: {errors}");
        let words = String::from_utf8(output.stdout).unwrap();
        let mut words = words.lines();
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("fixtures");
        std::fs::create_dir_all(&folder).unwrap();
        let fixtures = json!({"fixtures": fixtures}).to_string();
        std::fs::write(folder.join("conversation.json"), fixtures).unwrap();
        let config = dir.path().join("aimock.json");
        std::fs::write(&config, json!({"llm": {"fixtures": folder}}).to_string()).unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let child = Command::new(words.next().unwrap())
            .args(words)
            .arg("--config")
            .arg(config)
            .args(["--port", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let listens = async {
            while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(READY_MAX, listens).await.unwrap();
        Self { _child: child, _dir: dir, url: format!("http://127.0.0.1:{port}") }
    }

    /// Returns the requests that the server saw, oldest first.
    pub(crate) async fn requests(&self, http: &reqwest::Client) -> Vec<Value> {
        let journal = http.get(format!("{}/__aimock/journal", self.url)).send().await.unwrap();
        serde_json::from_slice(&journal.bytes().await.unwrap()).unwrap()
    }
}
