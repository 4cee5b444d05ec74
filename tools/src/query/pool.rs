//! The connections to one database: a bounded number, kept while they are not used.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(super) struct Pool<L> {
    places: Arc<Semaphore>,
    idle: Mutex<Vec<L>>,
}

impl<L> Pool<L> {
    pub(super) fn new(places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), idle: Mutex::default() }
    }

    /// Waits for the right to have a connection. It is given back by being dropped, and so stays
    /// with who works, also when nobody waits for the work any more.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.places.clone().acquire_owned().await.ok()
    }

    /// Takes the connection that was used last, if one is kept.
    pub(super) fn take(&self) -> Option<L> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a connection for the next call.
    pub(super) fn give(&self, link: L) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
    }
}
