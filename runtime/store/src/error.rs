//! What can go wrong with the store.

use std::io;
use std::path::PathBuf;

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process, or another part of this one, has the store open.
    #[error("open store {}: it is in use; stop the other process first", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// A file or directory of the store could not be read or written.
    #[error("{doing} {}: {source}", path.display())]
    Directory {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The database refused; what it holds is sound.
    #[error("{doing}: {source}")]
    Engine {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        source: sled::Error,
    },
    /// The store was closed, or it met a full disk and could not be opened again since.
    #[error("{doing}: the store is closed; after a full disk it opens when there is room")]
    Closed {
        /// What was being done.
        doing: &'static str,
    },
    /// The database is damaged. Drop the store and open it again: it is then replaced.
    #[error("{doing}: the store is damaged ({reason}); open it again to have it replaced")]
    Damaged {
        /// What was being done.
        doing: &'static str,
        /// What was found.
        reason: String,
    },
    /// A record is larger than the store takes.
    #[error("store a record of {bytes} bytes: at most {max} are taken")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A record could not be put into its stored form.
    #[error("encode a record: {0}")]
    Encode(#[source] serde_json::Error),
    /// The beginning of a trace id fits several traces.
    #[error("look up trace {prefix}: several traces begin so; give more digits")]
    AmbiguousTrace {
        /// What was asked for.
        prefix: String,
    },
}

impl Error {
    /// Sorts an error of sled: damage, or a fault of the surroundings.
    pub(crate) fn engine(doing: &'static str, source: sled::Error) -> Self {
        use sled::Error as Sled;
        match source {
            Sled::Io(ref io) if surroundings(io) => Self::Engine { doing, source },
            // sled calls files of another format unsupported; nothing else that we ask of it is.
            Sled::Unsupported(_)
            | Sled::Io(_)
            | Sled::Corruption { .. }
            | Sled::ReportableBug(_)
            | Sled::CollectionNotFound(_) => Self::Damaged { doing, reason: source.to_string() },
        }
    }

    /// Tells whether the disk is full, or was when the store was last written.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Engine { source: sled::Error::Io(io), .. } => is_full(io.kind()),
            Self::Directory { source, .. } => is_full(source.kind()),
            Self::Closed { .. } => true,
            Self::InUse { .. }
            | Self::Engine { .. }
            | Self::Damaged { .. }
            | Self::TooLarge { .. }
            | Self::Encode(_)
            | Self::AmbiguousTrace { .. } => false,
        }
    }

    pub(crate) const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }

    pub(crate) fn damaged(doing: &'static str, reason: impl Into<String>) -> Self {
        Self::Damaged { doing, reason: reason.into() }
    }
}

/// The machine has as many files open as it may. Like the next one it is of no kind of its own.
const ENFILE: i32 = 23;
/// The process has as many files open as it may.
const EMFILE: i32 = 24;

fn is_full(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Tells whether a failure lies outside the files, so that new ones would not help.
fn surroundings(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
        || matches!(
            error.kind(),
            Kind::PermissionDenied
                | Kind::StorageFull
                | Kind::QuotaExceeded
                | Kind::ReadOnlyFilesystem
                | Kind::OutOfMemory
                | Kind::Interrupted
                | Kind::WouldBlock
        )
}
