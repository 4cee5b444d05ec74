//! Runs: how they began, how they ended, and what was replied.

use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize};
use wire::run::Parent;
use wire::{Digest, Name, RunId, RunStatus, SessionId, Timestamp, TraceContext};

use crate::call;
use crate::error::Error;
use crate::key::{self, Space};
use crate::page::{LIST_MAX, newest, row};
use crate::pending::{Pending, get_reply};
use crate::record;
use crate::replies::Replies;
use crate::rows::{Place, Row, Rows};
use crate::trace::TraceId;

/// The most characters of a run's input that its row shows; the journal has all of it.
pub const INPUT_PREVIEW_CHARS_MAX: usize = 200;

/// The begin of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBegun {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
    /// Where in its journal it begins, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u64>,
    /// The agent that was asked.
    pub agent: Name,
    /// Hash of what the client sent, to tell a repetition from a conflict.
    pub body: Digest,
    /// When it was accepted.
    pub at: Timestamp,
    /// The input, cut to [`INPUT_PREVIEW_CHARS_MAX`] when stored.
    pub input: String,
    /// What a list of traces shows in its place, if that is not the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<String>,
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

/// A run as stored. It lacks its begin where the journal tells only how it went on.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Run {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begun: Option<RunBegun>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<RunEnd>,
    /// Whether the journal is telling again of an earlier run of the id, which was dropped. It goes on
    /// until this one begins there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) tells_earlier: bool,
    /// How many of its turns are counted as used.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) turns: u64,
    /// The calls since the last of them that are counted too, by the ids of their spans.
    #[serde(default, rename = "asked", skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls_counted: Vec<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(turns: &u64) -> bool {
    *turns == 0
}

impl Row for Run {
    type Id = RunId;

    fn key(id: &RunId) -> Vec<u8> {
        key::run(id)
    }

    fn places(&self, id: &RunId) -> Result<Vec<Place>, Error> {
        let Some(begun) = &self.begun else { return Ok(Vec::new()) };
        let mut places = vec![(key::run_at(begun.at, id), Vec::new())];
        if self.ended.is_none() {
            places.push((key::open(id), record::to_json(&begun.session)?));
        }
        Ok(places)
    }
}

impl Run {
    fn into_row(self) -> Option<RunRow> {
        Some(RunRow { begun: self.begun?, ended: self.ended })
    }
}

pub(crate) fn begin<'s>(
    pending: &mut Pending,
    runs: &mut Rows<'s, Run>,
    begun: &'s RunBegun,
) -> Result<(), Error> {
    let run = runs.get(pending, &begun.run)?.change().get_or_insert_default();
    let mut begun = begun.clone();
    if let Some((end, _)) = begun.input.char_indices().nth(INPUT_PREVIEW_CHARS_MAX) {
        begun.input.truncate(end);
    }
    // It may be told of again, also after it has ended. One that begins later is another run, under
    // an id whose first run its session knows no more.
    if run.begun.as_ref().is_some_and(|first| first.at < begun.at) {
        *run = Run::default();
        pending.remove(&key::reply(&begun.run))?;
    }
    let is_earlier = |known: &RunBegun| begun.at < known.at;
    run.tells_earlier = pending.is_again() && run.begun.as_ref().is_some_and(is_earlier);
    if !run.tells_earlier {
        run.begun = Some(begun);
    }
    Ok(())
}

pub(crate) fn end<'s>(
    pending: &mut Pending,
    runs: &mut Rows<'s, Run>,
    id: &'s RunId,
    end: RunEnd,
    reply: &[u8],
) -> Result<(), Error> {
    if pending.is_again() && runs.get(pending, id)?.row().is_some_and(|run| run.tells_earlier) {
        return Ok(());
    }
    // The journal tells again of what was dropped for as long as its session goes on with it.
    if Some(end.at) <= pending.runs_dropped_until()
        && let Some(begun) = runs.get(pending, id)?.row().and_then(|run| run.begun.clone())
        && !is_needed(pending, runs, &begun)?
    {
        *runs.get(pending, id)?.change() = None;
        return pending.remove(&key::reply(id));
    }
    let run = runs.get(pending, id)?.change().get_or_insert_default();
    // An end and its reply come and go together.
    if run.ended.replace(end).is_some() {
        pending.put_reply(key::reply(id), reply)
    } else {
        pending.put_new_reply(key::reply(id), reply)
    }
}

/// The most runs that are dropped at once, so that no batch waits long for it.
const DROPPED_AT_ONCE_MAX: usize = 200;

/// Drops runs that ended at a time or before, up to a limit; returns how many. One that a run in
/// work asked for stays, since that run may ask for it again, and so do those of a session with an
/// open call, since whoever says what came of it looks at what was around it.
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
        let missing = || Error::damaged("drop old runs", "a run is missing, or its begin");
        let run =
            row::<Run>(tree, &Space::Run.key(&[key::id_of(&by_time)]))?.ok_or_else(missing)?;
        let begun = run.begun.as_ref().ok_or_else(missing)?;
        let Some(ended) = run.ended.filter(|ended| ended.at <= cutoff) else { continue };
        if is_needed(pending, &Rows::default(), begun)? {
            continue;
        }
        let id = &begun.run;
        run.places(id)?.iter().try_for_each(|(key, _)| pending.remove(key))?;
        [key::run(id), key::reply(id)].iter().try_for_each(|key| pending.remove(key))?;
        let until = &mut pending.state.runs_dropped_until;
        *until = (*until).max(Some(ended.at));
        dropped += 1;
    }
    Ok(dropped)
}

/// Tells whether a run that is over was asked for by another that is in work, or its session has an
/// open call.
fn is_needed(pending: &mut Pending, runs: &Rows<'_, Run>, begun: &RunBegun) -> Result<bool, Error> {
    let is_in_work =
        |run: Option<&Run>| run.is_some_and(|run| run.begun.is_some() && run.ended.is_none());
    let is_asked = match &begun.parent {
        Some(parent) => runs.look(pending, &parent.run, is_in_work)?,
        None => false,
    };
    Ok(is_asked || call::any_of(pending, &begun.session)?)
}

/// Returns when the oldest of so many newest runs that are over began, if there are as many.
pub(crate) fn newest_since(tree: &sled::Tree, count: u64) -> Result<Option<Timestamp>, Error> {
    let failed = |error| Error::engine("count runs", error);
    let id = |key: sled::IVec| key.get(1..).unwrap_or_default().to_vec();
    let open = tree.scan_prefix(Space::Open.key(&[])).keys();
    let open: HashSet<Vec<u8>> =
        open.map(|key| key.map(id)).collect::<Result<_, _>>().map_err(failed)?;
    let mut left = count.max(1);
    for key in tree.scan_prefix(Space::RunAt.key(&[])).keys().rev() {
        let key = key.map_err(failed)?;
        if open.contains(key::id_of(&key)) {
            continue;
        }
        left -= 1;
        if left == 0 {
            return Ok(key::time_of(&key));
        }
    }
    Ok(None)
}

pub(crate) fn one(tree: &sled::Tree, run: &RunId) -> Result<Option<RunRow>, Error> {
    Ok(row::<Run>(tree, &key::run(run))?.and_then(Run::into_row))
}

/// Returns the id of the trace that a run is in.
pub(crate) fn trace(tree: &sled::Tree, run: &RunId) -> Result<Option<TraceId>, Error> {
    Ok(one(tree, run)?.map(|run| run.begun.trace.trace_bytes()))
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
        let run: Option<Run> = row(tree, &Space::Run.key(&[key.get(1..).unwrap_or_default()]))?;
        rows.extend(run.and_then(Run::into_row));
    }
    rows.sort_by_key(|row| row.begun.at);
    rows.truncate(limit.min(LIST_MAX));
    Ok(rows)
}

pub(crate) fn list(tree: &sled::Tree, limit: usize) -> Result<Vec<RunRow>, Error> {
    newest(tree, Space::RunAt, limit, |id| {
        Ok(row::<Run>(tree, &Space::Run.key(&[id]))?.and_then(Run::into_row))
    })
}

pub(crate) fn reply(
    tree: &sled::Tree,
    replies: &Replies,
    run: &RunId,
) -> Result<Option<Vec<u8>>, Error> {
    get_reply(tree, replies, &key::reply(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_of_a_run_is_stored_under_the_names_that_stores_have() {
        let stored = r#"{"turns":2,"asked":[7,9]}"#;
        let run: Run = serde_json::from_str(stored).unwrap();
        assert_eq!((run.turns, run.calls_counted.as_slice()), (2, [7, 9].as_slice()));
        assert_eq!(serde_json::to_string(&run).unwrap(), stored);
    }
}
