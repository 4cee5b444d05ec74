//! What a restart finds: agents whose callers' runs are over, and runs that a drain has to wait for.

use std::path::Path;
use std::time::Duration;

use bus::Bus;
use journal::{DataLock, Holder, Journal, Options};
use node::Node;
use serde_json::{Value, json};
use store::Store;
use tokio::time::Instant;
use wire::entry::{Body, Entry, Input};
use wire::event::EventKind;
use wire::run::RunState;
use wire::subject::RunVerb;
use wire::{Headers, Name, RunId, RunStatus, SessionId, header};

use crate::house;
use crate::steps::{self, SOON, Silent, accept, rest, tell, until, view};

/// A crash between the end of a run and the word to the agents that it had called: the journal has
/// the one, and nobody was told the other.
#[tokio::test]
async fn agents_whose_callers_have_ended_are_told_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::start().await;
    let node = steps::start(folder.path(), &silent).await;
    let run = accept(&node, "top", "go down", "r1").await;
    until("the lowest agent asks its model", SOON, async || silent.asked() == 1).await;
    let dir =
        node::team_dir(&folder.path().join("data"), &node.teams().next().unwrap().team().name);
    node.drain(Duration::ZERO).await;
    drop(node);

    let (journal, _) = Journal::open(&dir, Options::default()).unwrap();
    let session = SessionId::of_run(&run);
    let slot = journal.slots(&session);
    assert!(slot > 0, "the run is in {}", dir.display());
    let cancel = Input::CancelRequested { run: run.clone(), reason: "enough".to_owned() };
    let entry = Entry::new(node::now(), Body::Session(cancel));
    let bytes = serde_json::to_vec(&entry).unwrap().into();
    journal.append(&session, slot, vec![bytes]).await.unwrap();
    journal.close();

    let node = steps::start(folder.path(), &silent).await;
    let team = node.teams().next().unwrap();
    rest(&node, &silent).await;
    team.settle().await;
    let rows = team.store().runs(10).unwrap();
    assert_eq!(rows.len(), 3, "{rows:?}");
    for row in rows {
        let status = row.ended.map(|end| end.status);
        assert_eq!(status, Some(RunStatus::Cancelled), "{row:?}");
    }
    node.drain(SOON).await;
    drop(node);
    // That they were told is known, so nobody has anything to do.
    let node = steps::start(folder.path(), &silent).await;
    let unfinished = node.teams().next().unwrap().store().unfinished().unwrap();
    assert_eq!(unfinished, []);
    node.drain(SOON).await;
}

#[tokio::test]
async fn a_drain_waits_for_runs_that_were_taken_up_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::start().await;
    let node = steps::start(folder.path(), &silent).await;
    let run = accept(&node, "slow", "hello", "r1").await;
    node.drain(Duration::ZERO).await;
    assert_eq!(ended(folder.path(), &run), None);
    drop(node);
    let node = steps::start(folder.path(), &silent).await;
    node.drain(SOON).await;
    assert_eq!(ended(folder.path(), &run), Some(RunStatus::Completed));
}

#[tokio::test]
async fn a_drain_does_not_wait_for_people() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::start().await;
    let node = steps::start(folder.path(), &silent).await;
    let run = accept(&node, "asks", "ask me", "r1").await;
    until("it asks", SOON, async || {
        matches!(view(&node, &run, RunVerb::Status).await.state, RunState::Waiting { .. })
    })
    .await;
    let began = Instant::now();
    node.drain(Duration::from_secs(60)).await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(ended(folder.path(), &run), None);
    drop(node);
    let node = steps::start(folder.path(), &silent).await;
    let waits = view(&node, &run, RunVerb::Status).await.state;
    assert!(matches!(waits, RunState::Waiting { .. }), "{waits:?}");
    node.drain(SOON).await;
}

/// A start that fails has cut what it took up, so it must not have taken up anything.
#[tokio::test]
async fn a_start_that_fails_takes_up_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::start().await;
    let node = steps::start(folder.path(), &silent).await;
    let run = accept(&node, "acts", "hello", "r1").await;
    until("it asks its model", SOON, async || silent.asked() == 1).await;
    node.drain(Duration::ZERO).await;
    drop(node);

    let data = folder.path().join("data");
    let text = std::fs::read_to_string(folder.path().join("steps.toml")).unwrap();
    let zed = folder.path().join("zed.toml");
    std::fs::write(&zed, text.replace("[team]", "[team]\nname = \"zed\"")).unwrap();
    let holder = Holder { pid: 1, ..Holder::this_process("another", node::now()) };
    let lock = DataLock::acquire(&data.join("zed"), &holder).unwrap();
    let files = [folder.path().join("steps.toml"), zed];
    for _ in 0..12 {
        let refused = house::try_start(&Bus::local(), &[&files[0], &files[1]], &data).await;
        let Err(refused) = refused else { panic!("the data of zed is in use") };
        assert!(refused.to_string().contains("is in use by another"), "{refused}");
    }
    drop(lock);

    let node = house::start_teams(&Bus::local(), &[&files[0], &files[1]], &data).await;
    until("it asks its model again", SOON, async || silent.asked() == 2).await;
    assert_eq!(resumes(&node, &run).await, 1);
    node.drain(Duration::ZERO).await;
}

/// Twelve drains are more than `resumes_max` allows a run that ends the process each time.
#[tokio::test]
async fn a_run_outlives_any_number_of_drains() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::start().await;
    let mut node = steps::start(folder.path(), &silent).await;
    let run = accept(&node, "acts", "hello", "r1").await;
    for drains in 1..=12 {
        until("it asks its model", SOON, async || silent.asked() == drains).await;
        // The model is asked while it is written down that the run was taken up.
        assert_eq!(resumes(&node, &run).await, drains - 1);
        node.drain(Duration::ZERO).await;
        drop(node);
        node = steps::start(folder.path(), &silent).await;
    }
    until("it asks its model again", SOON, async || silent.asked() == 13).await;
    assert_eq!(resumes(&node, &run).await, 12);
    let state = view(&node, &run, RunVerb::Status).await.state;
    assert!(matches!(state, RunState::Running { .. }), "{state:?}");
    node.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn runs_of_before_a_restart_have_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::start().await;
    let node = steps::start(folder.path(), &silent).await;
    // As many as the team's `runs_max` allows.
    let runs = ["r1", "r2", "r3"];
    for run in runs {
        let run = accept(&node, "asks", "ask me", run).await;
        until("it asks", SOON, async || waits(&node, &run).await).await;
    }
    assert_eq!(refused(&node).await.as_deref(), Some("E1006"));
    node.drain(Duration::ZERO).await;
    drop(node);

    let node = steps::start(folder.path(), &silent).await;
    assert_eq!(refused(&node).await.as_deref(), Some("E1006"));
    let first = RunId::new(runs[0]).unwrap();
    tell(&node, &first, RunVerb::Answer, json!({"text": "blue"})).await;
    until("it has ended", SOON, async || {
        matches!(view(&node, &first, RunVerb::Status).await.state, RunState::Ended { .. })
    })
    .await;
    let next = accept(&node, "asks", "ask me", "r4").await;
    until("it asks", SOON, async || waits(&node, &next).await).await;
    assert_eq!(refused(&node).await.as_deref(), Some("E1006"));
    node.drain(Duration::ZERO).await;
}

async fn waits(node: &Node, run: &RunId) -> bool {
    matches!(view(node, run, RunVerb::Status).await.state, RunState::Waiting { .. })
}

/// Asks for one run more, and returns with which code it is refused.
async fn refused(node: &Node) -> Option<String> {
    let team = node.teams().next().unwrap();
    let subject = team.subjects().agent_run(&team.team().name, &Name::new("asks").unwrap());
    let headers = Headers::new().with(header::REPLY_MODE, header::REPLY_ACCEPTED);
    let body = json!({"input": "ask me", "run": "more"}).to_string();
    let answer = house::ask(node, &subject, headers, body.into()).await;
    answer.headers.get(header::SERVICE_ERROR_CODE)?;
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    answer["error"]["code"].as_str().map(str::to_owned)
}

/// Counts how often a run of the team `steps` was taken up again.
async fn resumes(node: &Node, run: &RunId) -> usize {
    // Nobody is answered before that is durable.
    view(node, run, RunVerb::Status).await;
    let events = node.team("steps").unwrap().events(&SessionId::of_run(run), None).await.unwrap();
    events.iter().filter(|event| event.kind == EventKind::RunResumed).count()
}

/// Looks up how a run ended, in what a node left behind.
fn ended(folder: &Path, run: &RunId) -> Option<RunStatus> {
    let (store, _) = Store::open(&folder.join("data/steps/store")).unwrap();
    store.run(run).unwrap().unwrap().ended.map(|end| end.status)
}
