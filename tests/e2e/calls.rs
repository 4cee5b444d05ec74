//! Leave for a call of a daemon on NATS, asked for and given by the command line, over a kill.

use bus::testing::NatsServer;
use serde_json::Value;
use tests::daemon::{Daemon, binary};
use tests::job;
use tests::ledger::Ledger;
use tokio::process::Command;
use wire::{RunId, Subjects};

use crate::setup::{ask_until_answered, connect, on_nats};

async fn callboard(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(binary()).args(args).output().await.unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_leave_over_a_kill_and_is_then_made_once() {
    let nats = NatsServer::start("").await.unwrap();
    let ledger = Ledger::start().await;
    let dir = tempfile::tempdir().unwrap();
    let team = job::write(dir.path(), &ledger.url("/charge"), 1);
    let text = std::fs::read_to_string(&team).unwrap();
    std::fs::write(&team, text.replace("allow = [\"charge\"]", "ask = [\"charge(amount=7)\"]"))
        .unwrap();
    let args = on_nats(&team, &dir.path().join("data"), &nats);
    let mut daemon = Daemon::start(&args).await;

    let bus = connect(&nats).await;
    let name = wire::Name::new(job::TEAM).unwrap();
    let subject = Subjects::default().agent_run(&name, &wire::Name::new("foreman").unwrap());
    let run = RunId::new("r-1").unwrap();
    let asking = {
        let (bus, run) = (bus.clone(), run.clone());
        tokio::spawn(async move { ask_until_answered(&bus, &subject, "job 1", &run).await })
    };
    let url = nats.url();
    let door = ["--nats", url.as_str(), "--team", job::TEAM];
    let open = async || loop {
        let args = [&["calls", "list", "--json"][..], &door].concat();
        let (code, text) = callboard(&args).await;
        assert_eq!(code, Some(0), "{text}");
        let list: Value = serde_json::from_str(&text).unwrap();
        if let Some(call) = list["calls"].get(0) {
            return call.clone();
        }
    };
    let before = open().await;
    assert_eq!(before["arguments"], serde_json::json!({"amount": 7}), "{before}");
    daemon.kill().await;
    let _daemon = Daemon::start(&args).await;
    assert_eq!(open().await, before, "after the kill");
    assert!(ledger.hits().is_empty(), "charged without leave");

    let key = before["call"].as_str().unwrap();
    let (code, text) = callboard(&[&["calls", "approve", key][..], &door].concat()).await;
    assert_eq!(code, Some(0), "{text}");
    let reply: Value = serde_json::from_slice(&asking.await.unwrap()).unwrap();
    assert_eq!(reply["status"], "completed", "{reply}");
    assert_eq!(ledger.hits().get(key), Some(&1), "{:?}", ledger.hits());
    let (code, text) = callboard(&[&["calls", "show", key][..], &door].concat()).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("E1012"), "{text}");
}
