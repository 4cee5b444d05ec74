//! Where the commits of each session stand, kept in memory.

use std::collections::{BTreeMap, HashMap, HashSet};

use wire::SessionId;

use crate::error::Error;
use crate::frame::{Chain, Tag, tag};

/// What is known of all sessions. Eight bytes for each commit, some hundred for each session.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) sessions: HashMap<SessionId, Session>,
    /// Sessions of which no more is left than that there was a commit.
    pub(crate) lost: HashSet<Tag>,
    /// The segments, each by its base and the position of its end.
    pub(crate) segments: BTreeMap<u64, u64>,
    /// The position after the last durable commit.
    pub(crate) end: u64,
}

/// What is known of one session.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Durable entries.
    pub(crate) slots: u64,
    /// Entries, with those that wait for their sync.
    pub(crate) next: u64,
    /// What the next frame refers to.
    pub(crate) chain: Chain,
    /// Where each commit stands.
    pub(crate) positions: Vec<u64>,
    /// Why the session is set aside.
    pub(crate) damage: Option<Box<str>>,
}

impl Session {
    /// Adds a durable commit.
    pub(crate) fn push(&mut self, position: u64, count: u64, chain: Chain) {
        self.positions.push(position);
        self.slots += count;
        self.next = self.next.max(self.slots);
        self.chain = chain;
    }
}

impl Index {
    /// Fails if the session is set aside.
    pub(crate) fn check(&self, session: &SessionId) -> Result<(), Error> {
        let found = self.sessions.get(session);
        let what = match found {
            Some(found) => found.damage.as_deref(),
            None if self.lost.is_empty() || !self.lost.contains(&tag(session)) => None,
            None => Some("its entries are lost"),
        };
        what.map_or(Ok(()), |what| {
            Err(Error::Damaged { session: session.clone(), what: what.to_owned() })
        })
    }

    /// Sets a session aside; the first reason stays.
    pub(crate) fn set_aside(&mut self, session: &SessionId, what: &str) {
        let found = self.sessions.entry(session.clone()).or_default();
        found.damage.get_or_insert_with(|| what.into());
    }

    /// Returns the sessions that can be read and pass a test, in order of their ids.
    pub(crate) fn readable(&self, test: impl Fn(&Session) -> bool) -> Vec<SessionId> {
        let mut sessions: Vec<SessionId> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.damage.is_none() && session.slots > 0)
            .filter(|(_, session)| test(session))
            .map(|(id, _)| id.clone())
            .collect();
        sessions.sort_unstable();
        sessions
    }

    /// Returns the segment in which a position stands, by its base and its end.
    pub(crate) fn segment(&self, position: u64) -> Option<(u64, u64)> {
        let (base, end) = self.segments.range(..=position).next_back()?;
        (position < *end).then_some((*base, *end))
    }
}
