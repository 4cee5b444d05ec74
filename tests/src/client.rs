//! An ordinary NATS client that is not the one the daemon uses: nats-py, run as a program.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::daemon::root;
use crate::install::install;

/// Runs the client with one request, as its script describes them, and returns what it printed.
pub async fn nats(url: &str, request: &Value) -> Value {
    let python = install("nats-client.sh").await.concat();
    let mut child = Command::new(python)
        .arg(root().join("tests/e2e/client.py"))
        .arg(url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the client starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    stdin.write_all(request.to_string().as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().await.expect("it ends");
    assert!(output.status.success(), "the client failed");
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}
