//! Runs: how they began, how they ended, and what was replied.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use wire::run::Parent;
use wire::{Digest, Name, RunId, RunStatus, SessionId, Timestamp, TraceContext};

use crate::error::Error;
use crate::key::{self, Space};
use crate::page::{LIST_MAX, newest, row};
use crate::pending::{Pending, get_reply};
use crate::replies::Replies;
use crate::usage;

/// The most characters of a run's input that its row shows; the journal has all of it.
pub const INPUT_PREVIEW_CHARS_MAX: usize = 200;

/// The begin of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBegun {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
    /// The agent that was asked.
    pub agent: Name,
    /// Hash of what the client sent, to tell a repetition from a conflict.
    pub body: Digest,
    /// When it was accepted.
    pub at: Timestamp,
    /// The input, cut to [`INPUT_PREVIEW_CHARS_MAX`] when stored.
    pub input: String,
    /// The span of the run in its trace.
    pub trace: TraceContext,
    /// The run that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The run that the message joined, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<RunId>,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// When it ended.
    pub at: Timestamp,
    /// How it ended.
    pub status: RunStatus,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// How it began.
    pub begun: RunBegun,
    /// How it ended; absent while it is in work.
    pub ended: Option<RunEnd>,
}

pub(crate) fn begin(pending: &mut Pending, begun: &RunBegun) -> Result<(), Error> {
    let key = key::run(&begun.run);
    let before = pending.row::<RunBegun>(&key)?.map(|old| old.at);
    // A run stands at the time that its row tells, and nowhere else.
    if before != Some(begun.at) {
        if let Some(before) = before {
            pending.remove(&key::run_at(before, &begun.run))?;
        }
        pending.put_new(key::run_at(begun.at, &begun.run), &[])?;
    }
    let mut begun = begun.clone();
    if let Some((end, _)) = begun.input.char_indices().nth(INPUT_PREVIEW_CHARS_MAX) {
        begun.input.truncate(end);
    }
    // A run may be told of again after it has ended.
    if pending.row::<RunEnd>(&key::run_end(&begun.run))?.is_none() {
        let open = key::open(&begun.run);
        // None is open without a row.
        if before.is_none() {
            pending.put_new_row(open, &begun.session)?;
        } else {
            pending.put_row(open, &begun.session)?;
        }
    }
    pending.put_row(key, &begun)
}

pub(crate) fn end(
    pending: &mut Pending,
    run: &RunId,
    end: RunEnd,
    reply: &[u8],
) -> Result<(), Error> {
    // The journal tells again of what was dropped for as long as its session goes on with it.
    if Some(end.at) <= pending.state.runs_dropped_until
        && let Some(begun) = pending.row::<RunBegun>(&key::run(run))?
        && !is_asked(pending, &begun)?
    {
        return remove(pending, &begun);
    }
    pending.remove(&key::open(run))?;
    let key = key::run_end(run);
    // An end and its reply come and go together.
    if pending.has(&key)? {
        pending.put_reply(key::reply(run), reply)?;
    } else {
        pending.put_new_reply(key::reply(run), reply)?;
    }
    pending.put_row(key, &end)
}

/// The most runs that are dropped at once, so that no batch waits long for it.
const DROPPED_AT_ONCE_MAX: usize = 200;

/// Drops runs that ended at a time or before, up to a limit; returns how many. One that a run in
/// work asked for stays, since that run may ask for it again.
pub(crate) fn drop_until(
    tree: &sled::Tree,
    pending: &mut Pending,
    cutoff: Timestamp,
) -> Result<u64, Error> {
    let mut dropped = 0;
    for entry in tree.range(key::until(Space::RunAt, cutoff)).keys() {
        if dropped >= DROPPED_AT_ONCE_MAX as u64 {
            break;
        }
        let by_time = entry.map_err(|error| Error::engine("drop old runs", error))?;
        let id = key::id_of(&by_time);
        let ended: Option<RunEnd> = row(tree, &Space::RunEnd.key(&[id]))?;
        let Some(ended) = ended.filter(|ended| ended.at <= cutoff) else { continue };
        let begun: RunBegun = row(tree, &Space::Run.key(&[id]))?
            .ok_or_else(|| Error::damaged("drop old runs", "a run has an end and no begin"))?;
        if is_asked(pending, &begun)? {
            continue;
        }
        remove(pending, &begun)?;
        let until = &mut pending.state.runs_dropped_until;
        *until = (*until).max(Some(ended.at));
        dropped += 1;
    }
    Ok(dropped)
}

/// Tells whether a run was asked for by another that is in work.
fn is_asked(pending: &mut Pending, begun: &RunBegun) -> Result<bool, Error> {
    let Some(parent) = &begun.parent else { return Ok(false) };
    Ok(pending.has(&key::run(&parent.run))? && !pending.has(&key::run_end(&parent.run))?)
}

fn remove(pending: &mut Pending, begun: &RunBegun) -> Result<(), Error> {
    let run = &begun.run;
    for key in [key::run(run), key::run_end(run), key::reply(run), key::open(run)] {
        pending.remove(&key)?;
    }
    pending.remove(&key::run_at(begun.at, run))?;
    usage::forget(pending, run)
}

/// Returns when the oldest of so many newest runs began, if there are as many.
pub(crate) fn newest_since(tree: &sled::Tree, count: u64) -> Result<Option<Timestamp>, Error> {
    let before = usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX);
    let found = tree.scan_prefix(Space::RunAt.key(&[])).keys().rev().nth(before);
    let key = found.transpose().map_err(|error| Error::engine("count runs", error))?;
    Ok(key.as_deref().and_then(key::time_of))
}

pub(crate) fn one(tree: &sled::Tree, run: &RunId) -> Result<Option<RunRow>, Error> {
    let Some(begun) = row::<RunBegun>(tree, &key::run(run))? else { return Ok(None) };
    Ok(Some(RunRow { begun, ended: row(tree, &key::run_end(run))? }))
}

/// Returns the sessions that have something to do: a run that has not ended, or agents to tell
/// that they are to end.
pub(crate) fn unfinished(tree: &sled::Tree) -> Result<Vec<SessionId>, Error> {
    let mut sessions = BTreeSet::new();
    for space in [Space::Open, Space::Owed] {
        for entry in tree.scan_prefix(space.key(&[])) {
            let (key, _) = entry.map_err(|error| Error::engine("read a list", error))?;
            sessions.extend(row::<SessionId>(tree, &key)?);
        }
    }
    Ok(sessions.into_iter().collect())
}

/// Returns the runs that have not ended, the oldest first.
pub(crate) fn open(tree: &sled::Tree, limit: usize) -> Result<Vec<RunRow>, Error> {
    let mut rows = Vec::new();
    for key in tree.scan_prefix(Space::Open.key(&[])).keys() {
        let key = key.map_err(|error| Error::engine("read a list", error))?;
        let begun = row(tree, &Space::Run.key(&[key.get(1..).unwrap_or_default()]))?;
        rows.extend(begun.map(|begun: RunBegun| RunRow { begun, ended: None }));
    }
    rows.sort_by_key(|row| row.begun.at);
    rows.truncate(limit.min(LIST_MAX));
    Ok(rows)
}

pub(crate) fn list(tree: &sled::Tree, limit: usize) -> Result<Vec<RunRow>, Error> {
    newest(tree, Space::RunAt, limit, |id| {
        let Some(begun) = row(tree, &Space::Run.key(&[id]))? else { return Ok(None) };
        Ok(Some(RunRow { begun, ended: row(tree, &Space::RunEnd.key(&[id]))? }))
    })
}

pub(crate) fn reply(
    tree: &sled::Tree,
    replies: &Replies,
    run: &RunId,
) -> Result<Option<Vec<u8>>, Error> {
    get_reply(tree, replies, &key::reply(run))
}
