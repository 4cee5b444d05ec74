//! What a journal keeps when its files are cut, zeroed or changed, and what it says of it.

#![cfg(test)]

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use journal::{Error, Journal, Options, Report, Stored, verify};
use tempfile::TempDir;
use wire::SessionId;

/// Cuts at random places, and flipped bits.
const CUTS: u32 = 500;
const FLIPS: u32 = 500;

/// Hands a row over to whoever collects results; see `tests/src/results.rs`.
fn record(id: &str, what: &str, held: &str) {
    let passes = "no panic, no acknowledged entry of another session missing, all damage reported";
    let command = "cargo test -p journal --test recovery -- --nocapture";
    let row = serde_json::json!({
        "id": id, "what": what, "held": held, "passes": passes, "command": command,
    });
    println!("\nRESULT {row}");
}

type Model = BTreeMap<SessionId, Vec<Bytes>>;

/// A seeded source of numbers (splitmix64); a test prints its seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn id(number: u64) -> SessionId {
    SessionId::new(&format!("s-{number}")).unwrap()
}

/// More than a commit of [`fill`] takes with what may fill its page.
const COMMIT_BYTES_MAX: u64 = 2048;

/// Appends some entries to random sessions, and remembers what was acknowledged.
async fn fill(journal: &Journal, model: &mut Model, numbers: &mut Numbers, commits: u64) {
    for _ in 0..commits {
        let session = id(numbers.below(12));
        let entries: Vec<Bytes> = (0..=numbers.below(3))
            .map(|_| {
                let length = numbers.below(400);
                (0..length).map(|_| u8::try_from(numbers.below(256)).unwrap()).collect()
            })
            .collect();
        let acked = model.entry(session.clone()).or_default();
        let stored = entries.iter().cloned().map(Stored::from).collect();
        journal.append(&session, acked.len() as u64, stored).await.unwrap();
        acked.extend(entries);
    }
}

fn small_segments() -> Options {
    Options { segment_bytes_max: 24 << 10, ..Options::default() }
}

/// A journal of several segments and two starts, as it lies on the disk.
struct Written {
    dir: TempDir,
    model: Model,
}

impl Written {
    /// Closes the journal at the end, or copies it as it lies there before that.
    async fn new(seed: u64, closed: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (mut model, mut numbers) = (Model::new(), Numbers(seed));
        let (journal, _) = Journal::open(dir.path(), small_segments()).unwrap();
        fill(&journal, &mut model, &mut numbers, 120).await;
        journal.close();
        let (journal, report) = Journal::open(dir.path(), small_segments()).unwrap();
        assert_eq!(report.damage, []);
        fill(&journal, &mut model, &mut numbers, 120).await;
        if closed {
            journal.close();
            return Self { dir, model };
        }
        Self { dir: copy(dir.path()), model }
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.path().join("journal")).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        paths.sort();
        paths
    }

    /// Harms a copy, and checks that what opens is honest about it.
    fn check(&self, case: &str, harm: impl FnOnce(&Path)) -> Report {
        let dir = copy(self.dir.path());
        harm(dir.path());
        let verified = verify(dir.path(), &mut |_, _| ()).unwrap();
        let (journal, report) = Journal::open(dir.path(), small_segments()).unwrap();
        assert_eq!(verified, report, "{case}: verify and open differ");
        let aside: HashSet<SessionId> = journal.damaged().into_iter().map(|(id, _)| id).collect();
        for session in &aside {
            assert!(
                report.damage.iter().any(|damage| damage.sessions.contains(session)),
                "{case}: {session} is not in the report {report:?}"
            );
            assert!(
                matches!(journal.read(session), Err(Error::Damaged { .. })),
                "{case}: {session} can be read"
            );
        }
        let mut behind = 0;
        for (session, acked) in &self.model {
            match journal.read(session) {
                Ok(found) if found == *acked => {}
                Ok(found) if acked.starts_with(&found) => behind += 1,
                Ok(_) => panic!("{case}: {session} changed"),
                Err(Error::Damaged { .. }) => {}
                Err(error) => panic!("{case}: {session}: {error}"),
            }
        }
        // All appends were awaited one by one, so no sync covers more than one commit.
        let silently = usize::from(report.torn_tail_bytes > 0);
        assert!(behind <= silently, "{case}: {behind} lost silently, {report:?}");
        goes_on(&journal, case);
        journal.close();

        let (journal, again) = Journal::open(dir.path(), small_segments()).unwrap();
        assert_eq!(again.torn_tail_bytes, 0, "{case}");
        let still: HashSet<SessionId> = journal.damaged().into_iter().map(|(id, _)| id).collect();
        assert_eq!(still, aside, "{case}: the second start differs, {report:?}, {again:?}");
        let sound = self.model.keys().filter(|session| !aside.contains(*session));
        for session in sound.cloned().chain([id(99)]).filter(|id| !aside.contains(id)) {
            assert_eq!(journal.read(&session).unwrap().last().unwrap(), "after", "{case}");
        }
        report
    }
}

/// Appends to every session that is not set aside, and to one more.
fn goes_on(journal: &Journal, case: &str) {
    let aside: HashSet<SessionId> = journal.damaged().into_iter().map(|(id, _)| id).collect();
    let sessions = (0..12).chain([99]).map(id).filter(|session| !aside.contains(session));
    block_on(async {
        let mut appends = tokio::task::JoinSet::new();
        for session in sessions {
            let (journal, case) = (journal.clone(), case.to_owned());
            appends.spawn(async move {
                let slot = journal.slots(&session);
                match journal.append(&session, slot, vec!["after".into()]).await {
                    Ok(_) => {}
                    // Nothing is left of the session but that there was one.
                    Err(Error::Damaged { .. }) if slot == 0 => {}
                    Err(error) => panic!("{case}: {session}: {error}"),
                }
            });
        }
        appends.join_all().await;
    });
}

fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    fs::create_dir(to.path().join("journal")).unwrap();
    for entry in fs::read_dir(from.join("journal")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.path().join("journal").join(path.file_name().unwrap())).unwrap();
    }
    to
}

fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

fn cut(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// Returns the path in a harmed copy.
fn within(dir: &Path, path: &Path) -> PathBuf {
    dir.join("journal").join(path.file_name().unwrap())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn an_unharmed_journal_is_whole() {
    for closed in [true, false] {
        let written = block_on(Written::new(1, closed));
        let report = written.check("unharmed", |_| ());
        assert_eq!((report.torn_tail_bytes, report.damage.len()), (0, 0), "{report:?}");
        assert_eq!(report.sessions, written.model.len() as u64);
        assert_eq!(
            report.entries,
            written.model.values().map(|acked| acked.len() as u64).sum::<u64>()
        );
        assert_eq!(report.segments, written.segments().len() as u64);
        assert!(report.segments > 3, "{report:?}");
    }
}

/// What a crash leaves may end at any byte; exactly the whole commits are kept.
#[test]
fn a_torn_end_is_cut_after_the_last_whole_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(dir.path(), Options::default()).unwrap();
    let start = journal.end();
    // The ends of frames, and the entries that stand before them: those of a commit, and what fills
    // the page behind it, if anything does.
    let mut ends = vec![(start, 0)];
    let live = || journal.usage().live_bytes;
    for (number, length) in (0..30_u64).zip(10..) {
        let (session, slot) = (id(number % 5), number / 5 * 2);
        let entries = vec![vec![b'x'; length].into(), "y".into()];
        let (before, held) = (journal.end(), live());
        let end = block_on(journal.append(&session, slot, entries)).unwrap();
        let commit = before + live() - held;
        ends.extend([(commit, (number + 1) * 2), (end, (number + 1) * 2)]);
    }
    assert!(ends.windows(2).any(|two| two[0].0 < two[1].0 && two[0].1 == two[1].1), "{ends:?}");
    let crashed = copy(dir.path());
    let end = journal.end();
    assert!(end > 4096 + start, "{end}");
    for (cuts, at) in (end - 4096..=end).rev().enumerate() {
        let path = crashed.path().join("journal/0000000000000000.log");
        cut(&path, at);
        let (whole, entries) = *ends.iter().rfind(|(end, _)| *end <= at).unwrap();
        let report = verify(crashed.path(), &mut |_, _| ()).unwrap();
        assert_eq!(
            (report.entries, report.torn_tail_bytes, report.damage.len()),
            (entries, at - whole, 0),
            "cut at {at}: {report:?}"
        );
        if cuts % 64 == 0 {
            let opened = copy(crashed.path());
            let (journal, again) = Journal::open(opened.path(), Options::default()).unwrap();
            assert_eq!(again, report);
            goes_on(&journal, "torn");
            journal.close();
            let report = verify(opened.path(), &mut |_, _| ()).unwrap();
            assert_eq!((report.entries, report.torn_tail_bytes), (entries + 13, 0));
            assert_eq!(report.damage, []);
        }
    }
}

#[test]
fn a_closed_journal_that_was_cut_says_so() {
    let written = block_on(Written::new(3, true));
    let last = written.segments().pop().unwrap();
    let length = length(&last);
    let mut numbers = Numbers(3);
    let cuts = (0..30).map(|back| length - 1 - back).chain((0..30).map(|_| numbers.below(length)));
    for at in cuts {
        let report = written.check(&format!("cut at {at}"), |dir| cut(&within(dir, &last), at));
        assert!(!report.damage.is_empty(), "cut at {at} of {length}: {report:?}");
    }
}

#[test]
fn a_cut_anywhere_is_reported() {
    let seed = 4;
    println!("seed {seed}");
    let mut numbers = Numbers(seed);
    for closed in [true, false] {
        let written = block_on(Written::new(seed, closed));
        let mut segments = written.segments();
        if !closed {
            segments.pop();
        }
        for _ in 0..CUTS / 2 {
            let path = &segments[usize::try_from(numbers.below(segments.len() as u64)).unwrap()];
            let at = numbers.below(length(path));
            let case = format!("{path:?} cut at {at}");
            let report = written.check(&case, |dir| cut(&within(dir, path), at));
            assert!(!report.damage.is_empty(), "{case}: {report:?}");
        }
    }
    let held = format!("{CUTS} cuts: 0 panics, 0 entries missed in silence, {CUTS} reported");
    record("T5, cuts", "the journal is cut at random places", &held);
}

#[test]
fn a_zeroed_page_touches_the_sessions_that_stood_in_it() {
    let mut pages = 0;
    for (closed, seed) in [(true, 5), (false, 6)] {
        let written = block_on(Written::new(seed, closed));
        let mut confined = 0;
        let segments = written.segments();
        for path in &segments {
            let is_last = Some(path) == segments.last();
            for offset in (0..length(path)).step_by(4096) {
                // In a journal that was not closed, only a frame that begins behind a page tells
                // that the page was durable; without one its loss looks like a write that was torn.
                if is_last && !closed && offset + 4096 + COMMIT_BYTES_MAX > length(path) {
                    continue;
                }
                let size = usize::try_from((length(path) - offset).min(4096)).unwrap();
                let case = format!("{path:?} zeroed at {offset}, closed: {closed}");
                let report = written
                    .check(&case, |dir| overwrite(&within(dir, path), offset, &vec![0; size]));
                // A closed journal has no torn end; without that, only the last sync may be torn.
                assert!(!report.damage.is_empty() || report.torn_tail_bytes > 0, "{case}");
                assert!(!closed || report.torn_tail_bytes == 0, "{case}: {report:?}");
                confined += u64::from(report.sessions > 0);
                pages += 1;
            }
        }
        assert!(confined > 0, "every page took all sessions along");
    }
    let held = format!("{pages} pages: 0 panics, the rest is readable, {pages} found");
    record("T5, pages", "a page of the journal is zeroed", &held);
}

#[test]
fn a_flipped_bit_is_found_and_confined() {
    let seed = 7;
    println!("seed {seed}");
    let mut numbers = Numbers(seed);
    for closed in [true, false] {
        let written = block_on(Written::new(seed, closed));
        let segments = written.segments();
        for _ in 0..FLIPS / 2 {
            let path = &segments[usize::try_from(numbers.below(segments.len() as u64)).unwrap()];
            let mut bytes = fs::read(path).unwrap();
            let at = usize::try_from(numbers.below(bytes.len() as u64)).unwrap();
            bytes[at] ^= 1 << numbers.below(8);
            let case = format!("{path:?} bit of byte {at}, closed: {closed}");
            let report = written.check(&case, |dir| fs::write(within(dir, path), &bytes).unwrap());
            assert!(!report.damage.is_empty() || report.torn_tail_bytes > 0, "{case}");
            assert!(!closed || report.torn_tail_bytes == 0, "{case}: {report:?}");
            let aside: HashSet<_> = report.damage.iter().flat_map(|d| &d.sessions).collect();
            assert!(aside.len() <= 1, "{case}: one frame took {aside:?} along");
        }
    }
    let held = format!("{FLIPS} bits: 0 panics, 1 session set aside at most, {FLIPS} found");
    record("T5, bits", "a bit of the journal is flipped", &held);
}

#[test]
fn files_that_are_missing_or_strange_are_reported() {
    let written = block_on(Written::new(8, true));
    let segments = written.segments();
    for path in &segments {
        let case = format!("{path:?} missing");
        let report = written.check(&case, |dir| fs::remove_file(within(dir, path)).unwrap());
        assert!(!report.damage.is_empty(), "{case}");
        let case = format!("{path:?} empty");
        let report = written.check(&case, |dir| fs::write(within(dir, path), "").unwrap());
        assert!(!report.damage.is_empty(), "{case}");
    }
    let strange: [(&str, &[u8], usize); 6] = [
        ("frontier", b"garbage", 1),
        ("0000000000000001.log", b"garbage", 1),
        ("ffffffffffffffff.log", b"", 1),
        ("ffffffffffffffff.log", b"\xcb\xff\x4a\xfe\xff\xff\xff\xff", 1),
        ("0000.log", b"not ours", 0),
        ("notes.txt", b"not ours", 0),
    ];
    for (name, bytes, damage) in strange {
        let report =
            written.check(name, |dir| fs::write(dir.join("journal").join(name), bytes).unwrap());
        assert_eq!(report.damage.len(), damage, "{name}: {report:?}");
        assert_eq!(report.sessions, written.model.len() as u64, "{name}");
    }
    let report = written.check("no frontier", |dir| {
        fs::remove_file(dir.join("journal/frontier")).unwrap();
    });
    assert_eq!(report.damage.len(), 1);
}

#[test]
fn segments_that_a_crash_cannot_have_taken_are_missed() {
    let written = block_on(Written::new(10, false));
    let mut segments = written.segments();
    let gone = segments.split_off(segments.len() - 2);
    let report = written.check("two segments gone", |dir| {
        for path in &gone {
            fs::remove_file(within(dir, path)).unwrap();
        }
    });
    assert!(!report.damage.is_empty(), "{report:?}");
}

#[test]
fn damage_outlives_the_frontier_that_told_of_it() {
    let written = block_on(Written::new(11, true));
    let last = within(written.dir.path(), &written.segments().pop().unwrap());
    cut(&last, length(&last) / 2);
    let aside = || {
        let (journal, _) = Journal::open(written.dir.path(), small_segments()).unwrap();
        let damaged = journal.damaged().into_iter().map(|(session, _)| session);
        damaged.collect::<HashSet<SessionId>>()
    };
    let before = aside();
    assert!(!before.is_empty());
    fs::remove_file(written.dir.path().join("journal/frontier")).unwrap();
    let after = aside();
    assert!(after.is_superset(&before), "{before:?}, {after:?}");
}

#[test]
fn a_file_that_is_put_back_makes_its_sessions_readable_again() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 3] = [
        ("zeroed", |path| overwrite(path, length(path) / 4, &vec![0; 4096])),
        ("cut", |path| cut(path, length(path) / 2)),
        ("missing", |path| fs::remove_file(path).unwrap()),
    ];
    let written = block_on(Written::new(12, true));
    for path in written.segments() {
        for (what, harm) in harms {
            let case = format!("{path:?} {what}");
            let dir = copy(written.dir.path());
            let start = || {
                let (journal, report) = Journal::open(dir.path(), small_segments()).unwrap();
                while journal.rewrite_next().unwrap().is_some() {}
                (journal, report.damage)
            };
            let file = within(dir.path(), &path);
            let whole = fs::read(&file).unwrap();
            harm(&file);
            let mut aside = HashSet::new();
            for _ in 0..3 {
                let (journal, damage) = start();
                assert_ne!(damage, [], "{case}");
                let found = journal.damaged().into_iter().map(|(session, _)| session);
                let found: HashSet<SessionId> = found.collect();
                assert!(
                    found.is_superset(&aside),
                    "{case}: {aside:?} were set aside, now {found:?}"
                );
                aside = found;
            }
            fs::write(&file, whole).unwrap();
            let (journal, damage) = start();
            assert_eq!((damage, journal.damaged()), (vec![], vec![]), "{case}");
            for (session, entries) in &written.model {
                assert_eq!(journal.read(session).unwrap(), *entries, "{case}: {session}");
            }
        }
    }
}

#[test]
fn garbage_after_the_end_is_cut() {
    let written = block_on(Written::new(9, true));
    let last = written.segments().pop().unwrap();
    for garbage in [&b"\0"[..], b"\xcb\xff\x4a\xfe", &[0xcb; 5000]] {
        let report = written.check("garbage", |dir| {
            overwrite(&within(dir, &last), length(&last), garbage);
        });
        assert_eq!((report.torn_tail_bytes, report.damage.len()), (garbage.len() as u64, 0));
    }
}
