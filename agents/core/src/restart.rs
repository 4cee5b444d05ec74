//! Whether an actor that ended by a fault is started again, and when.

use std::collections::VecDeque;
use std::time::Duration;

/// How often something may be restarted, and how long to wait before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Restarts that are allowed within the window.
    pub restarts_max: usize,
    /// The window.
    pub window: Duration,
    /// The wait before the first restart; it doubles with each further one in the window.
    pub backoff_min: Duration,
    /// The longest wait.
    pub backoff_max: Duration,
}

impl RestartPolicy {
    /// For sessions: started again three times within a minute, and set aside at the next fault.
    pub const SESSION: Self = Self {
        restarts_max: 3,
        window: Duration::from_mins(1),
        backoff_min: Duration::from_millis(50),
        backoff_max: Duration::from_secs(5),
    };

    /// For the actors of models and tools: their faults are rare and not bound to one request.
    pub const SERVICE: Self = Self {
        restarts_max: 10,
        window: Duration::from_mins(1),
        backoff_min: Duration::from_millis(100),
        backoff_max: Duration::from_secs(10),
    };
}

/// What is to be done about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start again after a wait.
    Restart(Duration),
    /// Do not start again.
    GiveUp,
}

/// The faults of one actor, by the time at which they happened on a clock that never goes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    at: VecDeque<Duration>,
}

impl Faults {
    /// Tells whether none of them counts any more.
    pub fn are_over(&self, now: Duration, policy: &RestartPolicy) -> bool {
        self.at.back().is_none_or(|at| now.saturating_sub(*at) > policy.window)
    }

    /// Notes a fault and decides what follows.
    pub fn on_fault(&mut self, now: Duration, policy: &RestartPolicy) -> Verdict {
        while self.at.front().is_some_and(|at| now.saturating_sub(*at) > policy.window) {
            self.at.pop_front();
        }
        let before = self.at.len();
        if before >= policy.restarts_max {
            return Verdict::GiveUp;
        }
        self.at.push_back(now);
        let doublings = u32::try_from(before).unwrap_or(u32::MAX).min(16);
        Verdict::Restart((policy.backoff_min * 2u32.pow(doublings)).min(policy.backoff_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted_within_the_window() {
        let policy = RestartPolicy {
            restarts_max: 3,
            window: Duration::from_mins(1),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_millis(300),
        };
        let mut faults = Faults::default();
        assert!(faults.are_over(Duration::ZERO, &policy));
        let cases = [
            (0, Verdict::Restart(Duration::from_millis(100))),
            (1, Verdict::Restart(Duration::from_millis(200))),
            (2, Verdict::Restart(Duration::from_millis(300))),
            (3, Verdict::GiveUp),
            (30, Verdict::GiveUp),
            (61, Verdict::Restart(Duration::from_millis(300))),
            (200, Verdict::Restart(Duration::from_millis(100))),
        ];
        for (seconds, expected) in cases {
            let verdict = faults.on_fault(Duration::from_secs(seconds), &policy);
            assert_eq!(verdict, expected, "at {seconds} s");
        }
        for (seconds, expected) in [(200, false), (260, false), (261, true)] {
            let now = Duration::from_secs(seconds);
            assert_eq!(faults.are_over(now, &policy), expected, "at {seconds} s");
        }
    }
}
