//! The order of write, sync and answer, and what a failing disk leads to.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::*;
use crate::journal::Journal;
use crate::medium::Disk;

/// What the tests see of a medium, and how they make it fail.
#[derive(Debug, Default)]
struct Watch {
    appended: AtomicU64,
    synced: AtomicU64,
    syncs: AtomicU64,
    /// The number of the operation that fails, counted from 1; 0 for none.
    fails_at: AtomicU64,
    operations: AtomicU64,
    /// Held by a test to keep syncs from returning.
    gate: Mutex<()>,
}

/// A disk that is watched.
struct Watched {
    disk: Disk,
    watch: Arc<Watch>,
}

impl Watched {
    fn operation(&self) -> io::Result<()> {
        let number = self.watch.operations.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.watch.fails_at.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }
}

impl Medium for Watched {
    fn create(&mut self, base: u64) -> io::Result<()> {
        self.operation()?;
        self.disk.create(base)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.operation()?;
        self.disk.append(bytes)?;
        self.watch.appended.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.operation()?;
        let covered = self.watch.appended.load(Ordering::SeqCst);
        self.disk.sync()?;
        drop(self.watch.gate.lock().unwrap());
        self.watch.synced.store(covered, Ordering::SeqCst);
        self.watch.syncs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        self.operation()?;
        self.disk.sync_dir()
    }

    fn store_frontier(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.operation()?;
        self.disk.store_frontier(bytes)
    }
}

fn open(dir: &TempDir, options: Options) -> (Journal, Arc<Watch>) {
    let watch = Arc::new(Watch::default());
    let seen = watch.clone();
    let (journal, _) =
        Journal::open_on(dir.path(), options, |disk| Box::new(Watched { disk, watch: seen }))
            .unwrap();
    (journal, watch)
}

fn id(number: u64) -> SessionId {
    SessionId::new(&format!("s-{number}")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_append_resolves_before_its_sync_returned() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes_max: 512 << 10, ..Options::default() };
    let (journal, watch) = open(&dir, options);
    let mut writers = JoinSet::new();
    for writer in 0..100 {
        let (journal, watch) = (journal.clone(), watch.clone());
        writers.spawn(async move {
            for slot in 0..100 {
                let entry = Bytes::from(format!("{writer} {slot}"));
                let end = journal.append(&id(writer), slot, vec![entry]).await.unwrap();
                let synced = watch.synced.load(Ordering::SeqCst);
                assert!(end <= synced, "told {end}, synced {synced}");
            }
        });
    }
    writers.join_all().await;
    assert!(watch.syncs.load(Ordering::SeqCst) < 5_000, "appends share their syncs");
    assert_eq!(journal.sessions().len(), 100);
    assert!((0..100).all(|writer| journal.slots(&id(writer)) == 100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_refuses_at_once_and_keeps_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { queue_max: 3, ..Options::default() };
    let (journal, watch) = open(&dir, options);
    let held = watch.gate.lock().unwrap();
    let before = watch.appended.load(Ordering::SeqCst);
    let shared = &journal.shared;
    let put = |slot| shared.enqueue(&id(1), slot, vec![Stored::Inline(Bytes::new())]);
    let mut waiting = vec![put(0).unwrap()];
    // The first one leaves the queue for a sync that cannot return.
    while watch.appended.load(Ordering::SeqCst) == before {
        std::thread::yield_now();
    }
    waiting.extend((1..4).map(|slot| put(slot).unwrap()));
    let error = put(4).unwrap_err();
    assert!(matches!(error, Error::Full));
    assert_eq!(error.to_wire().code, wire::ErrorCode::Overloaded);
    assert!(error.to_wire().retry_after_ms.is_some());
    assert!(matches!(put(9), Err(Error::SlotTaken { expected: 4, found: 9, .. })));
    assert_eq!(journal.slots(&id(1)), 0, "nothing is durable yet");
    let syncs = watch.syncs.load(Ordering::SeqCst);
    drop(held);
    for done in waiting {
        done.await.unwrap();
    }
    assert_eq!(watch.syncs.load(Ordering::SeqCst), syncs + 2, "the three share one sync");
    put(4).unwrap().await.unwrap();
    assert_eq!(journal.slots(&id(1)), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failed_operation_nothing_is_acknowledged() {
    for fails_in in 1..40 {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes_max: 1500, ..Options::default() };
        let (journal, watch) = open(&dir, options.clone());
        let now = watch.operations.load(Ordering::SeqCst);
        watch.fails_at.store(now + fails_in, Ordering::SeqCst);
        let mut acked = 0;
        let refused = loop {
            match journal.append(&id(1), acked, vec![Bytes::from(vec![7; 100])]).await {
                Ok(_) => acked += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::Stopped), "{fails_in}: {refused}");
        journal.stopped().await;
        assert!(journal.failed());
        for session in [1, 2] {
            let refused = journal.append(&id(session), 0, vec![Bytes::new()]).await;
            assert!(matches!(refused, Err(Error::Stopped)), "{fails_in}: {refused:?}");
        }
        assert!(matches!(journal.put_blob(b"x"), Err(Error::Stopped)));
        assert_eq!(journal.slots(&id(1)), acked);
        journal.close();

        let (journal, report) = Journal::open(dir.path(), options).unwrap();
        assert_eq!(report.damage, [], "{fails_in}");
        let slots = journal.slots(&id(1));
        assert!(slots == acked || slots == acked + 1, "{fails_in}: {acked} acked, {slots} there");
        journal.append(&id(1), slots, vec![Bytes::new()]).await.unwrap();
    }
}

#[tokio::test]
async fn dropped_handles_write_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(&dir, Options::default());
    let entry = vec![Stored::Inline(Bytes::from_static(b"x"))];
    drop(journal.shared.enqueue(&id(1), 0, entry).unwrap());
    drop(journal);
    let (journal, _) = open(&dir, Options::default());
    assert_eq!(journal.read(&id(1)).unwrap(), ["x"]);
}
