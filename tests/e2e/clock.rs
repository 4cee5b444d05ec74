//! The wall clock jumps under a daemon: nothing times out early, nothing is forgotten.

use std::path::Path;
use std::time::Duration;

use bus::Bus;
use bus::testing::NatsServer;
use bytes::Bytes;
use serde_json::{Value, json};
use tests::daemon::Daemon;
use tests::install::install;
use tests::ledger::Ledger;
use tests::results::{self, Row};
use tests::trade;
use tokio::time::sleep;
use wire::Headers;

use crate::setup::{connect, http_client, on_nats};

/// Milliseconds of one model turn: long enough for a jump in its middle.
const TURN_MS: u64 = 600;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// The jumps, as the library that shifts the clock reads them.
const JUMPS: [&str; 4] = ["+1h", "-1h", "+1d", "-1d"];

/// Lets a program see a wall clock that a file shifts; its monotonic clock stays.
async fn shifted_by(file: &Path) -> Vec<String> {
    let library = install("faketime.sh").await.concat();
    vec![
        "env".to_owned(),
        format!("LD_PRELOAD={library}"),
        format!("FAKETIME_TIMESTAMP_FILE={}", file.display()),
        "FAKETIME_NO_CACHE=1".to_owned(),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
    ]
}

/// Shifts the clock; the file is never seen half written.
fn shift(file: &Path, by: &str) {
    let draft = file.with_extension("new");
    std::fs::write(&draft, format!("{by}\n")).unwrap();
    std::fs::rename(draft, file).unwrap();
}

async fn ask(bus: &Bus, run: &str, input: &str) -> Bytes {
    let subject = format!("callboard.v1.{}.agent.{}.run", trade::TEAM, trade::AGENT);
    let body = json!({"input": input, "run": run, "session": "s"}).to_string();
    bus.request(&subject, Headers::new(), body.into(), ANSWER_MAX).await.unwrap().payload
}

fn is_completed(reply: &Bytes, case: &str) {
    let reply: Value = serde_json::from_slice(reply).unwrap();
    assert_eq!(reply["status"], "completed", "{case}: {reply}");
    for source in reply["sources"].as_array().unwrap() {
        assert_eq!(source["status"], "ok", "{case}: {source}");
    }
}

async fn inputs(daemon: &Daemon) -> Vec<String> {
    let url = format!("{}/v1/teams/{}/sessions/s", daemon.http, trade::TEAM);
    let session = http_client().get(url).send().await.unwrap().text().await.unwrap();
    let session: Value = serde_json::from_str(&session).unwrap();
    let exchanges = session["exchanges"].as_array().unwrap();
    exchanges.iter().map(|exchange| exchange["input"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_ends_no_run_and_forgets_none() {
    for jump in JUMPS {
        let nats = NatsServer::start("").await.unwrap();
        let ledger = Ledger::start().await;
        let dir = tempfile::tempdir().unwrap();
        let clock = dir.path().join("clock");
        shift(&clock, "+0s");
        let team = trade::write(dir.path(), &ledger.url(""), TURN_MS);
        let args = on_nats(&team, &dir.path().join("data"), &nats);
        let wrapper = shifted_by(&clock).await;
        let mut daemon = Daemon::start_under(&wrapper, &args).await;
        let bus = connect(&nats).await;

        let before = ask(&bus, "before", "the first").await;
        is_completed(&before, jump);
        let asking = {
            let bus = bus.clone();
            tokio::spawn(async move { ask(&bus, "meanwhile", "the second").await })
        };
        sleep(Duration::from_millis(TURN_MS / 2)).await;
        shift(&clock, jump);
        let meanwhile = asking.await.unwrap();
        is_completed(&meanwhile, jump);
        is_completed(&ask(&bus, "after", "the third").await, jump);
        assert_eq!(ask(&bus, "before", "the first").await, before, "{jump}");
        assert_eq!(inputs(&daemon).await, ["the first", "the second", "the third"], "{jump}");

        daemon.kill().await;
        let mut daemon = Daemon::start_under(&wrapper, &args).await;
        assert_eq!(ask(&bus, "before", "the first").await, before, "{jump}, after a restart");
        assert_eq!(ask(&bus, "meanwhile", "the second").await, meanwhile, "{jump}");
        is_completed(&ask(&bus, "last", "the fourth").await, jump);
        // Lists go by time, which a restart takes from the wall clock; nothing is missing in them.
        let all = ["the first", "the second", "the third", "the fourth"];
        let listed = inputs(&daemon).await;
        assert!(
            all.iter().all(|input| listed.iter().any(|one| one == input)),
            "{jump}: {listed:?}"
        );
        assert!(ledger.seen().values().all(|hit| hit.count == 1), "{jump}: {:?}", ledger.seen());
        assert!(daemon.is_running());
    }
    results::record(&Row {
        id: "T15",
        what: "the wall clock jumps by an hour or a day, ahead or back, in the middle of a run",
        held: "4 jumps, each followed by a restart: 0 early timeouts, 0 runs lost or done twice, order \
               kept in a life",
        passes: "no early timeout, no lost run id, order kept",
        command: "cargo e2e a_clock_that_jumps -- --nocapture",
    });
}
