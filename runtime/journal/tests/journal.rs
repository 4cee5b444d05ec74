//! What a journal promises while nothing goes wrong.

#![cfg(test)]

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use journal::{Error, Journal, Options, Stored, verify};
use wire::{Digest, ErrorCode, SessionId};

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn open(dir: &tempfile::TempDir) -> Journal {
    let (journal, report) = Journal::open(dir.path(), Options::default()).unwrap();
    assert_eq!(report.damage, []);
    journal
}

#[tokio::test]
async fn entries_come_back_in_the_order_of_their_slots() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(&dir);
    let (a, b) = (id("a"), id("b"));
    assert_eq!(journal.append(&a, 0, Vec::new()).await.unwrap(), journal.end(), "nothing to do");
    journal.append(&a, 0, vec!["a0".into(), "a1".into()]).await.unwrap();
    let before_b = journal.end();
    let end = journal.append(&b, 0, vec!["b0".into()]).await.unwrap();
    assert_eq!(end, journal.end());

    for reopened in [false, true] {
        let journal = if reopened { open(&dir) } else { journal.clone() };
        assert_eq!(journal.read(&a).unwrap(), ["a0", "a1"]);
        assert_eq!(journal.read(&b).unwrap(), ["b0"]);
        assert_eq!(journal.read(&id("nobody")).unwrap(), Vec::<Bytes>::new());
        assert_eq!((journal.slots(&a), journal.slots(&id("nobody"))), (2, 0));
        assert_eq!(journal.sessions(), [a.clone(), b.clone()]);
        assert_eq!(journal.touched_since(0), [a.clone(), b.clone()]);
        assert_eq!(journal.touched_since(before_b), std::slice::from_ref(&b));
        assert_eq!(journal.touched_since(end), []);
        if !reopened {
            assert!(matches!(
                Journal::open(dir.path(), Options::default()),
                Err(Error::InUse { holder: None, .. })
            ));
            journal.close();
        }
    }
}

#[tokio::test]
async fn a_slot_is_given_once() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(&dir);
    let a = id("a");
    for (slot, expected) in [(1, Some(0)), (0, None), (0, Some(1)), (2, Some(1)), (1, None)] {
        let result = journal.append(&a, slot, vec!["x".into()]).await;
        match (result, expected) {
            (Ok(_), None) => {}
            (Err(Error::SlotTaken { expected, found, .. }), Some(wanted)) => {
                assert_eq!((expected, found), (wanted, slot));
            }
            (result, _) => panic!("slot {slot}: {result:?}"),
        }
    }
    // Two that wait at once: the second one counts on the first one's slot.
    let both = tokio::join!(
        journal.append(&a, 2, vec!["y".into()]),
        journal.append(&a, 3, vec!["z".into()])
    );
    assert!(matches!(both, (Ok(_), Ok(_))), "{both:?}");
    assert_eq!(journal.read(&a).unwrap(), ["x", "x", "y", "z"]);
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { commit_entries_max: 2, commit_bytes_max: 100, ..Options::default() };
    let (journal, _) = Journal::open(dir.path(), options).unwrap();
    let a = id("a");
    let cases = [(vec!["x".into(); 3], "entries"), (vec![vec![0; 60].into(); 2], "bytes")];
    for (entries, expected) in cases {
        let error = journal.append(&a, 0, entries).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { unit, .. } if unit == expected), "{error}");
        assert_eq!(error.to_wire().code, ErrorCode::TooLarge);
    }
    journal.append(&a, 0, vec!["x".into(); 2]).await.unwrap();
    assert_eq!(journal.slots(&a), 2);
}

#[tokio::test]
async fn large_entries_are_blobs_and_a_bad_blob_touches_its_session_alone() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(&dir);
    let large = Bytes::from(vec![7; 200_000]);
    for name in ["missing", "bad"] {
        let mut own = large.to_vec();
        own.extend_from_slice(name.as_bytes());
        let entries = vec!["small".into(), own.clone().into()];
        journal.append(&id(name), 0, entries).await.unwrap();
        assert_eq!(journal.read(&id(name)).unwrap(), [&b"small"[..], &own]);
        let digest = journal.put_blob(&own).unwrap();
        assert_eq!(journal.blob(&digest).unwrap(), own);
        let path = dir.path().join(format!("blobs/{:.2}/{digest}", digest.to_string()));
        match name {
            "missing" => fs::remove_file(path).unwrap(),
            _ => fs::write(path, b"other").unwrap(),
        }
    }
    journal.append(&id("whole"), 0, vec![large.clone().into()]).await.unwrap();
    assert!(journal.end() < 2_000, "the segment holds the names alone");

    let report = verify(dir.path(), &mut |_, _| ()).unwrap();
    let named: Vec<_> = report.damage.iter().flat_map(|damage| damage.sessions.clone()).collect();
    assert_eq!(named, [id("bad"), id("missing")]);
    for name in ["missing", "bad"] {
        let error = journal.read(&id(name)).unwrap_err();
        assert!(matches!(&error, Error::Damaged { session, .. } if *session == id(name)));
        assert_eq!(error.to_wire().code, ErrorCode::JournalDamaged);
        let refused = journal.append(&id(name), 2, vec!["x".into()]).await;
        assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
    }
    assert_eq!(journal.damaged().len(), 2);
    assert_eq!(journal.read(&id("whole")).unwrap(), [large]);
}

#[tokio::test]
async fn an_entry_that_is_written_to_its_blob_is_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(&dir);
    let large = vec![7; 200_000];
    // Twice: one that is there is found whole.
    for slot in 0..2 {
        let stored =
            journal.put_entry(|out| large.chunks(999).try_for_each(|part| out.write_all(part)));
        let stored = stored.unwrap();
        assert_eq!(stored, Stored::Blob(journal.put_blob(&large).unwrap()));
        journal.append(&id("a"), slot, vec![stored]).await.unwrap();
    }
    assert_eq!(journal.read(&id("a")).unwrap(), [&*large, &*large]);
    let written = || fs::read_dir(dir.path().join("blobs/new")).unwrap().count();
    assert_eq!(written(), 0);
    let part = vec![0; 1 << 20];
    let endless = |out: &mut dyn Write| (0..100).try_for_each(|_| out.write_all(&part));
    let error = journal.put_entry(endless).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert_eq!(written(), 0);
    assert!(!journal.failed());
}

#[tokio::test]
async fn a_blob_that_cannot_be_read_at_present_damages_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(&dir);
    let large = Bytes::from(vec![7; 200_000]);
    journal.append(&id("a"), 0, vec![large.clone().into()]).await.unwrap();
    let digest = journal.put_blob(&large).unwrap();
    let path = dir.path().join(format!("blobs/{:.2}/{digest}", digest.to_string()));
    let aside = dir.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    fs::create_dir(&path).unwrap();
    let error = journal.read(&id("a")).unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error}");
    fs::remove_dir(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    assert_eq!(journal.read(&id("a")).unwrap(), [large]);
    assert!(journal.damaged().is_empty());
}

#[tokio::test]
async fn a_segment_that_cannot_be_read_at_present_damages_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(&dir);
    journal.append(&id("a"), 0, vec!["a0".into()]).await.unwrap();
    let segments = fs::read_dir(dir.path().join("journal")).unwrap();
    let mut segments = segments.map(|entry| entry.unwrap().path());
    let path = segments.find(|path| path.extension().is_some_and(|name| name == "log")).unwrap();
    let aside = dir.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    // It opens, and every read of it fails.
    fs::create_dir(&path).unwrap();
    let error = journal.read(&id("a")).unwrap_err();
    assert!(matches!(error, Error::File { doing: "read", .. }), "{error}");
    fs::remove_dir(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    assert_eq!(journal.read(&id("a")).unwrap(), ["a0"]);
    assert!(journal.damaged().is_empty());

    // What is not there is another matter.
    fs::File::options().write(true).open(&path).unwrap().set_len(1).unwrap();
    assert!(matches!(journal.read(&id("a")), Err(Error::Damaged { .. })));
    assert_eq!(journal.damaged().len(), 1);
}

#[tokio::test]
async fn what_an_unread_entry_may_name_is_not_swept() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        None,
        Unreadable,
        Missing,
        Bad,
    }
    for fault in [Fault::None, Fault::Unreadable, Fault::Missing, Fault::Bad] {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(&dir);
        let path =
            |digest: Digest| dir.path().join(format!("blobs/{:.2}/{digest}", digest.to_string()));
        let plan = journal.put_blob(b"plan").unwrap();
        let other = journal.put_blob(b"other").unwrap();
        let mut entry = plan.to_string().into_bytes();
        entry.resize(200_000, b' ');
        journal.append(&id("a"), 0, vec![entry.clone().into()]).await.unwrap();
        drop(journal);
        let journal = open(&dir);
        let entry = path(Digest::of(&entry));
        match fault {
            Fault::None => {}
            Fault::Unreadable => {
                fs::remove_file(&entry).unwrap();
                fs::create_dir(&entry).unwrap();
            }
            Fault::Missing => fs::remove_file(&entry).unwrap(),
            Fault::Bad => fs::write(&entry, b"bad").unwrap(),
        }
        let mut refers = |entry: &[u8], found: &mut HashSet<Digest>| {
            let name = String::from_utf8_lossy(entry).into_owned();
            found.extend(name.trim().parse::<Digest>());
        };
        let swept = journal.sweep_blobs(HashSet::new(), &mut refers, &|blob| blob == b"plan");
        assert_eq!(swept.unwrap().removed, 1, "{fault:?}");
        assert!(!path(other).exists(), "{fault:?}");
        assert!(path(plan).exists(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_closed_journal_takes_nothing_more_and_has_not_failed() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(&dir);
    let other = journal.clone();
    journal.append(&id("a"), 0, vec!["x".into()]).await.unwrap();
    journal.close();
    let refused = other.append(&id("a"), 1, vec!["y".into()]).await.unwrap_err();
    assert!(matches!(refused, Error::Stopped));
    assert_eq!(refused.to_wire().code, ErrorCode::StorageFailed);
    assert!(!other.failed());
    assert_eq!(other.read(&id("a")).unwrap(), ["x"], "it can still be read");
    drop(other);
    assert_eq!(open(&dir).slots(&id("a")), 1);
}

#[tokio::test]
async fn a_journal_is_closed_when_nobody_sweeps_it_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(&dir);
    journal.append(&id("a"), 0, vec!["x".into()]).await.unwrap();
    let blob = journal.put_blob(b"blob").unwrap();
    let (sweeping, began) = mpsc::channel();
    let (go_on, gate) = mpsc::channel::<()>();
    let is_over = Arc::new(AtomicBool::new(false));
    let (sweeper, over) = (journal.clone(), is_over.clone());
    let sweep = thread::spawn(move || {
        let mut refers = |_: &[u8], _: &mut HashSet<Digest>| {
            sweeping.send(()).unwrap();
            gate.recv().unwrap();
            over.store(true, Ordering::SeqCst);
        };
        sweeper.sweep_blobs(HashSet::new(), &mut refers, &|_| false)
    });
    began.recv().unwrap();
    let closing = journal.clone();
    let close = thread::spawn(move || closing.close());
    // Until it takes nothing more.
    let mut slot = 0;
    while journal.append(&id("b"), slot, vec!["y".into()]).await.is_ok() {
        slot += 1;
    }
    // The thread that writes has ended by then, or ends in no time.
    thread::sleep(Duration::from_millis(100));
    assert!(!close.is_finished(), "it is closed while it is swept");
    go_on.send(()).unwrap();
    close.join().unwrap();
    assert!(is_over.load(Ordering::SeqCst), "the files may be another's while they are swept");
    let swept = sweep.join().unwrap();
    assert!(matches!(swept, Err(Error::Stopped)), "{swept:?}");
    assert!(matches!(journal.rewrite_next(), Err(Error::Stopped)));
    assert_eq!(journal.blob(&blob).unwrap(), "blob");
}

/// Random appends from many tasks over small segments, reopened now and then, against a map.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_is_a_map_of_lists() {
    let dir = tempfile::tempdir().unwrap();
    let mut model: BTreeMap<SessionId, Vec<Bytes>> = BTreeMap::new();
    for start in 0..4_u64 {
        let options =
            Options { segment_bytes_max: 8 << 10, blob_bytes_min: 700, ..Options::default() };
        let (journal, report) = Journal::open(dir.path(), options).unwrap();
        assert_eq!((report.damage, report.torn_tail_bytes), (Vec::new(), 0));
        let writers = (0..20_u64).map(|writer| {
            let (journal, session) = (journal.clone(), id(&format!("s-{}", writer + start * 7)));
            tokio::spawn(async move {
                let mut written = Vec::new();
                let first = journal.slots(&session);
                for round in 0..15 {
                    let entries: Vec<Bytes> = (0..=(writer + round as u64) % 3)
                        .map(|n| format!("{writer} {round} {n} ").repeat(round * 8))
                        .map(Bytes::from)
                        .collect();
                    let slot = first + written.len() as u64;
                    let stored = entries.iter().cloned().map(Stored::from).collect();
                    journal.append(&session, slot, stored).await.unwrap();
                    written.extend(entries);
                }
                (session, written)
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            let (session, written) = writer.await.unwrap();
            model.entry(session).or_default().extend(written);
        }
        assert_eq!(journal.sessions(), model.keys().cloned().collect::<Vec<_>>());
        for (session, entries) in &model {
            assert_eq!(journal.read(session).unwrap(), *entries, "{session}");
        }
        if start % 2 == 0 {
            journal.close();
        }
    }
    let report = verify(dir.path(), &mut |_, _| ()).unwrap();
    assert_eq!(report.entries, model.values().map(|entries| entries.len() as u64).sum::<u64>());
    assert_eq!(report.damage, []);
    assert!(report.segments > 10, "{report:?}");
}
