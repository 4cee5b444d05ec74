//! The connections to one database: a bounded number, kept while they are not used.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::link::{Access, Link};

pub(super) struct Pool {
    file: PathBuf,
    access: Access,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Link>>,
}

impl Pool {
    pub(super) fn new(file: &Path, access: Access, places: usize) -> Self {
        Self {
            file: file.to_owned(),
            access,
            places: Arc::new(Semaphore::new(places)),
            idle: Mutex::default(),
        }
    }

    /// Waits for the right to take a connection. It is given back by being dropped, and so stays
    /// with the thread that works, also when nobody waits for it any more.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.places.clone().acquire_owned().await.ok()
    }

    /// Takes a connection, or opens one.
    pub(super) fn take(&self) -> rusqlite::Result<Link> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| Link::open(&self.file, self.access), Ok)
    }

    /// Keeps a connection for the next call.
    pub(super) fn give(&self, link: Link) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
    }
}
