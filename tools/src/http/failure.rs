//! What is known of a call that has no result: whether what it asked for was done.

use std::time::Duration;

use reqwest::StatusCode;
use wire::{CallOutcome, ErrorCode, ToolReply, WireError};

use crate::client::retry_after;

/// The longest `Retry-After` that is passed on; no call waits longer.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

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

/// Returns how long a server wants to be left alone, as far as that is passed on; see
/// [`retry_after`].
pub(crate) fn retry_after_ms<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<u64> {
    u64::try_from(retry_after(header)?.min(RETRY_AFTER_MAX).as_millis()).ok()
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

    /// Says it of a page that followed others.
    pub(super) fn of_page(self, page: u32) -> Self {
        self.told(|message| format!("page {page}: {message}"))
    }

    /// Says it of a request that a server took, and whose answer was to be had elsewhere.
    pub(super) fn after_taken(self) -> Self {
        let told = self.told(|message| {
            format!("the request was taken, but its answer could not be had: {message}")
        });
        Self::Lost(told.into_error())
    }

    pub(super) fn into_error(self) -> WireError {
        match self {
            Self::Settled(error) | Self::Lost(error) => error,
        }
    }

    pub(crate) fn into_reply(self) -> ToolReply {
        match self {
            Self::Settled(error) => ToolReply::settled(CallOutcome::Error { error }),
            Self::Lost(error) => ToolReply::unanswered(error),
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
