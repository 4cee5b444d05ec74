//! The places of a model and the bounded queue for them.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Admits as many turns as a model has places, and lets a bounded number wait.
pub(crate) struct Gate {
    admitted: Semaphore,
    running: Semaphore,
}

/// A place at a model, given back when dropped.
pub(crate) struct Place<'a> {
    _running: SemaphorePermit<'a>,
    _admitted: SemaphorePermit<'a>,
}

impl Gate {
    /// Makes a gate with `concurrency` places, at least one, and `queue_max` more that may wait.
    pub(crate) fn new(concurrency: u32, queue_max: u32) -> Self {
        let places = usize::try_from(concurrency.max(1)).unwrap_or(Semaphore::MAX_PERMITS);
        let queue = usize::try_from(queue_max).unwrap_or(Semaphore::MAX_PERMITS);
        Self {
            admitted: Semaphore::new(places.saturating_add(queue).min(Semaphore::MAX_PERMITS)),
            running: Semaphore::new(places.min(Semaphore::MAX_PERMITS)),
        }
    }

    /// Waits for a place, first come first served; returns nothing at once if the queue is full.
    pub(crate) async fn enter(&self) -> Option<Place<'_>> {
        let admitted = self.admitted.try_acquire().ok()?;
        let running = self.running.acquire().await.ok()?;
        Some(Place { _running: running, _admitted: admitted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_queue_has_its_length_and_no_more() {
        for (concurrency, queue_max) in [(1, 0), (1, 2), (3, 1), (0, 1)] {
            let gate = Gate::new(concurrency, queue_max);
            let mut inside = Vec::new();
            for _ in 0..concurrency.max(1) {
                inside.push(gate.enter().await.expect("a place is free"));
            }
            let mut waiting: Vec<_> = (0..queue_max).map(|_| Box::pin(gate.enter())).collect();
            for wait in &mut waiting {
                assert!(is_pending(wait.as_mut()), "{concurrency}/{queue_max}: must wait");
            }
            assert!(gate.enter().await.is_none(), "{concurrency}/{queue_max}: must be full");
            // A waiter that gives up makes room for another.
            if waiting.pop().is_some() {
                assert!(is_pending(Box::pin(gate.enter()).as_mut()));
            }
            inside.clear();
            for wait in waiting {
                assert!(wait.await.is_some(), "{concurrency}/{queue_max}: gets the free place");
            }
        }
    }

    fn is_pending<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
        let mut ctx = std::task::Context::from_waker(std::task::Waker::noop());
        future.poll(&mut ctx).is_pending()
    }
}
