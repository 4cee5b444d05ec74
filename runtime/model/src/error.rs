//! Why one attempt at a provider gave no reply.

use std::error::Error as _;
use std::time::Duration;

use crate::breaker::Sign;
use crate::complaint::Complaint;
use crate::retry::Advice;

/// The most bytes of one reply, or of one event of a stream: several times the longest reply that
/// models write, and little enough to be held once for every place.
pub(crate) const REPLY_BYTES_MAX: usize = 4 << 20;

/// The most bytes read of an answer that reports an error. Only its beginning is told, but what a
/// model wrote may stand in it.
pub(crate) const COMPLAINT_BYTES_MAX: usize = 256 << 10;

/// The most calls in one reply; a reply with more is no honest one.
pub(crate) const CALLS_MAX: usize = 256;

/// Words by which providers say amid an answer that they want to be asked less.
const THROTTLED: &[&str] = &["rate_limit_error", "rate_limit_exceeded", "too_many_requests"];

/// Why one attempt at a provider gave no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There was no connection, so that nothing was sent.
    #[error("the server cannot be reached: {reason}")]
    Unreachable {
        /// What the network says.
        reason: String,
    },
    /// The server answered with a status that is no success.
    #[error("status {status}, {complaint}{}", request.as_ref().map(|id| format!(" (request id {id})")).unwrap_or_default())]
    Status {
        /// The status.
        status: u16,
        /// What it says.
        complaint: Box<Complaint>,
        /// When to come again.
        advice: Advice,
        /// The provider's id of the request.
        request: Option<String>,
    },
    /// The server reported an error in an answer that had begun well.
    #[error("an error instead of the rest of the reply, {0}")]
    InBand(Box<Complaint>),
    /// The server broke off an answer that it had begun, and said nothing for too long.
    #[error("no further byte for {} ms, which is `idle_timeout_ms` of the model", .limit.as_millis())]
    Idle {
        /// How long.
        limit: Duration,
    },
    /// The answer ended before the reply did, or before it began.
    #[error("the reply was cut: {reason}")]
    Cut {
        /// What the network says.
        reason: String,
    },
    /// The answer is not of the form that the protocol promises.
    #[error("{fault}: {beginning:?}")]
    Form {
        /// What is wrong.
        fault: &'static str,
        /// The beginning of what came.
        beginning: String,
    },
    /// The reply is larger than is taken.
    #[error("the reply has more than {REPLY_BYTES_MAX} bytes or {CALLS_MAX} calls")]
    TooLarge,
    /// The script of a scripted model has come to its end.
    #[error(
        "no `when` of the script matches the end of the conversation, and of its {plain} replies without \
         `when` number {number} is asked for; add a reply for {last:?}"
    )]
    ScriptOver {
        /// The replies without `when`.
        plain: usize,
        /// The one that is missing, counted from 1.
        number: usize,
        /// The beginning of the last message.
        last: String,
    },
}

impl Error {
    /// Takes an error of the HTTP client from before the answer began. Where there was a connection
    /// the server may have the request, and work on it.
    pub(crate) fn unanswered(error: reqwest::Error) -> Self {
        if error.is_connect() || error.is_builder() {
            Self::Unreachable { reason: chain(error) }
        } else {
            Self::cut(error)
        }
    }

    /// Takes an error of the HTTP client from amid the answer.
    pub(crate) fn cut(error: reqwest::Error) -> Self {
        Self::Cut { reason: chain(error) }
    }

    /// Makes the error for an answer of the wrong form.
    pub(crate) fn form(fault: &'static str, what: &str) -> Self {
        Self::Form { fault, beginning: what.chars().take(200).collect() }
    }

    /// Returns what the failure tells of the server, as opposed to the request.
    pub(crate) fn sign(&self) -> Sign {
        let of_status = |status: u16| match status {
            429 => Sign::Throttled,
            // These refuse what was asked for, now and later.
            501 | 505 => Sign::Up,
            408 | 500.. => Sign::Down,
            _ => Sign::Up,
        };
        match self {
            Self::Status { complaint, .. } | Self::InBand(complaint)
                if complaint.is_final() || complaint.is_unreadable() =>
            {
                Sign::Up
            }
            Self::Status { status, .. } => of_status(*status),
            Self::InBand(complaint) if complaint.is_one_of(THROTTLED) => Sign::Throttled,
            Self::InBand(complaint) => complaint.status.map_or(Sign::Down, of_status),
            Self::Unreachable { .. } | Self::Idle { .. } | Self::Cut { .. } | Self::Form { .. } => {
                Sign::Down
            }
            Self::TooLarge | Self::ScriptOver { .. } => Sign::Up,
        }
    }

    /// Returns what the server says about when to come again.
    pub(crate) fn advice(&self) -> Option<Duration> {
        match self {
            Self::Status { advice, .. } => advice.after,
            Self::Unreachable { .. }
            | Self::InBand(_)
            | Self::Idle { .. }
            | Self::Cut { .. }
            | Self::Form { .. }
            | Self::TooLarge
            | Self::ScriptOver { .. } => None,
        }
    }
}

/// Tells an error with its causes, and without the address, which may hold a password.
fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_server_does_wrong_speaks_against_it() {
        let complaint = |status, word: &str| {
            let code = (!word.is_empty()).then(|| word.to_owned());
            Box::new(Complaint { status, code, ..Complaint::default() })
        };
        let status = |status, word| Error::Status {
            status,
            complaint: complaint(None, word),
            advice: Advice::default(),
            request: None,
        };
        let in_band = |status, word| Error::InBand(complaint(status, word));
        let reason = String::new;
        let cases: [(Sign, Vec<Error>); 3] = [
            (
                Sign::Down,
                vec![
                    status(408, ""),
                    status(500, ""),
                    status(503, ""),
                    status(529, "overloaded_error"),
                    in_band(None, "overloaded_error"),
                    in_band(Some(500), ""),
                    Error::Unreachable { reason: reason() },
                    Error::Idle { limit: Duration::ZERO },
                    Error::Cut { reason: reason() },
                    Error::form("no JSON", ""),
                ],
            ),
            (
                Sign::Throttled,
                vec![status(429, ""), in_band(Some(429), ""), in_band(None, "rate_limit_error")],
            ),
            (
                Sign::Up,
                vec![
                    status(400, ""),
                    status(401, ""),
                    status(404, ""),
                    status(409, ""),
                    status(413, ""),
                    status(302, ""),
                    status(501, ""),
                    status(429, "insufficient_quota"),
                    in_band(None, "context_length_exceeded"),
                    in_band(None, "tool_use_failed"),
                    Error::TooLarge,
                ],
            ),
        ];
        for (sign, errors) in cases {
            for error in errors {
                assert_eq!(error.sign(), sign, "{error:?}");
            }
        }
    }
}
