//! How many retries a server is sent, whoever makes them.

use std::time::Duration;

use crate::window::Window;

/// The requests of a minute for each of which one retry is granted: a server in trouble gets a
/// tenth more than one that is well.
const REQUESTS_PER_RETRY: u64 = 10;

/// The retries of a minute that are granted in any case, so that a request that is alone has its
/// own.
const RETRIES_MIN: u64 = 10;

/// Counts the requests to a server and their retries; times are since the same beginning for all
/// calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetryBudget {
    requests: Window,
    retries: Window,
}

impl RetryBudget {
    /// Counts a request that is no retry.
    pub(crate) fn request(&mut self, now: Duration) {
        self.requests.add(now, 1);
    }

    /// Grants a retry, or not.
    pub(crate) fn retry(&mut self, now: Duration) -> bool {
        let granted = (self.requests.total(now) / REQUESTS_PER_RETRY).max(RETRIES_MIN);
        let free = self.retries.total(now) < granted;
        if free {
            self.retries.add(now, 1);
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_tenth_of_the_requests_of_a_minute() {
        for (requests, retries) in
            [(0, 10), (1, 10), (99, 10), (110, 11), (1_000, 100), (5_000, 500)]
        {
            let mut budget = RetryBudget::default();
            (0..requests).for_each(|_| budget.request(Duration::ZERO));
            for second in [0, 30, 60] {
                let now = Duration::from_secs(second);
                let granted = (0..10_000).filter(|_| budget.retry(now)).count();
                assert_eq!(granted, if second == 0 { retries } else { 0 }, "{requests} {second}");
            }
            let later = Duration::from_secs(61);
            assert_eq!((0..10_000).filter(|_| budget.retry(later)).count(), 10, "{requests}");
        }
    }
}
