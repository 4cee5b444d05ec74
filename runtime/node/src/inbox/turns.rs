//! Lets requests for a run in one after the other, until it is known in which session the run is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;
use wire::RunId;

/// The runs that are asked for by name at present. Two requests for one that is not there yet, each
/// for a session of its own, would otherwise begin it in both. There are no more of them than requests
/// that have a place.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<RunId, Arc<tokio::sync::Mutex<()>>>>);

/// The turn of one request; the next one for the same run has its turn when this is dropped.
pub(super) struct Turn {
    turns: Arc<Turns>,
    run: RunId,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits for the turn of a request for a run.
    pub(super) async fn take(self: &Arc<Self>, run: &RunId) -> Turn {
        let own = self.lock().entry(run.clone()).or_default().clone();
        let mut turn = Turn { turns: self.clone(), run: run.clone(), held: None };
        turn.held = Some(own.lock_owned().await);
        turn
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Arc<tokio::sync::Mutex<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut all = self.turns.lock();
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
    async fn one_at_a_time_has_its_turn_and_none_leaves_anything_behind() {
        let (turns, a, b) = (Arc::<Turns>::default(), run("a"), run("b"));
        let first = turns.take(&a).await;
        let other = turns.take(&b).now_or_never().expect("another run waits for nobody");
        let mut second = Box::pin(turns.take(&a));
        let mut third = Box::pin(turns.take(&a));
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        drop(first);
        // One that goes away while it waits keeps nobody.
        drop(second);
        let third = third.now_or_never().expect("its turn");
        assert_eq!(turns.lock().len(), 2);
        drop((third, other));
        assert_eq!(turns.lock().len(), 0);
    }
}
