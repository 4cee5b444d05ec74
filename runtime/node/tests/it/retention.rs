//! What is dropped when its time is over, and what a session goes on with.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::team::Retention;
use journal::{Holder, Journal, Options};
use node::{Archive, Compacted, Node};
use serde_json::{Value, json};
use tokio::time::Instant;
use wire::{Headers, Name, SessionId, Timestamp, semconv};

use crate::house;

const DAY_MS: u64 = 86_400_000;

/// What is kept unless a team says otherwise.
const NOTHING: Retention = Retention {
    runs_ms: None,
    runs_max: None,
    sessions_ms: None,
    traces_ms: None,
    trace_bytes_max: None,
};
const MONTH: Retention = Retention { runs_ms: Some(30 * DAY_MS), ..NOTHING };

/// Runs in one session, and sessions of one run each.
const RUNS: usize = 40;
const SINGLES: usize = 12;

fn team(dir: &Path) -> PathBuf {
    let script = json!({"when": ".", "content": "noted"}).to_string();
    std::fs::write(dir.join("script.jsonl"), script).unwrap();
    let file = dir.join("small.toml");
    let text = "[models.m]\nprovider = 'scripted'\nscript = 'script.jsonl'\n\
                [agents.a]\ninstructions = 'Note it.'\nmodel = 'm'\n";
    std::fs::write(&file, text).unwrap();
    file
}

async fn ask(node: &Node, session: &str, run: &str, input: &str) -> Value {
    let body = json!({"input": input, "session": session, "run": run}).to_string();
    let answer = house::ask(node, &house::entry(node), Headers::new(), body.into()).await;
    serde_json::from_slice(&answer.payload).unwrap()
}

fn name() -> Name {
    Name::new("small").unwrap()
}

fn open(data: &Path) -> Archive {
    let holder = Holder::this_process("test", Timestamp::from_micros(0));
    // A task of the node that has just ended may hold the store for a moment.
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match Archive::open(data, &name(), &holder) {
            Ok(archive) => return archive,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Fills a data directory with runs that have ended.
async fn fill(file: &Path, data: &Path) {
    let node = house::start(file, data).await;
    let text = "a sentence that is said again and again ".repeat(40);
    for number in 0..RUNS {
        let reply = ask(&node, "s", &format!("r{number}"), &format!("{number} {text}")).await;
        assert_eq!(reply["output"], "noted", "{reply}");
    }
    for number in 0..SINGLES {
        let id = format!("single-{number}");
        assert_eq!(ask(&node, &id, &id, &text).await["output"], "noted");
    }
    node.drain(Duration::from_secs(5)).await;
}

async fn compact(data: &Path, kept: &Retention, days: u64) -> Compacted {
    open(data).compact(kept, node::now().plus_ms(days * DAY_MS)).await.unwrap()
}

fn assert_follows(done: &Compacted) {
    assert!(done.bytes_after * 10 <= done.live_bytes * 12, "{done:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_runs_go_and_their_sessions_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (team(dir.path()), dir.path().join("data"));
    fill(&file, &data).await;
    let early = compact(&data, &MONTH, 29).await;
    assert_eq!((early.sessions_shortened, early.records_dropped), (0, 0), "{early:?}");
    assert_eq!(open(&data).store().runs(1000).unwrap().len(), RUNS + SINGLES);

    let done = compact(&data, &MONTH, 31).await;
    assert_eq!(done.sessions_shortened, 1 + SINGLES as u64, "{done:?}");
    assert!(done.bytes_after < done.bytes_before / 2, "{done:?}");
    assert_follows(&done);
    let again = compact(&data, &MONTH, 31).await;
    assert_eq!(again.sessions_shortened + again.sessions_forgotten, 0, "{again:?}");
    assert!(again.bytes_after <= done.bytes_after + 1024, "{done:?}, then {again:?}");

    // The store is of no help: all of it comes from the journal.
    std::fs::remove_dir_all(data.join("small/store")).unwrap();
    let archive = open(&data);
    assert_eq!(archive.store().runs(1000).unwrap().len(), 0);
    let session = archive.store().session(&SessionId::new("s").unwrap()).unwrap().unwrap();
    assert!(session.begun < session.at, "{session:?}");
    assert_eq!(archive.store().sessions(1000).unwrap().len(), 1 + SINGLES);
    assert_eq!(archive.events(&session.session).unwrap(), []);
    drop(archive);

    let node = house::start(&file, &data).await;
    let reply = ask(&node, "s", "r0", "and so it goes on").await;
    assert_eq!(reply["output"], "noted", "its id is free again: {reply}");
    let kept = node.team("small").unwrap().events(&session.session, None).await.unwrap();
    let first = kept.first().and_then(|event| event.id).unwrap();
    assert!(first.slot > (RUNS * 2) as u64, "slots go on: {first}");
    node.drain(Duration::from_secs(5)).await;
    let report = journal::verify(&data.join("small"), &mut |_, _| ()).unwrap();
    assert_eq!(report.damage, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_runs_stay_and_quiet_sessions_go() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (team(dir.path()), dir.path().join("data"));
    fill(&file, &data).await;
    let newest = Retention { runs_max: Some(5), ..NOTHING };
    let done = compact(&data, &newest, 0).await;
    assert!(done.records_dropped > 0, "{done:?}");
    let left = open(&data).store().runs(1000).unwrap();
    let left: Vec<String> = left.iter().map(|row| row.begun.run.to_string()).collect();
    let wanted: Vec<String> = (SINGLES - 5..SINGLES).rev().map(|n| format!("single-{n}")).collect();
    assert_eq!(left, wanted);

    let week = Retention { runs_ms: Some(DAY_MS), sessions_ms: Some(7 * DAY_MS), ..NOTHING };
    let done = compact(&data, &week, 8).await;
    assert_eq!(done.sessions_forgotten, 1 + SINGLES as u64, "{done:?}");
    let archive = open(&data);
    assert_eq!(archive.store().sessions(1000).unwrap(), []);
    assert_eq!(archive.store().runs(1000).unwrap().len(), 0);
    drop(archive);

    // One that is begun anew uses no slot again, and so no key of a call.
    let node = house::start(&file, &data).await;
    assert_eq!(ask(&node, "s", "r0", "hello").await["output"], "noted");
    let session = SessionId::new("s").unwrap();
    let told = node.team("small").unwrap().events(&session, None).await.unwrap();
    let first = told[0].id.unwrap();
    assert!(first.slot > (RUNS * 2) as u64, "{first}");
    node.drain(Duration::from_secs(5)).await;
    assert_eq!(journal::verify(&data.join("small"), &mut |_, _| ()).unwrap().damage, []);
}

/// Runs in one session, after whose commits it gets a snapshot.
const MANY_RUNS: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traces_are_told_again_on_both_sides_of_a_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (team(dir.path()), dir.path().join("data"));
    let runs = |numbers: Range<usize>| {
        let (file, data) = (file.clone(), data.clone());
        async move {
            let node = house::start(&file, &data).await;
            for number in numbers {
                let said = format!("this is number {number}");
                ask(&node, "s", &format!("r{number}"), &said).await;
            }
            node.drain(Duration::from_secs(5)).await;
        }
    };
    runs(0..MANY_RUNS).await;
    compact(&data, &NOTHING, 0).await;
    let (journal, _) = Journal::open(&data.join("small"), Options::default()).unwrap();
    assert_eq!(journal.begins(&SessionId::new("s").unwrap()).len(), 1);
    drop(journal);
    runs(MANY_RUNS..MANY_RUNS + 3).await;

    let archive = open(&data);
    for number in 0..MANY_RUNS + 3 {
        let spans = archive.store().trace(&format!("r{number}")).unwrap();
        let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["invoke_agent a", "chat m"], "{number}");
        for span in &spans {
            let told = span.attributes.text(semconv::INPUT_MESSAGES).unwrap();
            assert!(told.contains(&format!("this is number {number}\"")), "{number}: {told}");
        }
    }
    // They are made of the runs, and go with them.
    drop(archive);
    compact(&data, &MONTH, 31).await;
    assert_eq!(open(&data).store().trace("r1").unwrap(), []);
}
