//! Work that whoever waits for what comes of it does by himself.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use tokio::runtime::Handle;

use crate::listening::Work;

/// Work that is done by the task that waits for its outcome, which saves a task and its wake-ups.
///
/// What is not done when this is dropped, because the answer came before or nobody waits for it any
/// more, is done by tasks of its own: that nobody waits is not what ends it.
pub(crate) struct Carried {
    work: Vec<Work>,
}

impl Carried {
    pub(crate) const fn new(work: Vec<Work>) -> Self {
        Self { work }
    }

    /// Returns what an outcome is, and works until it is there.
    pub(crate) async fn until<T>(&mut self, mut outcome: Pin<&mut impl Future<Output = T>>) -> T {
        poll_fn(|context| {
            // First, since the outcome mostly is there once the work is done.
            self.advance(context);
            outcome.as_mut().poll(context)
        })
        .await
    }

    fn advance(&mut self, context: &mut Context<'_>) {
        self.work.retain_mut(|work| {
            // As in a task of its own, a panic ends the work and not whoever waits.
            let mut work = AssertUnwindSafe(work).catch_unwind();
            matches!(work.poll_unpin(context), Poll::Pending)
        });
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        if self.work.is_empty() {
            return;
        }
        // Without a runtime the process ends, and its work with it.
        let Ok(runtime) = Handle::try_current() else { return };
        for work in self.work.drain(..) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_is_done_while_its_outcome_is_awaited() {
        let (sender, outcome) = oneshot::channel();
        let work: Work = Box::pin(async move {
            tokio::task::yield_now().await;
            sender.send(tokio::task::id()).unwrap();
        });
        let mut carried = Carried::new(vec![work]);
        let waiting = tokio::spawn(async move {
            let done_by = carried.until(std::pin::pin!(outcome)).await.unwrap();
            (done_by, tokio::task::id())
        });
        let (done_by, awaited_by) = waiting.await.unwrap();
        assert_eq!(done_by, awaited_by);
    }

    #[tokio::test]
    async fn work_is_done_to_its_end_whoever_waits() {
        for is_begun in [false, true] {
            let (go, gone) = oneshot::channel::<()>();
            let (done, is_done) = oneshot::channel();
            let work: Work = Box::pin(async move {
                gone.await.unwrap();
                done.send(()).unwrap();
            });
            let mut carried = Carried::new(vec![work]);
            if is_begun {
                carried.until(std::pin::pin!(ready(()))).await;
            }
            drop(carried);
            go.send(()).unwrap();
            is_done.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_panic_ends_the_work_alone() {
        let (sender, outcome) = oneshot::channel();
        let fails: Work = Box::pin(async { panic!("a fault of the work") });
        let works: Work = Box::pin(async move { sender.send(1).unwrap() });
        let mut carried = Carried::new(vec![fails, works]);
        assert_eq!(carried.until(std::pin::pin!(outcome)).await, Ok(1));
        let never = carried.until(std::pin::pin!(pending::<()>())).now_or_never();
        assert_eq!((never, carried.work.len()), (None, 0));
    }
}
