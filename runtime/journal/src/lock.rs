//! Who may write to a data directory: one process at a time.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::Timestamp;

use crate::blobs::sync_dir;
use crate::error::Error;
use crate::ownership;

/// How often a held lock is tried. Asking who holds a directory takes the lock for an instant, which
/// must not keep a daemon from starting.
const ATTEMPTS: u32 = 5;

/// How often it is tried if it is held for a look: some five seconds, in which the data of large
/// teams is opened and read, and which no supervisor takes for a start that hangs.
const BRIEF_ATTEMPTS: u32 = 250;

/// The pause between two attempts; much longer than asking takes.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(20);

/// The largest lock file that is read, in bytes; a holder takes some hundred.
const HOLDER_BYTES_MAX: u64 = 64 << 10;

/// Holds a data directory until it is dropped or its process ends.
#[derive(Debug)]
pub struct DataLock {
    file: File,
    path: PathBuf,
}

/// Tells who holds a data directory, for those who find it in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// The program and its verb, such as `callboard serve`.
    pub program: String,
    /// The HTTP address at which it can be asked, if it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// The NATS server through which it can be asked, if it uses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats: Option<String>,
    /// When it took the directory.
    pub since: Timestamp,
    /// Whether it only takes a look, so that whoever wants the directory waits until it is done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_brief: bool,
}

impl Holder {
    /// Names this process, which can be asked nowhere as yet and holds the directory for long.
    pub fn this_process(program: impl Into<String>, since: Timestamp) -> Self {
        Self {
            pid: std::process::id(),
            program: program.into(),
            listen: None,
            nats: None,
            since,
            is_brief: false,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.program, self.pid)
    }
}

impl DataLock {
    /// Takes a directory, and makes it if it is not there. Blocks while somebody takes a look at it,
    /// up to five seconds.
    ///
    /// Fails with [`Error::InUse`] if another process holds it.
    pub fn acquire(dir: &Path, holder: &Holder) -> Result<Self, Error> {
        make_dir(dir)?;
        let path = dir.join("lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(Error::file("open", &path))?;
        for attempt in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => return Err(Error::file("lock", &path)(source)),
            }
            if attempt >= ATTEMPTS {
                let holder = read_holder(&file);
                if attempt >= attempts_max(holder.as_ref()) {
                    let holder = holder.map(Box::new);
                    return Err(Error::InUse { dir: dir.to_owned(), holder });
                }
            }
            std::thread::sleep(ATTEMPT_PAUSE);
        }
        let lock = Self { file, path };
        lock.update(holder)?;
        Ok(lock)
    }

    /// Tells those who ask something new about the holder, such as where it listens.
    pub fn update(&self, holder: &Holder) -> Result<(), Error> {
        let mut text = serde_json::to_vec(holder)
            .map_err(|error| Error::file("write", &self.path)(error.into()))?;
        text.push(b'\n');
        let length = text.len() as u64;
        // The old text is cut after the new one stands, so that a reader never finds it empty.
        self.file
            .write_all_at(&text, 0)
            .and_then(|()| self.file.set_len(length))
            .map_err(Error::file("write", &self.path))
    }

    /// Returns who holds a directory, `None` if nobody does.
    ///
    /// Fails with [`Error::InUse`] if it is held by someone whose name cannot be read.
    pub fn holder(dir: &Path) -> Result<Option<Holder>, Error> {
        let path = dir.join("lock");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("open", &path)(error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => match read_holder(&file) {
                Some(holder) => Ok(Some(holder)),
                None => Err(Error::InUse { dir: dir.to_owned(), holder: None }),
            },
            Err(TryLockError::Error(source)) => Err(Error::file("lock", &path)(source)),
        }
    }
}

impl Drop for DataLock {
    fn drop(&mut self) {
        let Some(dir) = self.path.parent() else { return };
        // While the lock is held: who takes it next finds all that is there to be his.
        ownership::hand_back(dir);
    }
}

/// Returns how often a lock is tried that somebody holds.
fn attempts_max(holder: Option<&Holder>) -> u32 {
    if holder.is_some_and(|holder| holder.is_brief) { BRIEF_ATTEMPTS } else { ATTEMPTS }
}

/// Makes a directory, and those above it, that only their owner can look into; their names are
/// durable then.
pub(crate) fn make_dir(dir: &Path) -> Result<(), Error> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(Error::file("make directory", dir))?;
    for above in missing.iter().filter_map(|made| made.parent()) {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match sync_dir(above) {
            // Whoever may make something there need not be allowed to read it.
            Err(Error::File { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// Reads the holder; tries again where it is being written at this moment.
fn read_holder(file: &File) -> Option<Holder> {
    (0..ATTEMPTS).find_map(|attempt| {
        if attempt > 0 {
            std::thread::sleep(ATTEMPT_PAUSE);
        }
        let mut text = Vec::new();
        let mut bounded = OffsetReader { file, offset: 0 }.take(HOLDER_BYTES_MAX);
        bounded.read_to_end(&mut text).ok()?;
        let line = text.split(|byte| *byte == b'\n').next()?;
        serde_json::from_slice(line).ok()
    })
}

/// Reads a shared handle from its start, whatever its cursor.
struct OffsetReader<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for OffsetReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(pid: u32) -> Holder {
        Holder { pid, ..Holder::this_process("callboard serve", Timestamp::from_micros(7)) }
    }

    #[test]
    fn a_directory_has_one_holder() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("deep/team");
        assert_eq!(DataLock::holder(&dir).unwrap(), None, "no directory, no holder");

        let lock = DataLock::acquire(&dir, &holder(1)).unwrap();
        let Err(Error::InUse { holder: Some(found), .. }) = DataLock::acquire(&dir, &holder(2))
        else {
            panic!("taken twice");
        };
        assert_eq!(*found, holder(1));

        let listening = Holder { listen: Some("127.0.0.1:7070".into()), ..holder(1) };
        lock.update(&listening).unwrap();
        assert_eq!(DataLock::holder(&dir).unwrap(), Some(listening));
        lock.update(&holder(1)).unwrap();
        assert_eq!(DataLock::holder(&dir).unwrap(), Some(holder(1)), "a shorter text is whole");

        drop(lock);
        assert_eq!(DataLock::holder(&dir).unwrap(), None, "the text outlives its holder");
        drop(DataLock::acquire(&dir, &holder(2)).unwrap());
    }

    #[test]
    fn who_takes_a_look_is_waited_for() {
        let (brief, long) = (Holder { is_brief: true, ..holder(1) }, holder(1));
        let cases = [(None, ATTEMPTS), (Some(&long), ATTEMPTS), (Some(&brief), BRIEF_ATTEMPTS)];
        for (holder, attempts) in cases {
            assert_eq!(attempts_max(holder), attempts, "{holder:?}");
        }

        let root = tempfile::tempdir().unwrap();
        let lock = DataLock::acquire(root.path(), &brief).unwrap();
        std::thread::scope(|threads| {
            let waits = threads.spawn(|| DataLock::acquire(root.path(), &holder(2)).map(drop));
            // For longer than anybody else would be waited for.
            std::thread::sleep(ATTEMPT_PAUSE * ATTEMPTS * 2);
            drop(lock);
            waits.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_directory_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("team");
        let _lock = DataLock::acquire(&dir, &holder(1)).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(mode(&dir.join("lock")), 0o600);
    }

    #[test]
    fn a_holder_that_cannot_be_read_is_still_a_holder() {
        let root = tempfile::tempdir().unwrap();
        let _lock = DataLock::acquire(root.path(), &holder(1)).unwrap();
        std::fs::write(root.path().join("lock"), "{").unwrap();
        assert!(matches!(DataLock::holder(root.path()), Err(Error::InUse { holder: None, .. })));
    }
}
