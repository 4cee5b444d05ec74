//! Looks through a journal that somebody may be writing.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use wire::{Digest, SessionId};

use crate::error::Error;
use crate::read::{Commits, Files, Since};
use crate::recovery::{self, Scan};
use crate::report::{Damage, Report};
use crate::segment::{self, Listed};

/// Adds the blobs that an entry needs besides those that hold it.
pub type Refers<'r> = dyn FnMut(&[u8], &mut HashSet<Digest>) + 'r;

/// How often a journal is scanned again in which segments were rewritten meanwhile.
const VERIFY_TRIES: u32 = 5;

/// Scans the journal of a data directory, blobs included, and changes nothing there. `refers` tells
/// which other blobs an entry needs, as for [`Journal::sweep_blobs`].
///
/// Blocks. A journal that is being written may seem to have a torn tail.
pub fn verify(dir: &Path, refers: &mut Refers<'_>) -> Result<Report, Error> {
    let files = Files::new(dir);
    let rewritten = || -> Result<Vec<Listed>, Error> {
        let listed = segment::list(&files.journal)?.segments;
        Ok(listed.into_iter().filter(|segment| segment.kept_end.is_some()).collect())
    };
    let mut tries = 0;
    let mut missing_before = HashSet::new();
    loop {
        let before = rewritten()?;
        let mut missing = HashSet::new();
        let result = verify_once(&files, refers, &mut missing);
        tries += 1;
        let is_sound = result.as_ref().is_ok_and(|report| report.damage.is_empty());
        // Those who needed a blob may have been forgotten, and it swept, since they were read.
        let is_same = rewritten()? == before && missing == missing_before;
        if is_sound || tries == VERIFY_TRIES || is_same {
            return result;
        }
        missing_before = missing;
    }
}

fn verify_once(
    files: &Files,
    refers: &mut Refers<'_>,
    missing: &mut HashSet<Digest>,
) -> Result<Report, Error> {
    let Scan { index, mut report, .. } = recovery::scan(&files.journal)?;
    let mut needed: HashMap<Digest, Vec<SessionId>> = HashMap::new();
    for session in index.readable(|_| true) {
        let commits = Commits::of(&index, &session, Since::Oldest);
        match files.read(&session, &commits) {
            Ok(read) => {
                let mut found = HashSet::new();
                read.bodies.iter().for_each(|entry| refers(entry, &mut found));
                for digest in found {
                    needed.entry(digest).or_default().push(session.clone());
                }
            }
            Err(Error::Damaged { session, what }) => {
                let last = commits.places.last().and_then(|(_, location)| *location);
                let name = last.map(|last| segment::file_name(last.base, last.kept_end));
                report.damage.push(Damage {
                    segment: format!("journal/{}", name.unwrap_or_default()),
                    offset: last.map_or(0, |last| last.offset),
                    sessions: vec![session],
                    what,
                });
            }
            Err(error) => return Err(error),
        }
    }
    for (digest, sessions) in needed {
        match files.blobs.get(&digest) {
            Ok(_) => {}
            Err(error @ (Error::BlobMissing(_) | Error::BlobDamaged(_))) => {
                missing.insert(digest);
                let name = digest.to_string();
                let segment = format!("blobs/{name:.2}/{name}");
                let what = format!("their entries need it: {error}");
                report.damage.push(Damage { segment, offset: 0, sessions, what });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(report)
}
