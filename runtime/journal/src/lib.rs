//! The append-only log of one team: the only truth about what its sessions accepted.
//!
//! A [`Journal`] holds the entries of all sessions of a data directory. An append is one atomic
//! commit of one session and resolves only when it is on the disk; one thread writes for all, so
//! that many appends share one sync. After a crash the unfinished end of the log is cut; bytes
//! that were durable before and are bad now are damage, which is reported and confined to the
//! sessions that it touches.
//!
//! ```text
//! <data directory>/lock                   held by one process, see [`DataLock`]
//! <data directory>/journal/<base>.log     segments, named by the position of their first byte
//! <data directory>/journal/<base>-<end>.kept   rewritten segments: what is held of a stretch
//! <data directory>/journal/frontier       what was durable at the last start, roll or close
//! <data directory>/journal/reserve        room that is given up when the disk is full
//! <data directory>/blobs/ab/<digest>      entries too large to stand in a segment
//! ```

#![warn(missing_docs)]

mod blobs;
mod committer;
mod error;
mod frame;
mod frontier;
mod index;
mod journal;
mod kept;
mod lock;
mod medium;
mod options;
mod ownership;
mod queue;
mod read;
mod recovery;
mod report;
mod rewrite;
mod room;
mod segment;
mod sweep;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod verify;

pub use error::{Error, STORAGE_RETRY_AFTER_MS};
pub use frame::Stored;
pub use journal::Journal;
pub use lock::{DataLock, Holder};
pub use options::{Committed, OnCommit, Options};
pub use ownership::hand_back;
pub use queue::Due;
pub use read::{Entries, Since};
pub use report::{Damage, Report};
pub use rewrite::{Rewritten, Usage};
pub use sweep::Swept;
pub use verify::{Refers, verify};
