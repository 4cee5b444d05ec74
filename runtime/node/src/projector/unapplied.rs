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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::OpenCall;

    use super::*;

    /// What is done, with which changes, or after which sessions could not be read.
    type Step<'u> = (&'u str, Vec<Change>, Option<&'u [SessionId]>);

    #[test]
    fn what_became_of_calls_is_held_until_the_store_knows_it() {
        let open = |call: &str, session: &str| -> OpenCall {
            let open = json!({
                "call": call, "kind": "approval", "run": "r", "session": session, "agent": "a",
                "tool": "pay", "arguments": {}, "digest": "ab".repeat(32), "attempt": 0,
                "question": "?", "waits": true, "since": 1,
            });
            serde_json::from_value(open).unwrap()
        };
        let opened = |call, session| Change::CallOpened(Box::new(open(call, session)));
        let closed = |call: &OpenCall| Change::CallClosed(call.call.clone());
        let (a, b) = (open("a", "s"), open("b", "t"));
        let both = [(a.call.clone(), Some(a.clone())), (b.call.clone(), Some(b.clone()))];
        let unread = [SessionId::new("t").unwrap()];
        let cases: [(Vec<Step<'_>>, HeldCalls); 5] = [
            (vec![], HeldCalls::from(both.clone())),
            (vec![("told", vec![closed(&a)], None)], HeldCalls::from([both[1].clone()])),
            (
                vec![("hold", vec![closed(&a)], None)],
                HeldCalls::from([(a.call.clone(), None), both[1].clone()]),
            ),
            (vec![("forget", vec![], Some(&unread))], HeldCalls::from([both[1].clone()])),
            (vec![("forget", vec![], Some(&[]))], HeldCalls::new()),
        ];
        for (steps, expected) in cases {
            let unapplied = Unapplied::default();
            unapplied.hold(&[opened("a", "s"), opened("b", "t")]);
            for (step, changes, unread) in steps {
                match (step, unread) {
                    ("told", _) => unapplied.told(&changes),
                    ("hold", _) => unapplied.hold(&changes),
                    (_, unread) => unapplied.forget_calls(unread.unwrap_or_default()),
                }
            }
            assert_eq!(unapplied.held_calls(), expected);
        }
    }
}
