//! Room on the disk: a reserve that is given up when the disk is full, and when there is room again.
//!
//! The reserve is a file that holds nothing. When a write finds the disk full the file is removed,
//! so that what was begun can be ended and journaled. From then on the journal says that it is
//! full, until there is room for the reserve and for new work.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use crate::blobs::sync_dir;
use crate::error::Error;

/// How many times the reserve has to be free before the disk counts as having room: with less, the
/// first runs that are taken would fill it again.
const FREE_RESERVES_MIN: u64 = 4;

/// The least that has to be free, in bytes, however small the reserve: one full commit.
const FREE_BYTES_MIN: u64 = 4 << 20;

/// How long nothing is tried after an append found no room at all: whoever tries has to undo what it
/// prepared, which costs a session all that it read of its entries. Those who wait come again every
/// half second; were this a multiple of that, the same one of them would always be the first.
const REFUSED_PAUSE: Duration = Duration::from_millis(3_300);

/// What is written at once where a file system cannot set room aside, in bytes.
const ZEROS_BYTES: usize = 1 << 20;

/// The reserve of one journal, and whether the disk is full.
#[derive(Debug)]
pub(crate) struct Room {
    dir: PathBuf,
    reserve_bytes: u64,
    full: watch::Sender<bool>,
    /// When an append was last tried that found no room although the reserve is used up; none if
    /// appends find room.
    refused: Mutex<Option<Instant>>,
    /// How often the reserve was given up.
    given_up: AtomicU64,
    /// Held while the reserve is made or removed.
    changing: Mutex<()>,
}

/// Tells whether an operation failed because there is no room on the disk.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Tells a full disk from a faulty one.
pub(crate) fn full_or(doing: &'static str, path: &Path, error: io::Error) -> Error {
    if is_full(&error) { Error::StorageFull } else { Error::file(doing, path)(error) }
}

impl Room {
    /// Sets a reserve aside in a journal directory, if it should have one and has none.
    ///
    /// A reserve that is there is kept in any case. Without room for one the disk counts as full.
    pub(crate) fn prepare(dir: &Path, reserve_bytes: u64) -> Result<Self, Error> {
        let room = Self {
            dir: dir.to_owned(),
            reserve_bytes,
            full: watch::Sender::new(false),
            refused: Mutex::default(),
            given_up: AtomicU64::new(0),
            changing: Mutex::new(()),
        };
        if reserve_bytes > 0 && !room.has_reserve() {
            match room.make_reserve() {
                Err(Error::File { source, .. }) if is_full(&source) => room.report_full(),
                made => made?,
            }
        }
        Ok(room)
    }

    pub(crate) fn is_full(&self) -> bool {
        *self.full.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<bool> {
        self.full.subscribe()
    }

    /// Notes that there is no room.
    pub(crate) fn report_full(&self) {
        if !self.full.send_replace(true) {
            tracing::error!(
                dir = %self.dir.display(),
                "the disk is full: no new runs are taken until there is room"
            );
        }
    }

    /// Writes something, and once more if it found no room and there is some of the reserve now.
    ///
    /// Others may find no room at the same time, of whom one gives the reserve up for all.
    pub(crate) fn write<T>(&self, mut write: impl FnMut() -> T, is_full: impl Fn(&T) -> bool) -> T {
        let before = self.given_up.load(Ordering::Acquire);
        let written = write();
        if is_full(&written) && self.give_up_reserve() != before { write() } else { written }
    }

    /// Notes that there is no room and gives the reserve up, if there is one. Returns how often it was
    /// given up by now.
    fn give_up_reserve(&self) -> u64 {
        self.report_full();
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if fs::remove_file(self.reserve()).is_ok() {
            tracing::warn!("the reserve was given up to the runs in work");
            self.given_up.fetch_add(1, Ordering::Release);
        }
        self.given_up.load(Ordering::Acquire)
    }

    /// Notes that an append found no room although the reserve is used up.
    pub(crate) fn note_refused(&self) {
        self.refused().get_or_insert_with(Instant::now);
    }

    /// Notes that an append found room, or that something was removed.
    pub(crate) fn note_freed(&self) {
        if self.is_full() {
            *self.refused() = None;
        }
    }

    /// Tells whether an append may be tried. If one found no room, one may again after some time.
    pub(crate) fn may_try(&self) -> bool {
        if !self.is_full() {
            return true;
        }
        lets_one_try(&mut self.refused(), Instant::now())
    }

    fn refused(&self) -> MutexGuard<'_, Option<Instant>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether there is room again: for the reserve, and for new work besides. Tells so.
    pub(crate) fn regain(&self) -> Result<bool, Error> {
        if !self.is_full() {
            return Ok(true);
        }
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = if self.has_reserve() { 0 } else { self.reserve_bytes };
        let wanted = self.reserve_bytes.saturating_mul(FREE_RESERVES_MIN).max(FREE_BYTES_MIN);
        if self.free()? < wanted.saturating_add(missing) {
            return Ok(false);
        }
        if missing > 0 {
            match self.make_reserve() {
                Err(Error::File { source, .. }) if is_full(&source) => return Ok(false),
                made => made?,
            }
        }
        self.note_freed();
        self.full.send_replace(false);
        tracing::info!(dir = %self.dir.display(), "there is room on the disk again");
        Ok(true)
    }

    fn reserve(&self) -> PathBuf {
        self.dir.join("reserve")
    }

    fn has_reserve(&self) -> bool {
        fs::metadata(self.reserve()).is_ok_and(|found| found.len() >= self.reserve_bytes)
    }

    /// Returns the bytes that this process may still write to the disk.
    fn free(&self) -> Result<u64, Error> {
        let found = statvfs(&self.dir)
            .map_err(|errno| Error::file("ask for free room in", &self.dir)(errno.into()))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Returns the bytes that may be written besides what the runs in work write.
    pub(crate) fn spare(&self) -> Result<u64, Error> {
        Ok(self.free()?.saturating_sub(FREE_BYTES_MIN))
    }

    fn make_reserve(&self) -> Result<(), Error> {
        let path = self.reserve();
        // Asked first, since trying would take all the room there is from others for a moment.
        let made = if self.free()? < self.reserve_bytes {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            self.write_reserve(&path)
        };
        if made.is_err() {
            drop(fs::remove_file(&path));
        }
        made.map_err(Error::file("set room aside in", &path))?;
        sync_dir(&self.dir)
    }

    fn write_reserve(&self, path: &Path) -> io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, self.reserve_bytes) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                write_zeros(&mut file, self.reserve_bytes)?;
            }
            Err(errno) => return Err(errno.into()),
        }
        file.sync_all()
    }
}

/// Tells whether an append may be tried, and notes that it is.
fn lets_one_try(refused: &mut Option<Instant>, now: Instant) -> bool {
    match refused {
        Some(tried) if now.saturating_duration_since(*tried) < REFUSED_PAUSE => false,
        Some(tried) => {
            *tried = now;
            true
        }
        None => true,
    }
}

fn write_zeros(file: &mut File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS_BYTES];
    let mut left = bytes;
    while left > 0 {
        let count = zeros.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.write_all(zeros.get(..count).unwrap_or_default())?;
        left -= count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_given_up_once_and_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = dir.path().join("reserve");
        let bytes = || fs::metadata(&reserve).map(|found| found.len()).ok();
        let room = Room::prepare(dir.path(), 3 << 20).unwrap();
        assert_eq!((bytes(), room.is_full()), (Some(3 << 20), false));
        let tries = || {
            let mut tries = 0;
            room.write(|| tries += 1, |()| true);
            tries
        };
        assert_eq!(tries(), 2);
        assert_eq!(tries(), 1, "it can be given up once");
        assert_eq!((bytes(), room.is_full()), (None, true));
        assert!(room.regain().unwrap());
        assert_eq!((bytes(), room.is_full()), (Some(3 << 20), false));
    }

    #[test]
    fn what_another_gave_up_meanwhile_is_room_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let room = Room::prepare(dir.path(), 3 << 20).unwrap();
        let mut tries = 0;
        let other = || room.write(|| (), |()| true);
        let write = || {
            if tries == 0 {
                other();
            }
            tries += 1;
        };
        room.write(write, |()| true);
        assert_eq!(tries, 2);
    }

    #[test]
    fn after_an_append_that_found_no_room_one_is_let_through_at_a_time() {
        let begun = Instant::now();
        let after = |parts: u32| begun + REFUSED_PAUSE * parts / 4;
        let mut refused = None;
        assert!(lets_one_try(&mut refused, begun) && refused.is_none());
        refused = Some(begun);
        let tries =
            [(0, false), (3, false), (4, true), (5, false), (7, false), (8, true), (8, false)];
        for (parts, expected) in tries {
            assert_eq!(lets_one_try(&mut refused, after(parts)), expected, "{parts}");
        }
    }

    #[test]
    fn whatever_gives_room_back_lets_all_try() {
        let dir = tempfile::tempdir().unwrap();
        let room = Room::prepare(dir.path(), 0).unwrap();
        room.report_full();
        assert!(room.may_try() && room.may_try(), "what is left of the reserve is for them");
        let gives: [fn(&Room); 2] = [Room::note_freed, |room| assert!(room.regain().unwrap())];
        for give in gives {
            room.note_refused();
            assert!(!room.may_try());
            give(&room);
            assert!(room.may_try() && room.may_try());
        }
    }

    #[test]
    fn who_only_looks_makes_no_reserve_and_keeps_the_one_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = dir.path().join("reserve");
        Room::prepare(dir.path(), 0).unwrap();
        assert!(!reserve.exists());
        Room::prepare(dir.path(), 1 << 20).unwrap();
        Room::prepare(dir.path(), 0).unwrap();
        assert_eq!(fs::metadata(&reserve).unwrap().len(), 1 << 20);
    }

    #[test]
    fn more_than_the_disk_has_is_never_regained() {
        let dir = tempfile::tempdir().unwrap();
        let room = Room::prepare(dir.path(), 15 << 40).unwrap();
        assert!(room.is_full(), "there is no room for the reserve");
        assert!(!room.regain().unwrap());
        assert!(!dir.path().join("reserve").exists());
    }

    #[test]
    fn zeros_fill_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zeros");
        let length = ZEROS_BYTES as u64 * 2 + 7;
        write_zeros(&mut File::create(&path).unwrap(), length).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), length);
    }
}
