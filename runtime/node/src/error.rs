//! What can go wrong with a node as a whole.

use agents_core::session::FoldError;
use wire::{Claim, ErrorCode, Name, SessionId, WireError};

use crate::owner::told;

/// A fault of the node, as opposed to an outcome of a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The bus failed.
    #[error(transparent)]
    Bus(#[from] bus::Error),
    /// Another node serves a team on the same bus.
    #[error(
        "team {team} is served by another daemon on this NATS server: {}",
        by.as_deref().map_or_else(
            || "the answer is no claim, and may be that of another version, or of a stream of \
                JetStream that takes all subjects".to_owned(),
            |claim| format!("{}; stop that one, or leave the team to it", told(claim)),
        )
    )]
    ServedElsewhere {
        /// The team.
        team: Name,
        /// Who serves it, if that can be read.
        by: Option<Box<Claim>>,
    },
    /// A model or a tool cannot be made ready.
    #[error("prepare {what}: {}", error.message)]
    Prepare {
        /// Which one.
        what: String,
        /// Why.
        error: WireError,
    },
    /// A session cannot be rebuilt.
    #[error("session {session}: {source}")]
    Fold {
        /// The session.
        session: SessionId,
        /// Why.
        source: FoldError,
    },
    /// An entry of a journal cannot be read.
    #[error("session {session}: entry {slot} cannot be read: {source}")]
    Entry {
        /// The session.
        session: SessionId,
        /// The entry's slot.
        slot: u64,
        /// Why.
        source: serde_json::Error,
    },
    /// A thread cannot be started.
    #[error("start a thread: {0}")]
    Thread(std::io::Error),
    /// An actor cannot be started.
    #[error("start an actor: {0}")]
    Actor(ractor::SpawnErr),
    /// Spans cannot be exported.
    #[error(transparent)]
    Telemetry(#[from] telemetry::Error),
    /// Blocking work was cancelled because the process ends.
    #[error("the process ends")]
    Ending,
}

impl From<ractor::SpawnErr> for Error {
    fn from(error: ractor::SpawnErr) -> Self {
        match error {
            // An actor that cannot start says why in our own words.
            ractor::SpawnErr::StartupFailed(cause) => {
                let ours = cause.downcast::<Self>().or_else(|cause| {
                    cause.downcast::<bus::Error>().map(|error| Box::new(Self::Bus(*error)))
                });
                match ours {
                    Ok(ours) => *ours,
                    Err(cause) => Self::Actor(ractor::SpawnErr::StartupFailed(cause)),
                }
            }
            other => Self::Actor(other),
        }
    }
}

impl Error {
    /// Tells whether what could not be read may be read another time as it is: no data are damaged,
    /// but a file cannot be read at present, or a newer version is needed.
    pub(crate) fn may_pass(&self) -> bool {
        self.is_unreadable() || matches!(self, Self::Fold { source: FoldError::Newer { .. }, .. })
    }

    /// Tells whether a file of the journal cannot be read at present.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self, Self::Journal(journal::Error::File { .. }))
    }

    /// Returns what a client is told.
    pub fn to_wire(&self) -> WireError {
        match self {
            Self::Journal(error) => error.to_wire(),
            Self::Bus(error) => error.to_wire(),
            Self::ServedElsewhere { .. } => WireError::new(ErrorCode::TeamServed, self.to_string()),
            Self::Prepare { error, .. } => error.clone(),
            Self::Fold { .. } | Self::Entry { .. } => {
                WireError::new(ErrorCode::SessionDamaged, self.to_string())
            }
            Self::Store(error) if error.is_full() => {
                WireError::new(ErrorCode::StorageFull, self.to_string())
                    .retry_after(journal::STORAGE_RETRY_AFTER_MS)
            }
            Self::Store(_) => WireError::new(ErrorCode::StorageFailed, self.to_string()),
            Self::Thread(_) | Self::Actor(_) | Self::Telemetry(_) => {
                WireError::new(ErrorCode::Internal, self.to_string())
            }
            Self::Ending => WireError::new(ErrorCode::Unavailable, self.to_string()),
        }
    }
}
