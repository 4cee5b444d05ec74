//! What is held before a rewriting is held after it, wherever a crash stops it.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use tempfile::TempDir;

use super::*;
use crate::journal::Journal;
use crate::options::Options;
use crate::read::Since;
use crate::verify::verify;

/// A seeded source of numbers (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// What a session was given.
#[derive(Clone, Debug, Default)]
struct Given {
    first_slot: u64,
    entries: Vec<Bytes>,
    /// The slots at which reading may begin.
    begins: Vec<u64>,
}

impl Given {
    fn next(&self) -> u64 {
        self.first_slot + self.entries.len() as u64
    }

    fn from(&self, slot: u64) -> &[Bytes] {
        &self.entries[usize::try_from(slot - self.first_slot).unwrap()..]
    }
}

type Model = BTreeMap<SessionId, Given>;

fn options() -> Options {
    Options { segment_bytes_max: 4 << 10, blob_bytes_min: 300, ..Options::default() }
}

fn id(number: u64) -> SessionId {
    SessionId::new(&format!("s-{number}")).unwrap()
}

/// Does something at random to some session.
async fn act(journal: &Journal, model: &mut Model, numbers: &mut Numbers) {
    let session = id(numbers.below(8));
    let length = usize::try_from(numbers.below(400)).unwrap();
    let entry = Bytes::from(vec![u8::try_from(numbers.below(256)).unwrap(); length]);
    let given = model
        .entry(session.clone())
        .or_insert_with(|| Given { first_slot: journal.next_slot(&session), ..Given::default() });
    let slot = given.next();
    match numbers.below(20) {
        0 if !given.entries.is_empty() => {
            journal.forget(&session).await.unwrap();
            let floor = journal.next_slot(&session);
            assert!(floor >= slot, "slot {slot} would be used again from {floor}");
            model.remove(&session);
        }
        1..4 if !given.entries.is_empty() => {
            journal.append_begin(&session, slot, entry.clone().into()).await.unwrap();
            given.begins.push(slot);
            given.entries.push(entry);
        }
        4..7 => {
            if let Some(begin) = given.begins.last() {
                // One that was retired beyond it is retired.
                journal.retire(&session, *begin);
            }
        }
        _ => {
            journal.append(&session, slot, vec![entry.clone().into()]).await.unwrap();
            given.entries.push(entry);
        }
    }
}

/// Checks that everything can be read that has to be.
fn check(journal: &Journal, model: &Model, case: &str) {
    let known: Vec<SessionId> = model
        .iter()
        .filter(|(_, given)| !given.entries.is_empty())
        .map(|(id, _)| id.clone())
        .collect();
    assert_eq!(journal.sessions(), known, "{case}");
    check_counts(journal, case);
    for (session, given) in model.iter().filter(|(_, given)| !given.entries.is_empty()) {
        let newest = journal.read_since(session, Since::Newest).unwrap();
        let begin = given.begins.last().copied().unwrap_or(given.first_slot);
        assert_eq!(
            (newest.first_slot, newest.bodies.as_slice()),
            (begin, given.from(begin)),
            "{case}"
        );
        let all = journal.read_since(session, Since::Oldest).unwrap();
        assert!(all.first_slot <= begin, "{case}");
        assert_eq!(all.bodies, given.from(all.first_slot), "{case}");
        assert_eq!(journal.next_slot(session), given.next(), "{case}");
        // What is gone is read from the first that is held.
        let held = given.begins.iter().copied().filter(|begin| *begin >= all.first_slot);
        for first in given.first_slot..given.next() {
            let begin = held.clone().rev().find(|begin| *begin <= first);
            let begin = begin.unwrap_or(all.first_slot);
            for last in [first, first + 3, given.next()] {
                let read = journal.read_since(session, Since::Around(first, last)).unwrap();
                let end = held.clone().find(|end| *end > last).unwrap_or(given.next());
                let expected = &given.from(begin)[..usize::try_from(end - begin).unwrap()];
                assert_eq!(read.first_slot, begin, "{case} around {first} to {last}");
                assert_eq!(read.bodies, expected, "{case} around {first} to {last}");
            }
        }
    }
}

/// Checks what is counted of each segment against all commits.
fn check_counts(journal: &Journal, case: &str) {
    let state = journal.shared.lock();
    let segments = state.index.segments.iter();
    let counted: BTreeMap<u64, u64> =
        segments.map(|(base, segment)| (*base, segment.live_bytes)).collect();
    assert_eq!(counted, state.index.live_bytes(), "{case}");
}

fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        fs::create_dir_all(to.path().join(&folder)).unwrap();
        for entry in fs::read_dir(from.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else {
                // The journal is at work, and may have renamed a file since it was listed.
                let copied = fs::copy(entry.path(), to.path().join(path));
                let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
                assert!(copied.is_ok() || copied.as_ref().is_err_and(is_gone), "{copied:?}");
            }
        }
    }
    to
}

/// Opens a copy of what lies on the disk, as after a crash.
fn check_crashed(dir: &Path, model: &Model, case: &str) {
    let crashed = copy(dir);
    assert_eq!(verify(crashed.path(), &mut |_, _| ()).unwrap().damage, [], "{case}");
    let (journal, report) = Journal::open(crashed.path(), options()).unwrap();
    assert_eq!(report.damage, [], "{case}");
    check(&journal, model, case);
    while journal.rewrite_next().unwrap().is_some() {}
    check(&journal, model, &format!("{case}, rewritten"));
    drop(journal);
    let (journal, report) = Journal::open(crashed.path(), options()).unwrap();
    assert_eq!(report.damage, [], "{case}, again");
    check(&journal, model, &format!("{case}, again"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_survives_rewriting_at_random_moments() {
    for seed in 0..12 {
        let (mut model, mut numbers) = (Model::new(), Numbers(seed));
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(dir.path(), options()).unwrap();
        for step in 0..400 {
            act(&journal, &mut model, &mut numbers).await;
            let case = format!("seed {seed}, step {step}");
            match numbers.below(60) {
                0 | 1 => {
                    let again = journal.clone();
                    let rewritten = tokio::task::spawn_blocking(move || again.rewrite_next());
                    rewritten.await.unwrap().unwrap();
                    check(&journal, &model, &case);
                }
                2 => {
                    drop(journal);
                    let opened = Journal::open(dir.path(), options()).unwrap();
                    assert_eq!(opened.1.damage, [], "{case}");
                    journal = opened.0;
                    check(&journal, &model, &case);
                }
                3 => {
                    let (dir, model) = (dir.path().to_owned(), model.clone());
                    let crashed = move || check_crashed(&dir, &model, &case);
                    tokio::task::spawn_blocking(crashed).await.unwrap();
                }
                _ => {}
            }
        }
    }
}

/// A bench that stops working at some operation, and notes what was done.
struct Stopping {
    disk: DiskBench,
    left: usize,
    done: Vec<String>,
}

impl Stopping {
    fn step(&mut self, what: &str) -> io::Result<()> {
        if self.left == 0 {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.left -= 1;
        self.done.push(what.to_owned());
        Ok(())
    }
}

impl Bench for Stopping {
    fn create(&mut self) -> io::Result<()> {
        self.step("create")?;
        self.disk.create()
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.step("append") {
            // A part of it may be there all the same.
            self.disk.append(&bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.disk.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.step("sync")?;
        self.disk.sync()
    }

    fn name(&mut self, name: &str) -> io::Result<()> {
        self.step("name")?;
        self.disk.name(name)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.step("remove")?;
        self.disk.remove(name)
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        self.step("sync_dir")?;
        self.disk.sync_dir()
    }

    /// What a process leaves that is killed.
    fn discard(&mut self) {}
}

/// Fills a journal, most of which is no longer held.
async fn filled(seed: u64) -> (TempDir, Journal, Model) {
    let (mut model, mut numbers) = (Model::new(), Numbers(seed));
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(dir.path(), options()).unwrap();
    for _ in 0..200 {
        act(&journal, &mut model, &mut numbers).await;
    }
    for (session, given) in &mut model {
        if given.entries.is_empty() {
            continue;
        }
        let slot = given.next();
        journal.append_begin(session, slot, "state".into()).await.unwrap();
        given.begins.push(slot);
        given.entries.push("state".into());
        assert!(journal.retire(session, slot));
    }
    (dir, journal, model)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewriting_may_stop_anywhere() {
    let mut whole = Vec::new();
    for stops_after in 0.. {
        let (dir, journal, model) = filled(7).await;
        let case = format!("stopped after {stops_after}");
        let work = move || {
            let disk = DiskBench::new(&journal.files.journal);
            let mut bench = Stopping { disk, left: stops_after, done: Vec::new() };
            let result = rewrite_with(&journal, &mut bench);
            check_crashed(dir.path(), &model, &case);
            let named = bench.done.iter().any(|done| done == "name");
            assert_eq!(journal.failed(), result.is_err() && named, "{case}");
            if !journal.failed() {
                check(&journal, &model, &case);
                bench.left = usize::MAX;
                rewrite_with(&journal, &mut bench).unwrap();
                check(&journal, &model, &case);
            }
            (result.is_ok(), bench.done)
        };
        let (is_done, done) = tokio::task::spawn_blocking(work).await.unwrap();
        if is_done {
            whole = done;
            break;
        }
    }
    let mut order: Vec<&str> = whole.iter().map(String::as_str).collect();
    order.dedup();
    let once = ["create", "append", "sync", "name", "sync_dir", "remove", "sync_dir"];
    assert_eq!(order[..once.len()], once, "{whole:?}");
}

/// A bench at which somebody reads everything whenever the names are made durable.
struct Watched<'a> {
    disk: DiskBench,
    journal: &'a Journal,
    model: &'a Model,
    /// How often a file took the name of another one.
    replaced: usize,
}

impl Bench for Watched<'_> {
    fn create(&mut self) -> io::Result<()> {
        self.disk.create()
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.disk.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.sync()
    }

    fn name(&mut self, name: &str) -> io::Result<()> {
        self.replaced += usize::from(self.journal.files.journal.join(name).exists());
        self.disk.name(name)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        check(self.journal, self.model, "while the names are made durable");
        self.disk.sync_dir()
    }

    fn discard(&mut self) {
        self.disk.discard();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_meanwhile_finds_what_is_held() {
    let (_dir, journal, mut model) = filled(7).await;
    let mut replaced = 0;
    // What was rewritten once keeps its name when it is rewritten by itself.
    for _ in 0..4 {
        let held = model.iter().filter(|(_, given)| !given.entries.is_empty());
        let sessions: Vec<SessionId> = held.map(|(session, _)| session.clone()).collect();
        for session in sessions {
            let given = model.get_mut(&session).unwrap();
            let slot = given.next();
            journal.append_begin(&session, slot, "next".into()).await.unwrap();
            given.begins.push(slot);
            given.entries.push("next".into());
            assert!(journal.retire(&session, slot));
            let (journal, model) = (journal.clone(), model.clone());
            let work = move || {
                let disk = DiskBench::new(&journal.files.journal);
                let (journal, model) = (&journal, &model);
                let mut bench = Watched { disk, journal, model, replaced: 0 };
                while rewrite_with(journal, &mut bench).unwrap().is_some() {}
                bench.replaced
            };
            replaced += tokio::task::spawn_blocking(work).await.unwrap();
        }
    }
    assert!(replaced > 0, "no file took the name of another one");
    assert_eq!(journal.damaged(), []);
}

#[test]
fn segments_for_which_there_is_no_room_are_left() {
    // Segments of 1000 bytes each: what of them is held, the room, and which are chosen.
    let cases: [(&[u64], u64, &[u64]); 6] = [
        (&[100, 200, 300], u64::MAX, &[0, 1000, 2000]),
        (&[100, 200, 300], 600, &[0, 1000, 2000]),
        (&[100, 200, 300], 599, &[0, 1000]),
        (&[500, 200, 300], 499, &[1000]),
        (&[500, 200, 300], 199, &[]),
        (&[0, 200, 300], 0, &[0]),
    ];
    for (held, room, expected) in cases {
        let mut index = Index { end: 9000, ..Index::default() };
        for (number, live_bytes) in (0..).zip(held) {
            let (base, end) = (number * 1000, (number + 1) * 1000);
            let segment =
                Segment { end, bytes: 1000, live_bytes: *live_bytes, ..Segment::default() };
            index.segments.insert(base, segment);
        }
        assert_eq!(index.to_rewrite(4000, room), expected, "{held:?} in {room}");
    }
}

fn rewrite_with(journal: &Journal, bench: &mut dyn Bench) -> Result<Option<Rewritten>, Error> {
    next(&journal.shared, &journal.files, bench)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_follows_what_is_held() {
    let (dir, journal, model) = filled(3).await;
    let work = move || {
        let before = journal.usage();
        assert!(before.bytes > 5 * before.live_bytes, "{before:?}");
        while journal.rewrite_next().unwrap().is_some() {}
        check(&journal, &model, "rewritten");
        let after = journal.usage();
        let segments = segment::list(&journal.files.journal).unwrap().segments;
        let lengths = segments.iter().map(|s| fs::metadata(&s.path).unwrap().len());
        assert_eq!(lengths.sum::<u64>(), after.bytes, "what it says is what is there");
        let heads =
            journal.shared.lock().index.segments.values().map(|s| s.fixed_bytes).sum::<u64>();
        let limit = after.live_bytes + after.live_bytes / 5 + heads;
        assert!(after.bytes <= limit, "{after:?}, heads {heads}");
        drop(journal);
        drop(dir);
    };
    tokio::task::spawn_blocking(work).await.unwrap();
}

/// Tells whether some bytes stand in any file of a journal.
fn stands(dir: &Path, bytes: &[u8]) -> bool {
    let listed = segment::list(&dir.join("journal")).unwrap().segments;
    let mut files = listed.iter().map(|segment| fs::read(&segment.path).unwrap());
    files.any(|file| file.windows(bytes.len()).any(|found| found == bytes))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_purged_leaves_the_disk_however_little_it_is() {
    let secret = "the secret".as_bytes();
    for (purges, reopens) in [(false, false), (true, false), (true, true)] {
        let case = format!("purges {purges}, reopens {reopens}");
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(dir.path(), options()).unwrap();
        let (a, b) = (id(1), id(2));
        journal.append(&a, 0, vec![Bytes::from_static(secret).into()]).await.unwrap();
        for slot in 0..40 {
            journal.append(&b, slot, vec![Bytes::from(vec![b'x'; 290]).into()]).await.unwrap();
        }
        journal.append_begin(&a, 1, "state".into()).await.unwrap();
        let drop_old = |journal: &Journal| {
            if purges { journal.purge(&a, 1) } else { journal.retire(&a, 1) }
        };
        assert!(drop_old(&journal));
        if reopens {
            // As after a crash before anything is rewritten.
            drop(journal);
            journal = Journal::open(dir.path(), options()).unwrap().0;
            assert!(drop_old(&journal));
        }
        let again = journal.clone();
        let rewrite = move || while again.rewrite_next().unwrap().is_some() {};
        tokio::task::spawn_blocking(rewrite).await.unwrap();
        assert_eq!(stands(dir.path(), secret), !purges, "{case}");
        assert_eq!(journal.read(&a).unwrap(), ["state"], "{case}");
        assert_eq!(journal.read(&b).unwrap().len(), 40, "{case}");
        assert!(!journal.purge(&a, 7), "nothing begins there");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_harmed_rewritten_segment_is_reported_and_confined() {
    let (dir, journal, model) = filled(5).await;
    let work = move || {
        while journal.rewrite_next().unwrap().is_some() {}
        drop(journal);
        let listed = segment::list(&dir.path().join("journal")).unwrap().segments;
        let kept: Vec<&Listed> = listed.iter().filter(|s| s.kept_end.is_some()).collect();
        assert!(!kept.is_empty());
        for segment in kept {
            let length = fs::metadata(&segment.path).unwrap().len();
            for at in (0..length).step_by(97) {
                let harmed = copy(dir.path());
                let path = harmed.path().join("journal").join(segment.path.file_name().unwrap());
                let mut bytes = fs::read(&path).unwrap();
                bytes[usize::try_from(at).unwrap()] ^= 0x20;
                fs::write(&path, bytes).unwrap();
                let (journal, report) = Journal::open(harmed.path(), options()).unwrap();
                assert!(!report.damage.is_empty(), "byte {at} of {path:?}");
                let aside: Vec<SessionId> =
                    journal.damaged().into_iter().map(|(session, _)| session).collect();
                for (session, given) in &model {
                    match journal.read_since(session, Since::Newest) {
                        Ok(found) => assert_eq!(found.bodies, given.from(found.first_slot)),
                        Err(_) => assert!(aside.contains(session), "{session} at {at}"),
                    }
                }
            }
        }
    };
    tokio::task::spawn_blocking(work).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_go_with_the_last_entry_that_refers_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(dir.path(), options()).unwrap();
    let (a, large) = (id(1), |fill: u8| Bytes::from(vec![fill; 1000]));
    journal.append(&a, 0, vec![large(1).into(), large(2).into()]).await.unwrap();
    let named = journal.put_blob(b"named by an entry").unwrap();
    journal.append(&a, 2, vec![named.to_string().into_bytes().into()]).await.unwrap();
    let plan = journal.put_blob(b"a plan").unwrap();
    drop(journal);
    let (journal, _) = Journal::open(dir.path(), options()).unwrap();
    let work = move || {
        let sweep = |kept: &[wire::Digest]| {
            let mut refers = |entry: &[u8], found: &mut HashSet<_>| {
                let text = String::from_utf8_lossy(entry).into_owned();
                found.extend(text.parse::<wire::Digest>());
            };
            let kept = kept.iter().copied().collect();
            journal.sweep_blobs(kept, &mut refers, &|_| true).unwrap()
        };
        let swept = sweep(&[plan]);
        assert_eq!((swept.removed, swept.left), (0, 4), "all are needed");
        let swept = sweep(&[]);
        assert_eq!((swept.removed, swept.left), (1, 3), "the plan is not");
        let young = journal.put_blob(b"its entry is still to come").unwrap();
        let block_on = tokio::runtime::Handle::current();
        block_on.block_on(journal.append_begin(&a, 3, large(3).into())).unwrap();
        assert!(journal.retire(&a, 3));
        assert_eq!(sweep(&[]).removed, 0, "a restart would bring the entries back");
        while journal.rewrite_next().unwrap().is_some() {}
        let swept = sweep(&[]);
        assert_eq!(swept.removed, 4, "the young one too, two sweeps later");
        assert!(journal.blob(&young).is_err());
        assert_eq!(journal.read(&a).unwrap(), [large(3)]);
    };
    tokio::task::spawn_blocking(work).await.unwrap();
}

mod meanwhile;
