//! Sessions: with whom, since when, and when last.

use serde::{Deserialize, Serialize};
use wire::{Name, SessionId, Timestamp};

use crate::error::Error;
use crate::key::{self, Space};
use crate::page::{newest, row};
use crate::pending::Pending;

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

pub(crate) fn see(
    pending: &mut Pending,
    session: &SessionId,
    agent: &Name,
    at: Timestamp,
    slots: u64,
) -> Result<(), Error> {
    let key = key::session(session);
    let mut row =
        SessionRow { session: session.clone(), agent: agent.clone(), begun: at, at, slots };
    let old = pending.row::<SessionRow>(&key)?;
    if let Some(old) = &old {
        if old.at > at {
            row.agent = old.agent.clone();
        }
        row.begun = row.begun.min(old.begun);
        row.at = row.at.max(old.at);
        row.slots = row.slots.max(old.slots);
    }
    // A session stands at the time that its row tells, and nowhere else.
    let before = old.map(|old| old.at);
    if before != Some(row.at) {
        if let Some(before) = before {
            pending.remove(&key::session_at(before, session))?;
        }
        pending.put_new(key::session_at(row.at, session), &[])?;
    }
    pending.put_row(key, &row)
}

pub(crate) fn forget(pending: &mut Pending, session: &SessionId) -> Result<(), Error> {
    let key = key::session(session);
    let Some(row) = pending.row::<SessionRow>(&key)? else { return Ok(()) };
    pending.remove(&key::session_at(row.at, session))?;
    pending.remove(&key)
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
