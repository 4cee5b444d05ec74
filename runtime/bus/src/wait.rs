//! How long an answer is waited for.

use std::time::Duration;

/// The time that a request names which leaves within its grace: enough for a reply that is there.
const LATE_TIME: Duration = Duration::from_millis(100);

/// How long the answer to a request is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub(crate) within: Duration,
    pub(crate) is_long: bool,
    grace: Duration,
}

impl Wait {
    /// Waits for what comes of a run or is said by a person, which may take days. Of the requests
    /// that may wait at once, those that wait so leave half to others: to those that the runs make
    /// on which they wait, and to those that end or answer a run.
    pub const fn long(within: Duration) -> Self {
        Self { within, is_long: true, grace: Duration::ZERO }
    }

    /// Keeps the last of the time for the way of the answer, and does not tell whoever answers of it.
    #[must_use]
    pub const fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Returns the milliseconds that a request names which leaves at once, in
    /// [`wire::header::REMAINING_MS`]. One that leaves later names no more than is left by then.
    pub fn told_ms(&self) -> u64 {
        self.told_ms_after(Duration::ZERO)
    }

    /// Returns the milliseconds that a request names which leaves after it has waited for so long.
    pub(crate) fn told_ms_after(&self, waited: Duration) -> u64 {
        let left = self.within.saturating_sub(waited);
        let told = left.saturating_sub(self.grace).max(left.min(LATE_TIME));
        u64::try_from(told.as_millis()).unwrap_or(u64::MAX)
    }
}

impl From<Duration> for Wait {
    /// Waits for what ends by itself before long.
    fn from(within: Duration) -> Self {
        Self { within, is_long: false, grace: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_is_told_of_what_is_left_without_the_grace() {
        // How long is waited in all, how much of it is grace, how much is past, and what is told.
        let cases = [
            (30_000, 0, 0, 30_000),
            (30_000, 0, 20_000, 10_000),
            (30_000, 1000, 0, 29_000),
            (30_000, 1000, 20_000, 9_000),
            (30_000, 1000, 29_500, 100),
            (30_000, 1000, 29_950, 50),
            (30_000, 1000, 40_000, 0),
        ];
        for (within, grace, waited, told) in cases {
            let [within, grace, waited] = [within, grace, waited].map(Duration::from_millis);
            for wait in [Wait::from(within), Wait::long(within)] {
                let wait = wait.with_grace(grace);
                assert_eq!(wait.told_ms_after(waited), told, "{wait:?} after {waited:?}");
            }
        }
    }
}
