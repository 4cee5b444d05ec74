//! The directory of a store: who holds it, how it was left, and where a damaged one goes.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;

/// The most replaced stores that are kept for whoever wants to look into them; older ones are
/// deleted, because a disk that damages one damages more.
pub const DAMAGED_KEPT_MAX: usize = 3;

/// The file that is locked while the store is open and says how it was left.
const MARKER: &str = "state";
/// The directory of the database, inside the store's.
const DATABASE: &str = "sled";
/// The directory of the databases of traces, inside the store's.
const TRACES: &str = "traces";
/// The directory of large replies, inside the store's.
const REPLIES: &str = "replies";
/// The file of the database that sled holds while it is open.
const DATABASE_FILE: &str = "db";
/// How often to look whether sled has let go of its file: two seconds in all, a hundred times what
/// was ever seen.
const FREE_TRIES_MAX: u32 = 400;
/// How long to wait between two looks.
const FREE_TRY_EVERY: Duration = Duration::from_millis(5);
/// The length of the marker in bytes. It never changes, so that one write replaces the marker and
/// a process that is killed leaves either the old or the new one.
const MARKER_BYTES: usize = 512;

/// How a store was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// There is none yet, or its process died while it was made.
    Absent,
    /// Sound: closed, or its process died and the machine went on, which loses no written byte.
    Sound,
    /// Not to be trusted.
    Unsound(String),
}

/// The directory of an open store. Held for as long as this lives.
#[derive(Debug)]
pub(crate) struct Home {
    dir: PathBuf,
    marker: File,
}

impl Home {
    /// Takes hold of a directory, which is made if there is none.
    pub(crate) fn take(dir: &Path) -> Result<(Self, Left), Error> {
        fs::create_dir_all(dir).map_err(failed("create", dir))?;
        let path = dir.join(MARKER);
        let mut marker = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed("open", &path))?;
        match marker.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse { dir: dir.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path)(source)),
        }
        let mut bytes = Vec::with_capacity(MARKER_BYTES);
        Read::by_ref(&mut marker)
            .take(MARKER_BYTES as u64)
            .read_to_end(&mut bytes)
            .map_err(failed("read", &path))?;
        let has_database = dir.join(DATABASE).exists();
        let left = how_left(&String::from_utf8_lossy(&bytes), has_database, boot().as_deref());
        Ok((Self { dir: dir.to_owned(), marker }, left))
    }

    /// Returns where the database is.
    pub(crate) fn database(&self) -> PathBuf {
        self.dir.join(DATABASE)
    }

    /// Returns where the databases of traces are.
    pub(crate) fn traces(&self) -> PathBuf {
        self.dir.join(TRACES)
    }

    /// Returns where large replies are.
    pub(crate) fn replies(&self) -> PathBuf {
        self.dir.join(REPLIES)
    }

    /// Removes what is left of a store that was never whole, and writes down that one is being made.
    pub(crate) fn mark_new(&mut self) -> Result<(), Error> {
        self.mark("new")?;
        remove(&self.database())?;
        remove(&self.traces())?;
        remove(&self.replies())
    }

    /// Writes down that the store is open, and since which start of the machine.
    pub(crate) fn mark_open(&mut self) -> Result<(), Error> {
        self.mark(&format!("open {}", boot().unwrap_or_default()))
    }

    /// Writes down that the store was closed, once all its files are on the disk.
    pub(crate) fn mark_closed(&mut self) -> Result<(), Error> {
        sync_below(&self.dir)?;
        self.mark("closed")
    }

    /// Writes down that the store must not be opened again.
    pub(crate) fn mark_damaged(&mut self, reason: &str) -> Result<(), Error> {
        let line: String = reason.chars().filter(|c| !c.is_control()).collect();
        self.mark(&format!("damaged {line}"))
    }

    fn mark(&mut self, text: &str) -> Result<(), Error> {
        let mut write = || {
            let end = text.floor_char_boundary(MARKER_BYTES - 1);
            let mut line: Vec<u8> = text.bytes().take(end).collect();
            line.resize(MARKER_BYTES - 1, b' ');
            line.push(b'\n');
            self.marker.rewind()?;
            self.marker.write_all(&line)?;
            self.marker.sync_all()
        };
        write().map_err(failed("write", &self.dir.join(MARKER)))
    }

    /// Moves the directory aside and takes hold of an empty one in its place.
    pub(crate) fn replace(self) -> Result<(Self, PathBuf), Error> {
        let moved_to = make_room(&self.dir)?;
        fs::rename(&self.dir, &moved_to).map_err(failed("move aside", &self.dir))?;
        let (home, _) = Self::take(&self.dir)?;
        Ok((home, moved_to))
    }
}

/// Waits until nothing holds a database. sled's threads may hold its file for a moment after it was
/// closed.
pub(crate) fn wait_until_free(database: &Path) -> Result<(), Error> {
    let path = database.join(DATABASE_FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(failed("open", &path)(source)),
    };
    for _ in 0..FREE_TRIES_MAX {
        match file.try_lock() {
            // A process that is being started may hold the file for a moment longer than this does.
            Ok(()) => return file.unlock().map_err(failed("unlock", &path)),
            Err(TryLockError::WouldBlock) => std::thread::sleep(FREE_TRY_EVERY),
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path)(source)),
        }
    }
    Err(Error::InUse { dir: database.to_owned() })
}

/// Removes a directory with all that is in it, if there is one.
pub(crate) fn remove(dir: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(dir) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(failed("delete", dir)(source))
        }
        _ => Ok(()),
    }
}

/// Adds up the bytes of the files below a directory. One that is removed meanwhile counts nothing.
pub(crate) fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

pub(crate) fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Directory { doing, path, source }
}

/// Judges a marker. After a power cut, what sled flushed need not be on the disk, and it does not
/// always notice; so a store that was open when the machine stopped is not trusted.
fn how_left(marker: &str, has_database: bool, boot: Option<&str>) -> Left {
    let (word, rest) = marker.trim_end().split_once(' ').unwrap_or((marker.trim_end(), ""));
    match word {
        "" if !has_database => Left::Absent,
        "new" => Left::Absent,
        "closed" => Left::Sound,
        "open" if boot.is_some_and(|boot| boot == rest) => Left::Sound,
        "open" => Left::Unsound("the machine stopped while it was open".to_owned()),
        "damaged" => Left::Unsound(rest.to_owned()),
        _ => Left::Unsound("it does not say how it was left".to_owned()),
    }
}

/// Returns the id of this start of the machine, where the system tells it.
fn boot() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Finds a free name beside a directory, and deletes the oldest stores that were moved aside.
fn make_room(dir: &Path) -> Result<PathBuf, Error> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let name = dir.file_name().unwrap_or(OsStr::new("store")).to_string_lossy();
    let prefix = format!("{name}.damaged-");
    let mut numbers: Vec<u64> = Vec::new();
    for entry in fs::read_dir(parent).map_err(failed("list", parent))? {
        let entry = entry.map_err(failed("list", parent))?;
        let file = entry.file_name();
        let number = file.to_str().and_then(|file| file.strip_prefix(&prefix)?.parse::<u64>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    let surplus = (numbers.len() + 1).saturating_sub(DAMAGED_KEPT_MAX);
    for number in numbers.iter().take(surplus) {
        let old = parent.join(format!("{prefix}{number}"));
        fs::remove_dir_all(&old).map_err(failed("delete", &old))?;
    }
    let next = numbers.last().map_or(1, |last| last.saturating_add(1));
    Ok(parent.join(format!("{prefix}{next}")))
}

/// Brings everything below a directory to the disk. sled's own flush does not reach the device.
fn sync_below(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(failed("list", dir))? {
        let entry = entry.map_err(failed("list", dir))?;
        let path = entry.path();
        if entry.file_type().map_err(failed("read", &path))?.is_dir() {
            sync_below(&path)?;
        } else {
            File::open(&path).and_then(|file| file.sync_all()).map_err(failed("sync", &path))?;
        }
    }
    File::open(dir).and_then(|file| file.sync_all()).map_err(failed("sync", dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_tells_whether_the_store_is_sound() {
        let unsound = |reason: &str| Left::Unsound(reason.to_owned());
        let stopped = unsound("the machine stopped while it was open");
        let silent = unsound("it does not say how it was left");
        let cases = [
            ("", false, Some("b1"), Left::Absent),
            ("", true, Some("b1"), silent.clone()),
            ("new  \n", true, Some("b1"), Left::Absent),
            ("closed\n", true, None, Left::Sound),
            ("open b1\n", true, Some("b1"), Left::Sound),
            ("open b1\n", true, Some("b2"), stopped.clone()),
            ("open b1\n", true, None, stopped.clone()),
            ("open \n", true, None, stopped),
            ("damaged a page is gone\n", true, Some("b1"), unsound("a page is gone")),
            ("clo", true, Some("b1"), silent.clone()),
            ("\0\0\0\0", true, Some("b1"), silent),
        ];
        for (marker, has_database, boot, expected) in cases {
            assert_eq!(how_left(marker, has_database, boot), expected, "{marker:?} {boot:?}");
        }
    }

    #[test]
    fn only_the_newest_replaced_stores_are_kept() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("store");
        let mut home = Home::take(&dir).unwrap().0;
        for number in 1..=5 {
            let (next, moved_to) = home.replace().unwrap();
            assert_eq!(moved_to, parent.path().join(format!("store.damaged-{number}")));
            home = next;
        }
        let kept = |n: u32| parent.path().join(format!("store.damaged-{n}")).exists();
        assert_eq!([1, 2, 3, 4, 5].map(kept), [false, false, true, true, true]);
    }

    #[test]
    fn a_directory_has_one_holder() {
        let parent = tempfile::tempdir().unwrap();
        let held = Home::take(parent.path()).unwrap();
        assert!(matches!(Home::take(parent.path()), Err(Error::InUse { .. })));
        drop(held);
        assert!(Home::take(parent.path()).is_ok());
    }
}
