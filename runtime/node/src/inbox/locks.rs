//! Lets requests for a run in one after the other, until it is known in which session the run is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;
use wire::RunId;

/// The runs that are asked for by name at present. Two requests for one that is not there yet, each
/// for a session of its own, would otherwise begin it in both. There are no more of them than
/// requests that have a place.
#[derive(Default)]
pub(super) struct RunLocks(Mutex<HashMap<RunId, Arc<tokio::sync::Mutex<()>>>>);

/// The lock that one request has; the next one for the same run has it when this is dropped.
pub(super) struct RunLock {
    locks: Arc<RunLocks>,
    run: RunId,
    held: Option<OwnedMutexGuard<()>>,
}

impl RunLocks {
    /// Waits until no other request for a run is being let in.
    pub(super) async fn lock(self: &Arc<Self>, run: &RunId) -> RunLock {
        let own = self.all().entry(run.clone()).or_default().clone();
        let mut lock = RunLock { locks: self.clone(), run: run.clone(), held: None };
        lock.held = Some(own.lock_owned().await);
        lock
    }

    fn all(&self) -> MutexGuard<'_, HashMap<RunId, Arc<tokio::sync::Mutex<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        let mut all = self.locks.all();
        self.held = None;
        // Whoever waits has it as well.
        if all.get(&self.run).is_some_and(|own| Arc::strong_count(own) == 1) {
            all.remove(&self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn run(id: &str) -> RunId {
        RunId::new(id).unwrap()
    }

    #[tokio::test]
    async fn one_at_a_time_has_the_lock_and_none_leaves_anything_behind() {
        let (locks, a, b) = (Arc::<RunLocks>::default(), run("a"), run("b"));
        let first = locks.lock(&a).await;
        let other = locks.lock(&b).now_or_never().expect("another run waits for nobody");
        let mut second = Box::pin(locks.lock(&a));
        let mut third = Box::pin(locks.lock(&a));
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        drop(first);
        // One that goes away while it waits keeps nobody.
        drop(second);
        let third = third.now_or_never().expect("the lock is free");
        assert_eq!(locks.all().len(), 2);
        drop((third, other));
        assert_eq!(locks.all().len(), 0);
    }
}
