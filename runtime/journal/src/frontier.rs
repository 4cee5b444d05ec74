//! What was durable once: the end of the log and the length of each session.
//!
//! The log itself cannot tell that its end is missing. This file can: it is written anew at each
//! start, at each new segment and at a clean close, in one step that either happens or does not.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use wire::SessionId;

use crate::error::Error;
use crate::frame::{self, Fields, Kind, Place};
use crate::index::Index;
use crate::segment;

/// What the frontier says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Frontier {
    /// Everything before this position was durable.
    pub(crate) position: u64,
    /// The commits before that position.
    pub(crate) number: u64,
    /// The last start that wrote it.
    pub(crate) epoch: u32,
    /// Every session.
    pub(crate) sessions: Vec<Known>,
}

/// What the frontier says of one session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) session: SessionId,
    pub(crate) slots: u64,
    /// The session was set aside.
    pub(crate) damaged: bool,
}

/// Where the frontier of a journal directory stands.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("frontier")
}

/// Returns the bytes of a frontier, from what the index holds.
pub(crate) fn encode(index: &Index, place: &Place) -> Vec<u8> {
    let mut out = Vec::new();
    // The frame stands at the beginning of its file, so its own position is 0.
    let at_start = Place { position: 0, synced_to: place.position, ..*place };
    frame::write(&mut out, Kind::Frontier, &at_start, "", |out| {
        let known =
            || index.sessions.iter().filter(|(_, found)| found.slots > 0 || found.damage.is_some());
        out.extend_from_slice(&(known().count() as u64).to_le_bytes());
        for (session, found) in known() {
            frame::write_name(out, session.as_str());
            out.extend_from_slice(&found.slots.to_le_bytes());
            out.push(u8::from(found.damage.is_some()));
        }
    });
    out
}

/// Reads a frontier, `None` if the bytes are none.
pub(crate) fn decode(bytes: &[u8]) -> Option<Frontier> {
    let frame = frame::read(bytes, 0)?;
    if frame.kind != Kind::Frontier {
        return None;
    }
    let mut fields = frame.body;
    let count = fields.u64()?;
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(known(&mut fields)?);
    }
    let Place { synced_to: position, number, epoch, .. } = frame.place;
    Some(Frontier { position, number, epoch, sessions })
}

fn known(fields: &mut Fields<'_>) -> Option<Known> {
    let session = SessionId::new(fields.name()?).ok()?;
    Some(Known { session, slots: fields.u64()?, damaged: fields.u8()? != 0 })
}

/// Reads the file, `None` if there is none.
pub(crate) fn load(dir: &Path) -> Result<Option<Vec<u8>>, Error> {
    match segment::load(&path(dir)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file.
pub(crate) fn store(dir: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = dir.join("frontier.new");
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(error) = written {
        // On a full disk what was written would only take room.
        drop(fs::remove_file(&new));
        return Err(error);
    }
    fs::rename(&new, path(dir))?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Spot;

    #[test]
    fn a_frontier_survives_its_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(load(dir.path()).unwrap().is_none());

        let mut index = Index::default();
        let (whole, bad) = (SessionId::new("whole").unwrap(), SessionId::new("bad").unwrap());
        let spot = Spot { position: 0, length: 9 };
        index.sessions.entry(whole.clone()).or_default().push(spot, 3, [0; 16]);
        index.set_aside(&bad, "gap");
        let place = Place { position: 77, number: 2, epoch: 4, ..Place::default() };
        store(dir.path(), &encode(&index, &place)).unwrap();

        let mut found = decode(&load(dir.path()).unwrap().unwrap()).unwrap();
        found.sessions.sort_by_key(|known| known.slots);
        let known = |session, slots, damaged| Known { session, slots, damaged };
        let sessions = vec![known(bad, 0, true), known(whole, 3, false)];
        assert_eq!(found, Frontier { position: 77, number: 2, epoch: 4, sessions });
    }
}
