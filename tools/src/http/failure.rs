//! What is known of a call that has no result: whether what it asked for was done.

use reqwest::StatusCode;
use wire::{CallOutcome, ErrorCode, ToolReply, WireError};

/// The most seconds of a `Retry-After` that are passed on, an hour; no call waits longer.
const RETRY_AFTER_S_MAX: u64 = 3600;

/// What a status says of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It was done.
    Done,
    /// The server itself says that it refuses, or that it failed.
    Failed,
    /// Nobody who answers knows what became of it; the code says why.
    Unknown(ErrorCode),
}

/// Says what a status means for a call.
///
/// 502 and 504 come from a gateway that had no valid answer, or none in time, from the server behind
/// it, which may be at work still (RFC 9110, 15.6.3 and 15.6.5). So do 520, 522 and 524 of content
/// networks, and 499, by which a gateway says that its own request was given up.
///
/// 408 says that a request did not come whole in time (RFC 9110, 15.5.9). One of a tool is sent
/// whole, so whoever answers 408 waited for something else, as a request-reply proxy does for a
/// reply.
///
/// 503 says that a server takes no requests for a while (RFC 9110, 15.6.4), and 521, 523, 525 and
/// 526 that a content network did not reach one: nothing was done. 500 is the word of the server
/// itself, as any other status is.
pub(crate) fn meaning(status: StatusCode) -> Meaning {
    match status.as_u16() {
        200..=299 => Meaning::Done,
        408 | 499 | 504 | 522 | 524 => Meaning::Unknown(ErrorCode::ToolTimeout),
        502 | 520 => Meaning::Unknown(ErrorCode::ToolUnavailable),
        _ => Meaning::Failed,
    }
}

/// Reads the header `Retry-After`, of whose two forms servers of interfaces send the seconds.
pub(crate) fn retry_after_ms(header: &str) -> Option<u64> {
    let seconds: u64 = header.trim().parse().ok()?;
    Some(seconds.min(RETRY_AFTER_S_MAX) * 1000)
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    /// It failed, and that is all there is to know.
    Settled(WireError),
    /// It is not known whether it was done.
    Lost(WireError),
}

impl Failure {
    pub(crate) fn settled(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Settled(WireError::new(code, message))
    }

    pub(crate) fn lost(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Lost(WireError::new(code, message))
    }

    /// Changes what is told of it.
    pub(super) fn told(self, tell: impl FnOnce(&str) -> String) -> Self {
        let told = |error: WireError| WireError { message: tell(&error.message), ..error };
        match self {
            Self::Settled(error) => Self::Settled(told(error)),
            Self::Lost(error) => Self::Lost(told(error)),
        }
    }

    pub(super) fn into_error(self) -> WireError {
        match self {
            Self::Settled(error) | Self::Lost(error) => error,
        }
    }

    pub(crate) fn into_reply(self) -> ToolReply {
        match self {
            Self::Settled(error) => ToolReply::settled(CallOutcome::Error { error }),
            Self::Lost(error) => ToolReply::Lost { error, hop: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_whether_it_was_done() {
        let slow = Meaning::Unknown(ErrorCode::ToolTimeout);
        let broken = Meaning::Unknown(ErrorCode::ToolUnavailable);
        for (statuses, expected) in [
            (vec![200, 201, 202, 204, 299], Meaning::Done),
            (vec![408, 499, 504, 522, 524], slow),
            (vec![502, 520], broken),
            (vec![300, 304, 400, 401, 404, 409, 425, 429], Meaning::Failed),
            (vec![500, 501, 503, 505, 521, 523, 525, 526], Meaning::Failed),
        ] {
            for status in statuses {
                let known = StatusCode::from_u16(status).unwrap();
                assert_eq!(meaning(known), expected, "{status}");
            }
        }
    }
}
