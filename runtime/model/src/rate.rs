//! How much a model is asked in a minute.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use crate::window::{Mark, Window};

/// The limits of a model and what was used of them.
pub(crate) struct Rate {
    requests_max: Option<u64>,
    tokens_max: Option<u64>,
    began: Instant,
    used: Mutex<Used>,
    /// Held by who is next, so that nobody overtakes.
    line: tokio::sync::Mutex<()>,
    /// Wakes who is next when something comes back.
    settled: Notify,
}

#[derive(Default)]
struct Used {
    requests: Window,
    tokens: Window,
}

/// Room for one request. It is kept for it until the request is sent, and counts from then on.
/// Dropped before, it is given back; after that it counts as it was estimated, since the server has
/// the request.
pub(crate) struct Grant<'a> {
    rate: &'a Rate,
    tokens: u64,
    room: Room,
}

/// What a grant has of the limits.
#[derive(Clone, Copy)]
enum Room {
    /// There are none.
    Unlimited,
    /// It is set aside.
    Held,
    /// It counts from when the request was sent; the mark is that of its tokens.
    Sent(Mark),
}

impl Rate {
    /// Takes the limits, of which both may be absent.
    pub(crate) fn new(requests_max: Option<u64>, tokens_max: Option<u64>) -> Self {
        Self {
            requests_max,
            tokens_max,
            began: Instant::now(),
            used: Mutex::default(),
            line: tokio::sync::Mutex::new(()),
            settled: Notify::new(),
        }
    }

    /// Waits for room for a request of about so many tokens, first come first served.
    ///
    /// Fails with the time after which there is room as far as is known, if that is too late.
    pub(crate) async fn enter(&self, tokens: u64, end: Instant) -> Result<Grant<'_>, Duration> {
        if self.requests_max.is_none() && self.tokens_max.is_none() {
            return Ok(Grant { rate: self, tokens, room: Room::Unlimited });
        }
        let Ok(_first) = timeout_at(end, self.line.lock()).await else {
            return Err(self.wait(&mut self.lock(), tokens));
        };
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            let wait = {
                let mut used = self.lock();
                let wait = self.wait(&mut used, tokens);
                if wait.is_zero() {
                    used.requests.hold(1);
                    used.tokens.hold(tokens);
                    return Ok(Grant { rate: self, tokens, room: Room::Held });
                }
                wait
            };
            if Instant::now() + wait >= end {
                return Err(wait);
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = settled => {}
            }
        }
    }

    fn wait(&self, used: &mut Used, tokens: u64) -> Duration {
        let now = self.now();
        let of = |window: &mut Window, amount: u64, max: Option<u64>| {
            max.map_or(Duration::ZERO, |max| window.wait(now, amount, max))
        };
        let requests = of(&mut used.requests, 1, self.requests_max);
        requests.max(of(&mut used.tokens, tokens, self.tokens_max))
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Grant<'_> {
    /// Tells that the request is sent from here on.
    pub(crate) fn send(&mut self) {
        if let Room::Held = self.room {
            let mut used = self.rate.lock();
            // Under the lock, so that no mark is made behind a later one.
            let now = self.rate.now();
            used.requests.release(1);
            used.tokens.release(self.tokens);
            used.requests.add(now, 1);
            self.room = Room::Sent(used.tokens.add(now, self.tokens));
        }
    }

    /// Tells how many tokens the request used in the end.
    pub(crate) fn settle(mut self, tokens: u64) {
        self.send();
        if let Room::Sent(mark) = self.room {
            self.rate.lock().tokens.correct(mark, self.tokens, tokens);
            self.rate.settled.notify_waiters();
        }
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        if let Room::Held = self.room {
            let mut used = self.rate.lock();
            used.requests.release(1);
            used.tokens.release(self.tokens);
            self.rate.settled.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn later(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn no_minute_has_more_requests_than_the_limit() {
        let rate = Rate::new(Some(10), None);
        let began = Instant::now();
        let mut times = Vec::new();
        for _ in 0..35 {
            rate.enter(1_000_000, later(120)).await.ok().unwrap().settle(0);
            times.push(began.elapsed().as_secs());
        }
        let expected = (0..35).map(|number| number / 10 * 60);
        assert!(times.iter().zip(expected).all(|(at, minute)| at - minute <= 1), "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_count_as_estimated_until_they_are_known() {
        let rate = Rate::new(None, Some(1_000));
        let first = rate.enter(900, later(1)).await.ok().unwrap();
        let wait = rate.enter(200, later(10)).await.err().unwrap();
        assert!(wait > Duration::from_secs(59), "{wait:?}");
        first.settle(100);
        let second = rate.enter(900, later(1)).await.ok().unwrap();
        // What was not sent is given back.
        drop(second);
        rate.enter(900, later(1)).await.ok().unwrap().settle(900);
        assert!(rate.enter(1, later(1)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_counts_also_if_its_end_is_not_awaited() {
        let rates = [Rate::new(Some(1), None), Rate::new(None, Some(100))];
        for (rate, (is_sent, expected)) in rates
            .iter()
            .flat_map(|rate| [(false, 0), (true, 0), (false, 60)].map(|row| (rate, row)))
        {
            let began = Instant::now();
            let mut grant = rate.enter(100, later(120)).await.ok().unwrap();
            let waited = began.elapsed().as_secs();
            assert!((expected..=expected + 1).contains(&waited), "{waited} s for {expected}");
            if is_sent {
                grant.send();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_a_place_of_the_server_counts_from_when_it_is_sent() {
        for rate in [Rate::new(Some(2), None), Rate::new(None, Some(200))] {
            let mut first = rate.enter(100, later(1)).await.ok().unwrap();
            let mut second = rate.enter(100, later(1)).await.ok().unwrap();
            // Longer than a minute, so that what counts from their entry counts no more.
            sleep(Duration::from_secs(70)).await;
            assert!(rate.enter(100, later(10)).await.is_err());
            let began = Instant::now();
            first.send();
            second.send();
            rate.enter(100, later(120)).await.ok().unwrap().settle(100);
            let waited = began.elapsed().as_secs();
            assert!((60..=61).contains(&waited), "{waited} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_came_first_goes_first_also_when_the_second_is_small() {
        let rate = Arc::new(Rate::new(None, Some(1_000)));
        let held = rate.enter(800, later(1)).await.ok().unwrap();
        let (tx, mut order) = tokio::sync::mpsc::unbounded_channel();
        for tokens in [500, 100, 5_000] {
            let (rate, tx) = (Arc::clone(&rate), tx.clone());
            tokio::spawn(async move {
                let grant = rate.enter(tokens, later(300)).await.ok().unwrap();
                tx.send((tokens, Instant::now())).unwrap();
                grant.settle(tokens);
            });
            tokio::task::yield_now().await;
        }
        let began = Instant::now();
        held.settle(10);
        let mut next = async || order.recv().await.unwrap();
        let (first, second, third) = (next().await, next().await, next().await);
        assert_eq!([first.0, second.0, third.0], [500, 100, 5_000]);
        assert_eq!([first.1, second.1], [began, began]);
        // What is larger than the limit goes when nothing else counts.
        assert!(third.1 - began > Duration::from_secs(59), "{:?}", third.1 - began);
    }
}
