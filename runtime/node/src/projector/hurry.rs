//! When the store waits for more changes, and when it takes what there is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::JOBS_MAX;

/// Commits that are applied to the store at once. When so many wait, the store waits no longer, so
/// that no sender does.
const JOBS_AT_ONCE_MAX: usize = JOBS_MAX / 2;

/// Changes that are applied at once, and with them all of the last commit: a few, or those of a
/// whole run. They are in memory until then, and the allocator keeps for long what a peak took:
/// twice as many are twenty MiB more. With half as many a busy node writes the same rows more
/// often, a tenth more bytes.
const CHANGES_AT_ONCE_MAX: usize = 4096;

/// How long changes are gathered for unless somebody wants to look something up. Writing to sled
/// costs about as much for one commit as for a hundred, and many changes touch the same rows: that
/// of a trace is written once for all of its spans that come together, and a run with a model takes
/// seconds. What a crash leaves ungathered is folded at the next start.
const GATHER: Duration = Duration::from_secs(2);

/// Tells whether so many commits, with so many changes, are applied without waiting for more.
pub(super) const fn is_enough(jobs: usize, changes: usize) -> bool {
    jobs >= JOBS_AT_ONCE_MAX || changes >= CHANGES_AT_ONCE_MAX
}

/// Ends the gathering of changes early.
#[derive(Default)]
pub(super) struct Hurry {
    /// How many changes wait.
    changes: AtomicUsize,
    wanted: Mutex<Wanted>,
    told: Condvar,
}

#[derive(Default)]
struct Wanted {
    /// What waits now is to be applied at once.
    at_once: bool,
    /// Jobs that somebody waits for.
    awaited: usize,
}

/// A job that somebody waits for: nothing is gathered until it is taken, or given up.
pub(super) struct Awaited(Arc<Hurry>);

impl Hurry {
    pub(super) fn add(&self, changes: usize) {
        self.changes.fetch_add(changes, Ordering::Relaxed);
    }

    pub(super) fn take(&self, changes: usize) {
        self.changes.fetch_sub(changes, Ordering::Relaxed);
    }

    /// Tells whether enough changes wait, in so many jobs.
    pub(super) fn has_enough(&self, jobs: usize) -> bool {
        is_enough(jobs, self.changes.load(Ordering::Relaxed))
    }

    /// Has what waits now applied at once.
    pub(super) fn up(&self) {
        self.lock().at_once = true;
        self.told.notify_one();
    }

    /// Announces a job that somebody waits for.
    pub(super) fn awaited(self: &Arc<Self>) -> Awaited {
        self.lock().awaited += 1;
        self.told.notify_one();
        Awaited(self.clone())
    }

    /// Blocks until somebody is in a hurry, for [`GATHER`] at most.
    pub(super) fn wait(&self) {
        self.wait_for(GATHER);
    }

    /// Does so for so long at most, and tells whether somebody was.
    fn wait_for(&self, longest: Duration) -> bool {
        let gathered = self.told.wait_timeout_while(self.lock(), longest, |wanted| {
            !wanted.at_once && wanted.awaited == 0
        });
        let (mut wanted, end) = gathered.unwrap_or_else(PoisonError::into_inner);
        wanted.at_once = false;
        !end.timed_out()
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let mut wanted = self.0.lock();
        wanted.awaited = wanted.awaited.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_gathered_when_many_commits_wait_or_many_changes() {
        let cases = [
            (0, 0, false),
            (JOBS_AT_ONCE_MAX - 1, CHANGES_AT_ONCE_MAX - 1, false),
            (JOBS_AT_ONCE_MAX, 0, true),
            (1, CHANGES_AT_ONCE_MAX, true),
        ];
        for (jobs, changes, expected) in cases {
            assert_eq!(is_enough(jobs, changes), expected, "{jobs} commits, {changes} changes");
        }
    }

    #[test]
    fn nothing_is_gathered_while_somebody_waits() {
        let hurry = Arc::new(Hurry::default());
        let is_hurried = || hurry.wait_for(Duration::ZERO);
        assert!(!is_hurried());
        hurry.up();
        assert!(is_hurried());
        assert!(!is_hurried(), "what was there then was taken");
        let awaited = hurry.awaited();
        hurry.up();
        assert!(is_hurried());
        assert!(is_hurried(), "what somebody waits for has not come");
        drop(awaited);
        assert!(!is_hurried());
    }
}
