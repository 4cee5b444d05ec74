//! The journal as its users see it.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use tokio::sync::watch;
use wire::{Digest, SessionId};

use crate::blobs::{self, Blobs};
use crate::committer::Committer;
use crate::error::Error;
use crate::frame::{Kind, Stored};
use crate::index::Index;
use crate::lock::make_dir;
use crate::medium::{Disk, Medium};
use crate::options::Options;
use crate::queue::{Due, Shared};
use crate::read::{Commits, Entries, Files, Since};
use crate::recovery::{self, Scan, Tail};
use crate::report::{Damage, Report};
use crate::rewrite::{self, DiskBench, Rewritten, Usage};
use crate::room::{self, Room};
use crate::sweep::{self, Swept};
#[cfg(any(test, feature = "testing"))]
use crate::testing;

/// The append-only log of one data directory. Clones are handles to the same log.
///
/// When the last handle is dropped, what waits is written and the thread ends.
#[derive(Clone, Debug)]
pub struct Journal {
    pub(crate) shared: Arc<Shared>,
    pub(crate) files: Arc<Files>,
    thread: Arc<Thread>,
    /// Held while segments are rewritten or marked for it, or blobs are looked through.
    tidying: Arc<Mutex<()>>,
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
        #[cfg(any(test, feature = "testing"))]
        let medium = |disk| testing::medium(dir, disk);
        #[cfg(not(any(test, feature = "testing")))]
        let medium = |disk| -> Box<dyn Medium> { Box::new(disk) };
        Self::open_on(dir, options, medium)
    }

    /// Opens a journal that writes through what `medium` makes of the disk.
    pub(crate) fn open_on(
        dir: &Path,
        options: Options,
        medium: impl FnOnce(Disk) -> Box<dyn Medium>,
    ) -> Result<(Self, Report), Error> {
        let files = Files::new(dir);
        make_dir(&files.journal)?;
        let mut disk = Disk::open(&files.journal)?;
        files.blobs.prepare()?;
        blobs::sync_dir(dir)?;

        let Scan { index, report, place, tail, unfinished } = recovery::scan(&files.journal)?;
        if !unfinished.is_empty() {
            // What stands in their place has its name for good before they go, also where the process
            // that named it was killed before it saw to that.
            blobs::sync_dir(&files.journal)?;
        }
        for path in &unfinished {
            fs::remove_file(path).map_err(Error::file("remove", path))?;
        }
        drop(fs::remove_file(files.journal.join("rewritten.new")));
        if let Some(tail) = &tail {
            mend(tail).map_err(Error::file("mend", &tail.path))?;
            disk.resume(tail.base).map_err(Error::file("open", &tail.path))?;
        }
        log(dir, &report);

        let room = Room::prepare(&files.journal, options.reserve_bytes)?;
        let shared = Arc::new(Shared::new(options.bounded(), room, index));
        let base = tail.map(|tail| tail.base);
        let committer = Committer::new(shared.clone(), medium(disk), place, base)
            .map_err(|error| room::full_or("write", &files.journal, error))?;
        let join = thread::Builder::new()
            .name("journal".into())
            .spawn(move || committer.run())
            .map_err(Error::Thread)?;
        let thread = Thread { shared: shared.clone(), join: Mutex::new(Some(join)) };
        let (files, thread) = (Arc::new(files), Arc::new(thread));
        Ok((Self { shared, files, thread, tidying: Arc::default() }, report))
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
        entries: Vec<Stored>,
    ) -> Result<u64, Error> {
        self.commit(Kind::Commit, session, first_slot, entries, Due::Now).await
    }

    /// Does what [`Self::append`] does, as soon as it is due.
    pub async fn append_due(
        &self,
        due: Due,
        session: &SessionId,
        first_slot: u64,
        entries: Vec<Stored>,
    ) -> Result<u64, Error> {
        self.commit(Kind::Commit, session, first_slot, entries, due).await
    }

    /// Appends an entry that holds all that the session's entries before it came to. From then on
    /// reading may begin with it, and [`Self::retire`] may drop those before.
    pub async fn append_begin(
        &self,
        session: &SessionId,
        slot: u64,
        entry: Stored,
    ) -> Result<u64, Error> {
        self.commit(Kind::Begin, session, slot, vec![entry], Due::Now).await
    }

    /// Has all that waits by now written at once, since somebody waits for it after all.
    pub fn hurry(&self) {
        self.shared.hurry();
    }

    /// Forgets a session: it has no entries any more. If it is begun again, then with a slot above
    /// all that it had. Resolves when that is durable. Await its appends first.
    pub async fn forget(&self, session: &SessionId) -> Result<(), Error> {
        if !self.shared.lock().index.sessions.contains_key(session) {
            return Ok(());
        }
        let slot = self.next_slot(session);
        let done = self.shared.enqueue(Kind::Gone, session, slot, Vec::new(), Due::Now)?;
        done.await.unwrap_or(Err(Error::Stopped)).map(drop)
    }

    async fn commit(
        &self,
        kind: Kind,
        session: &SessionId,
        first_slot: u64,
        entries: Vec<Stored>,
        due: Due,
    ) -> Result<u64, Error> {
        let options = &self.shared.options;
        self.shared.admit(session, first_slot)?;
        if entries.is_empty() {
            return Ok(self.end());
        }
        at_most("entries", entries.len() as u64, options.commit_entries_max as u64)?;
        let stored = if entries.iter().any(|entry| self.is_large(entry)) {
            self.store_large(entries).await?
        } else {
            entries
        };
        at_most("bytes", stored.iter().map(Stored::len).sum(), options.commit_bytes_max)?;
        let done = self.shared.enqueue(kind, session, first_slot, stored, due)?;
        done.await.unwrap_or(Err(Error::Stopped))
    }

    fn is_large(&self, entry: &Stored) -> bool {
        matches!(entry, Stored::Inline(bytes) if self.is_large_at(bytes.len()))
    }

    fn is_large_at(&self, bytes: usize) -> bool {
        bytes > self.inline_bytes_max()
    }

    /// Returns the length of the largest entry that stands in a segment, in bytes.
    pub fn inline_bytes_max(&self) -> usize {
        usize::try_from(self.shared.options.blob_bytes_min).unwrap_or(usize::MAX)
    }

    /// Makes large entries durable as blobs, off the threads that must not block.
    async fn store_large(&self, entries: Vec<Stored>) -> Result<Vec<Stored>, Error> {
        let journal = self.clone();
        let store = move || {
            let store = |entry: Stored| match entry {
                Stored::Inline(bytes) if journal.is_large_at(bytes.len()) => {
                    journal.put_blob(&bytes).map(Stored::Blob)
                }
                entry => Ok(entry),
            };
            entries.into_iter().map(store).collect()
        };
        tokio::task::spawn_blocking(store).await.unwrap_or(Err(Error::Stopped))
    }

    /// Returns the entries of a session that are held, in the order of their slots. Blocks.
    ///
    /// Fails with [`Error::Damaged`] if any of it is bad; the session is set aside from then on.
    pub fn read(&self, session: &SessionId) -> Result<Vec<Bytes>, Error> {
        self.read_since(session, Since::Oldest).map(|entries| entries.bodies)
    }

    /// Returns entries of a session, with the slot of the first. Blocks; fails as [`Self::read`].
    pub fn read_since(&self, session: &SessionId, since: Since) -> Result<Entries, Error> {
        self.read_found(session, |index| Some(Commits::of(index, session, since)))
            .map(Option::unwrap_or_default)
    }

    /// Returns an entry at which reading may begin, none if the slot has no such. Blocks; fails as
    /// [`Self::read`].
    pub fn read_begin(&self, session: &SessionId, slot: u64) -> Result<Option<Bytes>, Error> {
        let found =
            self.read_found(session, |index| Commits::beginning_at(index, session, slot))?;
        Ok(found.and_then(|entries| entries.bodies.into_iter().next()))
    }

    fn read_found(
        &self,
        session: &SessionId,
        find: impl Fn(&Index) -> Option<Commits>,
    ) -> Result<Option<Entries>, Error> {
        loop {
            let (commits, rewrites) = {
                let state = self.shared.lock();
                state.index.check(session)?;
                (find(&state.index), state.index.rewrites)
            };
            let Some(commits) = commits else { return Ok(None) };
            let result = self.files.read(session, &commits);
            let Err(error) = &result else { return result.map(Some) };
            let mut state = self.shared.lock();
            if state.index.rewrites != rewrites {
                // What was looked up stands elsewhere by now.
                continue;
            }
            if let Error::Damaged { what, .. } = error {
                state.index.set_aside(session, what);
            }
            drop(state);
            return result.map(Some);
        }
    }

    /// Returns the slots at which reading a session may begin, besides that of its first entry.
    pub fn begins(&self, session: &SessionId) -> Vec<u64> {
        let state = self.shared.lock();
        let found = state.index.sessions.get(session);
        found.into_iter().flat_map(|found| &found.begins).map(|begin| begin.slot).collect()
    }

    /// Tells whether a session has entries, or is set aside.
    pub fn knows(&self, session: &SessionId) -> bool {
        self.shared.lock().index.sessions.contains_key(session)
    }

    /// Returns the sessions that can be read at another entry than their first.
    pub fn with_begins(&self) -> Vec<SessionId> {
        self.shared.lock().index.readable(|found| found.begins.iter().any(|begin| begin.spot > 0))
    }

    /// Returns the sessions that have more than so many commits after the entry at which reading may
    /// last begin, each with the bytes of these, blobs left out.
    pub fn longer_than(&self, commits: usize) -> Vec<(SessionId, u64)> {
        let state = self.shared.lock();
        let sessions = state.index.readable(|found| found.since_begin().len() > commits);
        let with_bytes = |session: SessionId| {
            let found = state.index.sessions.get(&session);
            let spots = found.into_iter().flat_map(|found| found.since_begin());
            let bytes = spots.map(|spot| u64::from(spot.length)).sum();
            (session, bytes)
        };
        sessions.into_iter().map(with_bytes).collect()
    }

    /// Returns the bytes of the entry at which reading a session may last begin, which are not all
    /// read for it; 0 without one. None if it cannot be found at present. Blocks.
    pub fn begin_bytes(&self, session: &SessionId) -> Option<u64> {
        let commits = {
            let state = self.shared.lock();
            let Some(begin) = state.index.sessions.get(session)?.begins.last() else {
                return Some(0);
            };
            Commits::beginning_at(&state.index, session, begin.slot)?
        };
        self.files.measure(&commits)
    }

    /// Returns the slot of the first entry of a session that is held.
    pub fn first_slot(&self, session: &SessionId) -> u64 {
        let state = self.shared.lock();
        let held = state.index.sessions.get(session).filter(|found| !found.spots.is_empty());
        held.map_or_else(|| state.index.next_slot(session), |found| found.first_slot)
    }

    /// Returns the slot that the next entry of a session gets, those that wait included.
    pub fn next_slot(&self, session: &SessionId) -> u64 {
        self.shared.lock().index.next_slot(session)
    }

    /// Holds a session's entries no longer that stand before one at which reading may begin. Their
    /// room comes back when segments are rewritten; until then a restart brings them back. Tells
    /// whether reading may begin there.
    pub fn retire(&self, session: &SessionId, slot: u64) -> bool {
        self.shared.lock().index.retire(session, slot).is_some()
    }

    /// Retires a session's entries that must not stay on the disk: their segments are rewritten
    /// however little of them that is. A restart that brings them back asks for it anew. Blocks.
    pub fn purge(&self, session: &SessionId, slot: u64) -> bool {
        // A rewriting that is under way would bring what it read before under a new name.
        let _one = self.tidying.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.lock().index.purge(session, slot)
    }

    /// Returns how many appends may wait for the next sync.
    pub fn queue_max(&self) -> usize {
        self.shared.options.queue_max
    }

    /// Returns how many appends wait for the next sync, and their bytes.
    pub fn waiting(&self) -> (usize, u64) {
        self.shared.lock().waiting()
    }

    /// Returns what the journal takes on the disk, blobs left out.
    pub fn usage(&self) -> Usage {
        self.shared.lock().index.usage()
    }

    /// Rewrites some segments without what is no longer held, if enough of them is not or anything
    /// of them is purged. Blocks.
    pub fn rewrite_next(&self) -> Result<Option<Rewritten>, Error> {
        let _one = self.tidy()?;
        let bench = DiskBench::new(&self.files.journal);
        #[cfg(any(test, feature = "testing"))]
        let bench = testing::bench(&self.files.journal, bench);
        let mut bench = bench;
        rewrite::next(&self.shared, &self.files, &mut bench)
    }

    /// Removes the blobs to which no entry in any segment refers. Blocks: reads every segment.
    ///
    /// `refers` adds the blobs to which the bytes of an entry refer besides. Blobs in `kept` stay,
    /// and so do those that were put since the sweep before. If the blob of an entry is lost or
    /// cannot be read at present, those stay whose bytes, says `may_be_named`, an entry may refer to.
    ///
    /// Fails, with nothing removed, if a segment cannot be read at present, and if the journal is
    /// closed meanwhile.
    pub fn sweep_blobs(
        &self,
        kept: HashSet<Digest>,
        refers: &mut dyn FnMut(&[u8], &mut HashSet<Digest>),
        may_be_named: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Swept, Error> {
        let _one = self.tidy()?;
        sweep::run(&self.shared, &self.files, kept, refers, may_be_named)
    }

    /// Returns the slot after the last durable entry of a session, 0 if it has none.
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
        let state = self.shared.lock();
        state.index.readable(|found| found.spots.last().is_some_and(|s| s.position >= position))
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
        self.put_by(|blobs| blobs.put(bytes))
    }

    /// Makes a large entry durable that is still to be appended, as it is written and without all of
    /// it in memory. It is written again if the disk was full, the same. Blocks; fails as
    /// [`Self::put_blob`].
    pub fn put_entry(
        &self,
        write: impl Fn(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<Stored, Error> {
        self.put_by(|blobs| blobs.put_written(&write, self.is_full())).map(Stored::Blob)
    }

    fn put_by(&self, put: impl Fn(&Blobs) -> Result<Digest, Error>) -> Result<Digest, Error> {
        if self.failed() {
            return Err(Error::Stopped);
        }
        let is_full = |put: &Result<Digest, Error>| matches!(put, Err(Error::StorageFull));
        let result = self.shared.room.write(|| put(&self.files.blobs), is_full);
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

    /// Tells whether an append may be tried now. While appends find no room although the reserve is
    /// used up, it lets one through every few seconds; whoever asks has something to append.
    pub fn may_try(&self) -> bool {
        self.shared.room.may_try()
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

    /// Writes what waits and ends the thread, for all handles. Blocks for a sync or two, and for
    /// what is rewritten.
    pub fn close(self) {
        self.thread.end();
        // The files may be another's from here on, so nobody may be at work on them.
        drop(self.tidying.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Keeps others from rewriting and sweeping, unless the journal is closed.
    fn tidy(&self) -> Result<MutexGuard<'_, ()>, Error> {
        let one = self.tidying.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared.is_closed() { Err(Error::Stopped) } else { Ok(one) }
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

fn at_most(unit: &'static str, found: u64, max: u64) -> Result<(), Error> {
    if found > max { Err(Error::TooLarge { unit, found, max }) } else { Ok(()) }
}

/// Cuts the torn end off, and makes the rest durable.
fn mend(tail: &Tail) -> io::Result<()> {
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
