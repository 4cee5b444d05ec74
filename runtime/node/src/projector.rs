//! Feeds the store with what was committed.
//!
//! The store is a projection: it may lag, and it may be deleted. Its position is never ahead of
//! what it holds, so at start only the sessions touched since then are folded again.

mod hurry;
mod unapplied;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use journal::Journal;
use store::{Change, RunBegun, Store};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tracing::{error, info, warn};
use wire::{Name, RunId, SessionId};

use crate::error::Error;
use crate::fold::catch_up;
use crate::metrics::Load;
use crate::open_calls::HeldCalls;
use crate::plans::PlanShelf;
use crate::projector::hurry::{Awaited, Hurry};
use crate::projector::unapplied::Unapplied;

/// Commits that wait for the store; a sender waits when they are full, which slows the session.
const JOBS_MAX: usize = 4096;

/// Bytes of a reply that is not held back to gather more, since thousands of them would not fit.
const LARGE_BYTES: usize = 64 * 1024;

/// Hands committed changes to the store's thread.
#[derive(Clone)]
pub(crate) struct Projector {
    jobs: mpsc::Sender<Job>,
    commits: Arc<Commits>,
    journal: Journal,
    hurry: Arc<Hurry>,
    failed: Arc<watch::Sender<bool>>,
    unapplied: Arc<Unapplied>,
}

enum Job {
    /// Changes, and whether the store may have been told them before.
    Apply(Vec<Change>, Ticket, bool),
    Sync(oneshot::Sender<()>, Awaited),
    /// There is room on the disk again.
    CatchUp(Awaited),
}

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

    /// Holds the store's position back for as long as the process lives.
    fn hold_back(&self, position: u64) {
        let mut open = self.lock();
        let number = open.next;
        open.next += 1;
        open.positions.insert(number, position);
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
    hurry: Arc<Hurry>,
    unapplied: Arc<Unapplied>,
    _handing: Handing,
}

impl Commit {
    /// Gives up a commit of which nothing was written.
    pub(crate) fn give_up(self) {
        self.ticket.settle();
    }

    /// Hands over what was decided a moment ago.
    pub(crate) async fn project(self, changes: Vec<Change>) {
        self.tell(changes, false).await;
    }

    /// Hands over what the store may have been told before.
    pub(crate) async fn project_again(self, changes: Vec<Change>) {
        self.tell(changes, true).await;
    }

    async fn tell(self, changes: Vec<Change>, is_again: bool) {
        for begun in changes.iter().filter_map(begun) {
            self.unapplied.begun(begun);
        }
        let is_large = changes.iter().any(is_large);
        self.hurry.add(changes.len());
        // The thread ends only with the node; what it did not apply is folded again at start.
        let sent = self.jobs.send(Job::Apply(changes, self.ticket, is_again)).await;
        if sent.is_err() {
            warn!("the store's thread has ended; its view is rebuilt at the next start");
        }
        if is_large || self.hurry.has_enough(waiting(&self.jobs)) {
            self.hurry.up();
        }
    }
}

fn is_large(change: &Change) -> bool {
    matches!(change, Change::RunEnded { reply, .. } if reply.len() >= LARGE_BYTES)
}

impl Projector {
    /// Starts the store's thread. A store that is behind the journal lacks a session that could not
    /// be folded, and its position stays for the next start to try again.
    pub(crate) fn start(
        team: Name,
        store: Store,
        journal: Journal,
        plans: Arc<PlanShelf>,
    ) -> Result<Self, Error> {
        let (jobs, receiver) = mpsc::channel(JOBS_MAX);
        let commits = Arc::<Commits>::default();
        let position = store.position();
        if position < journal.end() {
            commits.hold_back(position);
        }
        let projector = Self {
            jobs,
            commits,
            journal: journal.clone(),
            hurry: Arc::default(),
            failed: Arc::new(watch::Sender::new(false)),
            unapplied: Arc::default(),
        };
        let feeder = Feeder {
            team,
            store,
            journal,
            plans,
            commits: projector.commits.clone(),
            hurry: projector.hurry.clone(),
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
        let (jobs, hurry) = (self.jobs.clone(), self.hurry.clone());
        Commit { ticket, jobs, hurry, unapplied: self.unapplied.clone(), _handing: handing }
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
        Load { taken: waiting(&self.jobs), limit: JOBS_MAX }
    }

    /// Says that the store was found to be unusable by whoever looked into it.
    pub(crate) fn fail(&self) {
        self.failed.send_replace(true);
    }

    /// Waits until everything that is durable by now can be found in the store.
    pub(crate) async fn sync(&self) {
        // Now somebody waits for those that nobody waited for.
        self.journal.hurry();
        self.commits.all_handed().await;
        let (done, wait) = oneshot::channel();
        if self.jobs.send(Job::Sync(done, self.hurry.awaited())).await.is_ok() {
            wait.await.unwrap_or_default();
        }
    }

    /// Says that there is room on the disk again: the store is brought up to the journal.
    pub(crate) async fn catch_up(&self) {
        // The thread ends only with the node, and at the next start the store is brought up anyway.
        drop(self.jobs.send(Job::CatchUp(self.hurry.awaited())).await);
    }

    /// Returns the session of a run that the store does not know yet.
    pub(crate) fn session_of_unapplied(&self, run: &RunId) -> Option<SessionId> {
        self.unapplied.session_of(run)
    }

    /// Returns the calls that were opened or closed while the store could not be told of it.
    pub(crate) fn held_calls(&self) -> HeldCalls {
        self.unapplied.held_calls()
    }
}

fn waiting(jobs: &mpsc::Sender<Job>) -> usize {
    JOBS_MAX.saturating_sub(jobs.capacity())
}

fn begun(change: &Change) -> Option<&RunBegun> {
    if let Change::RunBegun(begun) = change { Some(begun) } else { None }
}

/// Commits that the store lacks, and the runs that began with them.
#[derive(Default)]
struct Behind {
    tickets: Vec<Ticket>,
    runs: Vec<RunId>,
}

/// Writes to the store, from a thread of its own.
struct Feeder {
    team: Name,
    store: Store,
    journal: Journal,
    plans: Arc<PlanShelf>,
    commits: Arc<Commits>,
    hurry: Arc<Hurry>,
    fault: Arc<watch::Sender<bool>>,
    /// What is not in the store because the disk was full, if it was.
    behind: Option<Behind>,
    unapplied: Arc<Unapplied>,
}

impl Feeder {
    fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(first) = jobs.blocking_recv() {
            if matches!(first, Job::Apply(..)) && !self.hurry.has_enough(jobs.len()) {
                self.hurry.wait();
            }
            let (mut changes, mut tickets) = (Vec::new(), Vec::new());
            let (mut syncs, mut room, mut is_again) = (Vec::new(), false, false);
            let mut next = Some(first);
            while let Some(job) = next {
                match job {
                    Job::Apply(more, ticket, again) => {
                        changes.extend(more);
                        tickets.push(ticket);
                        // What comes together is made together, which is in order.
                        is_again |= again;
                    }
                    Job::Sync(done, awaited) => {
                        drop(awaited);
                        syncs.push(done);
                    }
                    Job::CatchUp(awaited) => {
                        drop(awaited);
                        room = true;
                    }
                }
                let is_enough = hurry::is_enough(tickets.len(), changes.len());
                next = if is_enough { None } else { jobs.try_recv().ok() };
            }
            self.hurry.take(changes.len());
            self.apply(&changes, is_again, tickets);
            if room {
                self.catch_up();
            }
            for done in syncs {
                done.send(()).unwrap_or_default();
            }
        }
    }

    fn apply(&mut self, changes: &[Change], is_again: bool, tickets: Vec<Ticket>) {
        // A store that meets a full disk writes nothing more until it is opened again, and what is
        // left of the reserve is the journal's.
        if self.behind.is_some() || self.journal.is_full() {
            self.hold(changes, tickets);
            return;
        }
        let applied =
            if is_again { self.store.apply(changes, None) } else { self.store.apply_new(changes) };
        match applied {
            Ok(()) => {
                tickets.into_iter().for_each(Ticket::settle);
                self.unapplied.forget(changes.iter().filter_map(begun).map(|begun| &begun.run));
                self.unapplied.told(changes);
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
        let behind = self.behind.get_or_insert_default();
        behind.tickets.extend(tickets);
        behind.runs.extend(changes.iter().filter_map(begun).map(|begun| begun.run.clone()));
        self.unapplied.hold(changes);
    }

    /// Opens the store again, and folds what it lacks.
    fn catch_up(&mut self) {
        let Some(held) = self.behind.take() else { return };
        let done = self
            .store
            .reopen()
            .map_err(Error::from)
            .and_then(|()| catch_up(&self.team, &self.journal, &self.store, &self.plans));
        match done {
            Ok(unread) => {
                if unread.iter().any(|(_, failed)| failed.may_pass()) {
                    self.commits.hold_back(self.store.position());
                }
                self.unapplied.forget(held.runs.iter());
                let unread: Vec<SessionId> =
                    unread.into_iter().map(|(session, _)| session).collect();
                self.unapplied.forget_calls(&unread);
                held.tickets.into_iter().for_each(Ticket::settle);
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

#[cfg(test)]
mod tests {
    use journal::Options;
    use wire::Timestamp;
    use wire::entry::{Body, Entry, Fact, MemoryChange, memory_session};

    use super::*;
    use crate::changes::changes_of;

    #[tokio::test]
    async fn a_commit_that_nobody_followed_up_is_folded_at_the_next_start() {
        let data = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(data.path(), Options::default()).unwrap();
        let (store, _) = Store::open(&data.path().join("store")).unwrap();
        let (team, plans) =
            (Name::new("t").unwrap(), Arc::new(PlanShelf::open(journal.clone(), []).unwrap()));
        let projector =
            Projector::start(team, store.clone(), journal.clone(), plans.clone()).unwrap();
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
        commit.project(changes_of(&session, &entry, 1, &mut Vec::new(), &plans)).await;
        projector.sync().await;
        assert_eq!(store.facts(10).unwrap().len(), 1);

        catch_up(&Name::new("t").unwrap(), &journal, &store, &plans).unwrap();
        assert_eq!(store.facts(10).unwrap().len(), 2);
    }

    #[tokio::test]
    async fn what_is_open_is_known_while_the_disk_is_full() {
        let data = tempfile::tempdir().unwrap();
        // No disk has room for this reserve.
        let options = Options { reserve_bytes: u64::MAX, ..Options::default() };
        let (journal, _) = Journal::open(data.path(), options).unwrap();
        let (store, _) = Store::open(&data.path().join("store")).unwrap();
        let (team, plans) =
            (Name::new("t").unwrap(), PlanShelf::open(journal.clone(), []).unwrap());
        let projector = Projector::start(team, store.clone(), journal, Arc::new(plans)).unwrap();
        let open = |call: &str| -> wire::OpenCall {
            let open = serde_json::json!({
                "call": call, "kind": "approval", "run": "r", "session": "s", "agent": "a",
                "tool": "pay", "arguments": {}, "digest": "ab".repeat(32), "attempt": 0,
                "question": "?", "waits": true, "since": 1,
            });
            serde_json::from_value(open).unwrap()
        };
        let (a, b) = (open("a"), open("b"));
        let changes = vec![
            Change::CallOpened(Box::new(a.clone())),
            Change::CallOpened(Box::new(b.clone())),
            Change::CallClosed(b.call.clone()),
        ];
        projector.begin().project(changes).await;
        projector.sync().await;
        assert_eq!(store.open_call(&a.call).unwrap(), None, "the store is told nothing");
        let held = HeldCalls::from([(a.call.clone(), Some(a)), (b.call, None)]);
        assert_eq!(projector.held_calls(), held);

        projector.catch_up().await;
        projector.sync().await;
        assert_eq!(projector.held_calls(), HeldCalls::new(), "the store has what the journal has");
    }

    #[tokio::test]
    async fn a_run_is_known_before_the_store_knows_it() {
        let data = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(data.path(), Options::default()).unwrap();
        let (store, _) = Store::open(&data.path().join("store")).unwrap();
        let (team, plans) =
            (Name::new("t").unwrap(), PlanShelf::open(journal.clone(), []).unwrap());
        let projector = Projector::start(team.clone(), store.clone(), journal, Arc::new(plans));
        let projector = projector.unwrap();
        let (run, session) = (RunId::new("r").unwrap(), SessionId::new("s").unwrap());
        let begun = RunBegun {
            run: run.clone(),
            session: session.clone(),
            agent: Name::new("a").unwrap(),
            body: wire::Digest::of(b""),
            at: Timestamp::from_micros(1),
            input: String::new(),
            traced: None,
            slot: None,
            trace: wire::TraceContext::root(&team, &run),
            parent: None,
            joined: None,
        };
        // Whichever of the two is asked first, one of them knows.
        projector.begin().project(vec![Change::RunBegun(begun.into())]).await;
        let unapplied = projector.session_of_unapplied(&run);
        let stored = store.run(&run).unwrap().map(|row| row.begun.session);
        assert_eq!(unapplied.or(stored), Some(session.clone()));
        projector.sync().await;
        assert_eq!(projector.session_of_unapplied(&run), None);
        assert_eq!(store.run(&run).unwrap().unwrap().begun.session, session);
    }
}
