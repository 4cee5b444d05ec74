//! Feeds the store with what was committed, and brings it up to the journal at start.
//!
//! The store is a projection: it may lag, and it may be deleted. Its position is never ahead of
//! what it holds, so at start only the sessions touched since then are folded again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use agents_core::effect::Effect;
use agents_core::session::{FoldError, Plans, SessionMachine};
use journal::{Journal, Since};
use store::{Change, INPUT_PREVIEW_CHARS_MAX, RunBegun, Store};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tracing::{error, info, warn};
use wire::entry::{Body, Entry, Input, MemoryChange, memory_session};
use wire::event::EventKind;
use wire::plan::Target;
use wire::{Event, Name, RunId, SessionId};

use crate::clean;
use crate::error::Error;
use crate::metrics::Load;
use crate::plans::PlanShelf;

/// Commits that wait for the store; a sender waits when they are full, which slows the session.
const JOBS_MAX: usize = 8192;

/// Changes that are gathered over sessions before the store takes them at once, which costs as much
/// for one as for hundreds; about 1 MiB of memory.
const CATCH_UP_CHANGES: usize = 1024;

/// Jobs that are applied to the store at once.
const JOBS_AT_ONCE_MAX: usize = 256;

/// Hands committed changes to the store's thread.
#[derive(Clone)]
pub(crate) struct Projector {
    jobs: mpsc::Sender<Job>,
    commits: Arc<Commits>,
    journal: Journal,
    failed: Arc<watch::Sender<bool>>,
    unapplied: Arc<Unapplied>,
}

enum Job {
    Apply(Vec<Change>, Ticket),
    Sync(oneshot::Sender<()>),
    /// There is room on the disk again.
    CatchUp,
}

/// The sessions of the runs that began while the store could not be written. Few: no client's run
/// is taken then.
type Unapplied = Mutex<HashMap<RunId, SessionId>>;

/// A commit that is not yet in the store: nothing at or above its position may be taken as applied.
///
/// One that is dropped stays open, since its entries may be durable all the same. It then holds
/// the store's position back, so that they are folded again at the next start.
struct Ticket {
    number: u64,
    commits: Arc<Commits>,
}

#[derive(Default)]
struct Commits {
    open: Mutex<Open>,
    /// A commit was handed over, or given up.
    handed: Notify,
}

#[derive(Default)]
struct Open {
    /// The number of the next commit.
    next: u64,
    /// Where the journal ended when a commit began that is not yet in the store.
    positions: BTreeMap<u64, u64>,
    /// Those whose changes are not handed over: they may be durable, and seen by who reads the
    /// journal.
    unhanded: BTreeSet<u64>,
}

impl Commits {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>, journal: &Journal) -> (Ticket, Handing) {
        let mut open = self.lock();
        let number = open.next;
        open.next += 1;
        // Read under the lock, so that no later commit can be taken as applied before this one.
        open.positions.insert(number, journal.end());
        open.unhanded.insert(number);
        let ticket = Ticket { number, commits: self.clone() };
        (ticket, Handing { number, commits: self.clone() })
    }

    /// Returns the position below which every commit is in the store.
    fn settled(&self, journal: &Journal) -> u64 {
        let open = self.lock();
        open.positions.values().min().copied().unwrap_or_else(|| journal.end())
    }

    /// Waits until all commits that have begun are handed over or given up.
    async fn all_handed(&self) {
        let next = self.lock().next;
        loop {
            let mut handed = pin!(self.handed.notified());
            handed.as_mut().enable();
            if self.lock().unhanded.first().is_none_or(|first| *first >= next) {
                return;
            }
            handed.await;
        }
    }
}

/// A commit whose changes are not handed over until this is dropped.
struct Handing {
    number: u64,
    commits: Arc<Commits>,
}

impl Drop for Handing {
    fn drop(&mut self) {
        self.commits.lock().unhanded.remove(&self.number);
        self.commits.handed.notify_waiters();
    }
}

impl Ticket {
    /// Says that the commit is in the store, or that nothing of it was written.
    fn settle(self) {
        self.commits.lock().positions.remove(&self.number);
    }
}

/// A commit under way; give it its changes once it is durable.
pub(crate) struct Commit {
    ticket: Ticket,
    jobs: mpsc::Sender<Job>,
    _handing: Handing,
}

impl Commit {
    /// Gives up a commit of which nothing was written.
    pub(crate) fn give_up(self) {
        self.ticket.settle();
    }

    pub(crate) async fn project(self, changes: Vec<Change>) {
        // The thread ends only with the node; what it did not apply is folded again at start.
        let sent = self.jobs.send(Job::Apply(changes, self.ticket)).await;
        if sent.is_err() {
            warn!("the store's thread has ended; its view is rebuilt at the next start");
        }
    }
}

impl Projector {
    /// Starts the store's thread.
    pub(crate) fn start(
        team: Name,
        store: Store,
        journal: Journal,
        plans: Arc<PlanShelf>,
    ) -> Result<Self, Error> {
        let (jobs, receiver) = mpsc::channel(JOBS_MAX);
        let projector = Self {
            jobs,
            commits: Arc::default(),
            journal: journal.clone(),
            failed: Arc::new(watch::Sender::new(false)),
            unapplied: Arc::default(),
        };
        let feeder = Feeder {
            team,
            store,
            journal,
            plans,
            commits: projector.commits.clone(),
            fault: projector.failed.clone(),
            behind: None,
            unapplied: projector.unapplied.clone(),
        };
        thread::Builder::new()
            .name("callboard-store".to_owned())
            .spawn(move || feeder.run(receiver))
            .map_err(Error::Thread)?;
        Ok(projector)
    }

    /// Announces a commit before it is appended.
    pub(crate) fn begin(&self) -> Commit {
        let (ticket, handing) = self.commits.begin(&self.journal);
        Commit { ticket, jobs: self.jobs.clone(), _handing: handing }
    }

    /// Returns what resolves when the store cannot be used; the process should end then, since
    /// the store is mended or replaced when it is opened. Holds on to nothing.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + use<> {
        let mut failed = self.failed.subscribe();
        async move {
            // The thread ends with the node, without having failed.
            if failed.wait_for(|failed| *failed).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Tells how many commits wait for the store.
    pub(crate) fn load(&self) -> Load {
        Load { taken: JOBS_MAX.saturating_sub(self.jobs.capacity()), limit: JOBS_MAX }
    }

    /// Says that the store was found to be unusable by whoever looked into it.
    pub(crate) fn fail(&self) {
        self.failed.send_replace(true);
    }

    /// Waits until everything that is durable by now can be found in the store.
    pub(crate) async fn sync(&self) {
        self.commits.all_handed().await;
        let (done, wait) = oneshot::channel();
        if self.jobs.send(Job::Sync(done)).await.is_ok() {
            wait.await.unwrap_or_default();
        }
    }

    /// Says that there is room on the disk again: the store is brought up to the journal.
    pub(crate) async fn catch_up(&self) {
        // The thread ends only with the node, and at the next start the store is brought up anyway.
        drop(self.jobs.send(Job::CatchUp).await);
    }

    /// Returns the session of a run that the store does not know because it cannot be written.
    pub(crate) fn session_of_unapplied(&self, run: &RunId) -> Option<SessionId> {
        self.unapplied.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned()
    }
}

/// Writes to the store, from a thread of its own.
struct Feeder {
    team: Name,
    store: Store,
    journal: Journal,
    plans: Arc<PlanShelf>,
    commits: Arc<Commits>,
    fault: Arc<watch::Sender<bool>>,
    /// The commits that are not in the store because the disk was full, if it was.
    behind: Option<Vec<Ticket>>,
    unapplied: Arc<Unapplied>,
}

impl Feeder {
    fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(first) = jobs.blocking_recv() {
            let (mut changes, mut tickets) = (Vec::new(), Vec::new());
            let (mut syncs, mut room) = (Vec::new(), false);
            let mut next = Some(first);
            while let Some(job) = next {
                match job {
                    Job::Apply(more, ticket) => {
                        changes.extend(more);
                        tickets.push(ticket);
                    }
                    Job::Sync(done) => syncs.push(done),
                    Job::CatchUp => room = true,
                }
                next = if tickets.len() < JOBS_AT_ONCE_MAX { jobs.try_recv().ok() } else { None };
            }
            self.apply(&changes, tickets);
            if room {
                self.catch_up();
            }
            for done in syncs {
                done.send(()).unwrap_or_default();
            }
        }
    }

    fn apply(&mut self, changes: &[Change], tickets: Vec<Ticket>) {
        // A store that meets a full disk writes nothing more until it is opened again, and what is
        // left of the reserve is the journal's.
        if self.behind.is_some() || self.journal.is_full() {
            self.hold(changes, tickets);
            return;
        }
        match self.store.apply(changes, None) {
            Ok(()) => {
                tickets.into_iter().for_each(Ticket::settle);
                let settled = self.commits.settled(&self.journal);
                if let Err(failed) = self.store.apply(&[], Some(settled)) {
                    error!(error = %failed, "the store's position cannot be written");
                }
            }
            Err(failed) if failed.is_full() => {
                self.journal.report_full();
                self.hold(changes, tickets);
            }
            Err(failed) => self.fail(&failed.into()),
        }
    }

    fn hold(&mut self, changes: &[Change], tickets: Vec<Ticket>) {
        if tickets.is_empty() {
            return;
        }
        let mut unapplied = self.unapplied.lock().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            if let Change::RunBegun(begun) = change {
                unapplied.insert(begun.run.clone(), begun.session.clone());
            }
        }
        drop(unapplied);
        self.behind.get_or_insert_default().extend(tickets);
    }

    /// Opens the store again, and folds what it lacks.
    fn catch_up(&mut self) {
        let Some(held) = self.behind.take() else { return };
        let done = self.store.reopen().map_err(Error::from).and_then(|()| {
            catch_up(&self.team, &self.journal, &self.store, &*self.plans).map(drop)
        });
        match done {
            Ok(()) => {
                held.into_iter().for_each(Ticket::settle);
                self.unapplied.lock().unwrap_or_else(PoisonError::into_inner).clear();
                info!("the store is brought up to the journal");
            }
            Err(Error::Store(failed)) if failed.is_full() => {
                self.behind = Some(held);
                self.journal.report_full();
            }
            Err(failed) => self.fail(&failed),
        }
    }

    /// Gives up. The tickets that are dropped hold the position back, so that what they stand for
    /// is folded at the next start.
    fn fail(&self, failed: &Error) {
        error!(error = %failed, "the store cannot be written; its view is rebuilt at the next start");
        self.fault.send_replace(true);
    }
}

/// Returns what an entry and its effects mean to the store.
pub(crate) fn changes_of(
    session: &SessionId,
    entry: &Entry,
    slot: u64,
    effects: &[Effect],
) -> Vec<Change> {
    let seen = |agent: &Name| Change::SessionSeen {
        session: session.clone(),
        agent: agent.clone(),
        at: entry.at,
        slots: slot + 1,
    };
    let mut changes = Vec::new();
    match &entry.body {
        Body::Session(Input::Submitted(submitted)) => {
            changes.push(seen(&submitted.agent));
            changes.push(Change::RunBegun(RunBegun {
                run: submitted.run.clone(),
                session: session.clone(),
                agent: submitted.agent.clone(),
                body: submitted.body,
                at: entry.at,
                input: submitted.text.chars().take(INPUT_PREVIEW_CHARS_MAX).collect(),
                trace: submitted.trace,
                parent: submitted.parent.clone(),
                joined: effects.iter().find_map(joined).cloned(),
            }));
        }
        // What stood before it may be gone, and then this is all that tells of the session.
        Body::Session(Input::Snapshot(snapshot)) => {
            for at in [snapshot.begun, snapshot.seen] {
                changes.push(Change::SessionSeen {
                    session: session.clone(),
                    agent: snapshot.agent.clone(),
                    at,
                    slots: slot + 1,
                });
            }
        }
        Body::Session(Input::CancelDelivered { call }) => {
            changes.push(Change::CancelDelivered { call: call.clone() });
        }
        Body::Session(_) => {}
        Body::Memory(MemoryChange::Restated { facts }) => {
            changes.extend(facts.iter().cloned().map(Change::Fact));
        }
        Body::Memory(MemoryChange::Remembered(fact)) => changes.push(Change::Fact(fact.clone())),
        Body::Memory(MemoryChange::Forgotten { facts, .. }) => {
            changes.push(Change::Forgot(facts.clone()));
        }
    }
    for effect in effects {
        match effect {
            Effect::Publish { reply } => changes.push(Change::RunEnded {
                run: reply.run.clone(),
                at: entry.at,
                status: reply.status,
                reply: crate::reply::bytes(reply).to_vec(),
            }),
            Effect::Span(span) if span.levels.off => {}
            Effect::Span(span) => {
                changes.push(Change::Span(clean::span(&span.record, span.levels.store)));
            }
            Effect::Tell(Event { agent, kind: EventKind::RunEnded { .. }, .. }) => {
                changes.push(seen(agent));
            }
            Effect::Opened(open) => changes.push(Change::CallOpened(open.clone())),
            Effect::Closed { call, .. } => changes.push(Change::CallClosed(call.clone())),
            Effect::Abort { calls, .. } => {
                let agents = calls.iter().filter(|aborted| aborted.target == Target::Agent);
                changes.extend(agents.map(|aborted| Change::CancelOwed {
                    call: aborted.call.clone(),
                    session: session.clone(),
                }));
            }
            Effect::AskModel { .. }
            | Effect::Call(_)
            | Effect::Probe { .. }
            | Effect::Say { .. }
            | Effect::Expire { .. }
            | Effect::SetTimer { .. }
            | Effect::Tell(_) => {}
        }
    }
    changes
}

/// Returns the run that a message joins.
fn joined(effect: &Effect) -> Option<&RunId> {
    let Effect::Tell(Event { kind: EventKind::RunJoined { joined }, .. }) = effect else {
        return None;
    };
    Some(joined)
}

/// What a session's journal holds.
pub(crate) struct Folded {
    pub(crate) machine: SessionMachine,
    pub(crate) changes: Vec<Change>,
}

/// Reads and folds what is held of one session. Blocks on the disk.
pub(crate) fn fold_session(
    team: &Name,
    session: &SessionId,
    journal: &Journal,
    plans: &dyn Plans,
    since: Since,
) -> Result<Folded, Error> {
    let held = read_entries(journal, session, since)?;
    let mut changes = Vec::new();
    let machine = SessionMachine::beginning_at(team.clone(), session.clone(), held.first_slot)
        .fold_on(&held.entries, plans, |entry, slot, effects| {
            changes.extend(changes_of(session, entry, slot, &effects));
        })
        .map_err(|source| Error::Fold { session: session.clone(), source })?;
    Ok(Folded { machine, changes })
}

/// Entries of a session, with the slot of the first.
pub(crate) struct Held {
    pub(crate) first_slot: u64,
    pub(crate) entries: Vec<Entry>,
}

/// Reads the entries of a session. Blocks on the disk.
pub(crate) fn read_entries(
    journal: &Journal,
    session: &SessionId,
    since: Since,
) -> Result<Held, Error> {
    let held = journal.read_since(session, since)?;
    let first_slot = held.first_slot;
    let entries: Result<Vec<Entry>, Error> = (first_slot..)
        .zip(held.bodies)
        .map(|(slot, bytes)| {
            serde_json::from_slice::<Entry>(&bytes).map_err(|source| {
                // An entry that cannot be read at all may be of a newer format.
                match serde_json::from_slice::<serde_json::Value>(&bytes)
                    .ok()
                    .and_then(|value| value.get("v")?.as_u64())
                    .and_then(|version| u8::try_from(version).ok())
                {
                    Some(version) if version > wire::entry::ENTRY_VERSION => Error::Fold {
                        session: session.clone(),
                        source: FoldError::Newer { slot, version },
                    },
                    _ => Error::Entry { session: session.clone(), slot, source },
                }
            })
        })
        .collect();
    Ok(Held { first_slot, entries: entries? })
}

/// Brings the store up to the journal and returns the sessions that could not be folded.
///
/// Blocks on the disk.
pub(crate) fn catch_up(
    team: &Name,
    journal: &Journal,
    store: &Store,
    plans: &dyn Plans,
) -> Result<Vec<(SessionId, Error)>, Error> {
    let end = journal.end();
    let mut damaged = Vec::new();
    let mut pending = Vec::new();
    let touched = journal.touched_since(store.position());
    let is_behind = !touched.is_empty();
    for session in touched {
        let changes = if session == memory_session() {
            read_entries(journal, &session, Since::Oldest).map(|held| {
                (held.first_slot..)
                    .zip(&held.entries)
                    .flat_map(|(slot, entry)| changes_of(&session, entry, slot, &[]))
                    .collect()
            })
        } else {
            fold_session(team, &session, journal, plans, Since::Oldest).map(|folded| folded.changes)
        };
        match changes {
            Ok(changes) => pending.extend(changes),
            Err(failed) => {
                warn!(%session, error = %failed, "session set aside: its journal cannot be read");
                damaged.push((session, failed));
            }
        }
        if pending.len() >= CATCH_UP_CHANGES {
            store.apply(&pending, None)?;
            pending.clear();
        }
    }
    store.apply(&pending, Some(end))?;
    if is_behind {
        // Else a stop soon after the start would have it all done again at the next one.
        store.flush()?;
    }
    Ok(damaged)
}

#[cfg(test)]
mod tests {
    use journal::Options;
    use wire::Timestamp;
    use wire::entry::Fact;

    use super::*;

    #[tokio::test]
    async fn a_commit_that_nobody_followed_up_is_folded_at_the_next_start() {
        let data = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(data.path(), Options::default()).unwrap();
        let (store, _) = Store::open(&data.path().join("store")).unwrap();
        let (team, plans) =
            (Name::new("t").unwrap(), PlanShelf::open(journal.clone(), []).unwrap());
        let projector =
            Projector::start(team, store.clone(), journal.clone(), Arc::new(plans)).unwrap();
        let session = memory_session();
        let change = |id: &str| {
            let fact = Fact {
                id: wire::CallKey::new(id).unwrap(),
                text: "a fact".to_owned(),
                at: Timestamp::from_micros(1),
                agent: Name::new("a").unwrap(),
                session: SessionId::new("s").unwrap(),
                tainted: false,
            };
            Entry::new(fact.at, Body::Memory(MemoryChange::Remembered(fact)))
        };
        let body = |entry: &Entry| vec![serde_json::to_vec(entry).unwrap().into()];

        // The first is made durable by an actor that is killed before it hands the changes over.
        let killed = projector.begin();
        journal.append(&session, 0, body(&change("c0"))).await.unwrap();
        drop(killed);
        let commit = projector.begin();
        let entry = change("c1");
        journal.append(&session, 1, body(&entry)).await.unwrap();
        commit.project(changes_of(&session, &entry, 1, &[])).await;
        projector.sync().await;
        assert_eq!(store.facts(10).unwrap().len(), 1);

        let plans = HashMap::new();
        catch_up(&Name::new("t").unwrap(), &journal, &store, &plans).unwrap();
        assert_eq!(store.facts(10).unwrap().len(), 2);
    }
}
