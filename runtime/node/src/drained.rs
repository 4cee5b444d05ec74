//! Which sessions a process let go of in order: a run that is taken up after that is not what ended
//! the process, and need not be given up.
//!
//! The end of a drain writes it to a file of the team, since it is of no worth to the session itself.
//! Losing the file has some runs counted as after a crash.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use journal::Journal;
use store::Store;
use tracing::warn;
use wire::SessionId;

use crate::error::Error;

/// The file below a team's directory.
const FILE: &str = "drained.json";

/// The largest such file that is read, in bytes: some hundred thousand sessions.
const BYTES_MAX: u64 = 16 << 20;

/// The sessions of a team that have something to do, each with the slot of its next entry. One that
/// has an entry in that slot was taken up since, and what is said here of it is over.
#[derive(Debug)]
pub(crate) struct Drained {
    path: PathBuf,
    /// Those that the process before this one let go of in order.
    before: HashMap<SessionId, u64>,
    /// Those that this process does not take up by itself.
    left: Mutex<HashMap<SessionId, u64>>,
}

impl Drained {
    /// Reads what the process before left in the directory of a team. Blocks on the disk.
    pub(crate) fn read(dir: &Path) -> Self {
        let path = dir.join(FILE);
        let before = read(&path).unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                warn!(path = %path.display(), %error, "runs are taken up as after a crash");
            }
            HashMap::new()
        });
        Self { path, before, left: Mutex::default() }
    }

    /// Tells whether the process before let go of a session in order, whose next entry has a slot.
    pub(crate) fn has(&self, session: &SessionId, slot: u64) -> bool {
        self.before.get(session) == Some(&slot)
    }

    /// Notes that a session is not taken up, unless somebody asks for it.
    pub(crate) fn leave(&self, session: SessionId, slot: u64) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).insert(session, slot);
    }

    /// Tells whether nobody has asked yet for a session that was not taken up.
    pub(crate) fn is_left(&self, session: &SessionId, slot: u64) -> bool {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.get(session) == Some(&slot)
    }

    /// Writes down which sessions this process lets go of. Blocks on the disk.
    pub(crate) fn write(&self, store: &Store, journal: &Journal) -> Result<(), Error> {
        let sessions = store.unfinished()?.into_iter().map(|session| {
            let slot = journal.next_slot(&session);
            (session, slot)
        });
        // One that was left is as the process before this one left it.
        let let_go = sessions
            .filter(|(session, slot)| !self.is_left(session, *slot) || self.has(session, *slot));
        let let_go: BTreeMap<SessionId, u64> = let_go.collect();
        write(&self.path, &let_go).map_err(|source| {
            journal::Error::File { doing: "write", path: self.path.clone(), source }.into()
        })
    }
}

fn read(path: &Path) -> io::Result<HashMap<SessionId, u64>> {
    let mut text = Vec::new();
    File::open(path)?.take(BYTES_MAX).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn write(path: &Path, sessions: &BTreeMap<SessionId, u64>) -> io::Result<()> {
    if sessions.is_empty() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        };
    }
    let written = path.with_extension("new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&written)?;
    file.write_all(&serde_json::to_vec(sessions)?)?;
    fs::rename(written, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opening::team_dir;
    use crate::testing;

    #[tokio::test]
    async fn a_session_is_let_go_of_until_it_has_another_entry() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let dir = team_dir(data.path(), &context.team.name);
        let mut sessions = Vec::new();
        for (id, is_over) in [("taken", false), ("left", false), ("over", true)] {
            sessions.push(testing::journal_run(&context, id, 0, None, is_over).await);
        }
        context.projector.sync().await;
        let write = |drained: &Drained| drained.write(&context.store, &context.journal).unwrap();
        let known = |drained: &Drained| -> Vec<bool> {
            sessions.iter().map(|session| drained.has(session, 1)).collect()
        };
        let first = &context.drained;
        assert_eq!(known(first), [false; 3]);
        first.leave(sessions[1].clone(), 1);
        assert!(first.is_left(&sessions[1], 1) && !first.is_left(&sessions[1], 2));
        write(first);
        let second = Drained::read(&dir);
        assert_eq!(known(&second), [true, false, false]);
        assert!(!second.has(&sessions[0], 2), "it was taken up since");
        // One that is left stays as the process before left it.
        for session in &sessions {
            second.leave(session.clone(), 1);
        }
        write(&second);
        let third = Drained::read(&dir);
        assert_eq!(known(&third), [true, false, false]);
        write(&third);
        assert_eq!(known(&Drained::read(&dir)), [true, true, false]);
        fs::write(dir.join(FILE), "{").unwrap();
        assert_eq!(known(&Drained::read(&dir)), [false; 3]);
    }
}
