//! Large replies: each in a file of its own, for which the head of its record stands in the
//! database.
//!
//! sled copies what it is given into its log and its cache, so that a reply of megabytes would stay
//! in memory some times over. A file is whole before a batch names it, and goes after the batch
//! that names it no more is written out. So whatever a process that is killed leaves in the
//! database, the files that it names are there; those that it does not are removed when the store is
//! opened.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::home::failed;
use crate::key::Space;
use crate::record::Head;

/// What the name of a file ends with that is being written.
const UNFINISHED: &str = ".new";

/// The files of a store.
#[derive(Debug)]
pub(crate) struct Replies {
    dir: PathBuf,
    /// Files that no record names since this process wrote, to be removed once that is written out.
    unnamed: Mutex<BTreeSet<String>>,
}

/// Returns the name of a reply's file: of its run, which holds no full stop, and its checksum, so
/// that another reply of the same run has another file.
pub(crate) fn name(key: &[u8], checksum: u32) -> Option<String> {
    let (space, run) = key.split_first()?;
    let run = std::str::from_utf8(run).ok().filter(|_| *space == Space::Reply as u8)?;
    Some(format!("{run}.{checksum:08x}"))
}

impl Replies {
    /// Returns the files of a directory, which need not be there.
    pub(crate) const fn of(dir: PathBuf) -> Self {
        Self { dir, unnamed: Mutex::new(BTreeSet::new()) }
    }

    fn unnamed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.unnamed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a file, whole or not at all.
    ///
    /// What brings the database to the disk brings the files there too; until then a power cut has
    /// the whole store replaced.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.unnamed().remove(name);
        let path = self.dir.join(name);
        let unfinished = self.dir.join(format!("{name}{UNFINISHED}"));
        let write = || {
            fs::create_dir_all(&self.dir)?;
            fs::write(&unfinished, bytes)?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|source| {
            // On a full disk the part that was written is what others lack.
            drop(fs::remove_file(&unfinished));
            failed("write", &path)(source)
        })
    }

    /// Reads the file of a record, whole and checked.
    pub(crate) fn read(&self, key: &[u8], head: &Head<'_>) -> Result<Vec<u8>, Error> {
        let doing = "read a reply";
        let name = name(key, head.checksum)
            .ok_or_else(|| Error::damaged(doing, "its record is none of a reply"))?;
        let path = self.dir.join(name);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| {
            bytes.reserve_exact(head.length);
            // A byte more than it has shows that it is too long.
            file.take(head.length as u64 + 1).read_to_end(&mut bytes)
        });
        if let Err(source) = read {
            return Err(match source.kind() {
                io::ErrorKind::NotFound => Error::damaged(doing, "its file is gone"),
                // Such as with no file descriptor left, which says nothing of the file.
                _ => failed("read", &path)(source),
            });
        }
        head.check(key, &bytes)?;
        Ok(bytes)
    }

    /// Takes names of files that are in the database no more.
    pub(crate) fn leave(&self, names: BTreeSet<String>) {
        self.unnamed().extend(names);
    }

    /// Removes files that are in the database no more, once that is written out, since a killed
    /// process leaves the database as it was a second ago. What cannot be removed takes room and
    /// does no harm, and is tried again.
    pub(crate) fn tidy(&self, tree: &sled::Tree) {
        let mut unnamed = self.unnamed();
        if unnamed.is_empty() {
            return;
        }
        if let Err(error) = tree.flush() {
            tracing::warn!(%error, "files of replies are not removed yet");
            return;
        }
        unnamed.retain(|name| !self.remove(name));
    }

    /// Removes the files that no record names: those of changes that were under way when the
    /// process died or the disk was full.
    pub(crate) fn sweep(&self, tree: &sled::Tree) -> Result<(), Error> {
        self.unnamed().clear();
        let files = match fs::read_dir(&self.dir) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(failed("list", &self.dir)(source)),
        };
        for file in files {
            let file = file.map_err(failed("list", &self.dir))?.file_name();
            let name = file.to_string_lossy();
            if !is_named(tree, &name)? {
                self.remove(&name);
            }
        }
        Ok(())
    }

    /// Removes a file; tells whether it is gone.
    fn remove(&self, name: &str) -> bool {
        let path = self.dir.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "a file of no reply is not removed");
                false
            }
            _ => true,
        }
    }
}

/// Tells whether the record of its run names a file.
fn is_named(tree: &sled::Tree, file: &str) -> Result<bool, Error> {
    let Some((run, _)) = file.split_once('.') else { return Ok(false) };
    let key = Space::Reply.key(&[run.as_bytes()]);
    let value = tree.get(&key).map_err(|error| Error::engine("read a record", error))?;
    let Some(value) = value else { return Ok(false) };
    let head = Head::read(&value)?;
    Ok(head.is_in_file && name(&key, head.checksum).as_deref() == Some(file))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::database::{self, Holding};
    use crate::key;
    use crate::pending::{Pending, State, get_reply};

    #[test]
    fn a_large_reply_that_stands_in_the_database_is_read_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let holding = Holding { cache_bytes: 1 << 20, flush_every_ms: None };
        let database = database::start(&dir.path().join("sled"), holding).unwrap();
        let replies = Arc::new(Replies::of(dir.path().join("replies")));
        let key = key::reply(&wire::RunId::new("r").unwrap());
        let (old, new) = (vec![7; 200_000], vec![8; 200_000]);

        let mut pending = Pending::new(&database, State::default());
        pending.put(key.clone(), &old).unwrap();
        let state = pending.commit().unwrap();
        assert_eq!(get_reply(&database, &replies, &key).unwrap().as_ref(), Some(&old));
        database::count(&database, Some(&replies), &state).unwrap();

        let mut pending = Pending::new(&database, state).with_replies(&replies);
        pending.put_reply(key.clone(), &new).unwrap();
        let state = pending.commit().unwrap();
        assert_eq!(get_reply(&database, &replies, &key).unwrap().as_ref(), Some(&new));
        database::count(&database, Some(&replies), &state).unwrap();
        assert_eq!((state.records, state.bytes), (1, 200_000));
        let keys: Vec<_> = database.iter().keys().map(Result::unwrap).collect();
        assert_eq!(keys, [key::STATE, &key], "no part is left");
    }
}
