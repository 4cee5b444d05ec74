//! Why one attempt at a provider gave no reply.

use std::error::Error as _;
use std::time::Duration;

use crate::complaint::Complaint;
use crate::retry::Advice;

/// The most bytes of one reply, or of one event of a stream: several times the longest reply that
/// models write, and little enough to be held once for every place.
pub(crate) const REPLY_BYTES_MAX: usize = 4 << 20;

/// The most calls in one reply; a reply with more is no honest one.
pub(crate) const CALLS_MAX: usize = 256;

/// Why one attempt at a provider gave no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There was no connection, or it broke before an answer began.
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
    /// The server said nothing for too long.
    #[error("no byte for {} ms, which is `idle_timeout_ms` of the model", .limit.as_millis())]
    Idle {
        /// How long.
        limit: Duration,
    },
    /// The answer ended before the reply did.
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
    /// Takes an error of the HTTP client from before the answer began.
    pub(crate) fn unreachable(error: reqwest::Error) -> Self {
        Self::Unreachable { reason: chain(error) }
    }

    /// Takes an error of the HTTP client from amid the answer.
    pub(crate) fn cut(error: reqwest::Error) -> Self {
        Self::Cut { reason: chain(error) }
    }

    /// Makes the error for an answer of the wrong form.
    pub(crate) fn form(fault: &'static str, what: &str) -> Self {
        Self::Form { fault, beginning: what.chars().take(200).collect() }
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
