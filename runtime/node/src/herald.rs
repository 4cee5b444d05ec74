//! Tells observers: holds events until the bus takes them, so that no run waits for observers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bus::Bus;
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::consume_budget;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};
use wire::Headers;

use crate::metrics::Load;

/// Events that wait for the bus: what a busy node tells in a second or two. Observers that miss
/// some find them in the journal.
const EVENTS_MAX: usize = 8192;

/// Bytes of the events that wait, so that few large ones do not fill the memory.
const EVENT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Events that leave before it is seen to that the bus has taken them: half of what waits there while
/// the server is away, so that requests and answers find room. With some hundred sessions that never
/// wait for their models it takes several turns of all of them until that is seen, and they tell
/// more events than a quarter of this meanwhile.
const LEAVING_MAX: usize = 1024;

/// How long events are gathered before they leave, unless one of them cannot wait: people do not
/// see the difference, and a step tells several.
const GATHER: Duration = Duration::from_millis(10);

/// The events of a node on their way to the bus, in their order.
#[derive(Debug)]
pub(crate) struct Herald {
    shared: Arc<Shared>,
    _ends: DropGuard,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// An event came.
    more: Notify,
    /// One came that cannot wait.
    hurry: Notify,
    /// Everything that came has left.
    rest: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<(String, Bytes)>,
    bytes: usize,
    /// One was taken out and is not sent yet.
    sending: bool,
    lost: u64,
}

impl Waiting {
    fn push(&mut self, subject: String, body: Bytes) {
        self.bytes += body.len();
        self.events.push_back((subject, body));
        while self.events.len() > EVENTS_MAX || self.bytes > EVENT_BYTES_MAX {
            let Some((subject, body)) = self.events.pop_front() else { return };
            self.bytes -= body.len();
            self.lose(&subject);
        }
    }

    /// Counts an event that nobody hears, and says so ever more rarely.
    fn lose(&mut self, subject: &str) {
        self.lost = self.lost.saturating_add(1);
        if self.lost.is_power_of_two() {
            warn!(subject, lost = self.lost, "the bus takes events too slowly, one is dropped");
        }
    }
}

impl Herald {
    /// Starts to tell.
    pub(crate) fn start(bus: Bus) -> Self {
        let shared = Arc::new(Shared::default());
        let end = CancellationToken::new();
        let (telling, ended) = (shared.clone(), end.clone());
        tokio::spawn(async move { ended.run_until_cancelled(telling.run(&bus)).await });
        Self { shared, _ends: end.drop_guard() }
    }

    /// Takes an event. If too many wait, the oldest are dropped.
    pub(crate) fn tell(&self, subject: String, body: Bytes) {
        self.shared.lock().push(subject, body);
        self.shared.more.notify_one();
    }

    /// Has what waits leave at once.
    pub(crate) fn hurry(&self) {
        self.shared.hurry.notify_one();
    }

    /// Tells how many events wait.
    pub(crate) fn load(&self) -> Load {
        Load { taken: self.shared.lock().events.len(), limit: EVENTS_MAX }
    }

    /// Counts the events that were dropped.
    pub(crate) fn lost(&self) -> u64 {
        self.shared.lock().lost
    }

    /// Waits until what was told has left, but not longer than given.
    pub(crate) async fn flush(&self, within: Duration) {
        self.hurry();
        let rest = async {
            loop {
                let rested = self.shared.rest.notified();
                if self.shared.lock().is_empty() {
                    return;
                }
                rested.await;
            }
        };
        if timeout(within, rest).await.is_err() {
            debug!("the last events were not told");
        }
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && !self.sending
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, bus: &Bus) {
        let mut leaving = 0;
        loop {
            let Some((subject, body)) = self.take() else {
                self.rest.notify_waiters();
                self.more.notified().await;
                // Either way they leave now.
                drop(timeout(GATHER, self.hurry.notified()).await);
                continue;
            };
            if let Err(error) = bus.publish(&subject, Headers::new(), body).await {
                debug!(subject, %error, "event not published");
                self.lock().lose(&subject);
            }
            leaving += 1;
            if leaving == LEAVING_MAX {
                bus.taken().await;
                leaving = 0;
            }
            // The bus in the process never waits by itself.
            consume_budget().await;
        }
    }

    fn take(&self) -> Option<(String, Bytes)> {
        let mut waiting = self.lock();
        let event = waiting.events.pop_front();
        waiting.sending = event.is_some();
        if let Some((_, body)) = &event {
            waiting.bytes -= body.len();
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use bus::NatsOptions;
    use bus::testing::NatsServer;
    use tokio::task::yield_now;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn the_oldest_events_are_dropped() {
        let mut waiting = Waiting::default();
        for n in 0..EVENTS_MAX + 3 {
            waiting.push(n.to_string(), Bytes::from_static(b"x"));
        }
        assert_eq!(
            (waiting.events.len(), waiting.bytes, waiting.lost),
            (EVENTS_MAX, EVENTS_MAX, 3)
        );
        assert_eq!(waiting.events.front().unwrap().0, "3");
        waiting.push("large".to_owned(), vec![0; EVENT_BYTES_MAX].into());
        assert_eq!((waiting.events.len(), waiting.bytes), (1, EVENT_BYTES_MAX));
        assert_eq!(waiting.lost, 3 + EVENTS_MAX as u64);
    }

    #[tokio::test]
    async fn events_are_told_in_their_order() {
        let bus = Bus::local();
        let mut heard = bus.subscribe("e", None).await.unwrap();
        let herald = Herald::start(bus);
        for n in 0..100 {
            herald.tell("e".to_owned(), Bytes::from(n.to_string()));
        }
        herald.flush(Duration::from_secs(20)).await;
        for n in 0..100 {
            assert_eq!(heard.next().await.unwrap().payload, n.to_string());
        }
        assert_eq!(herald.lost(), 0);
    }

    #[tokio::test]
    async fn events_leave_room_for_others_while_the_server_is_away() {
        let mut server = NatsServer::start("").await.unwrap();
        let bus = Bus::connect(NatsOptions::new([server.url()])).await.unwrap();
        let herald = Herald::start(bus.clone());
        server.stop().unwrap();
        let lost = async {
            while bus.is_connected() {
                yield_now().await;
            }
        };
        timeout(LONG, lost).await.expect("the loss is seen");
        for _ in 0..EVENTS_MAX {
            herald.tell("e".to_owned(), Bytes::from_static(b"x"));
        }
        herald.hurry();
        // The herald has a turn with each, in which it tells at least one event if it may.
        for _ in 0..2 * EVENTS_MAX {
            yield_now().await;
        }
        assert_eq!(herald.load().taken, EVENTS_MAX - LEAVING_MAX);
        server.restart().await.unwrap();
        herald.flush(LONG).await;
        assert_eq!((herald.load().taken, herald.lost()), (0, 0));
    }

    #[tokio::test]
    async fn what_the_bus_refuses_is_counted() {
        let herald = Herald::start(Bus::local());
        herald.tell("no subject..".to_owned(), Bytes::new());
        herald.flush(Duration::from_secs(20)).await;
        assert_eq!(herald.lost(), 1);
    }
}
