//! A model is asked while what led to the question becomes durable, and nobody else is told of it.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use bus::Subscription;
use journal::testing::{Step, Watch, Watching, watch};
use node::{Node, team_dir};
use serde_json::{Value, json};
use tokio::time::timeout;
use wire::error::ErrorBody;
use wire::subject::RunVerb;
use wire::{
    ErrorCode, Event, EventKind, Headers, ModelReply, Name, RunId, RunReply, RunStatus, SessionId,
};

use crate::house;
use crate::steps::{self, SOON, Silent, accept, begun, until, view};

/// A disk that takes its time for a sync until it is told to go on.
#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn shut(&self) {
        *self.is_shut.lock().unwrap() = true;
    }

    fn open(&self) {
        *self.is_shut.lock().unwrap() = false;
        self.opened.notify_all();
    }
}

impl Watch for Gate {
    fn before(&self, step: Step<'_>) {
        if step == Step::Sync {
            let shut = self.is_shut.lock().unwrap();
            drop(self.opened.wait_while(shut, |is_shut| *is_shut).unwrap());
        }
    }

    fn after(&self, _: Step<'_>) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_asked_before_the_disk_is_done_and_nobody_is_told_before() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::default());
    let dir: &Path = &team_dir(&folder.path().join("data"), &Name::new("steps").unwrap());
    let _watching = watch(dir, gate.clone());
    let silent = Silent::start().await;
    let node = steps::start(folder.path(), &silent).await;
    let team = node.teams().next().unwrap();
    let events = team.subjects().all_session_events(&team.team().name);
    let mut events = node.bus().subscribe(&events, None).await.unwrap();
    gate.shut();
    let accepting = accept(&node, "acts", "hello", "r1");
    tokio::pin!(accepting);
    let asked = until("the model is asked", SOON, async || silent.asked() == 1);
    tokio::select! {
        () = asked => {}
        run = &mut accepting => panic!("{run} is accepted and not durable"),
    }
    let told = timeout(std::time::Duration::ZERO, events.next()).await;
    assert!(told.is_err(), "{told:?}");
    gate.open();
    let run = accepting.await;
    assert_eq!(view(&node, &run, RunVerb::Status).await.run, run);
    assert!(events.next().await.is_some());
    assert_eq!(silent.asked(), 1);
    node.drain(std::time::Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_is_there_before_the_disk_is_done_is_taken_up_afterwards() {
    const TEAM: &str = r#"
[models.quick]
provider = "scripted"
script = "quick.jsonl"

[agents.assistant]
instructions = "You answer."
model = "quick"
"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.toml");
    std::fs::write(&file, TEAM).unwrap();
    let line = json!({"content": "Hello."}).to_string();
    std::fs::write(folder.path().join("quick.jsonl"), line).unwrap();
    let data = folder.path().join("data");
    let gate = Arc::new(Gate::default());
    let _watching = watch(&team_dir(&data, &Name::new("t").unwrap()), gate.clone());
    let node = house::start(&file, &data).await;
    let mut everything = node.bus().subscribe(">", None).await.unwrap();
    gate.shut();
    let saying = house::say(&node, "hello", None);
    tokio::pin!(saying);
    let answered = async {
        while serde_json::from_slice::<ModelReply>(&everything.next().await.unwrap().payload)
            .is_err()
        {}
    };
    tokio::select! {
        answered = timeout(SOON, answered) => answered.expect("the model answers"),
        reply = &mut saying => panic!("{reply:?} is told and not durable"),
    }
    gate.open();
    let reply = saying.await;
    assert_eq!((reply.status, &*reply.output), (RunStatus::Completed, "Hello."), "{reply:?}");
    assert_eq!(begun(&node, &mut everything).await, [], "the model is not asked again");
    node.drain(std::time::Duration::ZERO).await;
}

/// A disk that finds no room for the first few writes of a kind.
struct Full {
    is_meant: fn(&str) -> bool,
    refusals_left: AtomicU32,
}

impl Watch for Full {
    fn before(&self, _: Step<'_>) {}

    fn after(&self, _: Step<'_>) {}

    fn refuse(&self, step: Step<'_>) -> io::Result<()> {
        let Step::Append(bytes) = step else { return Ok(()) };
        let is_meant = (self.is_meant)(&String::from_utf8_lossy(bytes));
        let seen = Ordering::SeqCst;
        let refuses = |left: u32| left.checked_sub(1);
        if is_meant && self.refusals_left.fetch_update(seen, seen, refuses).is_ok() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

/// A team whose agent computes with a model that answers at once.
const COMPUTES: &str = r#"
[models.quick]
provider = "scripted"
script = "quick.jsonl"

[agents.assistant]
instructions = "You compute."
model = "quick"
tools = ["calculate"]

[tools.calculate]
kind = "builtin"
"#;

/// The reply of a model that wants something computed.
fn call(expression: &str) -> Value {
    let arguments = json!({"expression": expression});
    json!({"calls": [{"name": "calculate", "arguments": arguments}]})
}

/// Starts it on such a disk, and listens to what it tells.
async fn computing(
    folder: &Path,
    replies: &[Value],
    full: &Arc<Full>,
) -> (Node, Subscription, Watching) {
    let dir = team_dir(&folder.join("data"), &Name::new("team").unwrap());
    let watching = watch(&dir, full.clone());
    let node = house::start_with(folder, COMPUTES, &[("quick.jsonl", replies)]).await;
    let team = node.team("team").unwrap();
    let events = team.subjects().all_session_events(&team.team().name);
    let events = node.bus().subscribe(&events, None).await.unwrap();
    (node, events, watching)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_held_with_its_turns_is_refused_with_them() {
    let replies = [call("1 + 1"), json!({"content": "Two."})];
    let folder = tempfile::tempdir().unwrap();
    // A run of which the disk sees nothing before it sees what a model said.
    let is_meant = |written: &str| written.contains("submitted") && written.contains("calculate");
    let full = Arc::new(Full { is_meant, refusals_left: AtomicU32::new(1) });
    let (node, mut events, _watching) = computing(folder.path(), &replies, &full).await;
    let ask = async |run: &str, input: &str| {
        let body = json!({"input": input, "run": run}).to_string();
        let answer = house::ask(&node, &house::entry(&node), Headers::new(), body.into()).await;
        if let Ok(body) = serde_json::from_slice::<ErrorBody>(&answer.payload) {
            assert_eq!(body.error.code, ErrorCode::StorageFull, "{}", body.error);
            return false;
        }
        let reply: RunReply = serde_json::from_slice(&answer.payload).unwrap();
        assert_eq!((reply.status, &*reply.output), (RunStatus::Completed, "Two."));
        true
    };
    // One is held once a turn before it was quick, which no single one has to be.
    let mut asked = 0;
    until("one is refused", SOON, async || {
        asked += 1;
        !ask(&format!("r{asked}"), "a first text").await
    })
    .await;
    assert_eq!(full.refusals_left.load(Ordering::SeqCst), 0, "it was held");
    let run = format!("r{asked}");
    until("there is room", SOON, async || ask(&run, "another text").await).await;
    let mut accepted = Vec::new();
    loop {
        let message = timeout(SOON, events.next()).await.unwrap().unwrap();
        let event = serde_json::from_slice::<Event>(&message.payload).unwrap();
        match event.kind {
            EventKind::RunAccepted { input, .. } if event.run.as_str() == run => {
                accepted.push(input);
            }
            EventKind::RunEnded { .. } if event.run.as_str() == run => break,
            _ => {}
        }
    }
    assert_eq!(accepted, ["another text"]);
    node.drain(std::time::Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quick_turns_without_room_are_done_once_there_is_some() {
    // The last turn is under way when what led to it is refused, and is then void.
    let last = json!({"content": "Both.", "delay_ms": 30});
    let replies = [call("1 + 1"), call("2 * 3"), last];
    let folder = tempfile::tempdir().unwrap();
    let is_meant = |written: &str| written.contains("model_replied");
    let full = Arc::new(Full { is_meant, refusals_left: AtomicU32::new(2) });
    let (node, mut events, _watching) = computing(folder.path(), &replies, &full).await;

    let reply = house::say(&node, "compute", None).await;
    assert_eq!((reply.status, &*reply.output), (RunStatus::Completed, "Both."), "{reply:?}");
    assert_eq!(full.refusals_left.load(Ordering::SeqCst), 0);
    let (mut begun, mut ended) = (0, Vec::new());
    loop {
        let message = events.next().await.unwrap();
        match serde_json::from_slice::<Event>(&message.payload).unwrap().kind {
            EventKind::CallStarted { .. } => begun += 1,
            EventKind::CallEnded { output, .. } => ended.push(output),
            EventKind::RunEnded { .. } => break,
            _ => {}
        }
    }
    assert_eq!((begun, ended), (2, vec!["2".to_owned(), "6".to_owned()]));
    node.drain(std::time::Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_without_room_takes_no_turn_of_another_run_with_it() {
    let replies = [
        json!({"when": "first", "content": "One.", "delay_ms": 300}),
        json!({"when": "second", "content": "Two."}),
    ];
    let folder = tempfile::tempdir().unwrap();
    let is_meant = |written: &str| written.contains("cancel_requested");
    let full = Arc::new(Full { is_meant, refusals_left: AtomicU32::new(1) });
    let (node, mut events, _watching) = computing(folder.path(), &replies, &full).await;
    let session = SessionId::new("s").unwrap();
    let (first, second) = tokio::join!(house::say(&node, "first", Some(&session)), async {
        // The second waits for the first, so that it begins where that is cancelled.
        let run = accepted(&mut events).await;
        let cancelled = async {
            accepted(&mut events).await;
            steps::tell(&node, &run, RunVerb::Cancel, json!({})).await
        };
        let (second, cancelled) =
            tokio::join!(house::say(&node, "second", Some(&session)), cancelled);
        let refused: ErrorBody = serde_json::from_slice(&cancelled.payload).unwrap();
        assert_eq!(refused.error.code, ErrorCode::StorageFull, "{}", refused.error);
        second
    });
    assert_eq!(full.refusals_left.load(Ordering::SeqCst), 0);
    assert_eq!((first.status, &*first.output), (RunStatus::Completed, "One."));
    assert_eq!((second.status, &*second.output), (RunStatus::Completed, "Two."));
    node.drain(std::time::Duration::ZERO).await;
}

/// Waits until the next run is accepted.
async fn accepted(events: &mut Subscription) -> RunId {
    loop {
        let message = timeout(SOON, events.next()).await.unwrap().unwrap();
        let event = serde_json::from_slice::<Event>(&message.payload).unwrap();
        if matches!(event.kind, EventKind::RunAccepted { .. }) {
            return event.run;
        }
    }
}
