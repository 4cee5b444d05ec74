//! Rewritten segments: what is held of a stretch of the log, every frame as it stood.
//!
//! A frame keeps its position, so that the chain of its session stays whole; in the file it only
//! stands nearer to the one before. The head says what the scan would have learned from the frames
//! that were dropped, and how many frames each session has, so that one that is lost is missed.

use std::collections::BTreeMap;

use wire::SessionId;

use crate::frame::{self, Fields, Frame, Kind, Place, RECENT, Tag};
use crate::segment::{Piece, Pieces};

/// What a rewritten segment says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The position at which it begins.
    pub(crate) base: u64,
    /// The position at which it ends.
    pub(crate) end: u64,
    /// The commits before it, and their sessions.
    pub(crate) number: u64,
    pub(crate) recent: [Tag; RECENT],
    /// The commits before its end, and their sessions.
    pub(crate) number_end: u64,
    pub(crate) recent_end: [Tag; RECENT],
    /// The last start that wrote into it.
    pub(crate) epoch: u32,
    /// Every slot of a session that was forgotten in it is below.
    pub(crate) floor: u64,
    /// The frames of each session.
    pub(crate) counts: BTreeMap<SessionId, u32>,
}

impl Head {
    /// Returns the bytes that stand before the frames.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { base, end, number, recent, number_end, recent_end, epoch, floor, counts } = self;
        let place =
            Place { position: *base, number: *number, synced_to: *base, epoch: 0, recent: *recent };
        let mut out = Vec::new();
        frame::write(&mut out, Kind::Kept, &place, "", |out| {
            for value in [end, number_end, floor, &u64::from(*epoch), &(counts.len() as u64)] {
                out.extend_from_slice(&value.to_le_bytes());
            }
            for tag in recent_end {
                out.extend_from_slice(&tag.to_le_bytes());
            }
            for (session, count) in counts {
                frame::write_name(out, session.as_str());
                out.extend_from_slice(&count.to_le_bytes());
            }
        });
        out
    }

    /// Reads the head, if a frame is one.
    pub(crate) fn decode(frame: &Frame<'_>) -> Option<Self> {
        if frame.kind != Kind::Kept {
            return None;
        }
        let Place { position: base, number, recent, .. } = frame.place;
        let mut fields: Fields<'_> = frame.body;
        let (end, number_end, floor) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let epoch = u32::try_from(fields.u64()?).ok()?;
        let sessions = fields.u64()?;
        let mut recent_end = [0; RECENT];
        for tag in &mut recent_end {
            *tag = fields.u32()?;
        }
        let mut counts = BTreeMap::new();
        for _ in 0..sessions {
            counts.insert(SessionId::new(fields.name()?).ok()?, fields.u32()?);
        }
        Some(Self { base, end, number, recent, number_end, recent_end, epoch, floor, counts })
    }
}

/// Reads the head of a file that should be the rewritten segment from `base` to `end`; returns it
/// with its frame.
pub(crate) fn open(bytes: &[u8], base: u64, end: u64) -> Option<(Head, Frame<'_>)> {
    let frame = frame::read(bytes, base)?;
    let head = Head::decode(&frame).filter(|head| head.end == end)?;
    Some((head, frame))
}

/// Walks over the frames after the head, each with its offset in the file. The offsets of bad bytes
/// are told in place of positions, which nobody knows.
pub(crate) struct Frames<'a> {
    rest: &'a [u8],
    offset: u64,
    /// The next frame stands at this position or above.
    from: u64,
    end: u64,
}

impl<'a> Frames<'a> {
    pub(crate) fn of(bytes: &'a [u8], head: &Head, head_bytes: usize) -> Self {
        let rest = bytes.get(head_bytes..).unwrap_or_default();
        Self { rest, offset: head_bytes as u64, from: head.base, end: head.end }
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
        self.offset += count as u64;
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = (u64, Piece<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.offset;
        while !self.rest.is_empty() {
            let range = self.from..self.end;
            let frame = frame::read_anywhere(self.rest)
                .filter(|frame| range.contains(&frame.place.position));
            if let Some(frame) = frame {
                if self.offset > start {
                    return Some((start, Piece::Bad(start, self.offset)));
                }
                self.from = frame.place.position + frame.bytes.len() as u64;
                self.skip(frame.bytes.len());
                return Some((start, Piece::Frame(frame)));
            }
            self.skip(frame::next_magic(self.rest).unwrap_or(self.rest.len()));
        }
        (self.offset > start).then_some((start, Piece::Bad(start, self.offset)))
    }
}

/// What a pass over some segments learns, for the head of the one that replaces them.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) head: Head,
    begun: bool,
}

impl Survey {
    /// Takes a segment, passing each of its frames that belong to sessions to `each`. Returns false,
    /// having passed some, if anything in it is no frame of this version.
    pub(crate) fn segment(
        &mut self,
        bytes: &[u8],
        base: u64,
        kept_end: Option<u64>,
        mut each: impl FnMut(&mut Head, &Frame<'_>),
    ) -> bool {
        if let Some(end) = kept_end {
            let Some((head, frame)) = open(bytes, base, end) else { return false };
            self.begin(head.base, head.number, head.recent);
            for (_, piece) in Frames::of(bytes, &head, frame.bytes.len()) {
                match piece {
                    Piece::Frame(frame) if frame.kind != Kind::Newer => {
                        each(&mut self.head, &frame);
                    }
                    Piece::Frame(_) | Piece::Bad(..) => return false,
                }
            }
            self.head.floor = self.head.floor.max(head.floor);
            self.head.epoch = self.head.epoch.max(head.epoch);
            self.head.end = end;
            (self.head.number_end, self.head.recent_end) = (head.number_end, head.recent_end);
            return true;
        }
        for piece in Pieces::of(bytes, base) {
            let Piece::Frame(frame) = piece else { return false };
            if frame.kind == Kind::Newer {
                return false;
            }
            let Place { position, number, epoch, recent, .. } = frame.place;
            self.begin(base, number, recent);
            self.head.end = position + frame.bytes.len() as u64;
            self.head.epoch = self.head.epoch.max(epoch);
            (self.head.number_end, self.head.recent_end) = (number, recent);
            if let Ok(session) = SessionId::new(frame.session) {
                self.head.number_end += 1;
                crate::recovery::push_recent(&mut self.head.recent_end, frame::tag(&session));
                if frame.kind == Kind::Gone {
                    self.head.floor = self.head.floor.max(position);
                }
                each(&mut self.head, &frame);
            }
        }
        self.begun
    }

    fn begin(&mut self, base: u64, number: u64, recent: [Tag; RECENT]) {
        if !self.begun {
            self.begun = true;
            (self.head.base, self.head.number, self.head.recent) = (base, number, recent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            base: 100,
            end: 900,
            number: 3,
            recent: [1; RECENT],
            number_end: 9,
            recent_end: [2; RECENT],
            epoch: 4,
            floor: 50,
            counts: BTreeMap::from([(SessionId::new("a").unwrap(), 2)]),
        }
    }

    fn frame_at(position: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let place = Place { position, ..Place::default() };
        let session = SessionId::new("a").unwrap();
        frame::write_commit(&mut out, Kind::Commit, &place, &session, 0, [0; 16], &[]);
        out
    }

    #[test]
    fn a_head_survives_its_bytes() {
        let bytes = head().encode();
        assert_eq!(open(&bytes, 100, 900).map(|(head, _)| head), Some(head()));
        assert!(open(&bytes, 100, 901).is_none(), "of another stretch");
        assert!(open(&bytes, 101, 900).is_none(), "moved");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            assert!(open(&changed, 100, 900).is_none(), "byte {at}");
        }
    }

    #[test]
    fn frames_stand_in_order_and_bad_bytes_show() {
        let (first, second) = (frame_at(300), frame_at(700));
        let walk = |parts: &[&[u8]]| {
            let bytes = parts.concat();
            Frames::of(&bytes, &head(), 0)
                .map(|(offset, piece)| match piece {
                    Piece::Frame(frame) => (offset, Some(frame.place.position)),
                    Piece::Bad(..) => (offset, None),
                })
                .collect::<Vec<_>>()
        };
        let length = first.len() as u64;
        assert_eq!(walk(&[&first, &second]), [(0, Some(300)), (length, Some(700))]);
        assert_eq!(walk(&[&first, b"xx", &second]).get(1), Some(&(length, None)));
        assert_eq!(walk(&[&second, &first]), [(0, Some(700)), (length, None)], "out of order");
        assert_eq!(walk(&[&frame_at(900)]), [(0, None)], "beyond the end");
        assert_eq!(walk(&[&first[..30]]), [(0, None)], "cut");
    }
}
