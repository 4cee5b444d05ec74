//! Finds the blobs that nothing refers to any more, and removes them.

use std::collections::HashSet;

use bytes::Bytes;
use serde::Serialize;
use wire::Digest;

use crate::blobs::Spares;
use crate::error::Error;
use crate::frame::{Frame, Stored};
use crate::kept::Survey;
use crate::queue::Shared;
use crate::read::Files;
use crate::segment;

/// What a sweep removed, and what it left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Blobs that were removed.
    pub removed: u64,
    /// Bytes of those.
    pub bytes_removed: u64,
    /// Blobs that are left.
    pub left: u64,
    /// Bytes of those.
    pub bytes_left: u64,
}

/// Looks through all segments and removes what they do not refer to. The caller sees to it that no
/// segment is rewritten meanwhile.
///
/// Frames count whether they are held or not: after a crash those that are not would be read again.
pub(crate) fn run(
    shared: &Shared,
    files: &Files,
    mut kept: HashSet<Digest>,
    refers: &mut dyn FnMut(&[u8], &mut HashSet<Digest>),
    may_be_named: Spares<'_>,
) -> Result<Swept, Error> {
    let mut is_one_lost = false;
    // From here on whatever is put is noted, so what is appended later need not be seen.
    files.blobs.begin_sweep();
    let segments: Vec<(u64, Option<u64>, u64)> = {
        let state = shared.lock();
        let kept_end = |s: &crate::index::Segment| s.offsets.as_ref().map(|_| s.end);
        let segments = state.index.segments.iter();
        segments.map(|(base, found)| (*base, kept_end(found), found.bytes)).collect()
    };
    for (base, kept_end, length) in segments {
        // Whoever closes the journal waits for this.
        if shared.is_closed() {
            return Err(Error::Stopped);
        }
        let path = files.journal.join(segment::file_name(base, kept_end));
        let mut bytes = segment::load(&path)?;
        // What is being written may end in the middle of a frame.
        bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        let is_whole = Survey::default().segment(&bytes, base, kept_end, |_, frame| {
            for entry in entries(frame) {
                match entry {
                    Stored::Inline(bytes) => refers(&bytes, &mut kept),
                    Stored::Blob(digest) => {
                        kept.insert(digest);
                        match files.blobs.get(&digest) {
                            Ok(bytes) => refers(&bytes, &mut kept),
                            Err(_) => is_one_lost = true,
                        }
                    }
                }
            }
        });
        if !is_whole {
            // Nobody knows to what the bad bytes referred.
            tracing::warn!(
                file = %path.display(),
                "a segment is damaged, so nothing is removed of what no entry refers to any more"
            );
            return Ok(Swept::default());
        }
    }
    // Nobody knows what it names, and it may be put back, or be read another time.
    let spares = is_one_lost.then_some(may_be_named);
    let swept = files.blobs.remove_all_but(&kept, spares, || shared.is_closed())?;
    if swept.removed > 0 {
        shared.room.note_freed();
    }
    Ok(swept)
}

fn entries(frame: &Frame<'_>) -> Vec<Stored> {
    let whole = Bytes::copy_from_slice(frame.bytes);
    let again = crate::frame::read_anywhere(&whole).and_then(|frame| frame.commit());
    again.and_then(|commit| commit.entries(&whole)).unwrap_or_default()
}
