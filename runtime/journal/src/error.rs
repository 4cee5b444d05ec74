//! What can go wrong with a journal.

use std::io;
use std::path::{Path, PathBuf};

use wire::{Digest, ErrorCode, SessionId, WireError};

use crate::lock::Holder;

/// Advice to a caller who met a full queue, in milliseconds: some syncs of a slow disk.
const FULL_RETRY_AFTER_MS: u64 = 100;

/// Advice to a caller who met a full disk, in milliseconds: room is looked for more often.
pub const STORAGE_RETRY_AFTER_MS: u64 = 1000;

/// Why a journal did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process holds the directory.
    #[error("data directory {dir} is in use{}", by(holder.as_deref()))]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// Who holds it, if that could be read.
        holder: Option<Box<Holder>>,
    },
    /// A file could not be read or written.
    #[error("{doing} {path}: {source}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The committer thread could not be started.
    #[error("start the journal's thread: {0}")]
    Thread(#[source] io::Error),
    /// The slot is not the session's next one.
    #[error("append to session {session}: slot {expected} is next, slot {found} was given")]
    SlotTaken {
        /// The session.
        session: SessionId,
        /// The session's next slot.
        expected: u64,
        /// The slot that was given.
        found: u64,
    },
    /// Too many appends wait.
    #[error("append: the journal's queue is full, try again later")]
    Full,
    /// The disk is full, the reserve included. Nothing was written.
    #[error("append: the disk is full, free some room; nothing was written")]
    StorageFull,
    /// The commit or the blob is larger than is taken.
    #[error("append {found} {unit}: at most {max} are taken at once")]
    TooLarge {
        /// What is counted: bytes or entries.
        unit: &'static str,
        /// How many there are.
        found: u64,
        /// How many are taken.
        max: u64,
    },
    /// The journal was closed, or a write or a sync failed. It takes nothing more; whether the
    /// last entries are durable shows at the next start.
    #[error("append: the journal is stopped, start again once the disk is mended")]
    Stopped,
    /// A part of the session was durable before and is bad now.
    #[error("session {session} is damaged: {what}")]
    Damaged {
        /// The session.
        session: SessionId,
        /// What is wrong.
        what: String,
    },
    /// A blob is not there.
    #[error("blob {0} is missing")]
    BlobMissing(Digest),
    /// A blob is not what its name says.
    #[error("blob {0} is damaged")]
    BlobDamaged(Digest),
}

fn by(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |holder| format!(" by {holder}"))
}

impl Error {
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { doing, path: path.to_owned(), source }
    }

    /// Returns the error as peers and users are told it.
    pub fn to_wire(&self) -> WireError {
        let code = match self {
            Self::InUse { .. } => ErrorCode::DataInUse,
            Self::File { .. } | Self::Thread(_) | Self::Stopped => ErrorCode::StorageFailed,
            Self::SlotTaken { .. } => ErrorCode::Internal,
            Self::StorageFull => ErrorCode::StorageFull,
            Self::Full => ErrorCode::Overloaded,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::Damaged { .. } | Self::BlobMissing(_) | Self::BlobDamaged(_) => {
                ErrorCode::JournalDamaged
            }
        };
        let error = WireError::new(code, self.to_string());
        match self {
            Self::Full => error.retry_after(FULL_RETRY_AFTER_MS),
            Self::StorageFull => error.retry_after(STORAGE_RETRY_AFTER_MS),
            Self::InUse { .. }
            | Self::File { .. }
            | Self::Thread(_)
            | Self::SlotTaken { .. }
            | Self::TooLarge { .. }
            | Self::Stopped
            | Self::Damaged { .. }
            | Self::BlobMissing(_)
            | Self::BlobDamaged(_) => error,
        }
    }
}
