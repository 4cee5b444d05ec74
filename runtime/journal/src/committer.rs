//! The one thread that writes: takes all that waits, writes it, syncs once, then tells all.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};
use wire::SessionId;

use crate::error::Error;
use crate::frame::{self, Chain, Kind, Place, Stored};
use crate::frontier;
use crate::index::Index;
use crate::medium::Medium;
use crate::options::Options;
use crate::recovery::push_recent;
use crate::room::{self, Room};

/// What a frame takes beside its entries, in bytes, at most.
const FRAME_BYTES: u64 = 256;

/// What the handles and the committer share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) room: Room,
    state: Mutex<State>,
    /// Something waits, or the journal closes.
    wake: Condvar,
    /// Why nothing more is taken, if a write or a sync failed.
    failed: watch::Sender<Option<Arc<str>>>,
}

/// The index, and what waits for the next sync.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) index: Index,
    queue: VecDeque<Pending>,
    queue_bytes: u64,
    /// Nothing more is taken.
    closed: bool,
}

/// One append that waits.
#[derive(Debug)]
struct Pending {
    session: SessionId,
    first_slot: u64,
    entries: Vec<Stored>,
    bytes: u64,
    done: Done,
}

/// Where an append is told the position after its commit, or why there is none.
type Done = oneshot::Sender<Result<u64, Error>>;

/// What a commit came to that was tried.
enum Tried {
    /// It is durable; for each append the position of its frame and what follows it.
    Durable(Vec<(u64, Chain)>),
    /// The disk is full, and nothing was written.
    Full,
}

impl Shared {
    pub(crate) fn new(options: Options, room: Room, index: Index) -> Self {
        let state = State { index, queue: VecDeque::new(), queue_bytes: 0, closed: false };
        Self {
            options,
            room,
            state: Mutex::new(state),
            wake: Condvar::new(),
            failed: watch::Sender::new(None),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failed(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.failed.subscribe()
    }

    /// Fails if an append would be refused now.
    pub(crate) fn admit(&self, session: &SessionId, first_slot: u64) -> Result<(), Error> {
        self.lock().admit(session, first_slot, 0, &self.options)
    }

    /// Puts an append in the queue. What is returned resolves to the position after its commit.
    pub(crate) fn enqueue(
        &self,
        session: &SessionId,
        first_slot: u64,
        entries: Vec<Stored>,
    ) -> Result<oneshot::Receiver<Result<u64, Error>>, Error> {
        let bytes = entries.iter().map(Stored::len).sum::<u64>() + FRAME_BYTES;
        let mut state = self.lock();
        state.admit(session, first_slot, bytes, &self.options)?;
        state.index.sessions.entry(session.clone()).or_default().next += entries.len() as u64;
        state.queue_bytes += bytes;
        let (done, receiver) = oneshot::channel();
        state.queue.push_back(Pending {
            session: session.clone(),
            first_slot,
            entries,
            bytes,
            done,
        });
        drop(state);
        self.wake.notify_one();
        Ok(receiver)
    }

    /// Takes nothing more; what waits is still written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// Takes nothing more and drops what waits.
    pub(crate) fn fail(&self, reason: &str) {
        let mut state = self.lock();
        state.closed = true;
        state.queue_bytes = 0;
        let dropped = std::mem::take(&mut state.queue);
        drop(state);
        // The flag comes first, so that whoever sees a refusal finds it set.
        self.failed.send_if_modified(|failed| {
            let first = failed.is_none();
            failed.get_or_insert_with(|| reason.into());
            first
        });
        drop(dropped);
        self.wake.notify_one();
    }

    /// Refuses a batch, and all that waits behind it, because there is no room for it.
    fn refuse(&self, batch: Vec<Pending>) {
        let mut state = self.lock();
        let waiting = std::mem::take(&mut state.queue);
        state.queue_bytes = 0;
        let refused: Vec<Pending> = batch.into_iter().chain(waiting).collect();
        for pending in &refused {
            // Nothing of the session waits any more, so its next slot is the durable one.
            if let Some(found) = state.index.sessions.get_mut(&pending.session) {
                found.next = found.slots;
            }
        }
        drop(state);
        for pending in refused {
            // Whoever dropped the receiver does not want to know.
            pending.done.send(Err(Error::StorageFull)).ok();
        }
    }

    /// Waits for appends and takes as many as one sync may cover, `None` once it is closed.
    fn take(&self) -> Option<Vec<Pending>> {
        let mut state = self.lock();
        while state.queue.is_empty() {
            if state.closed {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (mut entries, mut bytes) = (0, 0);
        let mut taken = Vec::new();
        while let Some(next) = state.queue.front() {
            entries += next.entries.len();
            bytes += next.bytes;
            let fits = entries <= self.options.commit_entries_max
                && bytes <= self.options.commit_bytes_max;
            if !taken.is_empty() && !fits {
                break;
            }
            state.queue_bytes = state.queue_bytes.saturating_sub(next.bytes);
            taken.extend(state.queue.pop_front());
        }
        Some(taken)
    }
}

impl State {
    fn admit(
        &self,
        session: &SessionId,
        first_slot: u64,
        bytes: u64,
        options: &Options,
    ) -> Result<(), Error> {
        if self.closed {
            return Err(Error::Stopped);
        }
        self.index.check(session)?;
        let expected = self.index.sessions.get(session).map_or(0, |found| found.next);
        if first_slot != expected {
            return Err(Error::SlotTaken { session: session.clone(), expected, found: first_slot });
        }
        if self.queue.len() >= options.queue_max
            || self.queue_bytes.saturating_add(bytes) > options.queue_bytes_max
        {
            return Err(Error::Full);
        }
        Ok(())
    }
}

/// Owns the medium, and the place where the next frame goes.
pub(crate) struct Committer {
    shared: Arc<Shared>,
    medium: Box<dyn Medium>,
    place: Place,
    /// The base of the segment.
    base: u64,
}

/// Fails the journal if the thread ends otherwise than by a clean close.
struct FailOnDrop(Option<Arc<Shared>>);

impl Drop for FailOnDrop {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.fail("its thread panicked");
        }
    }
}

impl Committer {
    /// Goes on at `place`, in the segment at `base` or, without one, in a new segment.
    pub(crate) fn new(
        shared: Arc<Shared>,
        medium: Box<dyn Medium>,
        place: Place,
        base: Option<u64>,
    ) -> io::Result<Self> {
        let mut committer = Self { shared, medium, place, base: base.unwrap_or(place.position) };
        committer.begin(base.is_none()).or_else(|error| {
            if room::is_full(&error) && committer.shared.room.give_up_reserve() {
                committer.begin(base.is_none())
            } else {
                Err(error)
            }
        })?;
        Ok(committer)
    }

    fn begin(&mut self, new_segment: bool) -> io::Result<()> {
        self.store_frontier()?;
        if new_segment { self.begin_segment(None) } else { Ok(()) }
    }

    /// Serves until the journal is closed, or a write or a sync fails.
    pub(crate) fn run(mut self) {
        let mut guard = FailOnDrop(Some(self.shared.clone()));
        match self.serve() {
            Ok(()) => guard.0 = None,
            Err(error) => {
                tracing::error!(%error, "journal write failed, no more is taken");
                self.shared.fail(&error.to_string());
            }
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        while let Some(batch) = self.shared.take() {
            self.commit(batch)?;
        }
        match self.store_frontier() {
            // The one that is there is older, and as true.
            Err(error) if room::is_full(&error) => Ok(()),
            stored => stored,
        }
    }

    fn commit(&mut self, batch: Vec<Pending>) -> io::Result<()> {
        let mut tried = self.write(&batch)?;
        if matches!(tried, Tried::Full) && self.shared.room.give_up_reserve() {
            tried = self.write(&batch)?;
        }
        match tried {
            Tried::Full => self.shared.refuse(batch),
            Tried::Durable(written) => {
                self.publish(&batch, written);
                for pending in batch {
                    // Whoever dropped the receiver does not want to know.
                    pending.done.send(Ok(self.place.position)).ok();
                }
            }
        }
        Ok(())
    }

    /// Makes a batch durable. On a full disk it leaves everything as it was; any other failure is
    /// final, and so is a sync that fails for whatever reason: what it covered is unknown.
    fn write(&mut self, batch: &[Pending]) -> io::Result<Tried> {
        let bytes: u64 = batch.iter().map(|pending| pending.bytes).sum();
        let length = self.place.position - self.base;
        if length + bytes > self.shared.options.segment_bytes_max && length > FRAME_BYTES {
            // All of the segment is durable by now, and the frontier must say so before another
            // one follows: after that, no bad byte of it counts as torn.
            match self.store_frontier().and_then(|()| self.begin_segment(Some(self.base))) {
                Err(error) if room::is_full(&error) => return Ok(Tried::Full),
                begun => begun?,
            }
        }
        let mut out = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
        let before = self.place;
        let written = self.encode(batch, &mut out);
        if let Err(error) = self.medium.append(&out) {
            if !room::is_full(&error) {
                return Err(error);
            }
            self.place = before;
            self.medium.cut(before.position - self.base)?;
            return Ok(Tried::Full);
        }
        self.medium.sync()?;
        Ok(Tried::Durable(written))
    }

    /// Writes the frames of a batch to `out`; returns where each stands and what follows it.
    fn encode(&mut self, batch: &[Pending], out: &mut Vec<u8>) -> Vec<(u64, Chain)> {
        let start = self.place.position;
        self.place.synced_to = start;
        let mut chains: HashMap<&SessionId, Chain> = {
            let state = self.shared.lock();
            let chain = |pending: &Pending| {
                state.index.sessions.get(&pending.session).map_or([0; 16], |found| found.chain)
            };
            batch.iter().map(|pending| (&pending.session, chain(pending))).collect()
        };
        let mut written = Vec::with_capacity(batch.len());
        for Pending { session, first_slot, entries, .. } in batch {
            let from = out.len();
            let chain = chains.entry(session).or_default();
            frame::write_commit(out, &self.place, session, *first_slot, *chain, entries);
            *chain = frame::chain(out.get(from..).unwrap_or_default());
            written.push((self.place.position, *chain));
            self.place.position = start + out.len() as u64;
            self.place.number += 1;
            push_recent(&mut self.place.recent, frame::tag(session));
        }
        written
    }

    /// Lets readers see what is durable now.
    fn publish(&self, batch: &[Pending], written: Vec<(u64, Chain)>) {
        let mut state = self.shared.lock();
        for (pending, (position, chain)) in batch.iter().zip(written) {
            let session = state.index.sessions.entry(pending.session.clone()).or_default();
            session.push(position, pending.entries.len() as u64, chain);
        }
        state.index.end = self.place.position;
        state.index.segments.insert(self.base, self.place.position);
    }

    /// Begins a segment after the one at `base`. On a full disk it leaves everything as it was.
    fn begin_segment(&mut self, base: Option<u64>) -> io::Result<()> {
        let mut out = Vec::new();
        let created = self.place.position;
        let place = Place { synced_to: created, ..self.place };
        frame::write(&mut out, Kind::Segment, &place, "", |_| ());
        if let Err(error) = self.medium.create(created).and_then(|()| self.medium.append(&out)) {
            if room::is_full(&error) {
                self.medium.take_back(created, base)?;
            }
            return Err(error);
        }
        self.medium.sync()?;
        self.medium.sync_dir()?;
        self.base = created;
        self.place = Place { position: created + out.len() as u64, ..place };
        self.publish(&[], Vec::new());
        Ok(())
    }

    fn store_frontier(&mut self) -> io::Result<()> {
        let bytes = frontier::encode(&self.shared.lock().index, &self.place);
        self.medium.store_frontier(&bytes)
    }
}

#[cfg(test)]
mod tests;
