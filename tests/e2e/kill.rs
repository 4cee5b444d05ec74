//! `kill -9` of the daemon at random moments under load: nothing is lost and nothing done twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bus::testing::NatsServer;
use bytes::Bytes;
use serde_json::Value;
use tests::daemon::Daemon;
use tests::job;
use tests::ledger::Ledger;
use wire::{RunId, Subjects};

use crate::setup::{ask_until_answered, connect, on_nats};

/// Kills in an ordinary test run; `CALLBOARD_KILLS` asks for more.
const KILLS_DEFAULT: u32 = 15;

/// Clients that ask at once.
const CLIENTS: u32 = 8;

/// Milliseconds of one model turn; a run has four and two calls, so a kill mostly hits some run.
const TURN_MS: u64 = 25;

/// A small generator, so that a printed seed repeats the moments of the kills.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_millis(50 + self.0 % 700)
    }
}

fn setting(name: &str, default: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the run of a test is set from outside")]
    let value = std::env::var(name);
    value.map_or(default, |value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_accepted_run_is_lost_and_no_effect_is_repeated() {
    let kills = setting("CALLBOARD_KILLS", u64::from(KILLS_DEFAULT));
    let seed = setting("CALLBOARD_SEED", 0x0ca1_1b0a);
    println!("{kills} kills, seed {seed}");
    let nats = NatsServer::start("").await.unwrap();
    let ledger = Ledger::start().await;
    let dir = tempfile::tempdir().unwrap();
    let team = job::write(dir.path(), &ledger.url("/charge"), TURN_MS);
    let args = on_nats(&team, &dir.path().join("data"), &nats);
    let mut daemon = Daemon::start(&args).await;

    let bus = connect(&nats).await;
    let name = wire::Name::new(job::TEAM).unwrap();
    let subject = Subjects::default().agent_run(&name, &wire::Name::new("foreman").unwrap());
    let enough = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (bus, subject, enough) = (bus.clone(), subject.clone(), enough.clone());
            tokio::spawn(async move {
                let mut replies: Vec<(RunId, String, Bytes)> = Vec::new();
                while !enough.load(Ordering::Relaxed) {
                    let run = RunId::new(&format!("c{client}-{}", replies.len())).unwrap();
                    let input = format!("job {}", replies.len());
                    let reply = ask_until_answered(&bus, &subject, &input, &run).await;
                    replies.push((run, input, reply));
                }
                replies
            })
        })
        .collect();

    let mut moments = Moments(seed);
    for _ in 0..kills {
        tokio::time::sleep(moments.next()).await;
        daemon.kill().await;
        daemon = Daemon::start(&args).await;
    }
    enough.store(true, Ordering::Relaxed);
    let mut replies = Vec::new();
    for client in clients {
        replies.extend(client.await.unwrap());
    }

    let mut unknown = 0;
    let mut charged: HashMap<String, u32> = HashMap::new();
    for (run, input, bytes) in &replies {
        let reply: Value = serde_json::from_slice(bytes).unwrap();
        assert_eq!(reply["status"], "completed", "{reply}");
        assert_eq!(reply["output"], job::ANSWER, "{reply}");
        let again = ask_until_answered(&bus, &subject, input, run).await;
        assert_eq!(again, bytes, "run {run} has two replies");
        for source in reply["sources"].as_array().unwrap() {
            if source["tool"] == "charge" {
                let key = source["call"].as_str().unwrap().to_owned();
                assert_eq!(charged.insert(key, 0), None, "a key is used twice");
                match source["status"].as_str().unwrap() {
                    "unknown" => unknown += 1,
                    status => assert_eq!(status, "ok", "{reply}"),
                }
            }
        }
    }
    let hits = ledger.hits();
    for (key, count) in &hits {
        assert_eq!(*count, 1, "call {key} took effect {count} times");
        assert!(charged.contains_key(key), "call {key} belongs to no reply");
    }
    let missing = charged.keys().filter(|key| !hits.contains_key(*key)).count();
    println!(
        "{} runs, {} charged, {unknown} unknown of which {missing} did not happen",
        replies.len(),
        hits.len()
    );
    assert!(missing <= unknown, "{missing} calls are told as done and did not happen");
    assert!(replies.len() as u64 >= kills, "there was no load: {} runs", replies.len());
}
