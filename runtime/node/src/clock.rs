//! The one place that reads a clock.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;
use wire::Timestamp;

/// Returns the time by which the node decides: the wall time at its start, and what has passed
/// since. Setting the wall clock ends no run early and puts no entry before an older one; until
/// the next start the two differ by that much.
pub fn now() -> Timestamp {
    static START: OnceLock<(u64, u64)> = OnceLock::new();
    let up = up_micros();
    let (wall, began) = *START.get_or_init(|| (wall().as_micros(), up));
    Timestamp::from_micros(wall.saturating_add(up.saturating_sub(began)))
}

/// Writes a time for people and for other programs.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
    chrono::DateTime::from_timestamp_micros(micros)
        .map(|time| time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
        .unwrap_or_default()
}

/// Returns the wall time as it is set, for those who want to be told the time of day.
pub(crate) fn wall() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the clock")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// The clock that nobody sets, which goes on while the machine sleeps.
#[cfg(target_os = "linux")]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const STEADY: ClockId = ClockId::Monotonic;

/// Returns how long the machine is up.
fn up_micros() -> u64 {
    let up = clock_gettime(STEADY);
    let seconds = u64::try_from(up.tv_sec).unwrap_or_default();
    let micros = u64::try_from(up.tv_nsec / 1000).unwrap_or_default();
    seconds.saturating_mul(1_000_000).saturating_add(micros)
}

/// Returns how long it is until a wall time, zero if it is past.
pub(crate) fn until(at: Timestamp) -> Duration {
    at.since(now())
}

/// How long a sleep may be at once. The runtime's timers stand still while the machine sleeps and
/// [`now`] does not, so after that the time that is left is looked up again.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// Sleeps until a wall time.
pub(crate) async fn sleep_until(at: Timestamp) {
    sleep_out(|| until(at)).await;
}

/// Sleeps until nothing is left.
async fn sleep_out(left: impl Fn() -> Duration) {
    loop {
        let wait = left();
        if wait.is_zero() {
            return;
        }
        sleep(wait.min(SLEEP_MAX)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_soon_after_the_machine_has_slept_beyond_its_end() {
        // What is left each time that it is looked up, and how long the sleep takes; all in seconds.
        for (left, expected) in [
            (vec![0], 0),
            (vec![0, 10], 10),
            (vec![0, 1_770, 1_800], 60),
            // The machine slept for two hours in the first half minute.
            (vec![0, 1_800], 30),
        ] {
            let (left, began) = (RefCell::new(left), Instant::now());
            sleep_out(|| Duration::from_secs(left.borrow_mut().pop().unwrap_or_default())).await;
            assert_eq!(began.elapsed().as_secs(), expected);
        }
    }
}
