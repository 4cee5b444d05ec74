use std::future::pending;
use std::net::TcpListener;

use bytes::Bytes;
use config::team::Provider;
use journal::DataLock;
use serde_json::json;
use tokio::task::yield_now;
use wire::look::{Doing, DoingKind};
use wire::subject::RunVerb;
use wire::{CallKey, Headers, Name, RunId, RunReply, RunStatus, WorkId, header};

use super::*;
use crate::clock;
use crate::opening::team_dir;
use crate::testing::{holder, start};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_team_that_does_not_let_go_keeps_no_other_from_being_stopped() {
    let data = tempfile::tempdir().unwrap();
    let node = start(data.path(), &["a", "b"], |_| {}).await;
    let begun = node.teams().map(|team| {
        let context = team.context();
        // A request that never ends.
        tokio::spawn(context.requests.track_future(pending::<()>()));
        let work = WorkId::of_call(CallKey::new("c").unwrap());
        let name = Name::new("x").unwrap();
        let doing = Doing { kind: DoingKind::Call, name, since: clock::now() };
        context.work.begin(work, None, doing)
    });
    let begun: Vec<_> = begun.collect();
    node.drain(Duration::ZERO).await;
    let stopped: Vec<bool> = begun.iter().map(|work| work.stop().is_cancelled()).collect();
    assert_eq!(stopped, [true, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_endpoints_hold_up_neither_the_end_nor_the_data() {
    // It takes connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let data = tempfile::tempdir().unwrap();
    let names = ["a", "b", "c", "d"];
    let node = start(data.path(), &names, |team| team.otlp_endpoint = Some(address.clone())).await;
    let begun = Instant::now();
    let mut drain = Box::pin(node.drain(Duration::ZERO));
    let dirs: Vec<_> =
        names.iter().map(|name| team_dir(data.path(), &Name::new(name).unwrap())).collect();
    // All locks can be had while the drain still waits for the endpoints.
    let freed = spawn_blocking(move || {
        for dir in dirs {
            while DataLock::acquire(&dir, &holder()).is_err() {
                std::thread::yield_now();
            }
        }
    });
    tokio::select! {
        () = &mut drain => panic!("the last lock was released with the last export"),
        freed = freed => freed.unwrap(),
    }
    drain.await;
    // Each of them takes 5 s by itself.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_turn_that_a_drain_stops_is_asked_for_again_at_the_next_start() {
    let data = tempfile::tempdir().unwrap();
    let never = |team: &mut config::Team| {
        for model in team.models.values_mut() {
            let Provider::Scripted(script) = &mut model.provider else { continue };
            script.replies.iter_mut().for_each(|reply| reply.delay_ms = Some(600_000));
        }
    };
    let node = start(data.path(), &["a"], never).await;
    let context = node.teams().next().unwrap().context().clone();
    let (team, run) = (&context.team, RunId::new("r-1").unwrap());
    let subject = context.subjects.agent_run(&team.name, &team.entry);
    let request = json!({"input": "Who is it?", "run": run}).to_string();
    let accepted = Headers::new().with(header::REPLY_MODE, header::REPLY_ACCEPTED);
    node.bus().request(&subject, accepted, request.into(), PATIENCE).await.unwrap();
    while context.work.len() == 0 {
        yield_now().await;
    }
    // As where a session outlives the time that it has to stop.
    context.draining.store(true, Ordering::Relaxed);
    context.work.stop_all();
    for _ in 0..1000 {
        yield_now().await;
    }
    assert_eq!(context.work.len(), 0);
    node.drain(Duration::ZERO).await;

    let node = start(data.path(), &["a"], |_| {}).await;
    let subject = context.subjects.run(&team.name, &run, RunVerb::Result);
    let told = node.bus().request(&subject, Headers::new(), Bytes::new(), PATIENCE).await.unwrap();
    let reply: RunReply = serde_json::from_slice(&told.payload).unwrap();
    assert_eq!(reply.status, RunStatus::Completed, "{reply:?}");
    node.drain(Duration::ZERO).await;
}
