//! Sessions: with whom, since when, and when last.

use serde::{Deserialize, Serialize};
use wire::{Name, SessionId, Timestamp};

use crate::error::Error;
use crate::key::{self, Space};
use crate::page::{newest, row};
use crate::pending::Pending;
use crate::rows::{Place, Row, Rows};

/// One session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// The session.
    pub session: SessionId,
    /// The agent that it is held with.
    pub agent: Name,
    /// When it was first seen.
    pub begun: Timestamp,
    /// When it was last active.
    pub at: Timestamp,
    /// How many entries its journal has.
    pub slots: u64,
}

impl Row for SessionRow {
    type Id = SessionId;

    fn key(id: &SessionId) -> Vec<u8> {
        key::session(id)
    }

    fn places(&self, id: &SessionId) -> Result<Vec<Place>, Error> {
        Ok(vec![(key::session_at(self.at, id), Vec::new())])
    }
}

pub(crate) fn see<'s>(
    pending: &mut Pending,
    sessions: &mut Rows<'s, SessionRow>,
    session: &'s SessionId,
    agent: &Name,
    at: Timestamp,
    slots: u64,
) -> Result<(), Error> {
    match sessions.get(pending, session)?.change() {
        Some(row) => {
            if row.at <= at {
                row.agent = agent.clone();
            }
            row.begun = row.begun.min(at);
            row.at = row.at.max(at);
            row.slots = row.slots.max(slots);
        }
        absent => {
            let (session, agent) = (session.clone(), agent.clone());
            *absent = Some(SessionRow { session, agent, begun: at, at, slots });
        }
    }
    Ok(())
}

pub(crate) fn forget<'s>(
    pending: &mut Pending,
    sessions: &mut Rows<'s, SessionRow>,
    session: &'s SessionId,
) -> Result<(), Error> {
    *sessions.get(pending, session)?.change() = None;
    Ok(())
}

/// Returns the sessions that were last active at a time or before, the longest ago first.
pub(crate) fn quiet_since(tree: &sled::Tree, cutoff: Timestamp) -> Result<Vec<SessionId>, Error> {
    let mut sessions = Vec::new();
    for entry in tree.range(key::until(Space::SessionAt, cutoff)).keys() {
        let key = entry.map_err(|error| Error::engine("list sessions", error))?;
        let id = std::str::from_utf8(key::id_of(&key)).ok().and_then(|id| SessionId::new(id).ok());
        sessions.extend(id);
    }
    Ok(sessions)
}

pub(crate) fn one(tree: &sled::Tree, session: &SessionId) -> Result<Option<SessionRow>, Error> {
    row(tree, &key::session(session))
}

pub(crate) fn list(tree: &sled::Tree, limit: usize) -> Result<Vec<SessionRow>, Error> {
    newest(tree, Space::SessionAt, limit, |id| row(tree, &Space::Session.key(&[id])))
}
