//! T32: the daemon is told to end under load, and again while it takes up what was left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bus::testing::NatsServer;
use bytes::Bytes;
use serde_json::{Value, json};
use tests::daemon::Daemon;
use tests::job;
use tests::ledger::Ledger;
use tests::results::{self, Row};
use tokio::time::Instant;
use wire::subject::RunVerb;
use wire::{Headers, Name, RunId, Subjects, header};

use crate::setup::{ask_until_answered, connect, on_nats};

/// Clients that ask at once.
const CLIENTS: u32 = 8;

/// Milliseconds of one model turn.
const TURN_MS: u64 = 25;

/// The longest that the daemon may take to end.
const END_MAX: Duration = Duration::from_secs(10);

/// The longest wait for what the daemon does at once.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_told_to_end_loses_nothing_and_ends_in_time() {
    let nats = NatsServer::start("").await.unwrap();
    let ledger = Ledger::start().await;
    let dir = tempfile::tempdir().unwrap();
    let team = job::write(dir.path(), &ledger.url("/charge"), TURN_MS);
    let args = on_nats(&team, &dir.path().join("data"), &nats);
    let mut daemon = Daemon::start(&args).await;

    let bus = connect(&nats).await;
    let name = Name::new(job::TEAM).unwrap();
    let subject = Subjects::default().agent_run(&name, &Name::new("foreman").unwrap());
    // One that takes longer than any drain waits, so that something is left to be taken up.
    let slow = RunId::new("slow").unwrap();
    let body = Bytes::from(json!({"input": "slow", "run": slow}).to_string());
    let headers = Headers::new().with(header::REPLY_MODE, header::REPLY_ACCEPTED);
    let accepted = bus.request(&subject, headers, body, SOON).await.unwrap();
    assert_eq!(accepted.headers.get(header::SERVICE_ERROR_CODE), None);

    let enough = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (bus, subject, enough) = (bus.clone(), subject.clone(), enough.clone());
            tokio::spawn(async move {
                let mut replies: Vec<Value> = Vec::new();
                while !enough.load(Ordering::Relaxed) {
                    let run = RunId::new(&format!("c{client}-{}", replies.len())).unwrap();
                    let input = format!("job {}", replies.len());
                    let reply = ask_until_answered(&bus, &subject, &input, &run).await;
                    replies.push(serde_json::from_slice(&reply).unwrap());
                }
                replies
            })
        })
        .collect();
    let charged = async {
        while ledger.hits().len() < 20 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, charged).await.expect("there is load");
    let mut slowest = Duration::ZERO;
    for time in ["under load", "with runs taken up at the start"] {
        let began = Instant::now();
        assert_eq!(daemon.terminate().await, Some(0), "{time}");
        assert!(began.elapsed() <= END_MAX, "{time}: {:?}", began.elapsed());
        slowest = slowest.max(began.elapsed());
        daemon = Daemon::start(&args).await;
    }
    enough.store(true, Ordering::Relaxed);
    let mut calls = 0;
    for client in clients {
        for reply in client.await.unwrap() {
            assert_eq!(reply["status"], "completed", "{reply}");
            for source in reply["sources"].as_array().unwrap() {
                // Each was given its time, so that of no call the outcome is unknown.
                assert_eq!(source["status"], "ok", "{reply}");
                calls += u32::from(source["tool"] == "charge");
            }
        }
    }
    let hits = ledger.hits();
    assert_eq!(u32::try_from(hits.len()).unwrap(), calls);
    assert!(hits.values().all(|count| *count == 1), "{hits:?}");

    let tell = async |verb| {
        let subject = Subjects::default().run(&name, &slow, verb);
        let answer = bus.request(&subject, Headers::new(), Bytes::new(), SOON).await.unwrap();
        serde_json::from_slice::<Value>(&answer.payload).unwrap()
    };
    assert_eq!(tell(RunVerb::Status).await["state"], "running");
    assert_eq!(tell(RunVerb::Cancel).await["status"], "cancelled");
    assert_eq!(daemon.terminate().await, Some(0));
    results::record(&Row {
        id: "T32",
        what: "the daemon is told to end under load",
        held: &format!(
            "2 ends within {} ms: 0 runs lost, 0 outcomes unknown, what was not over was taken up",
            slowest.as_millis()
        ),
        passes: "over within 10 s, 0 lost, 0 unknown",
        command: "cargo e2e drain -- --nocapture",
    });
}
