//! The bytes of a frame: how one is written, and how one is told from garbage.
//!
//! ```text
//! magic 4 | length u32 | crc32c u32 | version u8 | kind u8
//! position u64 | number u64 | synced_to u64 | epoch u32 | recent 24 x u32
//! session length u8 | session | body
//! ```
//!
//! All up to the body keeps its place in every version, so that an older program can name the
//! session whose frame it cannot read. Numbers are little-endian; the checksum covers everything
//! but itself and the magic. The position must be the frame's own, so a stale or a copied block
//! is no frame, and the magic holds bytes that no UTF-8 text does, so an entry never looks like
//! one.

use bytes::Bytes;
use wire::{Digest, SessionId};

/// The version that this code writes.
pub(crate) const VERSION: u8 = 1;

/// How many commits before it a frame names. A lost page of 4 KiB holds no more of them, so the
/// frame that follows it tells whose they were.
pub(crate) const RECENT: usize = 24;

/// What the kernel writes to a disk at least, in bytes.
const PAGE_BYTES: usize = 4096;

/// The longest end of a page that is filled, in bytes: an eighth, so that gaps alone are never the
/// sixth of dead bytes for which a segment is rewritten.
const GAP_BYTES_MAX: usize = PAGE_BYTES / 8;

const MAGIC: [u8; 4] = [0xcb, 0xff, 0x4a, 0xfe];
const CHECKED_FROM: usize = 12;
const HEAD_BYTES: usize = CHECKED_FROM + 2 + 8 + 8 + 8 + 4 + RECENT * 4;

/// The bytes of the frame that begins a segment.
pub(crate) const SEGMENT_BYTES: u64 = EMPTY_BYTES as u64;

/// The bytes of a frame that belongs to no session and has no body: the shortest that there is.
const EMPTY_BYTES: usize = HEAD_BYTES + 1;

/// The bytes that a read needs to know how long a frame is.
const LENGTH_BYTES: usize = 8;

const INLINE: u8 = 0;
const BLOB: u8 = 1;

/// The first bytes of the hash of a session's previous frame.
pub(crate) type Chain = [u8; 16];

/// Names a session in [`Place::recent`]; never 0.
pub(crate) type Tag = u32;

/// Returns the tag of a session.
pub(crate) fn tag(session: &SessionId) -> Tag {
    let hash = Digest::of(session.as_str().as_bytes());
    hash.as_bytes().first_chunk().map_or(1, |bytes| u32::from_le_bytes(*bytes)).max(1)
}

/// Returns what the session's next frame refers to.
pub(crate) fn chain(frame: &[u8]) -> Chain {
    Digest::of(frame).as_bytes().first_chunk().copied().unwrap_or_default()
}

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Begins a segment.
    Segment,
    /// One atomic batch of entries of one session.
    Commit,
    /// What was durable once; stands in a file of its own.
    Frontier,
    /// A commit that holds all that those of its session before it came to, or the first one of a
    /// session that was forgotten: the reading of the session may begin here.
    Begin,
    /// A session is forgotten.
    Gone,
    /// Begins a segment that was rewritten.
    Kept,
    /// Fills the end of a page.
    Gap,
    /// A kind, or a version, of a newer program.
    Newer,
}

impl Kind {
    fn of(version: u8, kind: u8) -> Self {
        match (version, kind) {
            (VERSION, 1) => Self::Segment,
            (VERSION, 2) => Self::Commit,
            (VERSION, 3) => Self::Frontier,
            (VERSION, 4) => Self::Begin,
            (VERSION, 5) => Self::Gone,
            (VERSION, 6) => Self::Kept,
            (VERSION, 7) => Self::Gap,
            _ => Self::Newer,
        }
    }

    fn byte(self) -> u8 {
        match self {
            Self::Segment => 1,
            Self::Commit => 2,
            Self::Frontier => 3,
            Self::Begin => 4,
            Self::Gone => 5,
            Self::Kept => 6,
            Self::Gap => 7,
            Self::Newer => u8::MAX,
        }
    }
}

/// Where a frame stands in the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// The position of its first byte, counted from the beginning of the log.
    pub(crate) position: u64,
    /// The number of commits before it.
    pub(crate) number: u64,
    /// Everything before this position was durable when the frame was written.
    pub(crate) synced_to: u64,
    /// The start of the node that wrote it, counted from 1.
    pub(crate) epoch: u32,
    /// The sessions of the commits before it, newest first; 0 where unknown.
    pub(crate) recent: [Tag; RECENT],
}

/// One frame whose checksum and position are right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    /// The session; empty where the frame belongs to none.
    pub(crate) session: &'a str,
    pub(crate) body: Fields<'a>,
    pub(crate) bytes: &'a [u8],
}

/// One entry as it stands in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// In the segment, unless it is large.
    Inline(Bytes),
    /// In a file of its own, of that content.
    Blob(Digest),
}

impl From<Bytes> for Stored {
    fn from(entry: Bytes) -> Self {
        Self::Inline(entry)
    }
}

impl From<Vec<u8>> for Stored {
    fn from(entry: Vec<u8>) -> Self {
        Self::Inline(entry.into())
    }
}

impl From<&'static str> for Stored {
    fn from(entry: &'static str) -> Self {
        Self::Inline(entry.into())
    }
}

impl Stored {
    /// Returns the bytes that it takes in a frame.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Inline(bytes) => 5 + bytes.len() as u64,
            Self::Blob(_) => 1 + 32,
        }
    }
}

/// What a commit holds, before its entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit<'a> {
    pub(crate) first_slot: u64,
    pub(crate) prev: Chain,
    pub(crate) count: u32,
    entries: Fields<'a>,
}

/// Writes a frame whose body the caller fills in.
pub(crate) fn write(
    out: &mut Vec<u8>,
    kind: Kind,
    place: &Place,
    session: &str,
    body: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    out.extend_from_slice(&[VERSION, kind.byte()]);
    out.extend_from_slice(&place.position.to_le_bytes());
    out.extend_from_slice(&place.number.to_le_bytes());
    out.extend_from_slice(&place.synced_to.to_le_bytes());
    out.extend_from_slice(&place.epoch.to_le_bytes());
    for tag in place.recent {
        out.extend_from_slice(&tag.to_le_bytes());
    }
    write_name(out, session);
    body(out);
    seal(out, start);
}

/// Fills the page in which `out` ends, if what is left of it is too short for as much again: the
/// next frames would only have it written once more. `out` begins at an offset in its file.
pub(crate) fn fill_page(out: &mut Vec<u8>, offset: u64, place: &Place) {
    let length = gap_bytes(offset, out.len());
    if length > 0 {
        write(out, Kind::Gap, place, "", |out| out.resize(out.len() + length - EMPTY_BYTES, 0));
    }
}

/// Returns the length of the gap after so many bytes at an offset; 0 if there is none.
fn gap_bytes(offset: u64, length: usize) -> usize {
    let page = PAGE_BYTES as u64;
    let left = usize::try_from((offset + length as u64).wrapping_neg() % page).unwrap_or(0);
    let fits = (EMPTY_BYTES..=GAP_BYTES_MAX).contains(&left);
    if fits && left < length { left } else { 0 }
}

/// Writes the length and the checksum of the frame that begins at `start`.
fn seal(out: &mut [u8], start: usize) {
    let Some(frame) = out.get_mut(start..) else { return };
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX).to_le_bytes();
    let crc = checksum(length, frame.get(CHECKED_FROM..).unwrap_or_default()).to_le_bytes();
    for (byte, value) in frame.iter_mut().skip(MAGIC.len()).zip(length.into_iter().chain(crc)) {
        *byte = value;
    }
}

fn checksum(length: [u8; 4], rest: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length), rest)
}

/// Writes a commit of one session, or that it is forgotten.
pub(crate) fn write_commit(
    out: &mut Vec<u8>,
    kind: Kind,
    place: &Place,
    session: &SessionId,
    first_slot: u64,
    prev: Chain,
    entries: &[Stored],
) {
    write(out, kind, place, session.as_str(), |out| {
        out.extend_from_slice(&first_slot.to_le_bytes());
        out.extend_from_slice(&prev);
        out.extend_from_slice(&u32::try_from(entries.len()).unwrap_or(u32::MAX).to_le_bytes());
        for entry in entries {
            match entry {
                Stored::Inline(bytes) => {
                    out.push(INLINE);
                    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                    out.extend_from_slice(&length.to_le_bytes());
                    out.extend_from_slice(bytes);
                }
                Stored::Blob(digest) => {
                    out.push(BLOB);
                    out.extend_from_slice(digest.as_bytes());
                }
            }
        }
    });
}

/// Writes a name after its length; a name has at most 64 bytes.
pub(crate) fn write_name(out: &mut Vec<u8>, name: &str) {
    out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(name.as_bytes());
}

/// Returns the length that the first [`LENGTH_BYTES`] of a frame give, if they can be such.
fn length(bytes: &[u8]) -> Option<usize> {
    let mut fields = Fields(bytes);
    if fields.array::<4>()? != MAGIC {
        return None;
    }
    usize::try_from(fields.u32()?).ok().filter(|length| *length > HEAD_BYTES)
}

/// Reads the frame at the beginning of `bytes`, which stand at `position`.
pub(crate) fn read(bytes: &[u8], position: u64) -> Option<Frame<'_>> {
    // Most bytes are no frame by their position alone, which is cheaper to see than a checksum.
    read_if(bytes, |found| found == position)
}

/// Reads the frame at the beginning of `bytes`, wherever it says that it stands.
pub(crate) fn read_anywhere(bytes: &[u8]) -> Option<Frame<'_>> {
    read_if(bytes, |_| true)
}

fn read_if(bytes: &[u8], stands: impl FnOnce(u64) -> bool) -> Option<Frame<'_>> {
    let bytes = bytes.get(..length(bytes)?)?;
    let mut fields = Fields(bytes);
    fields.array::<4>()?;
    let length = fields.array::<4>()?;
    let crc = fields.u32()?;
    let checked = fields;
    let (version, kind) = (fields.u8()?, fields.u8()?);
    let mut place = Place {
        position: fields.u64()?,
        number: fields.u64()?,
        synced_to: fields.u64()?,
        epoch: fields.u32()?,
        recent: [0; RECENT],
    };
    if !stands(place.position) || checksum(length, checked.0) != crc {
        return None;
    }
    for tag in &mut place.recent {
        *tag = fields.u32()?;
    }
    let session = fields.name()?;
    Some(Frame { kind: Kind::of(version, kind), place, session, body: fields, bytes })
}

/// Returns where in `bytes` the next frame may begin, after the first byte.
pub(crate) fn next_magic(bytes: &[u8]) -> Option<usize> {
    let rest = bytes.get(1..)?;
    rest.windows(MAGIC.len()).position(|window| window == MAGIC).map(|offset| offset + 1)
}

impl<'a> Frame<'a> {
    /// Reads what a commit holds, before its entries.
    pub(crate) fn commit(&self) -> Option<Commit<'a>> {
        let mut fields = self.body;
        Some(Commit {
            first_slot: fields.u64()?,
            prev: fields.array()?,
            count: fields.u32()?,
            entries: fields,
        })
    }
}

impl Commit<'_> {
    /// Reads the entries; `whole` holds the frame, and they share its memory.
    pub(crate) fn entries(&self, whole: &Bytes) -> Option<Vec<Stored>> {
        let mut fields = self.entries;
        let mut entries = Vec::new();
        for _ in 0..self.count {
            entries.push(match fields.u8()? {
                INLINE => {
                    let length = usize::try_from(fields.u32()?).ok()?;
                    Stored::Inline(whole.slice_ref(fields.bytes(length)?))
                }
                BLOB => Stored::Blob(Digest::from_bytes(fields.array()?)),
                _ => return None,
            });
        }
        fields.0.is_empty().then_some(entries)
    }
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn name(&mut self) -> Option<&'a str> {
        let length = self.u8()?;
        std::str::from_utf8(self.bytes(usize::from(length))?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(position: u64) -> Vec<u8> {
        let mut recent = [0; RECENT];
        recent[0] = 9;
        let place = Place { position, number: 5, synced_to: 90, epoch: 2, recent };
        let entries =
            [Stored::Inline(Bytes::from_static(b"{}")), Stored::Blob(Digest::of(b"large"))];
        let mut out = b"before".to_vec();
        let session = SessionId::new("s-1").unwrap();
        write_commit(&mut out, Kind::Commit, &place, &session, 7, [3; 16], &entries);
        out.split_off(6)
    }

    #[test]
    fn a_commit_survives_its_bytes() {
        let bytes = Bytes::from(sample(100));
        let frame = read(&bytes, 100).unwrap();
        assert_eq!((frame.kind, frame.session), (Kind::Commit, "s-1"));
        assert_eq!(
            (frame.place.number, frame.place.synced_to, frame.place.epoch, frame.place.recent[0]),
            (5, 90, 2, 9)
        );
        let commit = frame.commit().unwrap();
        assert_eq!((commit.first_slot, commit.prev, commit.count), (7, [3; 16], 2));
        let entries = commit.entries(&bytes).unwrap();
        assert_eq!(entries[0], Stored::Inline(Bytes::from_static(b"{}")));
        assert_eq!(entries[1], Stored::Blob(Digest::of(b"large")));
    }

    #[test]
    fn no_changed_byte_and_no_cut_leaves_a_frame() {
        let bytes = sample(100);
        assert!(read(&bytes, 101).is_none(), "moved");
        for at in 0..bytes.len() {
            assert!(read(&bytes[..at], 100).is_none(), "cut at {at}");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(read(&changed, 100).is_none(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn the_end_of_a_page_is_filled_if_it_is_short() {
        // The offset of what is written, its length, and the length of the gap after it.
        let cases = [
            (0, 3700, 396),
            (1800, 1900, 396),
            (4096 + 1800, 1900, 396),
            (0, 2 * 4096 + 3700, 396),
            (0, 4096, 0),
            (0, 4096 - GAP_BYTES_MAX, GAP_BYTES_MAX),
            (0, 4096 - GAP_BYTES_MAX - 1, 0),
            (0, 4096 - EMPTY_BYTES, EMPTY_BYTES),
            (0, 4096 - EMPTY_BYTES + 1, 0),
            (3400, 300, 0),
            (3200, 500, 396),
        ];
        for (offset, length, gap) in cases {
            assert_eq!(gap_bytes(offset, length), gap, "{length} at {offset}");
            let mut out = vec![1; length];
            let position = offset + length as u64;
            fill_page(&mut out, offset, &Place { position, ..Place::default() });
            assert_eq!(out.len(), length + gap);
            let found = read(&out[length..], position);
            assert_eq!(found.map(|frame| frame.kind), (gap > 0).then_some(Kind::Gap));
        }
    }

    #[test]
    fn a_newer_version_still_names_its_session() {
        let mut bytes = sample(100);
        bytes[CHECKED_FROM] = VERSION + 1;
        seal(&mut bytes, 0);
        let frame = read(&bytes, 100).unwrap();
        assert_eq!((frame.kind, frame.session), (Kind::Newer, "s-1"));
    }

    #[test]
    fn a_frame_is_found_after_garbage() {
        let mut bytes = b"\xcb\xff\xcb\xff\x4a\xfe?".to_vec();
        assert_eq!(next_magic(&bytes), Some(2));
        assert_eq!(next_magic(&bytes[2..]), None, "the first byte is left out");
        bytes.clear();
        assert_eq!(next_magic(&bytes), None);
    }
}
