//! What was committed and is not in the store yet, as far as others have to know it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::{Change, RunBegun};
use wire::{RunId, SessionId};

use crate::open_calls::HeldCalls;

#[derive(Default)]
pub(super) struct Unapplied {
    /// The sessions of the runs that the store does not know yet: those whose changes are gathered,
    /// and those that began while it could not be written, when no client's run is taken.
    runs: Mutex<HashMap<RunId, SessionId>>,
    /// What became of calls while it could not be written. Runs in work alone have any, and no others
    /// begin meanwhile but those that these ask for.
    calls: Mutex<HeldCalls>,
}

impl Unapplied {
    pub(super) fn begun(&self, begun: &RunBegun) {
        lock(&self.runs).insert(begun.run.clone(), begun.session.clone());
    }

    pub(super) fn session_of(&self, run: &RunId) -> Option<SessionId> {
        lock(&self.runs).get(run).cloned()
    }

    /// Lets go of the runs that the store knows from now on.
    pub(super) fn forget<'a>(&self, known: impl Iterator<Item = &'a RunId>) {
        let mut runs = lock(&self.runs);
        for run in known {
            runs.remove(run);
        }
    }

    /// Notes what changes that the store is not told mean to people.
    pub(super) fn hold(&self, changes: &[Change]) {
        let mut calls = lock(&self.calls);
        for change in changes {
            match change {
                Change::CallOpened(open) => {
                    calls.insert(open.call.clone(), Some(open.as_ref().clone()));
                }
                Change::CallClosed(call) => {
                    calls.insert(call.clone(), None);
                }
                _ => {}
            }
        }
    }

    pub(super) fn held_calls(&self) -> HeldCalls {
        lock(&self.calls).clone()
    }

    /// Lets go of the calls that the store knows from now on: all but those of sessions that could not
    /// be read.
    pub(super) fn forget_calls(&self, unread: &[SessionId]) {
        lock(&self.calls).retain(|_, open| match open {
            Some(open) => unread.contains(&open.session),
            None => !unread.is_empty(),
        });
    }

    /// Lets go of calls of which the store was told.
    pub(super) fn told(&self, changes: &[Change]) {
        let mut calls = lock(&self.calls);
        if calls.is_empty() {
            return;
        }
        for change in changes {
            match change {
                Change::CallOpened(open) => drop(calls.remove(&open.call)),
                Change::CallClosed(call) => drop(calls.remove(call)),
                _ => {}
            }
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
