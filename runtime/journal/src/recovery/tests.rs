//! Logs made frame by frame: which bad bytes are torn, which are damage, and whose.

use std::fs;

use bytes::Bytes;

use super::*;
use crate::frame::{Chain, Stored};

/// Writes a log into memory; each commit has one entry.
#[derive(Default)]
struct Log {
    place: Place,
    bytes: Vec<u8>,
    /// Where each commit begins and ends.
    spans: Vec<(usize, usize)>,
    chains: HashMap<u64, (u64, Chain)>,
}

impl Log {
    fn new() -> Self {
        let mut log = Self::default();
        log.place.epoch = 1;
        frame::write(&mut log.bytes, Kind::Segment, &log.place, "", |_| ());
        log
    }

    /// Appends one commit to each session, all under one sync.
    fn group(mut self, sessions: &[u64]) -> Self {
        self.place.synced_to = self.bytes.len() as u64;
        for session in sessions {
            let (from, entry) = (self.bytes.len(), [Stored::Inline(Bytes::from_static(b"{}"))]);
            self.place.position = from as u64;
            let (slot, prev) = self.chains.get(session).copied().unwrap_or_default();
            frame::write_commit(
                &mut self.bytes,
                Kind::Commit,
                &self.place,
                &id(*session),
                slot,
                prev,
                &entry,
            );
            let chain = frame::chain(&self.bytes[from..]);
            self.chains.insert(*session, (slot + 1, chain));
            push_recent(&mut self.place.recent, frame::tag(&id(*session)));
            self.place.number += 1;
            self.spans.push((from, self.bytes.len()));
        }
        self
    }

    /// Makes some commits unreadable.
    fn without(mut self, commits: impl IntoIterator<Item = usize>) -> Self {
        for commit in commits {
            let (from, to) = self.spans[commit];
            self.bytes[from..to].fill(0);
        }
        self
    }

    fn scan(&self) -> Scan {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(segment::name(0)), &self.bytes).unwrap();
        frontier::store(dir.path(), &frontier::encode(&Index::default(), &Place::default()))
            .unwrap();
        scan(dir.path()).unwrap()
    }
}

fn id(number: u64) -> SessionId {
    SessionId::new(&format!("s-{number}")).unwrap()
}

fn aside(scan: &Scan) -> Vec<SessionId> {
    let damaged = scan.index.sessions.iter().filter(|(_, found)| found.damage.is_some());
    let mut sessions: Vec<SessionId> = damaged.map(|(session, _)| session.clone()).collect();
    sessions.sort_unstable();
    sessions
}

struct Case<'a> {
    name: &'a str,
    /// The sessions that commit under each sync.
    groups: &'a [&'a [u64]],
    /// The commits that are bad.
    bad: Vec<usize>,
    /// The entries that can be read.
    entries: u64,
    /// The places that are reported as damaged.
    damage: usize,
    /// The sessions that are set aside.
    aside: Vec<u64>,
    /// The sessions of which nothing is left.
    lost: usize,
}

#[test]
fn bad_bytes_are_torn_or_damage_by_what_was_durable() {
    const THIRTY: &[u64] = &[
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
        25, 26, 27, 28, 29,
    ];
    let case = |name, groups, bad, entries| Case {
        name,
        groups,
        bad,
        entries,
        damage: 0,
        aside: Vec::new(),
        lost: 0,
    };
    let cases = [
        case("nothing", &[&[1, 2], &[1]], vec![], 3),
        case("the end of the last sync", &[&[1, 2], &[1, 2]], vec![3], 3),
        case("the middle of the last sync", &[&[1], &[1, 2, 3]], vec![2], 2),
        Case {
            damage: 1,
            aside: vec![1],
            ..case("an earlier sync, whose session goes on", &[&[1, 2], &[1], &[2]], vec![0], 2)
        },
        Case {
            damage: 1,
            aside: vec![1],
            ..case("an earlier sync, whose session ends", &[&[1], &[2], &[1], &[3]], vec![2], 2)
        },
        Case {
            damage: 1,
            lost: 1,
            ..case("an earlier sync and the last", &[&[1], &[2], &[3, 3]], vec![1, 3], 2)
        },
        Case {
            damage: 1,
            lost: RECENT,
            ..case("as many as are named", &[THIRTY, &[0], &[40]], (6..30).collect(), 8)
        },
        // Session 40 and session 0 wrote nothing afterwards, so they cannot prove that they lost
        // nothing; session 1 has a gap, which the hole explains.
        Case {
            damage: 1,
            aside: vec![0, 1, 40],
            lost: RECENT,
            ..case("more than are named", &[&[40], THIRTY, &[1], &[50]], (2..31).collect(), 1)
        },
    ];
    for case in cases {
        let log = case.groups.iter().fold(Log::new(), |log, group| log.group(group));
        let scan = log.without(case.bad).scan();
        let set_aside: Vec<SessionId> = case.aside.into_iter().map(id).collect();
        let Report { entries, damage, .. } = &scan.report;
        let found = (*entries, damage.len(), aside(&scan), scan.index.lost.len());
        let wanted = (case.entries, case.damage, set_aside, case.lost);
        assert_eq!(found, wanted, "{}: {:?}", case.name, scan.report);
    }
}

#[test]
fn a_session_of_which_nothing_is_left_is_not_begun_again() {
    let scan = Log::new().group(&[1]).group(&[2]).without([0]).scan();
    assert!(matches!(scan.index.check(&id(1)), Err(Error::Damaged { .. })));
    assert!(scan.index.check(&id(2)).is_ok());
    assert!(scan.index.check(&id(3)).is_ok());
}

#[test]
fn a_frame_that_does_not_follow_sets_its_session_aside() {
    let whole = Log::new().group(&[1]).group(&[2]);
    let forged = |change: fn(&mut Log)| {
        let mut log = Log::new().group(&[1]).group(&[2]);
        change(&mut log);
        log.group(&[1]).scan()
    };
    assert_eq!(aside(&whole.scan()), []);
    let cases = [
        ("slot 1 is missing", forged(|log| log.chains.get_mut(&1).unwrap().0 += 1)),
        ("slot 1 does not follow", forged(|log| log.chains.get_mut(&1).unwrap().1[0] ^= 1)),
        ("slot 1 was written by an earlier", forged(|log| log.place.epoch = 0)),
    ];
    for (what, scan) in cases {
        assert_eq!(aside(&scan), [id(1)], "{what}");
        assert!(scan.report.damage[0].what.starts_with(what), "{:?}", scan.report);
    }
}
