//! The one place that reads the wall clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wire::Timestamp;

/// Returns the wall time. Deadlines are kept by the runtime's monotonic clock, not by this.
pub fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the clock")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// Returns how long it is until a wall time, zero if it is past.
pub(crate) fn until(at: Timestamp) -> Duration {
    at.since(now())
}
