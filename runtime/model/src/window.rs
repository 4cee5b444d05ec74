//! What was used in the last minute.
//!
//! A window and not a bucket that refills: providers count by the minute, and a bucket as large as
//! a minute's limit would let twice of it through in the first.

use std::collections::VecDeque;
use std::time::Duration;

/// The milliseconds of a slot, whose amounts are forgotten together: short enough that nobody waits
/// noticeably longer than needed, and long enough that a window has 601 slots at most.
const SLOT_MS: u64 = 100;

/// The slots for which an amount counts. One more than a minute has, since the last slot of it may
/// have begun before.
const SLOTS: u64 = 60_000 / SLOT_MS + 1;

/// Amounts by the time at which they were used; times are since the same beginning for all calls
/// and never fall.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    slots: VecDeque<(u64, u64)>,
    total: u64,
    /// What is set aside to be used, which may be at any time from here on.
    held: u64,
}

/// When an amount was used, by which it can be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Window {
    /// Adds an amount.
    pub(crate) fn add(&mut self, now: Duration, amount: u64) -> Mark {
        self.forget(now);
        let slot = slot(now);
        self.total = self.total.saturating_add(amount);
        match self.slots.back_mut() {
            Some((last, sum)) if *last >= slot => *sum = sum.saturating_add(amount),
            _ => self.slots.push_back((slot, amount)),
        }
        Mark(slot)
    }

    /// Sets an amount aside.
    pub(crate) fn hold(&mut self, amount: u64) {
        self.held = self.held.saturating_add(amount);
    }

    /// Gives back an amount that was set aside.
    pub(crate) fn release(&mut self, amount: u64) {
        self.held = self.held.saturating_sub(amount);
    }

    /// Puts an amount in place of another that was added at a mark, if it still counts.
    pub(crate) fn correct(&mut self, mark: Mark, from: u64, to: u64) {
        let at = self.slots.binary_search_by_key(&mark.0, |(slot, _)| *slot);
        if let Some((_, sum)) = at.ok().and_then(|at| self.slots.get_mut(at)) {
            *sum = sum.saturating_sub(from).saturating_add(to);
            self.total = self.total.saturating_sub(from).saturating_add(to);
        }
    }

    /// Returns what was used in the last minute.
    pub(crate) fn total(&mut self, now: Duration) -> u64 {
        self.forget(now);
        self.total
    }

    /// Returns how long to wait until an amount can be added without `max` being passed; an amount
    /// above `max` waits until nothing else counts. What is set aside counts as if it were used now,
    /// so that the wait is longer if it is used later.
    pub(crate) fn wait(&mut self, now: Duration, amount: u64, max: u64) -> Duration {
        self.forget(now);
        let room = max.saturating_sub(amount);
        let mut left = self.total.saturating_add(self.held);
        let held = (slot(now), self.held);
        for (slot, sum) in self.slots.iter().copied().chain([held]) {
            if left <= room {
                break;
            }
            left = left.saturating_sub(sum);
            if left <= room {
                let free =
                    Duration::from_millis(slot.saturating_add(SLOTS).saturating_mul(SLOT_MS));
                return free.saturating_sub(now);
            }
        }
        Duration::ZERO
    }

    fn forget(&mut self, now: Duration) {
        let now = slot(now);
        while let Some((_, sum)) = self.slots.pop_front_if(|(slot, _)| *slot + SLOTS <= now) {
            self.total = self.total.saturating_sub(sum);
        }
    }
}

fn slot(now: Duration) -> u64 {
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX) / SLOT_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_mins(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Asserts how long is to be waited: at which millisecond, for how much, of how much at most, and
    /// for how many milliseconds.
    fn assert_waits(window: &mut Window, cases: &[(u64, u64, u64, u64)]) {
        for (at, amount, max, wait) in cases {
            assert_eq!(window.wait(ms(*at), *amount, *max), ms(*wait), "{at} {amount}");
        }
    }

    #[test]
    fn an_amount_counts_for_a_minute() {
        let mut window = Window::default();
        for (at, amount, total) in [
            (0, 5, 5),
            (50, 1, 6),
            (30_000, 4, 10),
            (60_099, 0, 10),
            (60_100, 0, 4),
            (90_100, 2, 2),
            (900_000, 0, 0),
        ] {
            window.add(ms(at), amount);
            assert_eq!(window.total(ms(at)), total, "{at}");
        }
    }

    #[test]
    fn who_does_not_fit_is_told_how_long_to_wait() {
        let mut window = Window::default();
        window.add(ms(0), 4);
        window.add(ms(10_000), 4);
        assert_waits(
            &mut window,
            &[
                (20_000, 2, 10, 0),
                (20_000, 3, 10, 40_100),
                (20_000, 6, 10, 40_100),
                (20_000, 7, 10, 50_100),
                (20_000, 99, 10, 50_100),
                (59_950, 3, 10, 150),
                (60_100, 3, 10, 0),
            ],
        );
    }

    #[test]
    fn what_is_set_aside_leaves_no_room_however_long_it_waits() {
        let mut window = Window::default();
        window.add(ms(0), 4);
        window.hold(4);
        assert_waits(
            &mut window,
            &[
                (0, 2, 10, 0),
                (0, 3, 10, 60_100),
                (90_000, 6, 10, 0),
                (90_000, 7, 10, 60_100),
                (90_000, 99, 10, 60_100),
            ],
        );
        window.release(4);
        assert_waits(&mut window, &[(90_000, 99, 10, 0)]);
    }

    #[test]
    fn no_minute_has_more_than_the_limit() {
        let (mut window, mut now, max) = (Window::default(), ms(0), 30);
        let mut used: Vec<(Duration, u64)> = Vec::new();
        for step in 0..500_u64 {
            let amount = 1 + step * 7 % 11;
            now += window.wait(now, amount, max);
            window.add(now, amount);
            used.push((now, amount));
            let minute = used.iter().filter(|(at, _)| *at + SPAN > now).map(|(_, n)| n);
            assert!(minute.sum::<u64>() <= max, "at {now:?}");
            now += ms(step * 37 % 400);
        }
        // 500 amounts of 6 in the mean are 100 minutes' worth; large ones leave some room unused.
        assert!(now < SPAN * 120, "{now:?}");
    }

    #[test]
    fn an_amount_is_corrected_while_it_counts() {
        let mut window = Window::default();
        let (first, second) = (window.add(ms(0), 100), window.add(ms(5_000), 50));
        window.correct(first, 100, 3);
        assert_eq!(window.total(ms(5_000)), 53);
        window.correct(second, 50, 80);
        assert_eq!(window.total(ms(61_000)), 80);
        window.correct(first, 3, 1_000);
        assert_eq!(window.total(ms(61_000)), 80);
    }
}
