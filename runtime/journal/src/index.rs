//! Where the commits of each session stand, kept in memory.

use std::collections::{BTreeMap, HashMap, HashSet};

use wire::SessionId;

use crate::error::Error;
use crate::frame::{Chain, Tag, tag};

/// What is known of all sessions. Sixteen bytes for each commit, some hundred for each session.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Each in a box, since a table that grows is up to twice as large as what stands in it.
    pub(crate) sessions: HashMap<SessionId, Box<Session>>,
    /// Sessions of which no more is left than that there was a commit.
    pub(crate) lost: HashSet<Tag>,
    /// Sessions that were forgotten and whose frames may still be there.
    pub(crate) gone: HashMap<SessionId, Gone>,
    /// The segments, each by its base.
    pub(crate) segments: BTreeMap<u64, Segment>,
    /// The position after the last durable commit.
    pub(crate) end: u64,
    /// The first slot of a session that is not known. It is above every slot of those that were
    /// forgotten, so that no slot is used twice.
    pub(crate) floor: u64,
    /// Counts the segments that were rewritten: what was looked up before may stand elsewhere.
    pub(crate) rewrites: u64,
}

/// Where a frame stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) position: u64,
    pub(crate) length: u32,
}

/// A commit at which the reading of a session may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begin {
    pub(crate) slot: u64,
    /// Its number among the spots.
    pub(crate) spot: usize,
}

/// What is known of one session.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The slot of the first entry that is held.
    pub(crate) first_slot: u64,
    /// The slot after the last durable entry.
    pub(crate) slots: u64,
    /// The slot after the last entry, those that wait for their sync included.
    pub(crate) next: u64,
    /// What the next frame refers to.
    pub(crate) chain: Chain,
    /// Where each commit stands that is held.
    pub(crate) spots: Vec<Spot>,
    /// The commits that hold all that those before them came to.
    pub(crate) begins: Vec<Begin>,
    /// Where the first of its frames may stand, those that are no longer held included.
    pub(crate) oldest: Option<u64>,
    /// Why the session is set aside.
    pub(crate) damage: Option<Box<str>>,
}

/// A session that was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    /// Where the frame stands that says so.
    pub(crate) spot: Spot,
    /// Where the first of the session's frames may stand.
    pub(crate) oldest: u64,
}

/// A segment file.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    /// The position of its end.
    pub(crate) end: u64,
    /// The length of the file.
    pub(crate) bytes: u64,
    /// Where in the file each position stands, if it was rewritten.
    pub(crate) offsets: Option<Vec<(u64, u64)>>,
    /// Bytes of the commits in it that are held, and of the frames that say that a session was
    /// forgotten.
    pub(crate) live_bytes: u64,
    /// Bytes that are no commits of readable sessions, as far as rewriting could not drop them.
    pub(crate) fixed_bytes: u64,
    /// Something in it is no frame; then it stays as it is.
    pub(crate) is_harmed: bool,
    /// It had frames of [`Index::purge`], and is rewritten however few these are.
    pub(crate) is_purged: bool,
}

/// Where the bytes of a position are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) base: u64,
    /// The end of the segment, if it was rewritten, for its file's name.
    pub(crate) kept_end: Option<u64>,
    pub(crate) offset: u64,
}

impl Session {
    /// Adds a durable commit that follows the last one.
    pub(crate) fn push(&mut self, spot: Spot, count: u64, chain: Chain) {
        self.oldest.get_or_insert(spot.position);
        self.spots.push(spot);
        self.slots += count;
        self.next = self.next.max(self.slots);
        self.chain = chain;
    }

    /// Notes that the commit that comes next holds all that those before came to.
    pub(crate) fn begin(&mut self, slot: u64) {
        if self.spots.is_empty() {
            self.first_slot = slot;
            self.slots = slot;
        }
        self.begins.push(Begin { slot, spot: self.spots.len() });
    }

    /// Starts over; only where its first frame may stand is still known.
    pub(crate) fn reset(&mut self) {
        *self = Self { oldest: self.oldest, ..Self::default() };
    }

    /// No longer holds what stands before a commit that begins; returns that, none if there is no
    /// such commit.
    pub(crate) fn retire(&mut self, slot: u64) -> Option<Vec<Spot>> {
        let number = self.begins.iter().position(|begin| begin.slot == slot)?;
        self.begins.drain(..number);
        let count = self.begins.first().map_or(0, |begin| begin.spot);
        let dropped = self.spots.drain(..count).collect();
        for begin in &mut self.begins {
            begin.spot -= count;
        }
        self.first_slot = slot;
        Some(dropped)
    }

    /// Returns the commits after the last one that begins, all if none does.
    pub(crate) fn since_begin(&self) -> &[Spot] {
        let from = self.begins.last().map_or(0, |begin| begin.spot + 1);
        self.spots.get(from..).unwrap_or_default()
    }

    pub(crate) fn holds(&self, position: u64) -> bool {
        self.spots.binary_search_by_key(&position, |spot| spot.position).is_ok()
    }
}

impl Index {
    /// Fails if the session is set aside.
    pub(crate) fn check(&self, session: &SessionId) -> Result<(), Error> {
        let found = self.sessions.get(session);
        let what = match found {
            Some(found) => found.damage.as_deref(),
            None if !self.is_lost(session) => None,
            None => Some("its entries are lost"),
        };
        what.map_or(Ok(()), |what| {
            Err(Error::Damaged { session: session.clone(), what: what.to_owned() })
        })
    }

    fn is_lost(&self, session: &SessionId) -> bool {
        !self.lost.is_empty() && self.lost.contains(&tag(session))
    }

    /// Sets a session aside; the first reason stays.
    pub(crate) fn set_aside(&mut self, session: &SessionId, what: &str) {
        let found = self.sessions.entry(session.clone()).or_default();
        found.damage.get_or_insert_with(|| what.into());
    }

    /// Forgets a session by a frame that says so.
    pub(crate) fn forget(&mut self, session: &SessionId, spot: Spot) {
        let found = self.sessions.remove(session);
        for spot in found.iter().flat_map(|found| &found.spots) {
            self.release(*spot);
        }
        let found = found.and_then(|found| found.oldest);
        let before = self.gone.get(session).copied();
        if let Some(before) = before {
            self.release(before.spot);
        }
        let before = before.map(|gone| gone.oldest);
        let oldest = found.into_iter().chain(before).min().unwrap_or(spot.position);
        self.gone.insert(session.clone(), Gone { spot, oldest });
        self.hold(spot);
        self.floor = self.floor.max(spot.position);
    }

    /// Holds no longer what a session has before a commit that begins; returns that, none if there
    /// is no such commit.
    pub(crate) fn retire(&mut self, session: &SessionId, slot: u64) -> Option<Vec<Spot>> {
        let dropped = self.sessions.get_mut(session)?.retire(slot)?;
        for spot in &dropped {
            self.release(*spot);
        }
        Some(dropped)
    }

    /// Retires what a session has before a slot, so that nothing of it stays. Tells whether reading
    /// may begin there.
    pub(crate) fn purge(&mut self, session: &SessionId, slot: u64) -> bool {
        let Some(dropped) = self.retire(session, slot) else { return false };
        for spot in dropped {
            if let Some(segment) = self.segment_of(spot) {
                segment.is_purged = true;
            }
        }
        true
    }

    fn segment_of(&mut self, spot: Spot) -> Option<&mut Segment> {
        self.segments.range_mut(..=spot.position).next_back().map(|(_, segment)| segment)
    }

    /// Counts a frame that is held.
    pub(crate) fn hold(&mut self, spot: Spot) {
        if let Some(segment) = self.segment_of(spot) {
            segment.live_bytes += u64::from(spot.length);
        }
    }

    /// Counts a frame that is held no longer.
    pub(crate) fn release(&mut self, spot: Spot) {
        if let Some(segment) = self.segment_of(spot) {
            segment.live_bytes = segment.live_bytes.saturating_sub(u64::from(spot.length));
        }
    }

    /// Counts what is held of all segments anew, after a scan that did not.
    pub(crate) fn count_live(&mut self) {
        let live = self.live_bytes();
        for (base, segment) in &mut self.segments {
            segment.live_bytes = live.get(base).copied().unwrap_or_default();
        }
    }

    /// Tells whether a frame of a session must stay if a segment at `base` is rewritten.
    pub(crate) fn is_live(&self, session: &SessionId, position: u64, base: u64) -> bool {
        if let Some(gone) = self.gone.get(session)
            && gone.spot.position == position
        {
            // Older frames would bring the session back.
            return gone.oldest < base;
        }
        match self.sessions.get(session) {
            Some(found) => found.damage.is_some() || found.holds(position),
            None => self.is_lost(session),
        }
    }

    /// Returns the slot that the next entry of a session gets.
    pub(crate) fn next_slot(&self, session: &SessionId) -> u64 {
        self.sessions.get(session).map_or(self.floor, |found| found.next)
    }

    /// Returns the bytes of each segment that are held, by its base. Goes through all commits.
    pub(crate) fn live_bytes(&self) -> BTreeMap<u64, u64> {
        let mut live: BTreeMap<u64, u64> = self.segments.keys().map(|base| (*base, 0)).collect();
        let held = self.sessions.values().flat_map(|session| &session.spots);
        for spot in held.chain(self.gone.values().map(|gone| &gone.spot)) {
            if let Some((_, bytes)) = live.range_mut(..=spot.position).next_back() {
                *bytes += u64::from(spot.length);
            }
        }
        live
    }

    /// Returns the sessions that can be read and pass a test, in order of their ids.
    pub(crate) fn readable(&self, test: impl Fn(&Session) -> bool) -> Vec<SessionId> {
        let mut sessions: Vec<SessionId> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.damage.is_none() && !session.spots.is_empty())
            .filter(|(_, session)| test(session))
            .map(|(id, _)| id.clone())
            .collect();
        sessions.sort_unstable();
        sessions
    }

    /// Finds the bytes of a position.
    pub(crate) fn locate(&self, position: u64) -> Option<Location> {
        let (base, segment) = self.segments.range(..=position).next_back()?;
        if position >= segment.end {
            return None;
        }
        let (kept_end, offset) = match &segment.offsets {
            None => (None, position - base),
            Some(offsets) => {
                let found = offsets.binary_search_by_key(&position, |(at, _)| *at).ok()?;
                (Some(segment.end), offsets.get(found)?.1)
            }
        };
        Some(Location { base: *base, kept_end, offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> SessionId {
        SessionId::new(text).unwrap()
    }

    fn spot(position: u64) -> Spot {
        Spot { position, length: 10 }
    }

    #[test]
    fn a_session_holds_what_stands_at_and_after_its_begin() {
        let mut session = Session::default();
        session.push(spot(0), 2, [1; 16]);
        session.push(spot(10), 1, [2; 16]);
        session.begin(3);
        session.push(spot(20), 1, [3; 16]);
        session.push(spot(30), 1, [4; 16]);
        assert_eq!(session.retire(2), None, "nothing begins there");
        assert_eq!(session.retire(3), Some(vec![spot(0), spot(10)]));
        assert_eq!((session.first_slot, session.slots, session.oldest), (3, 5, Some(0)));
        assert_eq!(session.spots, [spot(20), spot(30)]);
        assert_eq!(session.begins, [Begin { slot: 3, spot: 0 }]);
        assert!(session.holds(20) && !session.holds(10));
    }

    #[test]
    fn a_place_in_the_table_of_sessions_takes_no_more_than_an_id_and_a_pointer() {
        fn place<K, V>(_: &HashMap<K, V>) -> usize {
            size_of::<(K, V)>()
        }
        let index = Index::default();
        assert_eq!(place(&index.sessions), size_of::<SessionId>() + size_of::<usize>());
    }

    #[test]
    fn a_forgotten_session_leaves_its_mark_until_its_frames_are_gone() {
        let mut index = Index::default();
        index.sessions.entry(id("a")).or_default().push(spot(100), 4, [0; 16]);
        assert_eq!((index.next_slot(&id("a")), index.next_slot(&id("b"))), (4, 0));
        index.forget(&id("a"), spot(300));
        assert_eq!((index.next_slot(&id("a")), index.next_slot(&id("b"))), (300, 300));
        assert!(index.is_live(&id("a"), 300, 200), "a frame stands below");
        assert!(!index.is_live(&id("a"), 300, 100), "all of it is rewritten");
        assert!(!index.is_live(&id("a"), 100, 0));
    }
}
