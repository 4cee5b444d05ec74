//! Entries too large to stand in a segment: one file each, named by its content.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use wire::Digest;
use wire::id::DigestWriter;

use crate::error::Error;
use crate::lock::make_dir;
use crate::room;
use crate::sweep::Swept;

/// The largest blob, in bytes; it bounds what one read takes from memory.
const BLOB_BYTES_MAX: u64 = 64 << 20;

/// What is gathered of a blob before it is written to its file, in bytes.
const WRITTEN_BYTES: usize = 64 << 10;

/// Writes an entry, the same at each call.
pub(crate) type WriteEntry<'w> = dyn Fn(&mut dyn Write) -> io::Result<()> + 'w;

/// Tells of the bytes of a blob whether it stays although no entry is known to refer to it.
pub(crate) type Spares<'a> = &'a dyn Fn(&[u8]) -> bool;

/// The blobs of one data directory.
#[derive(Debug)]
pub(crate) struct Blobs {
    dir: PathBuf,
    /// What was put since the sweep before the last one began, and since the last one.
    put: Mutex<[HashSet<Digest>; 2]>,
    /// Directories below `dir` whose names are known to be durable.
    ready: Mutex<HashSet<String>>,
    /// Numbers the files that are being written.
    writes: AtomicU64,
}

impl Blobs {
    /// Names the blobs of a data directory, and changes nothing there.
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self {
            dir: data_dir.join("blobs"),
            put: Mutex::default(),
            ready: Mutex::default(),
            writes: AtomicU64::new(0),
        }
    }

    /// Makes the directories, and drops what a crash left half written.
    pub(crate) fn prepare(&self) -> Result<(), Error> {
        let unfinished = self.dir.join("new");
        if let Err(error) = fs::remove_dir_all(&unfinished)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(Error::file("remove", &unfinished)(error));
        }
        make_dir(&unfinished)
    }

    /// Makes some bytes durable and returns their name. Bytes that are there stay as they are.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<Digest, Error> {
        let found = bytes.len() as u64;
        if found > BLOB_BYTES_MAX {
            return Err(Error::TooLarge { unit: "bytes", found, max: BLOB_BYTES_MAX });
        }
        let digest = Digest::of(bytes);
        // Noted before it is looked for: whoever removes blobs leaves it alone from here on.
        self.note_put(digest);
        let (parent, path) = self.place(&digest);
        self.make_durable(&parent)?;
        if !matches!(self.get(&digest), Ok(present) if present == bytes) {
            let new = self.new_file();
            if let Err(error) = write_new(&new, bytes) {
                // Left there it would only take room.
                drop(fs::remove_file(&new));
                return Err(room::full_or("write", &new, error));
            }
            named(&new, fs::rename(&new, &path))?;
        }
        sync_dir(&parent)?;
        Ok(digest)
    }

    /// Makes durable what is written and returns its name, without a copy of all of it in memory. On
    /// a full disk it is looked for first, so that what is tried again takes no room again.
    pub(crate) fn put_written(
        &self,
        write: &WriteEntry<'_>,
        is_full: bool,
    ) -> Result<Digest, Error> {
        if is_full && let Some(digest) = self.find_written(write) {
            return Ok(digest);
        }
        let new = self.new_file();
        let digest = write_hashed(&new, write).map_err(|error| {
            // Left there it would only take room.
            drop(fs::remove_file(&new));
            error.unwrap_or_else(|error| room::full_or("write", &new, error))
        })?;
        // Noted before it is there: whoever removes blobs leaves it alone from here on.
        self.note_put(digest);
        let (parent, path) = self.place(&digest);
        self.make_durable(&parent)?;
        // If it is there, it is replaced by the same.
        named(&new, fs::rename(&new, &path))?;
        sync_dir(&parent)?;
        Ok(digest)
    }

    /// Returns the bytes of that name, once their hash is checked.
    pub(crate) fn get(&self, digest: &Digest) -> Result<Bytes, Error> {
        let (_, path) = self.place(digest);
        let mut bytes = Vec::new();
        match File::open(&path)
            .and_then(|file| file.take(BLOB_BYTES_MAX + 1).read_to_end(&mut bytes))
        {
            Ok(_) if Digest::of(&bytes) == *digest => Ok(bytes.into()),
            Ok(_) => Err(Error::BlobDamaged(*digest)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::BlobMissing(*digest))
            }
            Err(error) => Err(Error::file("read", &path)(error)),
        }
    }

    /// Returns the bytes of the file of that name, if it is there. What they are is not looked at.
    pub(crate) fn measure(&self, digest: &Digest) -> Option<u64> {
        let (_, path) = self.place(digest);
        fs::metadata(path).ok().map(|found| found.len())
    }

    /// Returns the name of what is written, if it is there and durable.
    fn find_written(&self, write: &WriteEntry<'_>) -> Option<Digest> {
        let mut hashed = Hashed { file: io::sink(), digest: Digest::writer(), bytes: 0 };
        write(&mut hashed).ok()?;
        let digest = hashed.digest.finish();
        // Noted before it is looked for: whoever removes blobs leaves it alone from here on.
        self.note_put(digest);
        self.get(&digest).ok()?;
        let (parent, _) = self.place(&digest);
        sync_dir(&parent).ok()?;
        Some(digest)
    }

    /// Names a file that is to be written.
    fn new_file(&self) -> PathBuf {
        self.dir.join(format!("new/{}", self.writes.fetch_add(1, Ordering::Relaxed)))
    }

    fn note_put(&self, digest: Digest) {
        let mut put = self.put.lock().unwrap_or_else(PoisonError::into_inner);
        let [_, newest] = &mut *put;
        newest.insert(digest);
    }

    /// Begins a sweep: what is put from here on stays, and what was put since the one before.
    pub(crate) fn begin_sweep(&self) {
        let mut put = self.put.lock().unwrap_or_else(PoisonError::into_inner);
        put.rotate_left(1);
        let [_, newest] = &mut *put;
        newest.clear();
    }

    /// Removes all blobs but some, those that were put of late, and those whose bytes are spared.
    pub(crate) fn remove_all_but(
        &self,
        kept: &HashSet<Digest>,
        spares: Option<Spares<'_>>,
        is_over: impl Fn() -> bool,
    ) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        for parent in list(&self.dir)? {
            if is_over() {
                return Err(Error::Stopped);
            }
            if parent.file_name().is_none_or(|name| name.len() != 2) {
                continue;
            }
            for path in list(&parent)? {
                let name = path.file_name().and_then(|name| name.to_str());
                let Some(digest) = name.and_then(|name| name.parse::<Digest>().ok()) else {
                    continue;
                };
                let bytes = fs::metadata(&path).map_err(Error::file("read", &path))?.len();
                let is_spared = match spares.filter(|_| !kept.contains(&digest)) {
                    None => false,
                    Some(spares) => match self.get(&digest) {
                        Ok(bytes) => spares(&bytes),
                        // A bad one is of no use to anybody; another may be read another time.
                        Err(Error::BlobMissing(_) | Error::BlobDamaged(_)) => false,
                        Err(_) => true,
                    },
                };
                // Held while one is removed, so that nobody finds it there and relies on it.
                let put = self.put.lock().unwrap_or_else(PoisonError::into_inner);
                if is_spared
                    || kept.contains(&digest)
                    || put.iter().any(|put| put.contains(&digest))
                {
                    swept.left += 1;
                    swept.bytes_left += bytes;
                } else {
                    fs::remove_file(&path).map_err(Error::file("remove", &path))?;
                    swept.removed += 1;
                    swept.bytes_removed += bytes;
                }
            }
        }
        Ok(swept)
    }

    /// Returns the directory of a blob, and its file.
    fn place(&self, digest: &Digest) -> (PathBuf, PathBuf) {
        let name = digest.to_string();
        let parent = self.dir.join(name.get(..2).unwrap_or_default());
        let path = parent.join(name);
        (parent, path)
    }

    /// Makes a directory below ours whose name survives a power cut.
    fn make_durable(&self, parent: &Path) -> Result<(), Error> {
        let name = parent.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Held over the sync: whoever finds the name in the set may rely on it.
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.contains(&name) {
            make_dir(parent).map_err(|error| match error {
                Error::File { doing, path, source } => room::full_or(doing, &path, source),
                error => error,
            })?;
            sync_dir(&self.dir)?;
            ready.insert(name);
        }
        Ok(())
    }
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(Error::file("list", dir))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Judges whether a new file got its name, for which a directory may have to grow.
fn named(new: &Path, renamed: io::Result<()>) -> Result<(), Error> {
    renamed.map_err(|error| {
        // Left there it would only take room.
        drop(fs::remove_file(new));
        room::full_or("rename", new, error)
    })
}

/// Writes a file and hashes it meanwhile.
fn write_hashed(path: &Path, write: &WriteEntry<'_>) -> Result<Digest, Result<Error, io::Error>> {
    let failed = |error| Err(error);
    let hashed = Hashed { file: create(path).map_err(failed)?, digest: Digest::writer(), bytes: 0 };
    let mut out = BufWriter::with_capacity(WRITTEN_BYTES, hashed);
    write(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    let Hashed { file, digest, bytes } = out.into_inner().map_err(|error| failed(error.into()))?;
    if bytes > BLOB_BYTES_MAX {
        return Err(Ok(Error::TooLarge { unit: "bytes", found: bytes, max: BLOB_BYTES_MAX }));
    }
    file.sync_all().map_err(failed)?;
    Ok(digest.finish())
}

/// A file that is hashed as it is written, and takes no more than a blob has.
struct Hashed<F> {
    file: F,
    digest: DigestWriter,
    bytes: u64,
}

impl<F: Write> Write for Hashed<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes > BLOB_BYTES_MAX {
            return Ok(bytes.len());
        }
        let written = self.file.write(bytes)?;
        self.digest.update(bytes.get(..written).unwrap_or_default());
        self.bytes = self.bytes.saturating_add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns when the names in a directory are on the disk.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|handle| handle.sync_all()).map_err(Error::file("sync", dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_get_its_name_is_removed() {
        let faulty = io::ErrorKind::PermissionDenied;
        for (kind, is_full) in [(io::ErrorKind::StorageFull, true), (faulty, false)] {
            let dir = tempfile::tempdir().unwrap();
            let new = dir.path().join("new");
            fs::write(&new, "bytes").unwrap();
            let error = named(&new, Err(kind.into())).unwrap_err();
            assert_eq!(matches!(error, Error::StorageFull), is_full, "{error}");
            assert!(!new.exists(), "{error}");
        }

        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path());
        blobs.prepare().unwrap();
        let (_, path) = blobs.place(&Digest::of(b"large"));
        fs::create_dir_all(path.join("in the way")).unwrap();
        let write = |out: &mut dyn Write| out.write_all(b"large");
        for put in [blobs.put(b"large"), blobs.put_written(&write, false)] {
            assert!(matches!(put, Err(Error::File { doing: "rename", .. })), "{put:?}");
            assert_eq!(fs::read_dir(dir.path().join("blobs/new")).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_blob_is_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path());
        blobs.prepare().unwrap();
        let digest = blobs.put(b"large").unwrap();
        let path = dir.path().join(format!("blobs/{:.2}/{digest}", digest.to_string()));
        assert_eq!(fs::read(&path).unwrap(), b"large");
        assert_eq!(blobs.put(b"large").unwrap(), digest);
        assert_eq!(blobs.get(&digest).unwrap(), "large");

        fs::write(&path, "other").unwrap();
        assert!(matches!(blobs.get(&digest), Err(Error::BlobDamaged(found)) if found == digest));
        blobs.put(b"large").unwrap();
        assert_eq!(blobs.get(&digest).unwrap(), "large", "put again, it is whole again");

        fs::remove_file(&path).unwrap();
        assert!(matches!(blobs.get(&digest), Err(Error::BlobMissing(found)) if found == digest));
        assert_eq!(fs::read_dir(dir.path().join("blobs/new")).unwrap().count(), 0);
    }
}
