//! What tools need of the bus: messages to subjects outside the runtime.

#[cfg(test)]
pub(crate) mod prepared;

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use wire::{ErrorCode, Headers, WireError};

/// A message that a tool sends or receives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Letter {
    /// Where it goes, or went.
    pub subject: String,
    /// Where answers are expected; a request brings its own.
    pub reply: Option<String>,
    /// The headers.
    pub headers: Headers,
    /// The body.
    pub payload: Bytes,
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Missed {
    /// Nobody took it, so nothing can have happened.
    NotDelivered(WireError),
    /// Someone may have taken it.
    Unanswered(WireError),
}

impl Missed {
    /// Returns what went wrong.
    pub fn into_error(self) -> WireError {
        match self {
            Self::NotDelivered(error) | Self::Unanswered(error) => error,
        }
    }
}

/// Tells whether an error that answers a request says that nothing was begun, and may be over soon.
pub const fn may_pass(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Overloaded
            | ErrorCode::Unavailable
            | ErrorCode::ModelResting
            // A session without room for the request waits for room.
            | ErrorCode::StorageFull
    )
}

/// Tells whether an error that answers a request says that nothing was begun, and never will be.
pub const fn is_refusal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::BadRequest
            | ErrorCode::InvalidArguments
            | ErrorCode::UnknownAgent
            | ErrorCode::RunConflict
            | ErrorCode::PrefixUnknown
    )
}

/// Sends and receives messages for the tools of one team.
pub trait Messenger: Send + Sync {
    /// Sends a letter and waits for the first answer, for so long and not much longer. Dropping the
    /// future ends the waiting only.
    ///
    /// Fails with [`Missed::NotDelivered`] if nobody listens or the letter cannot be sent or has not
    /// left when the time is over, and then with [`wire::ErrorCode::Unavailable`] or
    /// [`wire::ErrorCode::Overloaded`] if that may pass. Fails with [`Missed::Unanswered`] and
    /// [`wire::ErrorCode::DeadlineExceeded`] if it has left and no answer came in time.
    fn request(&self, letter: Letter, wait: Duration) -> BoxFuture<'_, Result<Letter, Missed>>;

    /// Sends a letter to whoever listens; nobody may.
    fn publish(&self, letter: Letter) -> BoxFuture<'_, Result<(), Missed>>;

    /// Receives what is sent to subjects that match a pattern, from letters on that are published
    /// after this returns; ends when the stream is dropped.
    fn subscribe<'a>(
        &'a self,
        pattern: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Letter>, WireError>>;

    /// Returns a subject that nobody else uses, to collect answers on.
    fn new_inbox(&self) -> String;

    /// Tells whether a subject belongs to the runtime itself.
    fn is_own(&self, subject: &str) -> bool;
}
