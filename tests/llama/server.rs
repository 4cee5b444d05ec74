//! The llama.cpp server as a process, with a model that knows nothing.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tests::daemon::root;
use tests::install::install;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How long the server may take to load its half a megabyte of model on a busy machine.
const READY_MAX: Duration = Duration::from_secs(60);

/// A server that runs until it is dropped.
pub(crate) struct Server {
    _child: Child,
    /// Its address, without a path.
    pub(crate) url: String,
}

impl Server {
    /// Builds the server if need be, makes the model and waits until the server is ready.
    pub(crate) async fn start(dir: &Path) -> Self {
        let binary = install("llama/llama-server.sh").await.concat();
        let model = dir.join("tiny.gguf");
        let script = root().join("tests/llama/tiny_gguf.py");
        output(Command::new("python3").arg(script).arg(&model)).await;
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(binary)
            .arg("-m")
            .arg(&model)
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .args(["--jinja", "-c", "65536", "-np", "2", "-t", "1", "--no-warmup"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        // A second installation in one process is refused, which is fine.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::new();
        let url = format!("http://127.0.0.1:{port}");
        let healthy = async {
            let path = format!("{url}/health");
            while !client.get(&path).send().await.is_ok_and(|answer| answer.status().is_success()) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(READY_MAX, healthy).await.expect("llama-server is ready");
        Self { _child: child, url }
    }
}

/// Sends a JSON body and returns status and body of the answer.
pub(crate) async fn post(client: &reqwest::Client, url: &str, body: &Value) -> (u16, Value) {
    let answer = client.post(url).json(body).send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap())
}

/// Runs a program that must succeed and returns what it printed.
async fn output(command: &mut Command) -> String {
    let output = command.output().await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}
