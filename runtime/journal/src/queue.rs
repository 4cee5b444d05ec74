//! What waits for the committer, and the index that it keeps.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use wire::SessionId;

use crate::error::Error;
use crate::frame::{Kind, Stored};
use crate::index::{Index, Session};
use crate::options::Options;
use crate::room::Room;

/// What a frame takes beside its entries, in bytes, at most.
pub(crate) const FRAME_BYTES: u64 = 256;

/// The time over which it is counted how many appends come beside others: sessions with quick models
/// come once in about as much, so that each of them counts.
const LOAD_WINDOW: Duration = Duration::from_millis(10);

/// What an append counts in a load, of which so little is lost to rounding however often it is taken.
const APPEND: u32 = 1000;

/// Appends within that time from which on more are waited for, so that a sync has more to cover.
/// With fewer there is nothing to gather, and an append would wait for nobody.
const GATHERED_MIN: u32 = 4;

/// How long is waited for each of them.
const GATHERING_EACH: Duration = Duration::from_micros(160);

/// How long is waited at most after the first of them came, which is less than a busy session waits
/// for a core.
const GATHERING_MAX: Duration = Duration::from_millis(2);

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
    settling: Vec<Settling>,
    load: Load,
    /// When the first in the queue came, unless it is not to wait for more.
    since: Option<Instant>,
    /// Somebody waits for one in the queue.
    awaited: bool,
    /// The committer waits to be woken, which costs a system call even if it does not wait.
    idle: bool,
    /// Nothing more is taken.
    closed: bool,
}

/// How soon an append is to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Somebody waits for it.
    Now,
    /// Nobody does: it is written with the next one that somebody waits for, or after
    /// [`Options::later_max`].
    Later,
}

/// One append that waits.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) kind: Kind,
    pub(crate) session: SessionId,
    pub(crate) first_slot: u64,
    pub(crate) entries: Vec<Stored>,
    pub(crate) bytes: u64,
    due: Due,
    pub(crate) done: Done,
}

/// Somebody waits until the frontier tells of all that is durable.
#[derive(Debug)]
pub(crate) struct Settling {
    /// A new segment is to be begun.
    pub(crate) rolls: bool,
    pub(crate) done: Done,
}

/// What the committer is to do next.
pub(crate) enum Work {
    Commit(Vec<Pending>),
    Settle(Vec<Settling>),
}

/// Where an append is told the position after its commit, or why there is none.
pub(crate) type Done = oneshot::Sender<Result<u64, Error>>;

impl Shared {
    pub(crate) fn new(options: Options, room: Room, index: Index) -> Self {
        let state = State {
            index,
            queue: VecDeque::new(),
            queue_bytes: 0,
            settling: Vec::new(),
            load: Load { appends: 0, at: real_now() },
            since: None,
            awaited: false,
            idle: false,
            closed: false,
        };
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

    /// Lets go of the state, and has the committer see what became of it.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        if idle {
            self.wake.notify_one();
        }
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
        kind: Kind,
        session: &SessionId,
        first_slot: u64,
        entries: Vec<Stored>,
        due: Due,
    ) -> Result<oneshot::Receiver<Result<u64, Error>>, Error> {
        let bytes = entries.iter().map(Stored::len).sum::<u64>() + FRAME_BYTES;
        let mut state = self.lock();
        state.admit(session, first_slot, bytes, &self.options)?;
        let unknown = || Box::new(Session { next: first_slot, ..Session::default() });
        state.index.sessions.entry(session.clone()).or_insert_with(unknown).next +=
            entries.len() as u64;
        let is_first = state.queue.is_empty();
        if is_first {
            state.since = Some(real_now());
            state.awaited = false;
        }
        let becomes_awaited = due == Due::Now && !state.awaited;
        state.awaited |= becomes_awaited;
        state.queue_bytes += bytes;
        let (done, receiver) = oneshot::channel();
        state.queue.push_back(Pending {
            kind,
            session: session.clone(),
            first_slot,
            entries,
            bytes,
            due,
            done,
        });
        // What comes next may find no place, or another commit.
        let is_full = state.queue.len()
            >= self.options.commit_entries_max.min(self.options.queue_max)
            || state.queue_bytes >= self.options.commit_bytes_max;
        if is_full {
            state.since = None;
        }
        if is_first || becomes_awaited || is_full {
            self.wake(state);
        }
        Ok(receiver)
    }

    /// Says that somebody waits for all that is in the queue.
    pub(crate) fn hurry(&self) {
        let mut state = self.lock();
        if !state.awaited && !state.queue.is_empty() {
            state.awaited = true;
            self.wake(state);
        }
    }

    /// Has the frontier written anew, and a new segment begun if that is asked. Blocks.
    pub(crate) fn settle(&self, rolls: bool) -> Result<(), Error> {
        let settled = self.begin_settle(rolls)?;
        settled.blocking_recv().unwrap_or(Err(Error::Stopped)).map(drop)
    }

    /// Has the same begun. What is returned resolves to the position of which the frontier tells.
    pub(crate) fn begin_settle(
        &self,
        rolls: bool,
    ) -> Result<oneshot::Receiver<Result<u64, Error>>, Error> {
        let (done, receiver) = oneshot::channel();
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Stopped);
        }
        state.settling.push(Settling { rolls, done });
        self.wake(state);
        Ok(receiver)
    }

    /// Tells whether nothing more is taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes nothing more; what waits is still written.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.wake(state);
    }

    /// Takes nothing more and drops what waits.
    pub(crate) fn fail(&self, reason: &str) {
        let mut state = self.lock();
        state.closed = true;
        state.queue_bytes = 0;
        let dropped = (std::mem::take(&mut state.queue), std::mem::take(&mut state.settling));
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
    pub(crate) fn refuse(&self, batch: Vec<Pending>) {
        let mut state = self.lock();
        let waiting = std::mem::take(&mut state.queue);
        state.queue_bytes = 0;
        let refused: Vec<Pending> = batch.into_iter().chain(waiting).collect();
        for pending in &refused {
            // Nothing of the session waits any more, so its next slot is the durable one.
            let sessions = &mut state.index.sessions;
            if let Some(found) = sessions.get_mut(&pending.session) {
                found.next = found.slots;
                if found.spots.is_empty() && found.damage.is_none() {
                    sessions.remove(&pending.session);
                }
            }
        }
        drop(state);
        for pending in refused {
            // Whoever dropped the receiver does not want to know.
            pending.done.send(Err(Error::StorageFull)).ok();
        }
    }

    /// Waits for appends and takes as many as one sync may cover, `None` once it is closed.
    ///
    /// Who waits for the frontier comes before appends, since these may never leave the queue empty.
    /// Between two commits all that the index tells of is durable.
    pub(crate) fn take(&self) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if !state.settling.is_empty() {
                return Some(Work::Settle(std::mem::take(&mut state.settling)));
            }
            let is_empty = state.queue.is_empty();
            if is_empty && state.closed {
                return None;
            }
            let left = state.left(real_now(), self.options.later_max);
            if !is_empty && left.is_zero() {
                break;
            }
            state.idle = true;
            state = if is_empty {
                self.wake.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                let waited = self.wake.wait_timeout(state, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
            state.idle = false;
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
        // What is left was too much for one commit, and needs no more.
        state.since = None;
        let now = real_now();
        // One that came alone would have waited for nobody, and is not to wait for those that have time.
        let awaited = taken.iter().filter(|pending| pending.due == Due::Now);
        let beside = awaited.skip(1).map(|_| APPEND).fold(0, u32::saturating_add);
        let appends = state.load.after(now - state.load.at).saturating_add(beside);
        state.load = Load { appends, at: now };
        Some(Work::Commit(taken))
    }
}

impl State {
    /// Returns how long the queue still waits for more at a moment: as the load says if somebody waits
    /// for one in it, and `later_max` if nobody does.
    fn left(&self, now: Instant, later_max: Duration) -> Duration {
        let Some(since) = self.since.filter(|_| !self.closed) else { return Duration::ZERO };
        let most =
            if self.awaited { gathering(self.load.after(since - self.load.at)) } else { later_max };
        most.saturating_sub(now - since)
    }

    /// Returns how many appends wait, and their bytes.
    pub(crate) fn waiting(&self) -> (usize, u64) {
        (self.queue.len(), self.queue_bytes)
    }

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
        let expected = self.index.next_slot(session);
        // A session that is not known may have been begun before others were forgotten; its slot
        // is above all that it ever had.
        let is_first = first_slot <= expected && !self.index.sessions.contains_key(session);
        if first_slot != expected && !is_first {
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

/// Returns the time by which the committer is woken.
#[expect(
    clippy::disallowed_methods,
    reason = "threads wait by the real time, whatever tests pause"
)]
fn real_now() -> Instant {
    Instant::now()
}

/// How many appends that somebody waits for came beside others within [`LOAD_WINDOW`] before a moment.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Each counts [`APPEND`].
    appends: u32,
    at: Instant,
}

impl Load {
    /// Returns how many of them are still within it some time later, as if they had come evenly.
    fn after(self, time: Duration) -> u32 {
        let left = LOAD_WINDOW.saturating_sub(time).as_micros();
        let appends = u128::from(self.appends) * left / LOAD_WINDOW.as_micros();
        u32::try_from(appends).unwrap_or(u32::MAX)
    }
}

/// Returns how long appends are gathered when so many came of late, each of which counts [`APPEND`]:
/// the busier the node, the longer.
fn gathering(appends: u32) -> Duration {
    if appends < GATHERED_MIN * APPEND {
        return Duration::ZERO;
    }
    (GATHERING_EACH.saturating_mul(appends) / APPEND).min(GATHERING_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(data: &tempfile::TempDir) -> Shared {
        let room = Room::prepare(data.path(), 0).unwrap();
        Shared::new(Options::default(), room, Index::default())
    }

    #[test]
    fn a_busy_journal_gathers_and_one_at_rest_does_not() {
        let cases = [(0, 0), (1, 0), (3, 0), (4, 640), (10, 1600), (13, 2000), (u32::MAX, 2000)];
        for (appends, micros) in cases {
            assert_eq!(
                gathering(APPEND.saturating_mul(appends)),
                Duration::from_micros(micros),
                "{appends}"
            );
        }
    }

    #[test]
    fn only_what_somebody_waits_for_beside_others_counts_as_load() {
        use Due::{Later, Now};
        let cases: [(&[Due], u32); 6] = [
            (&[Now], 0),
            (&[Now, Now, Now], 2),
            (&[Later], 0),
            (&[Later, Later, Later], 0),
            (&[Later, Now, Later], 0),
            (&[Later, Now, Later, Now], 1),
        ];
        for (dues, expected) in cases {
            let data = tempfile::tempdir().unwrap();
            let shared = shared(&data);
            for (slot, due) in (0..).zip(dues) {
                let session = SessionId::new(&format!("s{slot}")).unwrap();
                shared.enqueue(Kind::Commit, &session, 0, Vec::new(), *due).unwrap();
            }
            let Some(Work::Commit(taken)) = shared.take() else { panic!("{dues:?}") };
            assert_eq!(
                (taken.len(), shared.lock().load.appends),
                (dues.len(), expected * APPEND),
                "{dues:?}"
            );
        }
    }

    #[test]
    fn a_queue_waits_from_when_its_first_came_and_no_longer_than_whoever_waits_for_it() {
        const LATER_MAX: Duration = Duration::from_micros(4000);
        let data = tempfile::tempdir().unwrap();
        let shared = shared(&data);
        let mut state = shared.lock();
        // The appends of late, whether somebody waits for one in the queue, when its first came, and how
        // long it still waits, in microseconds.
        let cases = [
            (0, false, 0, 4000),
            (13, false, 0, 4000),
            (13, false, 3000, 1000),
            (13, false, 5000, 0),
            (0, true, 0, 0),
            (0, true, 3000, 0),
            (10, true, 0, 1600),
            (10, true, 1000, 600),
            (13, true, 1500, 500),
            (13, true, 3000, 0),
        ];
        for (appends, awaited, ago, expected) in cases {
            let came = real_now();
            state.load = Load { appends: appends * APPEND, at: came };
            (state.since, state.awaited, state.closed) = (Some(came), awaited, false);
            let now = came + Duration::from_micros(ago);
            let left = state.left(now, LATER_MAX);
            assert_eq!(left, Duration::from_micros(expected), "{appends} {awaited} {ago}");
            state.closed = true;
            assert_eq!(state.left(now, LATER_MAX), Duration::ZERO, "closed");
            (state.since, state.closed) = (None, false);
            assert_eq!(state.left(now, LATER_MAX), Duration::ZERO, "too much for one commit");
        }
    }

    #[test]
    fn a_load_is_forgotten_within_its_window() {
        let cases =
            [(0, 1, 0), (50, 0, 50), (50, 1, 45), (50, 8, 10), (50, 10, 0), (50, 3_600_000, 0)];
        for (appends, millis, left) in cases {
            let load = Load { appends: appends * APPEND, at: real_now() };
            assert_eq!(
                load.after(Duration::from_millis(millis)),
                left * APPEND,
                "{appends} {millis}"
            );
        }
        // Of those that come evenly it keeps as many as come within the window, however often that is.
        for (micros, each, most) in [(1000, 5, 50), (1000, 1, 10), (100, 1, 100)] {
            let mut load = Load { appends: 0, at: real_now() };
            for _ in 0..1000 {
                load.appends = load.after(Duration::from_micros(micros)) + each * APPEND;
            }
            let kept = load.appends.div_ceil(APPEND);
            assert_eq!(kept, most, "{each} each {micros} us");
        }
    }
}
