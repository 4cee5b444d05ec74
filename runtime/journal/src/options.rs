//! What bounds a journal, and who hears of its commits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The largest commit that any options allow, in bytes, so that a length always fits its field.
const COMMIT_BYTES_LIMIT: u64 = 64 << 20;

/// The largest segment that any options allow, in bytes; a segment is read whole at start.
const SEGMENT_BYTES_LIMIT: u64 = 256 << 20;

/// The bounds of a journal. The defaults suit a node with 10,000 sessions.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes after which a new segment is begun. Default 64 MiB: few files, quick to read back.
    pub segment_bytes_max: u64,
    /// Entries written by one sync, and so in one append. Default 4,096.
    pub commit_entries_max: usize,
    /// Bytes written by one sync, and so in one append. Default 4 MiB: a disk takes it in well
    /// under the time that a caller is ready to wait.
    pub commit_bytes_max: u64,
    /// Appends that wait for the next sync. Default 8,192: two full commits.
    pub queue_max: usize,
    /// Bytes that wait for the next sync. Default 64 MiB, the memory that waiting may cost.
    pub queue_bytes_max: u64,
    /// Bytes set aside for ending what was begun when the disk is full. Default 0, which keeps a
    /// reserve that is there and makes none: right for those who only look.
    pub reserve_bytes: u64,
    /// The largest entry that stands in a segment, in bytes. Default 16 KiB; larger ones go to a
    /// file of their own.
    pub blob_bytes_min: u64,
    /// How long an append waits at most for which nobody does, before it is written. Default 4 ms:
    /// enough for a busy node to have more for the same sync, and hardly more to lose in a crash.
    pub later_max: Duration,
    /// Hears of each commit.
    pub on_commit: OnCommit,
}

/// A commit that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Entries in it, of all sessions.
    pub entries: u64,
    /// Bytes that were written, those that fill a page included.
    pub bytes: u64,
    /// The time that the sync took.
    pub sync: Duration,
}

/// Hears of each commit once it is durable, on the thread that writes; it must not wait.
#[derive(Clone, Default)]
pub struct OnCommit(Option<Arc<dyn Fn(Committed) + Send + Sync>>);

impl OnCommit {
    /// Has each commit told to somebody.
    pub fn tell(hear: impl Fn(Committed) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    pub(crate) fn call(&self, commit: Committed) {
        if let Some(hear) = &self.0 {
            hear(commit);
        }
    }
}

impl fmt::Debug for OnCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnCommit").field(&self.0.is_some()).finish()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes_max: 64 << 20,
            commit_entries_max: 4096,
            commit_bytes_max: 4 << 20,
            queue_max: 8192,
            queue_bytes_max: 64 << 20,
            reserve_bytes: 0,
            blob_bytes_min: 16 << 10,
            later_max: Duration::from_millis(4),
            on_commit: OnCommit::default(),
        }
    }
}

impl Options {
    /// Brings every bound into the range that the format can hold.
    pub(crate) fn bounded(mut self) -> Self {
        self.segment_bytes_max = self.segment_bytes_max.clamp(1, SEGMENT_BYTES_LIMIT);
        self.commit_entries_max = self.commit_entries_max.max(1);
        self.commit_bytes_max = self.commit_bytes_max.clamp(1, COMMIT_BYTES_LIMIT);
        self.queue_max = self.queue_max.max(1);
        self.queue_bytes_max = self.queue_bytes_max.max(self.commit_bytes_max);
        self.blob_bytes_min = self.blob_bytes_min.min(self.commit_bytes_max);
        self
    }
}
