//! When a failed request is made again, and how long to wait before.
//!
//! All of it is pure: the clock of a `Retry-After` date is the answer's own `Date`, and the random
//! number is an argument.

use std::time::Duration;

use tools::client::retry_after;
use wire::ErrorCode;

use crate::complaint::Complaint;
use crate::error::Error;

/// The bound of the first wait; it doubles with every failure.
const BACKOFF_MS_MIN: u64 = 500;

/// The bound of every later wait, so that a turn of two minutes has room for several.
const BACKOFF_MS_MAX: u64 = 8_000;

/// The longest wait that a server can ask for; longer ones are cut to it.
const ADVICE_MAX: Duration = Duration::from_mins(1);

/// Repetitions after answers that were begun and not usable: the provider may bill each of them.
const SPOILT_RETRIES_MAX: u32 = 2;

/// Says what a failure is and how often it is worth another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    /// What the run is told if no attempt succeeds.
    pub(crate) code: ErrorCode,
    /// How often to try again.
    pub(crate) repeat: Repeat,
}

/// How often a class of failures is worth another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The answer would be the same.
    Never,
    /// As often as the model's `retries_max` allows: nothing was done.
    Full,
    /// At most [`SPOILT_RETRIES_MAX`] times: something was done, and lost.
    Spoilt,
}

/// What came of a reply before it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Came {
    /// Nothing that the model wrote.
    Nothing,
    /// Something that is not passed on by itself, such as a call or reasoning.
    Part,
    /// Text that was passed on.
    Shown,
}

impl Class {
    const fn new(code: ErrorCode, repeat: Repeat) -> Self {
        Self { code, repeat }
    }

    /// Classifies a failure.
    pub(crate) fn of(error: &Error, came: Came) -> Self {
        match error {
            Error::Unreachable { .. } => Self::new(ErrorCode::ModelUnavailable, Repeat::Full),
            // Said as if it were the request, but another reply may be better.
            Error::Status { complaint, .. } | Error::InBand(complaint)
                if complaint.is_unreadable() =>
            {
                Self::new(ErrorCode::ModelProtocol, Repeat::Spoilt)
            }
            Error::Status { status, complaint, advice, .. } => {
                Self::of_status(*status, complaint, advice.should_retry)
            }
            Error::InBand(complaint) => Self::of_in_band(complaint, came),
            Error::Idle { .. } => Self::new(ErrorCode::ModelUnavailable, Repeat::Spoilt),
            Error::Cut { .. } | Error::Form { .. } => {
                Self::new(ErrorCode::ModelProtocol, Repeat::Spoilt)
            }
            // The next reply would be as large, and as dear.
            Error::TooLarge => Self::new(ErrorCode::ModelProtocol, Repeat::Never),
            Error::ScriptOver { .. } => Self::new(ErrorCode::ModelRefused, Repeat::Never),
        }
    }

    fn of_status(status: u16, complaint: &Complaint, should_retry: Option<bool>) -> Self {
        let class = match status {
            429 if complaint.is_spent() => Self::new(ErrorCode::ModelRefused, Repeat::Never),
            501 | 505 => Self::new(ErrorCode::ModelRefused, Repeat::Never),
            408 | 409 | 429 | 500.. => Self::new(ErrorCode::ModelUnavailable, Repeat::Full),
            _ => Self::new(ErrorCode::ModelRefused, Repeat::Never),
        };
        match should_retry {
            Some(true) => Self::new(class.code, Repeat::Full),
            Some(false) => Self::new(class.code, Repeat::Never),
            None => class,
        }
    }

    fn of_in_band(complaint: &Complaint, came: Came) -> Self {
        let class = match complaint.status {
            _ if complaint.is_final() => Self::new(ErrorCode::ModelRefused, Repeat::Never),
            Some(status) => Self::of_status(status, complaint, None),
            None => Self::new(ErrorCode::ModelUnavailable, Repeat::Full),
        };
        match came {
            Came::Shown => Self::new(class.code, Repeat::Never),
            Came::Part if class.repeat == Repeat::Full => Self::new(class.code, Repeat::Spoilt),
            Came::Part | Came::Nothing => class,
        }
    }
}

/// What an answer's headers say about another attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advice {
    /// `x-should-retry`, which overrules the status.
    pub(crate) should_retry: Option<bool>,
    /// How long to wait, at most [`ADVICE_MAX`].
    pub(crate) after: Option<Duration>,
}

impl Advice {
    /// Reads the advice; `header` looks a header up by its name in lower case.
    pub(crate) fn read<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Self {
        Self {
            should_retry: match header("x-should-retry").map(str::trim) {
                Some("true") => Some(true),
                Some("false") => Some(false),
                _ => None,
            },
            after: retry_after(header).map(|wait| wait.min(ADVICE_MAX)),
        }
    }
}

/// Counts the failures of one turn and decides after each whether there is another attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tries {
    retries_max: u32,
    failed: u32,
    spoilt: u32,
}

impl Tries {
    /// Begins a turn.
    pub(crate) const fn new(retries_max: u32) -> Self {
        Self { retries_max, failed: 0, spoilt: 0 }
    }

    /// Tells whether an attempt was begun and its answer was not usable.
    pub(crate) const fn has_spoilt(&self) -> bool {
        self.spoilt > 0
    }

    /// Counts a failure and returns how long to wait for the next attempt, if there is one.
    ///
    /// Without advice the wait is spread evenly below a bound that doubles with each failure. A
    /// server's advice is obeyed, with up to a tenth more, so that not all clients come at once.
    pub(crate) fn next(
        &mut self,
        repeat: Repeat,
        advice: Option<Duration>,
        random: u64,
    ) -> Option<Duration> {
        self.failed = self.failed.saturating_add(1);
        let again = match repeat {
            Repeat::Never => false,
            Repeat::Full => true,
            Repeat::Spoilt => {
                self.spoilt = self.spoilt.saturating_add(1);
                self.spoilt <= SPOILT_RETRIES_MAX
            }
        };
        if !again || self.failed > self.retries_max {
            return None;
        }
        let advice = advice.map(|wait| wait.min(ADVICE_MAX));
        Some(if let Some(wait) = advice {
            let spread = u64::try_from(wait.as_millis() / 10).unwrap_or(u64::MAX - 1);
            wait + Duration::from_millis(random % (spread + 1))
        } else {
            let doubled = 1_u64.checked_shl(self.failed - 1).unwrap_or(u64::MAX);
            let bound = BACKOFF_MS_MIN.saturating_mul(doubled).min(BACKOFF_MS_MAX);
            Duration::from_millis(random % (bound + 1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breaker::Sign;

    type Headers<'a> = &'a [(&'a str, &'a str)];

    fn complaint(status: Option<u16>, word: &str) -> Complaint {
        let code = (!word.is_empty()).then(|| word.to_owned());
        Complaint { status, code, ..Complaint::default() }
    }

    #[test]
    fn statuses_have_classes() {
        use ErrorCode::{ModelRefused as Refused, ModelUnavailable as Unavailable};
        let cases: [(&[u16], _, _, _, _); 9] = [
            (&[400, 401, 402, 403, 404, 405, 413, 422, 501, 302], "", None, Refused, Repeat::Never),
            (&[408, 409, 429, 500, 502, 503, 504, 520, 529], "", None, Unavailable, Repeat::Full),
            (&[429], "rate_limit_exceeded", None, Unavailable, Repeat::Full),
            (&[429], "insufficient_quota", None, Refused, Repeat::Never),
            (&[400], "tool_use_failed", Some(false), ErrorCode::ModelProtocol, Repeat::Spoilt),
            (&[429], "credit_balance_exhausted", None, Refused, Repeat::Never),
            (&[429, 500], "", Some(false), Unavailable, Repeat::Never),
            (&[400], "", Some(true), Refused, Repeat::Full),
            (&[503], "", Some(true), Unavailable, Repeat::Full),
        ];
        for (statuses, word, should_retry, code, repeat) in cases {
            for &status in statuses {
                let advice = Advice { should_retry, after: None };
                let complaint = complaint(None, word).into();
                let error = Error::Status { status, complaint, advice, request: None };
                let class = Class::of(&error, Came::Nothing);
                assert_eq!(class, Class { code, repeat }, "{status} {word}");
            }
        }
        for body in [
            r#"{"error":"error parsing tool call: raw='{\"a\":1}]', err=invalid character ']'"}"#,
            r#"{"error":{"code":500,"message":"Failed to parse input at pos 3: now()"}}"#,
        ] {
            let complaint = Complaint::from_body(body.as_bytes()).into();
            let advice = Advice::default();
            let error = Error::Status { status: 500, complaint, advice, request: None };
            let class = Class { code: ErrorCode::ModelProtocol, repeat: Repeat::Spoilt };
            assert_eq!(Class::of(&error, Came::Nothing), class, "{body}");
            assert_eq!(error.sign(), Sign::Up, "{body}");
        }
    }

    #[test]
    fn other_failures_have_classes() {
        use Came::{Nothing, Part, Shown};
        use ErrorCode::{
            ModelProtocol as Protocol, ModelRefused as Refused, ModelUnavailable as Unavailable,
        };
        let in_band = |status, word| Error::InBand(complaint(status, word).into());
        let reason = String::new();
        let cases = [
            (Error::Unreachable { reason: reason.clone() }, Nothing, Unavailable, Repeat::Full),
            (in_band(None, "overloaded_error"), Nothing, Unavailable, Repeat::Full),
            (in_band(None, "overloaded_error"), Part, Unavailable, Repeat::Spoilt),
            (in_band(None, "overloaded_error"), Shown, Unavailable, Repeat::Never),
            (in_band(Some(400), ""), Part, Refused, Repeat::Never),
            (in_band(None, "server_is_overloaded"), Nothing, Unavailable, Repeat::Full),
            (in_band(None, ""), Nothing, Unavailable, Repeat::Full),
            (in_band(Some(429), ""), Nothing, Unavailable, Repeat::Full),
            (in_band(Some(400), ""), Nothing, Refused, Repeat::Never),
            (in_band(None, "context_length_exceeded"), Nothing, Refused, Repeat::Never),
            (in_band(Some(429), "insufficient_quota"), Nothing, Refused, Repeat::Never),
            (in_band(None, "tool_use_failed"), Shown, Protocol, Repeat::Spoilt),
            (Error::Idle { limit: Duration::ZERO }, Shown, Unavailable, Repeat::Spoilt),
            (Error::Cut { reason }, Shown, Protocol, Repeat::Spoilt),
            (Error::form("no JSON", ""), Nothing, Protocol, Repeat::Spoilt),
            (Error::TooLarge, Nothing, Protocol, Repeat::Never),
        ];
        for (error, came, code, repeat) in cases {
            assert_eq!(Class::of(&error, came), Class { code, repeat }, "{error:?} {came:?}");
        }
    }

    #[test]
    fn advice_is_read_from_headers() {
        const DATE: (&str, &str) = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let ms = |ms| Some(Duration::from_millis(ms));
        let cases: [(Headers, Option<bool>, Option<Duration>); 17] = [
            (&[], None, None),
            (&[("retry-after", "7")], None, ms(7_000)),
            (&[("retry-after", " 1.5 ")], None, ms(1_500)),
            (&[("retry-after", "0")], None, ms(0)),
            (&[("retry-after", "61")], None, ms(60_000)),
            (&[("retry-after", "1e300")], None, ms(60_000)),
            (&[("retry-after", "-1")], None, None),
            (&[("retry-after", "NaN")], None, None),
            (&[("retry-after", "soon")], None, None),
            (&[("retry-after-ms", "250"), ("retry-after", "9")], None, ms(250)),
            (&[("retry-after-ms", "x"), ("retry-after", "9")], None, ms(9_000)),
            (&[DATE, ("retry-after", "Sun, 06 Nov 1994 08:49:42 GMT")], None, ms(5_000)),
            (&[DATE, ("retry-after", "Sun, 06 Nov 1994 08:49:30 GMT")], None, ms(0)),
            (&[DATE, ("retry-after", "Mon, 07 Nov 1994 08:49:37 GMT")], None, ms(60_000)),
            (&[("retry-after", "Sun, 06 Nov 1994 08:49:42 GMT")], None, None),
            (&[("x-should-retry", "true")], Some(true), None),
            (&[("x-should-retry", "false"), ("retry-after", "1")], Some(false), ms(1_000)),
        ];
        for (headers, should_retry, after) in cases {
            let header = |name: &str| headers.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
            assert_eq!(Advice::read(header), Advice { should_retry, after }, "{headers:?}");
        }
    }

    #[test]
    fn waits_double_to_a_bound_and_are_spread_below_it() {
        for (random, expected) in [
            (0, [0, 0, 0, 0, 0, 0]),
            (500, [500, 500, 500, 500, 500, 500]),
            (8_000, [8_000 % 501, 8_000 % 1_001, 8_000 % 2_001, 8_000 % 4_001, 8_000, 8_000]),
        ] {
            let mut tries = Tries::new(6);
            for ms in expected {
                let wait = tries.next(Repeat::Full, None, random);
                assert_eq!(wait, Some(Duration::from_millis(ms)), "{random}");
            }
            assert_eq!(tries.next(Repeat::Full, None, random), None);
            assert_eq!(tries.failed, 7);
        }
        let mut endless = Tries { retries_max: u32::MAX, failed: 100, spoilt: 0 };
        assert!(endless.next(Repeat::Full, None, u64::MAX) <= Some(Duration::from_secs(8)));
    }

    #[test]
    fn advice_is_obeyed_and_never_undercut() {
        for (ms, random, expected) in [
            (0, u64::MAX, 0),
            (1_000, 0, 1_000),
            (1_000, 100, 1_100),
            (1_000, 101, 1_000),
            (600_000, 0, 60_000),
            (600_000, 6_000, 66_000),
        ] {
            let wait =
                Tries::new(1).next(Repeat::Full, Some(Duration::from_millis(ms)), random).unwrap();
            assert_eq!(wait, Duration::from_millis(expected), "{ms} {random}");
        }
    }

    #[test]
    fn attempts_are_bounded_by_class() {
        use Repeat::{Full, Never, Spoilt};
        let cases: [(u32, &[Repeat], u32); 7] = [
            (4, &[Never], 1),
            (0, &[Full], 1),
            (4, &[Full; 9], 5),
            (4, &[Spoilt; 9], 3),
            (1, &[Spoilt; 9], 2),
            (4, &[Full, Spoilt, Full, Spoilt, Full, Full], 5),
            (9, &[Full, Spoilt, Full, Spoilt, Spoilt, Full], 5),
        ];
        for (retries_max, failures, attempts) in cases {
            let mut tries = Tries::new(retries_max);
            for repeat in failures {
                if tries.next(*repeat, None, 0).is_none() {
                    break;
                }
            }
            assert_eq!(tries.failed, attempts, "{retries_max} {failures:?}");
        }
    }
}
