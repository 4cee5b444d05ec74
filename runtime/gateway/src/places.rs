//! Places for connections. When all are taken, one that asks for nothing makes room.
//!
//! Idle connections cost their client next to nothing. Waiting for them to time out would let a
//! thousand of them keep everybody else out.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The places of a listener.
#[derive(Debug)]
pub(crate) struct Places {
    max: usize,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// By age, the oldest first.
    seats: BTreeMap<u64, Seat>,
}

/// What a connection and its requests know of its place.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    busy: Arc<AtomicBool>,
    /// Whether the client has yet to take what is written to it.
    writing: Arc<AtomicBool>,
    /// Cancelled when the place is given to another connection.
    pub(crate) lost: CancellationToken,
}

/// One taken place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    pub(crate) seat: Seat,
}

impl Seat {
    /// Tells whether a request is in work, or its answer on its way.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) || self.writing.load(Ordering::Relaxed)
    }
}

impl Places {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max: max.max(1), taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a place, from the oldest idle connection if need be; waits while all are busy.
    pub(crate) async fn take(self: &Arc<Self>) -> Place {
        loop {
            let freed = self.freed.notified();
            if let Some(place) = self.try_take() {
                return place;
            }
            freed.await;
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Place> {
        let mut taken = self.lock();
        if taken.seats.len() >= self.max {
            let idle = taken.seats.iter().find(|(_, seat)| !seat.is_busy());
            let number = idle.map(|(number, _)| *number)?;
            if let Some(seat) = taken.seats.remove(&number) {
                seat.lost.cancel();
            }
        }
        let number = taken.next;
        taken.next += 1;
        let lost = CancellationToken::new();
        let seat = Seat { busy: Arc::default(), writing: Arc::default(), lost };
        taken.seats.insert(number, seat.clone());
        Some(Place { places: self.clone(), number, seat })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().seats.remove(&self.number);
        self.places.freed.notify_one();
    }
}

impl Place {
    /// Notes that a request is in work until what is returned is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.seat.busy.store(true, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// Notes whether the client has yet to take what is written to it.
    pub(crate) fn set_writing(&self, is_writing: bool) {
        let was_writing = self.seat.writing.swap(is_writing, Ordering::Relaxed);
        if was_writing && !is_writing {
            self.places.freed.notify_one();
        }
    }
}

/// A request in work; a connection has one at a time.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Place>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.seat.busy.store(false, Ordering::Relaxed);
        self.0.places.freed.notify_one();
    }
}

/// The body of a response; its request is in work until all of it is taken to be written.
pub(crate) struct BusyBody {
    pub(crate) body: Body,
    pub(crate) _busy: Busy,
}

impl HttpBody for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn the_oldest_idle_connection_makes_room() {
        let places = Places::new(2);
        let first = Arc::new(places.take().await);
        let second = Arc::new(places.take().await);
        let busy = first.begin();
        let third = Arc::new(places.take().await);
        assert!(second.seat.lost.is_cancelled() && !first.seat.lost.is_cancelled());

        // What lost its place gives none back.
        drop(second);
        let also_busy = third.begin();
        assert!(places.take().now_or_never().is_none(), "all are busy");
        drop(busy);
        first.set_writing(true);
        assert!(places.take().now_or_never().is_none(), "its answer is on its way");
        first.set_writing(false);
        let fourth = places.take().now_or_never().unwrap();
        assert!(first.seat.lost.is_cancelled());
        drop((also_busy, third));
        assert!(places.take().now_or_never().is_some());
        assert!(!fourth.seat.lost.is_cancelled(), "a free place is taken first");
    }

    #[tokio::test]
    async fn whoever_waits_gets_the_first_place_that_is_free() {
        let places = Places::new(1);
        let first = Arc::new(places.take().await);
        let busy = first.begin();
        let mut waiting = std::pin::pin!(places.take());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(busy);
        assert!(waiting.now_or_never().is_some());
    }
}
