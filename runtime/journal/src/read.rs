//! Reads the entries of a session from its segments and blobs.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use wire::SessionId;

use crate::blobs::Blobs;
use crate::error::Error;
use crate::frame::{self, Kind, Stored};
use crate::index::{Index, Location, Spot};
use crate::segment;

/// What of a session is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// From the first entry that is held.
    Oldest,
    /// From the newest entry that holds all that those before it came to, if there is one.
    Newest,
    /// From the newest such entry that does not come after the first slot, or from the first entry
    /// that is held, until the next such entry after the last slot.
    Around(u64, u64),
}

/// Entries of one session, in the order of their slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// The slot of the first; the slot of the next one to come, if there is none.
    pub first_slot: u64,
    /// The entries.
    pub bodies: Vec<Bytes>,
}

/// The files of a data directory, for reading.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) journal: PathBuf,
    pub(crate) blobs: Blobs,
}

/// Where the commits of one session stand.
pub(crate) struct Commits {
    pub(crate) first_slot: u64,
    pub(crate) places: Vec<(Spot, Option<Location>)>,
}

impl Commits {
    pub(crate) fn of(index: &Index, session: &SessionId, since: Since) -> Self {
        let Some(found) = index.sessions.get(session).filter(|found| !found.spots.is_empty())
        else {
            return Self { first_slot: index.next_slot(session), places: Vec::new() };
        };
        let (begin, end) = match since {
            Since::Oldest => (None, None),
            Since::Newest => (found.begins.last(), None),
            Since::Around(first, last) => (
                found.begins.iter().rev().find(|begin| begin.slot <= first),
                found.begins.iter().find(|begin| begin.slot > last.max(first)),
            ),
        };
        let (first_slot, from) =
            begin.map_or((found.first_slot, 0), |begin| (begin.slot, begin.spot));
        let until = end.map_or(found.spots.len(), |end| end.spot);
        let spots = found.spots.get(from..until).unwrap_or_default();
        let places = spots.iter().map(|spot| (*spot, index.locate(spot.position))).collect();
        Self { first_slot, places }
    }

    /// Returns only the commit that begins at a slot.
    pub(crate) fn beginning_at(index: &Index, session: &SessionId, slot: u64) -> Option<Self> {
        let found = index.sessions.get(session)?;
        let begin = found.begins.iter().find(|begin| begin.slot == slot)?;
        let place = *found.spots.get(begin.spot)?;
        Some(Self { first_slot: slot, places: vec![(place, index.locate(place.position))] })
    }
}

impl Files {
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self { journal: data_dir.join("journal"), blobs: Blobs::new(data_dir) }
    }

    pub(crate) fn read(&self, session: &SessionId, commits: &Commits) -> Result<Entries, Error> {
        let damaged = |what: String| Error::Damaged { session: session.clone(), what };
        let mut bodies = Vec::new();
        let mut chain = None;
        let mut open: Option<(u64, File)> = None;
        for (spot, location) in &commits.places {
            let slot = commits.first_slot + bodies.len() as u64;
            let location = location.ok_or_else(|| damaged(format!("slot {slot} is missing")))?;
            let file = match open.take() {
                Some((base, file)) if base == location.base => file,
                _ => self.open(location)?,
            };
            let whole = match read_frame(&file, location.offset, spot.length) {
                // What is not there is gone; what cannot be read at present may be another time.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(damaged(format!("slot {slot} cannot be read: {error}")));
                }
                read => read.map_err(Error::file("read", &self.path(location)))?,
            };
            let stored = frame::read(&whole, spot.position)
                .filter(|found| found.session == session.as_str())
                .and_then(|found| Some((found.kind, found.commit()?)))
                // The first one that is read follows what is no longer held, if it says that it may.
                .filter(|(kind, commit)| match chain {
                    Some(chain) => commit.prev == chain,
                    None => *kind == Kind::Begin || commit.prev == frame::Chain::default(),
                })
                .filter(|(kind, commit)| {
                    matches!(kind, Kind::Commit | Kind::Begin) && commit.first_slot == slot
                })
                .and_then(|(_, commit)| commit.entries(&whole))
                .ok_or_else(|| damaged(format!("slot {slot} is bad")))?;
            chain = Some(frame::chain(&whole));
            for (number, entry) in stored.into_iter().enumerate() {
                bodies.push(match entry {
                    Stored::Inline(bytes) => bytes,
                    Stored::Blob(digest) => {
                        self.blobs.get(&digest).map_err(|error| match error {
                            Error::BlobMissing(_) | Error::BlobDamaged(_) => {
                                damaged(format!("slot {}: {error}", slot + number as u64))
                            }
                            // One that cannot be read at present is none the worse for that.
                            error => error,
                        })?
                    }
                });
            }
            open = Some((location.base, file));
        }
        Ok(Entries { first_slot: commits.first_slot, bodies })
    }

    /// Returns the bytes of the entries of some commits, of blobs by their files; none if something
    /// is not where it should be.
    pub(crate) fn measure(&self, commits: &Commits) -> Option<u64> {
        let mut bytes = 0;
        for (spot, location) in &commits.places {
            let location = (*location)?;
            let whole =
                read_frame(&self.open(location).ok()?, location.offset, spot.length).ok()?;
            for entry in frame::read(&whole, spot.position)?.commit()?.entries(&whole)? {
                bytes += match entry {
                    Stored::Inline(body) => body.len() as u64,
                    Stored::Blob(digest) => self.blobs.measure(&digest)?,
                };
            }
        }
        Some(bytes)
    }

    fn open(&self, location: Location) -> Result<File, Error> {
        let path = self.path(location);
        File::open(&path).map_err(Error::file("open", &path))
    }

    fn path(&self, location: Location) -> PathBuf {
        self.journal.join(segment::file_name(location.base, location.kept_end))
    }
}

/// Reads the bytes of one frame.
fn read_frame(file: &File, offset: u64, length: u32) -> std::io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes.into())
}
