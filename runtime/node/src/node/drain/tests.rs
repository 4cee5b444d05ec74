use std::future::pending;
use std::net::TcpListener;

use journal::DataLock;
use wire::look::{Doing, DoingKind};
use wire::{CallKey, Name, WorkId};

use super::*;
use crate::clock;
use crate::opening::team_dir;
use crate::testing::{holder, start};

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
