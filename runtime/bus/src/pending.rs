//! Requests that wait for their answer, each under the last token of its inbox.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// How many requests wait at once: more than a node admits runs, so a caller that meets this
/// limit has no limit of its own.
pub(crate) const REQUESTS_MAX: usize = 16_384;

/// Keeps the waiting requests.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<T>>>,
}

/// Stands for one waiting request; dropping it gives up waiting.
#[derive(Debug)]
pub(crate) struct Ticket<'a, T> {
    pending: &'a Pending<T>,
    token: u64,
    answer: oneshot::Receiver<T>,
}

impl<T> Pending<T> {
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(1), waiting: Mutex::default() }
    }

    /// Returns a token that was never given out.
    pub(crate) fn token(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Begins to wait; `None` if too many wait already.
    pub(crate) fn wait(&self) -> Option<Ticket<'_, T>> {
        let token = self.token();
        let (sender, answer) = oneshot::channel();
        let mut waiting = self.lock();
        if waiting.len() >= REQUESTS_MAX {
            return None;
        }
        waiting.insert(token, sender);
        Some(Ticket { pending: self, token, answer })
    }

    /// Takes out the request that waits under a token; the second answer finds nobody.
    pub(crate) fn take(&self, token: u64) -> Option<oneshot::Sender<T>> {
        self.lock().remove(&token)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<T>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Ticket<'_, T> {
    /// Returns the token of this request.
    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    /// Waits for the answer; `None` if it was given up.
    pub(crate) async fn answer(&mut self) -> Option<T> {
        (&mut self.answer).await.ok()
    }
}

impl<T> Drop for Ticket<'_, T> {
    fn drop(&mut self) {
        self.pending.take(self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_stays_behind() {
        let pending = Pending::new();
        let mut answered = pending.wait().unwrap();
        let given_up = pending.wait().unwrap();
        assert_ne!(answered.token(), given_up.token());
        pending.take(answered.token()).unwrap().send(7).unwrap();
        assert!(pending.take(answered.token()).is_none(), "the second answer finds nobody");
        assert_eq!(answered.answer().await, Some(7));
        drop((answered, given_up));
        assert!(pending.lock().is_empty());
    }

    #[tokio::test]
    async fn waiting_is_bounded() {
        let pending = Pending::<()>::new();
        let mut tickets: Vec<_> = (0..REQUESTS_MAX).map(|_| pending.wait().unwrap()).collect();
        assert!(pending.wait().is_none());
        tickets.pop();
        assert!(pending.wait().is_some());
    }
}
