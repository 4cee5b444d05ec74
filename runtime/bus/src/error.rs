//! What can go wrong on the bus.

use std::path::PathBuf;

use wire::{ErrorCode, Scope, WireError};

/// How long a caller waits before it asks a full subscriber again, in milliseconds: the time in
/// which a responder that handles a few messages at once has made room.
const OVERFLOW_RETRY_MS: u64 = 100;

/// Says what failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody listens on the subject of a request.
    #[error("request on {subject}: nobody listens there")]
    NoResponders {
        /// The subject.
        subject: String,
    },
    /// There was no answer in time.
    #[error("wait on {subject}: no answer within {after_ms} ms")]
    Timeout {
        /// The subject.
        subject: String,
        /// The time waited, in milliseconds.
        after_ms: u64,
    },
    /// Something has not left in time, and does not leave later.
    #[error(
        "send on {subject}: nothing was sent within {after_ms} ms, since the connection to NATS \
         takes nothing; see whether the server runs"
    )]
    NotSent {
        /// The subject.
        subject: String,
        /// The time waited, in milliseconds.
        after_ms: u64,
    },
    /// A message is larger than the bus takes.
    #[error("send a message of {bytes} bytes: the bus takes {max}; send a reference instead")]
    TooLarge {
        /// Payload and headers, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// What is to be sent cannot be written.
    #[error("write a message")]
    Unwritable {
        /// Why.
        source: serde_json::Error,
    },
    /// A subject, pattern or queue group is not of the form that the bus takes.
    #[error("use {subject:?} as a subject: {fault}")]
    InvalidSubject {
        /// The text, cut to a length that can be shown.
        subject: String,
        /// The rule that it breaks.
        fault: &'static str,
    },
    /// A header cannot be sent.
    #[error("send header {name:?}: {fault}")]
    InvalidHeader {
        /// Its name, cut to a length that can be shown.
        name: String,
        /// The rule that it breaks.
        fault: &'static str,
    },
    /// What a service says of itself is not of the form that the protocol takes.
    #[error("start service {name:?}: {fault}")]
    InvalidService {
        /// Its name, cut to a length that can be shown.
        name: String,
        /// The rule that it breaks.
        fault: &'static str,
    },
    /// A request asks for an answer on a subject that is no inbox.
    #[error(
        "reply on {subject:?}: only inboxes are answered, because the sender chose the subject"
    )]
    ReplyRefused {
        /// The reply subject.
        subject: String,
    },
    /// The subscriber, or the list of waiting requests, is full.
    #[error("request on {subject}: the receiver's queue is full; ask again later")]
    Overflow {
        /// The subject.
        subject: String,
    },
    /// The bus was drained.
    #[error("subscribe: the bus was drained and takes no subscriptions")]
    Closed,
    /// The options do not lead to a connection.
    #[error("connect to NATS: {fault}")]
    Options {
        /// The option and the rule that it breaks.
        fault: String,
    },
    /// The way to a server on another machine is not protected.
    #[error("connect to NATS at {server}: it is not on this machine, and {lack}")]
    Unprotected {
        /// Its host and port.
        server: String,
        /// What is missing, and what to do.
        lack: &'static str,
    },
    /// A file with a key or credentials cannot be read.
    #[error("read {}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No server could be reached, or none let us in.
    #[error("connect to NATS at {servers}")]
    Connect {
        /// Hosts and ports, without user and password.
        servers: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server is older than 2.10 and would drop settings silently.
    #[error("connect to NATS: the server is version {found:?}, at least 2.10 is needed")]
    TooOld {
        /// The version that it reports.
        found: String,
    },
    /// The NATS client could not do what it was asked.
    #[error("{doing} on NATS")]
    Nats {
        /// What was being done.
        doing: &'static str,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Returns the error as it is told to a peer, its causes included.
    pub fn to_wire(&self) -> WireError {
        let code = match self {
            Self::NoResponders { .. } | Self::Closed => ErrorCode::Unavailable,
            Self::Timeout { .. } => ErrorCode::DeadlineExceeded,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::InvalidSubject { .. }
            | Self::InvalidHeader { .. }
            | Self::ReplyRefused { .. } => ErrorCode::BadRequest,
            Self::InvalidService { .. } | Self::Unwritable { .. } => ErrorCode::Internal,
            Self::Overflow { .. } => ErrorCode::Overloaded,
            Self::Options { .. } => ErrorCode::ConfigInvalid,
            Self::Credentials { .. } => ErrorCode::FileUnreadable,
            Self::NotSent { .. } | Self::Connect { .. } | Self::Nats { .. } => {
                ErrorCode::NatsUnavailable
            }
            Self::TooOld { .. } => ErrorCode::NatsTooOld,
            Self::Unprotected { .. } => ErrorCode::NatsUnprotected,
        };
        let mut message = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            // The client's errors say their causes themselves.
            let text = error.to_string();
            if !message.ends_with(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = error.source();
        }
        if code == ErrorCode::Overloaded {
            return WireError::overloaded(Scope::Node, message, OVERFLOW_RETRY_MS);
        }
        WireError::new(code, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_code() {
        let subject = || "s".to_owned();
        let cases = [
            (Error::NoResponders { subject: subject() }, ErrorCode::Unavailable),
            (Error::Timeout { subject: subject(), after_ms: 1 }, ErrorCode::DeadlineExceeded),
            (Error::NotSent { subject: subject(), after_ms: 1 }, ErrorCode::NatsUnavailable),
            (Error::TooLarge { bytes: 2, max: 1 }, ErrorCode::TooLarge),
            (Error::ReplyRefused { subject: subject() }, ErrorCode::BadRequest),
            (Error::Overflow { subject: subject() }, ErrorCode::Overloaded),
            (Error::Closed, ErrorCode::Unavailable),
            (Error::TooOld { found: "2.9.10".into() }, ErrorCode::NatsTooOld),
        ];
        for (error, code) in cases {
            assert_eq!(error.to_wire().code, code, "{error}");
            assert_eq!(error.to_wire().retry_after_ms.is_some(), code == ErrorCode::Overloaded);
        }
    }

    #[test]
    fn causes_are_told() {
        let source = std::io::Error::other("connection refused").into();
        let error = Error::Connect { servers: "127.0.0.1:4222".into(), source };
        assert_eq!(
            error.to_wire().message,
            "connect to NATS at 127.0.0.1:4222: connection refused"
        );
    }
}
