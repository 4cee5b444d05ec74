//! The journal as its users see it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use tokio::sync::watch;
use wire::{Digest, SessionId};

use crate::blobs::{self, Blobs};
use crate::committer::{Committer, Shared};
use crate::error::Error;
use crate::frame::{self, Kind, Stored};
use crate::index::Index;
use crate::lock::make_dir;
use crate::medium::{Disk, Medium};
use crate::options::Options;
use crate::recovery::{self, Scan, Tail};
use crate::report::{Damage, Report};
use crate::room::{self, Room};
use crate::segment;

/// The bytes that are read of a commit at first; most commits are no longer.
const FIRST_READ_BYTES: u64 = 1024;

/// The append-only log of one data directory. Clones are handles to the same log.
///
/// When the last handle is dropped, what waits is written and the thread ends.
#[derive(Clone, Debug)]
pub struct Journal {
    pub(crate) shared: Arc<Shared>,
    files: Arc<Files>,
    thread: Arc<Thread>,
}

/// The committer's thread, joined when the last handle goes.
#[derive(Debug)]
struct Thread {
    shared: Arc<Shared>,
    join: Mutex<Option<JoinHandle<()>>>,
}

impl Journal {
    /// Opens the journal of a data directory, makes it if there is none, and mends its end.
    ///
    /// Blocks: every segment is read. Damage is no error; it is in the report and in the log, and
    /// the sessions that it touches refuse to be read or appended to. Fails with
    /// [`Error::InUse`] if the journal is open already.
    pub fn open(dir: &Path, options: Options) -> Result<(Self, Report), Error> {
        Self::open_on(dir, options, |disk| Box::new(disk))
    }

    /// Opens a journal that writes through what `medium` makes of the disk.
    pub(crate) fn open_on(
        dir: &Path,
        options: Options,
        medium: impl FnOnce(Disk) -> Box<dyn Medium>,
    ) -> Result<(Self, Report), Error> {
        let files = Files { journal: dir.join("journal"), blobs: Blobs::new(dir) };
        make_dir(&files.journal)?;
        let mut disk = Disk::open(&files.journal)?;
        files.blobs.prepare()?;
        blobs::sync_dir(dir)?;

        let Scan { index, report, place, tail, unfinished } = recovery::scan(&files.journal)?;
        for path in &unfinished {
            fs::remove_file(path).map_err(Error::file("remove", path))?;
        }
        if let Some(tail) = &tail {
            mend(tail).map_err(Error::file("mend", &tail.path))?;
            disk.resume(tail.base).map_err(Error::file("open", &tail.path))?;
        }
        log(dir, &report);

        let room = Room::prepare(&files.journal, options.reserve_bytes)?;
        let shared = Arc::new(Shared::new(options.bounded(), room, index));
        let base = tail.map(|tail| tail.base);
        let committer =
            Committer::new(shared.clone(), medium(disk), place, base).map_err(|error| {
                match room::is_full(&error) {
                    true => Error::StorageFull,
                    false => Error::file("write", &files.journal)(error),
                }
            })?;
        let join = thread::Builder::new()
            .name("journal".into())
            .spawn(move || committer.run())
            .map_err(Error::Thread)?;
        let thread = Thread { shared: shared.clone(), join: Mutex::new(Some(join)) };
        Ok((Self { shared, files: Arc::new(files), thread: Arc::new(thread) }, report))
    }

    /// Appends entries to a session in one commit, which after a crash is there as a whole or not
    /// at all. Resolves when it is durable, to the position after it.
    ///
    /// `first_slot` is the slot of the first entry and must be the session's next one, waiting
    /// appends included; [`Error::SlotTaken`] otherwise. Await one append of a session before the
    /// next: one with a blob would be overtaken. Fails at once with [`Error::Full`] if too much
    /// waits, and with [`Error::StorageFull`] if there is no room, the reserve included; nothing
    /// is written then. If the future is dropped, the entries may become durable all the same. Needs a
    /// tokio runtime.
    pub async fn append(
        &self,
        session: &SessionId,
        first_slot: u64,
        entries: Vec<Bytes>,
    ) -> Result<u64, Error> {
        let options = &self.shared.options;
        self.shared.admit(session, first_slot)?;
        if entries.is_empty() {
            return Ok(self.end());
        }
        at_most("entries", entries.len() as u64, options.commit_entries_max as u64)?;
        let large = |entry: &Bytes| entry.len() as u64 > options.blob_bytes_min;
        let stored = if entries.iter().any(large) {
            self.store_large(entries).await?
        } else {
            entries.into_iter().map(Stored::Inline).collect()
        };
        at_most("bytes", stored.iter().map(Stored::len).sum(), options.commit_bytes_max)?;
        let done = self.shared.enqueue(session, first_slot, stored)?;
        done.await.unwrap_or(Err(Error::Stopped))
    }

    /// Makes large entries durable as blobs, off the threads that must not block.
    async fn store_large(&self, entries: Vec<Bytes>) -> Result<Vec<Stored>, Error> {
        let journal = self.clone();
        let store = move || {
            let store = |entry: Bytes| {
                if entry.len() as u64 > journal.shared.options.blob_bytes_min {
                    journal.put_blob(&entry).map(Stored::Blob)
                } else {
                    Ok(Stored::Inline(entry))
                }
            };
            entries.into_iter().map(store).collect()
        };
        tokio::task::spawn_blocking(store).await.unwrap_or(Err(Error::Stopped))
    }

    /// Returns the entries of a session, in the order of their slots. Blocks.
    ///
    /// Fails with [`Error::Damaged`] if any of it is bad; the session is set aside from then on.
    pub fn read(&self, session: &SessionId) -> Result<Vec<Bytes>, Error> {
        let commits = {
            let state = self.shared.lock();
            state.index.check(session)?;
            Commits::of(&state.index, session)
        };
        let result = self.files.read(session, &commits);
        if let Err(Error::Damaged { what, .. }) = &result {
            self.shared.lock().index.set_aside(session, what);
        }
        result
    }

    /// Returns the number of durable entries of a session.
    pub fn slots(&self, session: &SessionId) -> u64 {
        self.shared.lock().index.sessions.get(session).map_or(0, |found| found.slots)
    }

    /// Returns the sessions that can be read, in order of their ids.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.shared.lock().index.readable(|_| true)
    }

    /// Returns the sessions that can be read and have entries at or after a position, in order of
    /// their ids: those that a projection fed up to that position lacks.
    pub fn touched_since(&self, position: u64) -> Vec<SessionId> {
        let touched = |positions: &[u64]| positions.last() >= Some(&position);
        self.shared.lock().index.readable(|found| touched(&found.positions))
    }

    /// Returns the position after the last durable commit.
    pub fn end(&self) -> u64 {
        self.shared.lock().index.end
    }

    /// Returns the sessions that are set aside, with the reason, in order of their ids.
    pub fn damaged(&self) -> Vec<(SessionId, String)> {
        let state = self.shared.lock();
        let damaged = state.index.sessions.iter().filter_map(|(session, found)| {
            found.damage.as_ref().map(|what| (session.clone(), what.to_string()))
        });
        let mut damaged: Vec<_> = damaged.collect();
        damaged.sort_unstable();
        damaged
    }

    /// Makes some bytes durable and returns their name; they may be there already. Blocks.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<Digest, Error> {
        if self.failed() {
            return Err(Error::Stopped);
        }
        let mut result = self.files.blobs.put(bytes);
        if matches!(result, Err(Error::StorageFull)) && self.shared.room.give_up_reserve() {
            result = self.files.blobs.put(bytes);
        }
        if let Err(error @ Error::File { .. }) = &result {
            tracing::error!(%error, "blob write failed, no more is taken");
            self.shared.fail(&error.to_string());
        }
        result
    }

    /// Tells whether the disk is full. Whatever can wait should not be appended then: what is left
    /// of the reserve is for ending what was begun.
    pub fn is_full(&self) -> bool {
        self.shared.room.is_full()
    }

    /// Returns what tells whether the disk is full.
    pub fn fullness(&self) -> watch::Receiver<bool> {
        self.shared.room.watch()
    }

    /// Says that another user of the same disk found it full.
    pub fn report_full(&self) {
        self.shared.room.report_full();
    }

    /// Looks whether there is room again after the disk was full, and tells so. Blocks.
    pub fn regain(&self) -> Result<bool, Error> {
        self.shared.room.regain()
    }

    /// Returns the bytes of that name, once their hash is checked. Blocks.
    pub fn blob(&self, digest: &Digest) -> Result<Bytes, Error> {
        self.files.blobs.get(digest)
    }

    /// Tells whether a write or a sync failed, after which nothing more is taken.
    pub fn failed(&self) -> bool {
        self.shared.failed().borrow().is_some()
    }

    /// Resolves when a write or a sync has failed, to what it was; the process should end then.
    pub async fn stopped(&self) -> String {
        let mut failed = self.shared.failed();
        // The sender lives as long as this handle.
        let reason = failed.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or_default().to_string()
    }

    /// Writes what waits and ends the thread, for all handles. Blocks for a sync or two.
    pub fn close(self) {
        self.thread.end();
    }
}

impl Thread {
    fn end(&self) {
        self.shared.close();
        let join = self.join.lock().unwrap_or_else(PoisonError::into_inner).take();
        if join.is_some_and(|join| join.join().is_err()) {
            tracing::error!("the journal's thread panicked");
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.end();
    }
}

/// Scans the journal of a data directory, blobs included, and changes nothing there.
///
/// Blocks. A journal that is being written may seem to have a torn tail.
pub fn verify(dir: &Path) -> Result<Report, Error> {
    let files = Files { journal: dir.join("journal"), blobs: Blobs::new(dir) };
    let Scan { index, mut report, .. } = recovery::scan(&files.journal)?;
    for session in index.readable(|_| true) {
        let commits = Commits::of(&index, &session);
        match files.read(&session, &commits) {
            Ok(_) => {}
            Err(Error::Damaged { session, what }) => {
                let base = commits.0.last().map_or(0, |commit| commit.base);
                report.damage.push(Damage {
                    segment: format!("journal/{}", segment::name(base)),
                    offset: commits.0.last().map_or(0, |commit| commit.position - base),
                    sessions: vec![session],
                    what,
                });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(report)
}

fn at_most(unit: &'static str, found: u64, max: u64) -> Result<(), Error> {
    if found > max { Err(Error::TooLarge { unit, found, max }) } else { Ok(()) }
}

/// Cuts the torn end off, and makes the rest durable.
fn mend(tail: &Tail) -> std::io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(&tail.path)?;
    file.set_len(tail.end - tail.base)?;
    // After a sync that failed, bytes may read well that never reached the disk. Written again,
    // they are surely part of the next sync.
    let from = tail.durable.clamp(tail.base, tail.end);
    let mut bytes = vec![0; usize::try_from(tail.end - from).unwrap_or(0)];
    file.read_exact_at(&mut bytes, from - tail.base)?;
    file.write_all_at(&bytes, from - tail.base)?;
    file.sync_all()
}

fn log(dir: &Path, report: &Report) {
    let dir = dir.display();
    if report.torn_tail_bytes > 0 {
        tracing::warn!(%dir, bytes = report.torn_tail_bytes, "cut the unfinished end of the journal");
    }
    for Damage { segment, offset, sessions, what } in &report.damage {
        tracing::error!(%dir, segment, offset, ?sessions, what, "the journal is damaged");
    }
}

/// The files of a data directory, for reading.
#[derive(Debug)]
struct Files {
    journal: PathBuf,
    blobs: Blobs,
}

/// Where the commits of one session stand.
struct Commits(Vec<Place>);

struct Place {
    position: u64,
    base: u64,
    /// The position of the segment's end.
    end: u64,
}

impl Commits {
    fn of(index: &Index, session: &SessionId) -> Self {
        let positions = index.sessions.get(session).map(|found| found.positions.as_slice());
        let place = |position: &u64| {
            let (base, end) = index.segment(*position).unwrap_or((*position, *position));
            Place { position: *position, base, end }
        };
        Self(positions.unwrap_or_default().iter().map(place).collect())
    }
}

impl Files {
    fn read(&self, session: &SessionId, commits: &Commits) -> Result<Vec<Bytes>, Error> {
        let damaged = |what: String| Error::Damaged { session: session.clone(), what };
        let mut entries = Vec::new();
        let mut chain = [0; 16];
        let mut open: Option<(u64, File)> = None;
        for place in &commits.0 {
            let file = match open.take() {
                Some((base, file)) if base == place.base => file,
                _ => {
                    let path = self.journal.join(segment::name(place.base));
                    File::open(&path).map_err(Error::file("open", &path))?
                }
            };
            let whole = read_frame(&file, place).map_err(|error| {
                damaged(format!("slot {} cannot be read: {error}", entries.len()))
            })?;
            let stored = frame::read(&whole, place.position)
                .filter(|found| found.kind == Kind::Commit && found.session == session.as_str())
                .and_then(|found| found.commit())
                .filter(|commit| commit.first_slot == entries.len() as u64 && commit.prev == chain)
                .and_then(|commit| commit.entries(&whole))
                .ok_or_else(|| damaged(format!("slot {} is bad", entries.len())))?;
            chain = frame::chain(&whole);
            for entry in stored {
                entries.push(match entry {
                    Stored::Inline(bytes) => bytes,
                    Stored::Blob(digest) => self
                        .blobs
                        .get(&digest)
                        .map_err(|error| damaged(format!("slot {}: {error}", entries.len())))?,
                });
            }
            open = Some((place.base, file));
        }
        Ok(entries)
    }
}

/// Reads the bytes of one frame.
fn read_frame(file: &File, place: &Place) -> std::io::Result<Bytes> {
    let offset = place.position - place.base;
    let room = place.end - place.position;
    let mut bytes = vec![0; usize::try_from(room.min(FIRST_READ_BYTES)).unwrap_or(0)];
    file.read_exact_at(&mut bytes, offset)?;
    let length = frame::length(&bytes).filter(|length| *length as u64 <= room);
    let length = length.ok_or(std::io::ErrorKind::InvalidData)?;
    let first = bytes.len();
    bytes.resize(length, 0);
    if let Some(rest) = bytes.get_mut(first..) {
        file.read_exact_at(rest, offset + first as u64)?;
    }
    Ok(bytes.into())
}
