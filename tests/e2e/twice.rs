//! Two daemons on one data directory: the second is told who holds it, the first does not notice.

use std::process::Stdio;

use serde_json::json;
use tests::daemon::{Daemon, binary};
use tests::job;
use tests::results::{self, Row};
use tokio::process::Command;

use crate::setup::http_client;

#[tokio::test]
async fn a_second_daemon_on_the_same_data_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let team = job::write(dir.path(), "http://127.0.0.1:9/charge", 0);
    let args = ["--data".into(), dir.path().join("data"), team];
    let mut first = Daemon::start(&args).await;
    let client = http_client();
    let url = format!("{}/v1/teams/{}/agents/foreman/runs", first.http, job::TEAM);
    let ask = async || {
        let body = json!({"input": "hello", "run": "r-1"}).to_string();
        let answer = client.post(&url).body(body).send().await.unwrap();
        answer.text().await.unwrap()
    };
    let before = ask().await;
    assert!(before.contains("completed"), "{before}");

    for _ in 0..3 {
        let second = Command::new(binary())
            .arg("serve")
            .args(&args)
            .args(["--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let told = String::from_utf8_lossy(&second.stderr).into_owned();
        assert_eq!(second.status.code(), Some(3), "{told}");
        assert!(told.contains("in use"), "{told}");
        assert!(told.contains(&first.pid().to_string()), "it says by whom: {told}");
    }
    assert_eq!(ask().await, before);
    assert!(first.is_running());
    assert_eq!(first.terminate().await, Some(0));
    results::record(&Row {
        id: "T13",
        what: "two daemons on one data directory",
        held: "the second ends with code 3 and names the process that holds it; the first goes on",
        passes: "the second is refused, the first unharmed",
        command: "cargo e2e a_second_daemon -- --nocapture",
    });
}
