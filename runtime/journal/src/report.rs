//! What a scan of the journal found.

use serde::Serialize;
use wire::SessionId;

/// Tells what a journal holds and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Segment files.
    pub segments: u64,
    /// Commits that can be read.
    pub commits: u64,
    /// Entries that can be read.
    pub entries: u64,
    /// Sessions that can be read.
    pub sessions: u64,
    /// Bytes in all segments.
    pub bytes: u64,
    /// Bytes of the commits that can be read; the others are dropped when segments are rewritten.
    pub live_bytes: u64,
    /// Bytes at the end that a crash left unfinished. Nobody was told that they are durable.
    pub torn_tail_bytes: u64,
    /// What was durable and is bad now.
    pub damage: Vec<Damage>,
}

/// A place where the journal is damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The file, by its name in the data directory.
    pub segment: String,
    /// The first bad byte of that file.
    pub offset: u64,
    /// The sessions that are set aside for it, as far as their names are known.
    pub sessions: Vec<SessionId>,
    /// What is wrong.
    pub what: String,
}
