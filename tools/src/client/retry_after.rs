//! How long a server wants to be left alone.

use std::time::Duration;

use chrono::DateTime;

/// Reads `Retry-After`, in seconds or as a date, and `retry-after-ms`, which is more exact; `header`
/// looks a header up by its name in lower case.
///
/// The clock of a date is the answer's own `Date`, since the server's clock and ours may differ.
pub fn retry_after<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<Duration> {
    let milliseconds = || number(header("retry-after-ms")?, 0.001);
    let seconds = || number(header("retry-after")?, 1.0);
    let date = || {
        let until = DateTime::parse_from_rfc2822(header("retry-after")?.trim()).ok()?;
        let now = DateTime::parse_from_rfc2822(header("date")?.trim()).ok()?;
        Some((until - now).to_std().unwrap_or_default())
    };
    milliseconds().or_else(seconds).or_else(date)
}

fn number(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok().filter(|number: &f64| *number >= 0.0)?;
    // What is too long for the type is left to the caller, who has a bound of its own.
    Some(Duration::try_from_secs_f64(number * unit).unwrap_or(Duration::MAX))
}
