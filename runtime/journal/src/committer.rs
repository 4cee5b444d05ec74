//! The one thread that writes: takes all that waits, writes it, syncs once, then tells all.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tokio::time::Instant;
use wire::SessionId;

use crate::error::Error;
use crate::frame::{self, Chain, Kind, Place};
use crate::frontier;
use crate::index::Spot;
use crate::medium::Medium;
use crate::options::Committed;
use crate::queue::{FRAME_BYTES, Pending, Settling, Shared, Work};
use crate::recovery::push_recent;
use crate::room;

/// What a commit came to that was tried.
enum Tried {
    /// It is durable.
    Durable(Vec<Written>),
    /// The disk is full, and nothing was written.
    Full,
}

/// The frame of an append.
struct Written {
    kind: Kind,
    spot: Spot,
    /// What the next frame of the session refers to.
    chain: Chain,
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
        let here = shared.clone();
        let mut committer = Self { shared, medium, place, base: base.unwrap_or(place.position) };
        let begin = || committer.begin(base.is_none());
        here.room.write(begin, |begun| begun.as_ref().is_err_and(room::is_full))?;
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
        while let Some(work) = self.shared.take() {
            match work {
                Work::Commit(batch) => self.commit(batch)?,
                Work::Settle(waiting) => self.settle(waiting)?,
            }
        }
        match self.store_frontier() {
            // The one that is there is older, and as true.
            Err(error) if room::is_full(&error) => Ok(()),
            stored => stored,
        }
    }

    /// Writes the frontier anew, and begins a new segment if somebody asks for one.
    fn settle(&mut self, waiting: Vec<Settling>) -> io::Result<()> {
        let holds = self.place.position - self.base > frame::SEGMENT_BYTES;
        let rolls = holds && waiting.iter().any(|settling| settling.rolls);
        let settled = self
            .store_frontier()
            .and_then(|()| if rolls { self.begin_segment(Some(self.base)) } else { Ok(()) });
        let full = match settled {
            Err(error) if room::is_full(&error) => true,
            settled => settled.map(|()| false)?,
        };
        for Settling { done, .. } in waiting {
            // Whoever dropped the receiver does not want to know.
            done.send(if full { Err(Error::StorageFull) } else { Ok(self.place.position) }).ok();
        }
        Ok(())
    }

    fn commit(&mut self, batch: Vec<Pending>) -> io::Result<()> {
        let shared = self.shared.clone();
        let is_full = |tried: &io::Result<Tried>| matches!(tried, Ok(Tried::Full));
        // Said before those who wait for the batch are let go, so that they find it said.
        let tried = shared.room.write(|| self.write(&batch), is_full);
        match tried.inspect_err(|error| shared.fail(&error.to_string()))? {
            Tried::Full => {
                self.shared.room.note_refused();
                self.shared.refuse(batch);
            }
            Tried::Durable(written) => {
                self.shared.room.note_freed();
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
        frame::fill_page(&mut out, before.position - self.base, &self.place);
        self.place.position = before.position + out.len() as u64;
        if let Err(error) = self.medium.append(&out) {
            if !room::is_full(&error) {
                return Err(error);
            }
            self.place = before;
            self.medium.cut(before.position - self.base)?;
            return Ok(Tried::Full);
        }
        let begun = Instant::now();
        self.medium.sync()?;
        self.shared.options.on_commit.call(Committed {
            entries: batch.iter().map(|pending| pending.entries.len() as u64).sum(),
            bytes: out.len() as u64,
            sync: begun.elapsed(),
        });
        Ok(Tried::Durable(written))
    }

    /// Writes the frames of a batch to `out`; returns where each stands and what follows it.
    fn encode(&mut self, batch: &[Pending], out: &mut Vec<u8>) -> Vec<Written> {
        let start = self.place.position;
        self.place.synced_to = start;
        let mut chains: HashMap<&SessionId, Chain, RandomState> = {
            let state = self.shared.lock();
            let chain = |pending: &Pending| {
                state.index.sessions.get(&pending.session).map_or([0; 16], |found| found.chain)
            };
            batch.iter().map(|pending| (&pending.session, chain(pending))).collect()
        };
        let mut written = Vec::with_capacity(batch.len());
        for Pending { kind, session, first_slot, entries, .. } in batch {
            let from = out.len();
            let chain = chains.entry(session).or_default();
            // A session whose first slot is not 0 was forgotten before, and begins anew.
            let anew = *chain == Chain::default() && *first_slot > 0 && *kind == Kind::Commit;
            let kind = if anew { Kind::Begin } else { *kind };
            frame::write_commit(out, kind, &self.place, session, *first_slot, *chain, entries);
            let frame = out.get(from..).unwrap_or_default();
            *chain = frame::chain(frame);
            let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
            let spot = Spot { position: self.place.position, length };
            written.push(Written { kind, spot, chain: *chain });
            self.place.position = start + out.len() as u64;
            self.place.number += 1;
            push_recent(&mut self.place.recent, frame::tag(session));
        }
        written
    }

    /// Lets readers see what is durable now.
    fn publish(&self, batch: &[Pending], written: Vec<Written>) {
        let mut state = self.shared.lock();
        let index = &mut state.index;
        for (pending, Written { kind, spot, chain }) in batch.iter().zip(written) {
            if kind == Kind::Gone {
                index.forget(&pending.session, spot);
                continue;
            }
            let session = index.sessions.entry(pending.session.clone()).or_default();
            if kind == Kind::Begin {
                session.begin(pending.first_slot);
            }
            session.push(spot, pending.entries.len() as u64, chain);
            index.hold(spot);
        }
        index.end = self.place.position;
        let segment = index.segments.entry(self.base).or_default();
        segment.end = self.place.position;
        segment.bytes = self.place.position - self.base;
        segment.fixed_bytes = frame::SEGMENT_BYTES;
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
        // Final for whatever reason, a full disk among them: the segment is there by now, and what
        // it holds is unknown.
        self.medium.sync().and_then(|()| self.medium.sync_dir()).map_err(io::Error::other)?;
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
