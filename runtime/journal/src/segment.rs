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

/// Returns the name of the rewritten segment from one position to another.
pub(crate) fn kept_name(base: u64, end: u64) -> String {
    format!("{base:016x}-{end:016x}.kept")
}

/// Returns the name of the file of a segment.
pub(crate) fn file_name(base: u64, kept_end: Option<u64>) -> String {
    kept_end.map_or_else(|| name(base), |end| kept_name(base, end))
}

/// A segment file by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) base: u64,
    /// The end, if it was rewritten.
    pub(crate) kept_end: Option<u64>,
    pub(crate) path: PathBuf,
}

/// The segments of a journal directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Those that make up the log, by the positions at which they begin.
    pub(crate) segments: Vec<Listed>,
    /// Those of which a rewritten one holds what is needed; a crash kept them from being removed.
    pub(crate) replaced: Vec<PathBuf>,
}

/// Returns the segments of a journal directory.
pub(crate) fn list(dir: &Path) -> Result<Listing, Error> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Listing::default()),
        Err(error) => return Err(Error::file("list", dir)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(Error::file("list", dir))?;
        let file_name = entry.file_name();
        let Some((base, kept_end)) = file_name.to_str().and_then(parse) else { continue };
        found.push(Listed { base, kept_end, path: entry.path() });
    }
    Ok(sort(found))
}

/// Reads the name of a segment file: where it begins, and where it ends if it was rewritten.
fn parse(text: &str) -> Option<(u64, Option<u64>)> {
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let (base, end) = match text.strip_suffix(".kept") {
        Some(range) => {
            let (base, end) = range.split_once('-')?;
            (number(base)?, Some(number(end)?))
        }
        None => (number(text.strip_suffix(".log")?)?, None),
    };
    (file_name(base, end) == text).then_some((base, end))
}

/// Tells the segments that make up the log from those that a rewritten one replaces.
fn sort(mut found: Vec<Listed>) -> Listing {
    // Of those that begin at one place the rewritten one that reaches farthest comes first.
    found.sort_unstable_by_key(|listed| (listed.base, std::cmp::Reverse(listed.kept_end)));
    let mut listing = Listing::default();
    let mut covered = 0;
    for listed in found {
        if listed.base < covered {
            listing.replaced.push(listed.path);
        } else {
            covered = listed.kept_end.unwrap_or(covered);
            listing.segments.push(listed);
        }
    }
    listing
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewritten_segment_replaces_those_within_it() {
        let cases: [(&[&str], &[&str], &[&str]); 5] = [
            (&["0.log", "5.log"], &["0.log", "5.log"], &[]),
            (&["0-9.kept", "0.log", "5.log", "9.log"], &["0-9.kept", "9.log"], &["0.log", "5.log"]),
            (&["0-5.kept", "0-9.kept", "5-9.kept"], &["0-9.kept"], &["0-5.kept", "5-9.kept"]),
            (&["0.log", "5-9.kept", "5.log"], &["0.log", "5-9.kept"], &["5.log"]),
            (&["3-7.kept", "7.log", "x.log", "frontier"], &["3-7.kept", "7.log"], &[]),
        ];
        for (names, kept, replaced) in cases {
            let dir = tempfile::tempdir().unwrap();
            let name = |short: &str| {
                let (stem, ending) = short.split_once('.').unwrap_or((short, ""));
                let numbers: Vec<Option<u64>> =
                    stem.split('-').map(|digits| digits.parse().ok()).collect();
                match (numbers.as_slice(), ending) {
                    ([Some(base)], "log") => name(*base),
                    ([Some(base), Some(end)], "kept") => kept_name(*base, *end),
                    _ => short.to_owned(),
                }
            };
            for short in names {
                fs::write(dir.path().join(name(short)), "").unwrap();
            }
            let listing = list(dir.path()).unwrap();
            let file = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            let mut found: Vec<String> = listing.replaced.iter().map(file).collect();
            found.sort_unstable();
            let mut wanted: Vec<String> = replaced.iter().map(|short| name(short)).collect();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{names:?}");
            let found: Vec<String> = listing.segments.iter().map(|s| file(&s.path)).collect();
            let wanted: Vec<String> = kept.iter().map(|short| name(short)).collect();
            assert_eq!(found, wanted, "{names:?}");
        }
    }
}
