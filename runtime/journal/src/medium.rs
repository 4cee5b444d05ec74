//! The file operations whose order durability rests on.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::{frontier, segment};

/// Takes what the committer writes. A seam for tests that fail operations or record their order.
pub(crate) trait Medium: Send {
    /// Begins the segment at `base`, which then takes all that is appended.
    fn create(&mut self, base: u64) -> io::Result<()>;
    /// Takes back a segment that was created and holds nothing, and goes on with the one at `base`,
    /// if there is one.
    fn take_back(&mut self, created: u64, base: Option<u64>) -> io::Result<()>;
    /// Adds bytes to the segment. After a failure some of them may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the segment back to a length.
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Returns when all that was appended is on the disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Returns when the name of a new segment is on the disk.
    fn sync_dir(&mut self) -> io::Result<()>;
    /// Replaces the frontier; returns when it is on the disk.
    fn store_frontier(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// A journal directory on a disk, locked as long as this lives.
pub(crate) struct Disk {
    dir: PathBuf,
    handle: File,
    current: Option<File>,
}

impl Disk {
    /// Takes the directory. Fails with [`Error::InUse`] if another journal has it open.
    pub(crate) fn open(dir: &Path) -> Result<Self, Error> {
        let handle = File::open(dir).map_err(Error::file("open", dir))?;
        match handle.try_lock() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), handle, current: None }),
            Err(TryLockError::WouldBlock) => {
                Err(Error::InUse { dir: dir.to_owned(), holder: None })
            }
            Err(TryLockError::Error(source)) => Err(Error::file("lock", dir)(source)),
        }
    }

    /// Goes on with the segment at `base`.
    pub(crate) fn resume(&mut self, base: u64) -> io::Result<()> {
        let path = self.dir.join(segment::name(base));
        self.current = Some(OpenOptions::new().append(true).open(path)?);
        Ok(())
    }

    fn current(&mut self) -> io::Result<&mut File> {
        self.current.as_mut().ok_or_else(|| io::Error::other("no segment is open"))
    }
}

impl Medium for Disk {
    fn create(&mut self, base: u64) -> io::Result<()> {
        let path = self.dir.join(segment::name(base));
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
        self.current = Some(file);
        Ok(())
    }

    fn take_back(&mut self, created: u64, base: Option<u64>) -> io::Result<()> {
        match fs::remove_file(self.dir.join(segment::name(created))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.current = None;
        base.map_or(Ok(()), |base| self.resume(base))
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.current()?.write_all(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.current()?.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.current()?.sync_data()
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn store_frontier(&mut self, bytes: &[u8]) -> io::Result<()> {
        frontier::store(&self.dir, bytes)
    }
}
