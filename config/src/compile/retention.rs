//! How long what happened is kept.

use crate::bound::{
    RETENTION_MS, RETENTION_RUNS_DEFAULT, RETENTION_SESSIONS_DEFAULT, RETENTION_TRACE_BYTES,
};
use crate::compile::Compiler;
use crate::raw::RawRetention;
use crate::team::Retention;

/// The word for a time without end.
const FOREVER: &str = "forever";

/// What is written is at fault, which has been reported.
#[derive(Clone, Copy)]
struct Reported;

impl Compiler<'_> {
    pub(super) fn retention(&mut self, raw: &RawRetention) -> Retention {
        let runs = raw.runs.as_deref().unwrap_or(RETENTION_RUNS_DEFAULT);
        let sessions = raw.sessions.as_deref().unwrap_or(RETENTION_SESSIONS_DEFAULT);
        // What cannot be read has been reported, and is held against nothing.
        let runs = self.time("runs", runs);
        let sessions = self.time("sessions", sessions);
        let traces = raw.traces.as_deref().map_or(runs, |traces| self.time("traces", traces));
        if let (Ok(Some(sessions)), Ok(runs)) = (sessions, runs)
            && runs.is_none_or(|runs| runs > sessions)
        {
            self.fault(
                &["retention", "sessions"],
                "sessions are kept for a shorter time than their runs",
                "keep them as long as `runs` or longer",
            );
        }
        if let (Ok(Some(runs)), Ok(traces)) = (runs, traces)
            && traces.is_none_or(|traces| traces > runs)
        {
            self.fault(
                &["retention", "traces"],
                "traces are kept for a longer time than their runs, of which they are made",
                "keep them as long as `runs` or shorter",
            );
        }
        let trace_bytes_max = raw.trace_bytes_max.unwrap_or(RETENTION_TRACE_BYTES.default);
        Retention {
            runs_ms: runs.unwrap_or_default(),
            runs_max: raw.runs_max,
            sessions_ms: sessions.unwrap_or_default(),
            traces_ms: traces.unwrap_or_default(),
            trace_bytes_max: Some(trace_bytes_max),
        }
    }

    /// Reads a time, which may be without end; one that is none is reported.
    fn time(&mut self, field: &str, text: &str) -> Result<Option<u64>, Reported> {
        if text == FOREVER {
            return Ok(None);
        }
        let ms = milliseconds(text);
        if ms.is_none() {
            let message = format!("{text:?} is no time for which something can be kept");
            let help = "write a number with `s`, `m`, `h` or `d`, such as `30d`, from a second to \
                        a hundred years, or `forever`";
            self.fault(&["retention", field], message, help);
        }
        ms.map(Some).ok_or(Reported)
    }
}

fn milliseconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    // `parse` would take a sign.
    let ms = number
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| number.parse::<u64>().ok()?.checked_mul(unit))??;
    (RETENTION_MS.min..=RETENTION_MS.max).contains(&ms).then_some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_with_a_unit() {
        let cases = [
            ("1s", Some(1000)),
            ("90m", Some(5_400_000)),
            ("12h", Some(43_200_000)),
            ("7d", Some(604_800_000)),
            ("0d", None),
            ("", None),
            ("d", None),
            ("7", None),
            ("-7d", None),
            ("+7d", None),
            ("1.5d", None),
            ("7 d", None),
            ("7w", None),
            ("36526d", None),
            ("99999999999999999999d", None),
            ("7\u{e9}", None),
        ];
        for (text, expected) in cases {
            assert_eq!(milliseconds(text), expected, "{text:?}");
        }
        assert_eq!(milliseconds(RETENTION_RUNS_DEFAULT), Some(RETENTION_MS.default));
    }
}
