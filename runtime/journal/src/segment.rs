//! Segment files: their names, and what stands in one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::frame::{self, Frame};

/// The largest part of a file that is read, in bytes: no options make a segment as large, and a
/// file that grew by accident must not take all memory.
const READ_BYTES_MAX: u64 = 512 << 20;

/// Returns the name of the segment that begins at a position.
pub(crate) fn name(base: u64) -> String {
    format!("{base:016x}.log")
}

/// Returns the segments of a journal directory, by the positions at which they begin.
pub(crate) fn list(dir: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(Error::file("list", dir)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(Error::file("list", dir))?;
        let file_name = entry.file_name();
        let base = file_name
            .to_str()
            .and_then(|text| text.strip_suffix(".log"))
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .filter(|base| file_name.to_str() == Some(&name(*base)));
        if let Some(base) = base {
            found.push((base, entry.path()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Reads a file of the journal.
pub(crate) fn load(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(READ_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(Error::file("read", path))?;
    Ok(bytes)
}

/// A part of a segment.
pub(crate) enum Piece<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// Bytes from one position to another that are no frame.
    Bad(u64, u64),
}

/// Walks over the pieces of a segment.
pub(crate) struct Pieces<'a> {
    rest: &'a [u8],
    position: u64,
}

impl<'a> Pieces<'a> {
    pub(crate) fn of(bytes: &'a [u8], base: u64) -> Self {
        Self { rest: bytes, position: base }
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
        self.position = self.position.saturating_add(count as u64);
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let start = self.position;
        while !self.rest.is_empty() {
            if let Some(frame) = frame::read(self.rest, self.position) {
                if self.position == start {
                    self.skip(frame.bytes.len());
                    return Some(Piece::Frame(frame));
                }
                // The frame comes again with the next call.
                return Some(Piece::Bad(start, self.position));
            }
            self.skip(frame::next_magic(self.rest).unwrap_or(self.rest.len()));
        }
        (self.position > start).then_some(Piece::Bad(start, self.position))
    }
}
