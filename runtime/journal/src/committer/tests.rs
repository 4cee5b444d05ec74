//! The order of write, sync and answer, and what a failing disk leads to.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::task::JoinSet;

use std::sync::Mutex;

use super::*;
use crate::frame::Stored;
use crate::journal::Journal;
use crate::medium::Disk;
use crate::options::Options;
use crate::queue::Due;

/// What the tests see of a medium, and how they make it fail.
#[derive(Debug, Default)]
struct Watch {
    appended: AtomicU64,
    /// Pages that were written, one again for each append that touches it.
    pages: AtomicU64,
    synced: AtomicU64,
    syncs: AtomicU64,
    /// The number of the operation that fails, counted from 1; 0 for none.
    fails_at: AtomicU64,
    /// The system's number of the error that it fails with, 5 unless it is set.
    error: AtomicI32,
    operations: AtomicU64,
    /// The bytes that the disk takes beside a reserve; 0 for as many as there are.
    capacity: AtomicU64,
    /// Held by a test to keep syncs from returning.
    gate: Mutex<()>,
}

/// A disk that is watched, and full when the test says so.
struct Watched {
    disk: Disk,
    watch: Arc<Watch>,
    /// The data directory, to see whether there is a reserve.
    dir: PathBuf,
}

impl Watched {
    /// Returns the bytes for which there is room.
    fn room(&self) -> usize {
        let capacity = self.watch.capacity.load(Ordering::SeqCst);
        if capacity == 0 {
            return usize::MAX;
        }
        let freed = if self.dir.join("journal/reserve").exists() { 0 } else { RESERVE_BYTES };
        let segments = crate::segment::list(&self.dir.join("journal")).unwrap().segments;
        let lengths = segments.iter().map(|segment| fs::metadata(&segment.path).unwrap().len());
        let used = lengths.sum::<u64>();
        usize::try_from((capacity + freed).saturating_sub(used)).unwrap()
    }

    fn operation(&self) -> io::Result<()> {
        let number = self.watch.operations.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.watch.fails_at.load(Ordering::SeqCst) {
            let error = self.watch.error.load(Ordering::SeqCst);
            return Err(io::Error::from_raw_os_error(if error == 0 { 5 } else { error }));
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
        let room = self.room();
        if room < bytes.len() {
            self.disk.append(&bytes[..room])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.disk.append(bytes)?;
        let from = self.watch.appended.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        let pages = (from + bytes.len() as u64).div_ceil(4096) - from / 4096;
        self.watch.pages.fetch_add(pages, Ordering::SeqCst);
        Ok(())
    }

    fn take_back(&mut self, created: u64, base: Option<u64>) -> io::Result<()> {
        self.operation()?;
        self.disk.take_back(created, base)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.operation()?;
        self.disk.cut(length)
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

/// The reserve of the tests, in bytes.
const RESERVE_BYTES: u64 = 4 << 10;

fn open(dir: &TempDir, options: Options) -> (Journal, Arc<Watch>) {
    let watch = Arc::new(Watch::default());
    let (seen, at) = (watch.clone(), dir.path().to_owned());
    let (journal, _) = Journal::open_on(dir.path(), options, |disk| {
        Box::new(Watched { disk, watch: seen, dir: at })
    })
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
                let end = journal.append(&id(writer), slot, vec![entry.into()]).await.unwrap();
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
    let put = |slot| {
        let entry = vec![Stored::Inline(Bytes::new())];
        shared.enqueue(Kind::Commit, &id(1), slot, entry, Due::Now)
    };
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
        done.await.unwrap().unwrap();
    }
    assert_eq!(watch.syncs.load(Ordering::SeqCst), syncs + 2, "the three share one sync");
    put(4).unwrap().await.unwrap().unwrap();
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
            match journal.append(&id(1), acked, vec![vec![7; 100].into()]).await {
                Ok(_) => acked += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::Stopped), "{fails_in}: {refused}");
        assert!(journal.stopped().await.contains("os error 5"));
        assert!(journal.failed());
        for session in [1, 2] {
            let refused = journal.append(&id(session), 0, vec![Bytes::new().into()]).await;
            assert!(matches!(refused, Err(Error::Stopped)), "{fails_in}: {refused:?}");
        }
        assert!(matches!(journal.put_blob(b"x"), Err(Error::Stopped)));
        assert_eq!(journal.slots(&id(1)), acked);
        journal.close();

        let (journal, report) = Journal::open(dir.path(), options).unwrap();
        assert_eq!(report.damage, [], "{fails_in}");
        let slots = journal.slots(&id(1));
        assert!(slots == acked || slots == acked + 1, "{fails_in}: {acked} acked, {slots} there");
        journal.append(&id(1), slots, vec![Bytes::new().into()]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_meets_a_full_disk_nothing_that_was_acknowledged_is_lost() {
    const ENOSPC: i32 = 28;
    for fails_in in 1..40 {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes_max: 1800, ..Options::default() };
        let (journal, watch) = open(&dir, options.clone());
        let now = watch.operations.load(Ordering::SeqCst);
        watch.error.store(ENOSPC, Ordering::SeqCst);
        watch.fails_at.store(now + fails_in, Ordering::SeqCst);
        let (mut acked, mut length) = (0, 400);
        for _ in 0..40 {
            match journal.append(&id(1), acked, vec![vec![7; length].into()]).await {
                Ok(_) => (acked, length) = (acked + 1, 400),
                Err(Error::StorageFull) => {
                    journal.regain().unwrap();
                    // What finds room in the segment for which another was to follow.
                    length = 1;
                }
                Err(Error::Stopped) => break,
                Err(error) => panic!("{fails_in}: {error}"),
            }
        }
        let read = journal.read(&id(1)).unwrap();
        assert_eq!(read.len() as u64, acked, "{fails_in}");
        journal.close();

        let (journal, report) = Journal::open(dir.path(), options).unwrap();
        assert_eq!(report.damage, [], "{fails_in}");
        let slots = journal.slots(&id(1));
        assert!(slots == acked || slots == acked + 1, "{fails_in}: {acked} acked, {slots} there");
    }
}

#[tokio::test]
async fn commits_that_come_one_by_one_write_no_page_more_often_than_they_have_to() {
    // The length of an entry, the pages that 120 such commits write at most, and the part of the
    // file in hundredths that may be gaps.
    for (length, pages_max, gaps_max) in
        [(100, 126, 7), (800, 122, 6), (1700, 122, 9), (5000, 360, 6)]
    {
        let dir = tempfile::tempdir().unwrap();
        let (journal, watch) = open(&dir, Options::default());
        let before = watch.pages.load(Ordering::SeqCst);
        for slot in 0..120 {
            journal.append(&id(1), slot, vec![vec![7; length].into()]).await.unwrap();
        }
        let pages = watch.pages.load(Ordering::SeqCst) - before;
        assert!(pages <= pages_max, "{length}: {pages} pages");
        let usage = journal.usage();
        let gaps = 100 * (usage.bytes - usage.live_bytes) / usage.bytes;
        assert!(gaps <= gaps_max, "{length}: {gaps} hundredths of {usage:?} are gaps");
        journal.close();
        let (_, report) = Journal::open(dir.path(), Options::default()).unwrap();
        assert_eq!((report.damage.as_slice(), report.entries), ([].as_slice(), 120));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_settles_while_appends_wait() {
    for rolls in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (journal, watch) = open(&dir, Options::default());
        let syncs = watch.syncs.load(Ordering::SeqCst);
        let gate = watch.gate.lock().unwrap();
        let first = enqueue(&journal, 0);
        // Held back in its sync, so that what comes meanwhile finds the committer at work.
        while journal.waiting().0 > 0 {
            std::thread::yield_now();
        }
        let rest: Vec<_> = (1..4).map(|slot| enqueue(&journal, slot)).collect();
        let mut settled = journal.shared.begin_settle(rolls).unwrap();
        drop(gate);
        assert!(first.await.unwrap().is_ok());
        let end = (&mut settled).await.unwrap().unwrap();
        for done in rest {
            let after = done.await.unwrap().unwrap();
            assert!(after > end, "rolls {rolls}: the frontier was written behind the appends");
        }
        assert!(watch.syncs.load(Ordering::SeqCst) > syncs + 1);
        let segments = journal.shared.lock().index.segments.len();
        assert_eq!(segments, if rolls { 2 } else { 1 });
        journal.close();
        let (journal, report) = Journal::open(dir.path(), Options::default()).unwrap();
        assert_eq!((report.damage.as_slice(), journal.slots(&id(1))), ([].as_slice(), 4));
    }
}

fn enqueue(journal: &Journal, slot: u64) -> tokio::sync::oneshot::Receiver<Result<u64, Error>> {
    enqueue_due(journal, slot, Due::Now)
}

fn enqueue_due(
    journal: &Journal,
    slot: u64,
    due: Due,
) -> tokio::sync::oneshot::Receiver<Result<u64, Error>> {
    let entry = vec![Stored::Inline(Bytes::from_static(b"x"))];
    journal.shared.enqueue(Kind::Commit, &id(1), slot, entry, due).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_waits_for_is_written_with_what_somebody_waits_for_or_after_its_time() {
    const NEVER: Duration = Duration::from_hours(24);
    const SOON: Duration = Duration::from_millis(1);
    use Due::{Later, Now};
    const ROOM: usize = 4;
    // How long later ones wait, the appends that come one after another, whether they are hurried then,
    // and whether they are written before the journal ends.
    let cases: [(Duration, &[Due], bool, bool); 8] = [
        (NEVER, &[Now], false, true),
        (NEVER, &[Later, Now], false, true),
        (NEVER, &[Later, Later, Later, Now], false, true),
        (NEVER, &[Later, Later], false, false),
        (NEVER, &[Later, Later], true, true),
        (NEVER, &[Later; ROOM], false, true),
        (SOON, &[Later], false, true),
        (SOON, &[Later, Later], false, true),
    ];
    for (later_max, appends, is_hurried, is_written) in cases {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { later_max, queue_max: ROOM, ..Options::default() };
        let (journal, watch) = open(&dir, options);
        let syncs = watch.syncs.load(Ordering::SeqCst);
        let told: Vec<_> =
            (0..).zip(appends).map(|(slot, due)| enqueue_due(&journal, slot, *due)).collect();
        // Whoever asks for the frontier does not wait for them, and brings none of them forward.
        let settled = journal.shared.begin_settle(false).unwrap();
        assert!(settled.await.unwrap().is_ok());
        if is_hurried {
            journal.hurry();
        }
        if is_written {
            for done in told {
                assert!(done.await.unwrap().is_ok(), "{appends:?}");
            }
            let most = if later_max == NEVER { 1 } else { appends.len() as u64 };
            let syncs = watch.syncs.load(Ordering::SeqCst) - syncs;
            assert!((1..=most).contains(&syncs), "{syncs} syncs for {appends:?}");
        } else {
            assert_eq!(watch.syncs.load(Ordering::SeqCst), syncs, "{appends:?}");
        }
        drop(journal);
        let (journal, _) = open(&dir, Options::default());
        assert_eq!(journal.read(&id(1)).unwrap().len(), appends.len(), "{appends:?}");
    }
}

#[tokio::test]
async fn dropped_handles_write_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(&dir, Options::default());
    drop(enqueue(&journal, 0));
    drop(journal);
    let (journal, _) = open(&dir, Options::default());
    assert_eq!(journal.read(&id(1)).unwrap(), ["x"]);
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_is_left_when_there_is_room() {
    // Segments of one commit, of some, and of all: the disk fills at a roll and in the middle.
    for segment_bytes_max in [1, 1500, 1 << 20] {
        for capacity in (3000..3300).step_by(37) {
            let dir = tempfile::tempdir().unwrap();
            let options =
                Options { segment_bytes_max, reserve_bytes: RESERVE_BYTES, ..Options::default() };
            let (journal, watch) = open(&dir, options.clone());
            watch.capacity.store(capacity, Ordering::SeqCst);
            let mut acked = 0;
            let mut acked_before = None;
            let refused = loop {
                if journal.is_full() && acked_before.is_none() {
                    acked_before = Some(acked - 1);
                }
                match journal.append(&id(acked % 3), acked / 3, vec![vec![7; 100].into()]).await {
                    Ok(_) => acked += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(refused, Error::StorageFull), "{capacity}: {refused}");
            assert_eq!(refused.to_wire().code, wire::ErrorCode::StorageFull);
            assert!(acked > acked_before.unwrap() + 5, "{capacity}: the reserve was of no use");
            assert!(!journal.failed() && journal.is_full());
            let held =
                (0..3).map(|session| journal.read(&id(session)).unwrap().len()).sum::<usize>();
            assert_eq!(held as u64, acked, "{capacity}: what was acknowledged can be read");

            // Still without room nothing changes, and with room it goes on where it was.
            let entry = vec![vec![7; 100].into()];
            let again = journal.append(&id(acked % 3), acked / 3, entry).await;
            assert!(
                matches!(again, Err(Error::StorageFull)),
                "{segment_bytes_max} {capacity}: {again:?}"
            );
            watch.capacity.store(0, Ordering::SeqCst);
            assert!(journal.regain().unwrap() && !journal.is_full());
            for number in acked..acked + 9 {
                journal.append(&id(number % 3), number / 3, vec!["more".into()]).await.unwrap();
            }
            journal.close();
            let (journal, report) = Journal::open(dir.path(), options).unwrap();
            assert_eq!((report.damage.as_slice(), report.torn_tail_bytes), ([].as_slice(), 0));
            assert_eq!(report.entries, acked + 9, "{capacity}");
            assert_eq!(journal.slots(&id(0)), (acked + 9).div_ceil(3));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_wait_on_a_full_disk_are_refused_and_can_ask_again() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, watch) = open(&dir, Options::default());
    watch.capacity.store(1, Ordering::SeqCst);
    let entry = || vec![vec![7; 100].into()];
    let mut slot = 0;
    while journal.append(&id(0), slot, entry()).await.is_ok() {
        slot += 1;
    }
    let mut writers = JoinSet::new();
    for writer in 10..60 {
        let journal = journal.clone();
        writers.spawn(async move {
            let refused = journal.append(&id(writer), 0, entry()).await;
            assert!(matches!(refused, Err(Error::StorageFull)), "{refused:?}");
        });
    }
    writers.join_all().await;
    watch.capacity.store(0, Ordering::SeqCst);
    for writer in 10..60 {
        journal.append(&id(writer), 0, entry()).await.unwrap();
    }
    assert!(journal.regain().unwrap());
}
