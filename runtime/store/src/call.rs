//! Open calls: those about which a person has something to say.

use std::collections::BTreeSet;

use wire::{CallKey, OpenCall, OpenKind, SessionId};

use crate::error::Error;
use crate::key::{self, Space};
use crate::page::{LIST_MAX, oldest, row};
use crate::pending::Pending;

pub(crate) fn open(pending: &mut Pending, open: &OpenCall) -> Result<(), Error> {
    close(pending, &open.call)?;
    pending.put(key::call_at(open.since, &open.call), &[])?;
    change_of(pending, &open.session, |calls| calls.insert(open.call.clone()))?;
    pending.put_row(key::call(&open.call), open)
}

pub(crate) fn close(pending: &mut Pending, call: &CallKey) -> Result<(), Error> {
    let Some(old) = pending.row::<OpenCall>(&key::call(call))? else { return Ok(()) };
    pending.remove(&key::call_at(old.since, call))?;
    change_of(pending, &old.session, |calls| calls.remove(call))?;
    pending.remove(&key::call(call))
}

/// Changes which calls of a session are open; `change` says whether it did.
fn change_of(
    pending: &mut Pending,
    session: &SessionId,
    change: impl FnOnce(&mut BTreeSet<CallKey>) -> bool,
) -> Result<(), Error> {
    let key = key::calls_of(session);
    let mut calls: BTreeSet<CallKey> = pending.row(&key)?.unwrap_or_default();
    let is_changed = change(&mut calls);
    if !is_changed {
        return Ok(());
    }
    if calls.is_empty() { pending.remove(&key) } else { pending.put_row(key, &calls) }
}

/// Tells whether a session has open calls.
pub(crate) fn any_of(pending: &mut Pending, session: &SessionId) -> Result<bool, Error> {
    pending.has(&key::calls_of(session))
}

/// Tells the same of what is written.
pub(crate) fn any_written(tree: &sled::Tree, session: &SessionId) -> Result<bool, Error> {
    let has = tree.contains_key(key::calls_of(session));
    has.map_err(|error| Error::engine("look up open calls", error))
}

pub(crate) fn one(tree: &sled::Tree, call: &CallKey) -> Result<Option<OpenCall>, Error> {
    row(tree, &key::call(call))
}

/// Lists open calls, those for which a run waits before the others, which may be many and old.
pub(crate) fn list(
    tree: &sled::Tree,
    kind: Option<OpenKind>,
    limit: usize,
) -> Result<Vec<OpenCall>, Error> {
    let is_of = |open: &OpenCall| kind.is_none_or(|kind| open.kind == kind);
    let mut calls = those(tree, limit, |open| open.waits && is_of(open))?;
    let left = limit.min(LIST_MAX) - calls.len();
    calls.extend(those(tree, left, |open| !open.waits && is_of(open))?);
    Ok(calls)
}

/// Lists the open calls for which a run waits.
pub(crate) fn waiting(tree: &sled::Tree) -> Result<Vec<OpenCall>, Error> {
    those(tree, LIST_MAX, |open| open.waits)
}

fn those(
    tree: &sled::Tree,
    limit: usize,
    wanted: impl Fn(&OpenCall) -> bool,
) -> Result<Vec<OpenCall>, Error> {
    oldest(tree, Space::CallAt, limit, |id| row(tree, &Space::Call.key(&[id])), wanted)
}
