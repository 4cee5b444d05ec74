//! Large replies stand in files, which are there as long as a record names them and no longer.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::{Path, PathBuf};

use store::{Change, Error, Opened, RunBegun, Store};
use wire::{Digest, Name, RunId, RunStatus, SessionId, Timestamp, TraceContext};

/// A reply of this many bytes stands in a file.
const LARGE: usize = 64 * 1024;

fn run_id(text: &str) -> RunId {
    RunId::new(text).unwrap()
}

fn begun(run: &str, at: u64) -> Change {
    let agent = Name::new("lead").unwrap();
    Change::RunBegun(Box::new(RunBegun {
        run: run_id(run),
        session: SessionId::new("s").unwrap(),
        agent: agent.clone(),
        body: Digest::of(b""),
        at: Timestamp::from_micros(at),
        input: String::new(),
        traced: None,
        slot: None,
        trace: TraceContext::root(&agent, &run_id(run)),
        parent: None,
        joined: None,
    }))
}

fn ended(run: &str, at: u64, reply: &[u8]) -> Change {
    Change::RunEnded {
        run: run_id(run),
        at: Timestamp::from_micros(at),
        status: RunStatus::Completed,
        reply: reply.to_vec().into(),
    }
}

fn files(store: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(store.join("replies")) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn bytes_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let size = |entry: fs::DirEntry| match entry.metadata().unwrap() {
        found if found.is_dir() => bytes_below(&entry.path()),
        found => found.len(),
    };
    entries.map(size).sum()
}

/// What a process that is killed leaves, since what it wrote is the kernel's.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_large_reply_stands_in_a_file_and_not_in_the_database() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = Store::open(&dir).unwrap();
    store.apply(&[ended("small", 1, &vec![b'x'; LARGE - 1])], None).unwrap();
    assert_eq!(files(&dir), Vec::<PathBuf>::new());
    store.flush().unwrap();
    let before = bytes_below(&dir.join("sled"));
    let large = b"reply ".repeat(1 << 20);
    store.apply(&[ended("large", 1, &large)], None).unwrap();
    store.flush().unwrap();
    assert!(bytes_below(&dir.join("sled")) - before < 1 << 20);
    let [file] = &*files(&dir) else { panic!("one file: {:?}", files(&dir)) };
    assert!(fs::read(file).unwrap() == large);
    assert!(store.reply(&run_id("large")).unwrap().unwrap() == large);
    assert_eq!(store.verify().unwrap(), 4);
    drop(store);
    let (store, opened) = Store::open(&dir).unwrap();
    assert_eq!((opened, files(&dir).len()), (Opened::Ready, 1));
    store.reopen().unwrap();
    assert!(store.reply(&run_id("large")).unwrap().unwrap() == large);
}

#[test]
fn a_file_goes_with_the_record_that_names_it() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = Store::open(&dir).unwrap();
    let (a, b) = (vec![b'a'; LARGE], vec![b'b'; LARGE]);
    // What is replied, and how many files there are then.
    let steps: [(&[&[u8]], usize); 7] = [
        (&[&a], 1),
        (&[&a], 1),
        (&[&b], 1),
        (&[&a, &b, &a], 1),
        (&[b"small"], 0),
        (&[&a, b"small", &a], 1),
        (&[b"small", &b], 1),
    ];
    store.apply(&[begun("r", 1), begun("other", 9), ended("other", 9, &a)], None).unwrap();
    for (number, (replies, expected)) in steps.into_iter().enumerate() {
        let changes: Vec<Change> = replies.iter().map(|reply| ended("r", 2, reply)).collect();
        store.apply(&changes, None).unwrap();
        assert_eq!(files(&dir).len(), expected + 1, "step {number}");
        let found = store.reply(&run_id("r")).unwrap();
        assert!(found.as_deref() == replies.last().copied(), "step {number}");
        store.verify().unwrap();
    }
    assert_eq!(store.drop_runs_until(Timestamp::from_micros(5)).unwrap(), 1);
    assert_eq!((files(&dir).len(), store.reply(&run_id("r")).unwrap()), (1, None));
    assert!(store.reply(&run_id("other")).unwrap().unwrap() == a);
    store.verify().unwrap();
}

#[test]
fn files_that_nothing_names_are_removed_when_the_store_is_opened() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = Store::open(&dir).unwrap();
    let large = vec![b'a'; LARGE];
    let changes = [ended("r", 1, &large), ended("small", 1, b"reply")];
    store.apply(&changes, Some(1)).unwrap();
    let [named] = &*files(&dir) else { panic!("one file: {:?}", files(&dir)) };
    let strays = ["r.00000000", "small.00000000", "other.00000000", "x", "r.00000000.new"];
    let stray = || {
        for name in strays {
            fs::write(dir.join("replies").join(name), &large).unwrap();
        }
        let unfinished = format!("{}.new", named.display());
        fs::write(unfinished, b"half").unwrap();
    };
    stray();
    store.reopen().unwrap();
    assert_eq!(files(&dir), std::slice::from_ref(named));
    stray();
    drop(store);
    let (store, opened) = Store::open(&dir).unwrap();
    assert_eq!((opened, files(&dir)), (Opened::Ready, vec![named.clone()]));
    assert!(store.reply(&run_id("r")).unwrap().unwrap() == large);
}

#[test]
fn a_killed_process_leaves_no_record_without_its_file() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = Store::open(&dir).unwrap();
    let (a, b) = (vec![b'a'; LARGE], vec![b'b'; LARGE]);
    let changes = [begun("r", 1), ended("r", 2, &a), begun("gone", 1), ended("gone", 2, &a)];
    store.apply(&changes, Some(1)).unwrap();
    store.flush().unwrap();
    let killed = |name: &str| {
        let killed = parent.path().join(name);
        copy(&dir, &killed);
        let (store, opened) = Store::open(&killed).unwrap();
        assert_eq!(opened, Opened::Ready, "{name}");
        store.verify().unwrap();
        store
    };
    store.apply(&[begun("r", 9), ended("r", 9, &b)], None).unwrap();
    assert!(killed("replaced").reply(&run_id("r")).unwrap().unwrap() == b);
    assert_eq!(store.drop_runs_until(Timestamp::from_micros(5)).unwrap(), 1);
    assert_eq!(killed("dropped").reply(&run_id("gone")).unwrap(), None);
}

#[test]
fn a_damaged_file_is_damage_of_the_store() {
    let whole = vec![b'a'; LARGE];
    let (mut flipped, mut longer) = (whole.clone(), whole.clone());
    flipped[LARGE / 2] ^= 1;
    longer.push(b'a');
    let damages = [None, Some(flipped), Some(whole[1..].to_vec()), Some(longer), Some(Vec::new())];
    for (number, damage) in damages.into_iter().enumerate() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("store");
        let (store, _) = Store::open(&dir).unwrap();
        store.apply(&[ended("r", 1, &whole)], Some(3)).unwrap();
        let file = files(&dir).remove(0);
        match damage {
            None => fs::remove_file(&file).unwrap(),
            Some(bytes) => fs::write(&file, bytes).unwrap(),
        }
        let found = store.reply(&run_id("r"));
        assert!(matches!(found, Err(Error::Damaged { .. })), "{number}: {found:?}");
        assert!(matches!(store.verify(), Err(Error::Damaged { .. })), "{number}");
        drop(store);
        let (store, opened) = Store::open(&dir).unwrap();
        assert!(matches!(opened, Opened::Replaced { .. }), "{number}: {opened:?}");
        assert_eq!((store.position(), files(&dir).len()), (0, 0), "{number}");
    }
}

#[test]
fn a_file_that_is_damaged_while_the_store_is_closed_is_found_at_the_start() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = Store::open(&dir).unwrap();
    store.apply(&[ended("r", 1, &vec![b'a'; LARGE])], Some(3)).unwrap();
    drop(store);
    fs::write(files(&dir).remove(0), vec![b'b'; LARGE]).unwrap();
    let (store, opened) = Store::open(&dir).unwrap();
    let moved_to = parent.path().join("store.damaged-1");
    assert!(matches!(&opened, Opened::Replaced { .. }), "{opened:?}");
    assert_eq!((store.position(), files(&dir).len(), files(&moved_to).len()), (0, 0, 1));
}

/// A full disk, which writing to this device is like.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_as_one_and_what_was_asked_can_be_made_again() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = Store::open(&dir).unwrap();
    let large = vec![b'a'; LARGE];
    store.apply(&[ended("r", 1, &large)], Some(1)).unwrap();
    let named = files(&dir).remove(0);
    store.apply(&[ended("r", 1, b"small")], Some(2)).unwrap();
    assert_eq!(files(&dir), Vec::<PathBuf>::new());
    let unfinished = format!("{}.new", named.display());
    std::os::unix::fs::symlink("/dev/full", &unfinished).unwrap();
    let full = store.apply(&[ended("r", 1, &large)], Some(3)).unwrap_err();
    assert!(full.is_full(), "{full}");
    assert_eq!((store.position(), files(&dir)), (2, Vec::new()));
    assert_eq!(store.reply(&run_id("r")).unwrap().as_deref(), Some(b"small".as_slice()));
    store.reopen().unwrap();
    store.apply(&[ended("r", 1, &large)], Some(3)).unwrap();
    assert_eq!((store.position(), files(&dir)), (3, vec![named]));
    store.verify().unwrap();
}

#[test]
fn a_run_that_begins_again_has_what_came_of_it_last() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(&dir.path().join("store")).unwrap();
    let large = |byte: u8| vec![byte; LARGE];
    let first = [begun("a", 10), ended("a", 11, &large(1))];
    let second = [begun("a", 12), ended("a", 13, &large(2))];
    for (changes, began, is_over, reply) in [
        (&first[..], 10, true, Some(large(1))),
        (&second[..1], 12, false, None),
        (&second[..1], 12, false, None),
        (&second[..], 12, true, Some(large(2))),
        // What is told again of the first run changes nothing of the second one.
        (&first[..1], 12, true, Some(large(2))),
        (&first[..], 12, true, Some(large(2))),
        (&second[..], 12, true, Some(large(2))),
    ] {
        store.apply(changes, None).unwrap();
        let runs = store.runs(10).unwrap();
        let told: Vec<_> =
            runs.iter().map(|row| (row.begun.at.as_micros(), row.ended.is_some())).collect();
        assert_eq!(told, [(began, is_over)]);
        assert_eq!(store.unfinished().unwrap().len(), usize::from(!is_over));
        assert!(store.reply(&run_id("a")).unwrap() == reply, "{began} {is_over}");
        store.verify().unwrap();
    }
}
