//! Feeds the store with what was committed, and brings it up to the journal at start.
//!
//! The store is a projection: it may lag, and it may be deleted. Its position is never ahead of
//! what it holds, so at start only the sessions touched since then are folded again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use agents_core::effect::Effect;
use agents_core::session::{FoldError, Plans, SessionMachine};
use journal::Journal;
use store::{Change, INPUT_PREVIEW_CHARS_MAX, RunBegun, Store};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, warn};
use wire::entry::{Body, Entry, Input, MemoryChange, memory_session};
use wire::event::EventKind;
use wire::plan::Target;
use wire::{Event, Name, SessionId};

use crate::error::Error;

/// Commits that wait for the store; a sender waits when they are full, which slows the session.
const JOBS_MAX: usize = 8192;

/// Jobs that are applied to the store at once.
const JOBS_AT_ONCE_MAX: usize = 256;

/// Hands committed changes to the store's thread.
#[derive(Clone)]
pub(crate) struct Projector {
    jobs: mpsc::Sender<Job>,
    commits: Arc<Commits>,
    journal: Journal,
    failed: Arc<watch::Sender<bool>>,
}

enum Job {
    Apply(Vec<Change>, Ticket),
    Sync(oneshot::Sender<()>),
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
    open: Mutex<(u64, BTreeMap<u64, u64>)>,
}

impl Commits {
    fn begin(self: &Arc<Self>, journal: &Journal) -> Ticket {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let number = open.0;
        open.0 += 1;
        // Read under the lock, so that no later commit can be taken as applied before this one.
        open.1.insert(number, journal.end());
        Ticket { number, commits: self.clone() }
    }

    /// Returns the position below which every commit is in the store.
    fn settled(&self, journal: &Journal) -> u64 {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.1.values().min().copied().unwrap_or_else(|| journal.end())
    }
}

impl Ticket {
    /// Says that the commit is in the store, or that nothing of it was written.
    fn settle(self) {
        let mut open = self.commits.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.1.remove(&self.number);
    }
}

/// A commit under way; give it its changes once it is durable.
pub(crate) struct Commit {
    ticket: Ticket,
    jobs: mpsc::Sender<Job>,
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
    pub(crate) fn start(store: Store, journal: Journal) -> Result<Self, Error> {
        let (jobs, receiver) = mpsc::channel(JOBS_MAX);
        let commits = Arc::new(Commits::default());
        let failed = Arc::new(watch::Sender::new(false));
        let fault = failed.clone();
        let projector = Self { jobs, commits: commits.clone(), journal: journal.clone(), failed };
        thread::Builder::new()
            .name("callboard-store".to_owned())
            .spawn(move || project(&store, &journal, &commits, receiver, &fault))
            .map_err(Error::Thread)?;
        Ok(projector)
    }

    /// Announces a commit before it is appended.
    pub(crate) fn begin(&self) -> Commit {
        Commit { ticket: self.commits.begin(&self.journal), jobs: self.jobs.clone() }
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

    /// Says that the store was found to be unusable by whoever looked into it.
    pub(crate) fn fail(&self) {
        self.failed.send_replace(true);
    }

    /// Waits until everything handed over so far can be found in the store.
    pub(crate) async fn sync(&self) {
        let (done, wait) = oneshot::channel();
        if self.jobs.send(Job::Sync(done)).await.is_ok() {
            wait.await.unwrap_or_default();
        }
    }
}

fn project(
    store: &Store,
    journal: &Journal,
    commits: &Commits,
    mut jobs: mpsc::Receiver<Job>,
    fault: &watch::Sender<bool>,
) {
    while let Some(first) = jobs.blocking_recv() {
        let mut changes = Vec::new();
        let mut tickets = Vec::new();
        let mut syncs = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next {
            match job {
                Job::Apply(more, ticket) => {
                    changes.extend(more);
                    tickets.push(ticket);
                }
                Job::Sync(done) => syncs.push(done),
            }
            next = if tickets.len() < JOBS_AT_ONCE_MAX { jobs.try_recv().ok() } else { None };
        }
        if let Err(failed) = store.apply(&changes, None) {
            error!(error = %failed, "the store cannot be written; its view is rebuilt at the next start");
            fault.send_replace(true);
            drop(tickets);
        } else {
            tickets.into_iter().for_each(Ticket::settle);
            let settled = commits.settled(journal);
            if let Err(failed) = store.apply(&[], Some(settled)) {
                error!(error = %failed, "the store's position cannot be written");
            }
        }
        for done in syncs {
            done.send(()).unwrap_or_default();
        }
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
            }));
        }
        Body::Session(Input::CancelDelivered { call }) => {
            changes.push(Change::CancelDelivered { call: call.clone() });
        }
        Body::Session(_) => {}
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
            Effect::Span(span) => changes.push(Change::Span(span.as_ref().clone())),
            Effect::Tell(Event { agent, kind: EventKind::RunEnded { .. }, .. }) => {
                changes.push(seen(agent));
            }
            Effect::Abort { calls, .. } => {
                let agents = calls.iter().filter(|aborted| aborted.target == Target::Agent);
                changes.extend(agents.map(|aborted| Change::CancelOwed {
                    call: aborted.call.clone(),
                    session: session.clone(),
                }));
            }
            Effect::AskModel { .. }
            | Effect::Call(_)
            | Effect::SetTimer { .. }
            | Effect::Tell(_) => {}
        }
    }
    changes
}

/// What a session's journal holds.
pub(crate) struct Folded {
    pub(crate) machine: SessionMachine,
    pub(crate) changes: Vec<Change>,
}

/// Reads and folds one session. Blocks on the disk.
pub(crate) fn fold_session(
    team: &Name,
    session: &SessionId,
    journal: &Journal,
    plans: &dyn Plans,
) -> Result<Folded, Error> {
    let entries = read_entries(journal, session)?;
    let mut changes = Vec::new();
    let machine = SessionMachine::fold(
        team.clone(),
        session.clone(),
        &entries,
        plans,
        |entry, slot, effects| changes.extend(changes_of(session, entry, slot, &effects)),
    )
    .map_err(|source| Error::Fold { session: session.clone(), source })?;
    Ok(Folded { machine, changes })
}

/// Reads the entries of a session. Blocks on the disk.
pub(crate) fn read_entries(journal: &Journal, session: &SessionId) -> Result<Vec<Entry>, Error> {
    let entries = journal.read(session)?;
    (0u64..)
        .zip(entries)
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
        .collect()
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
    for session in journal.touched_since(store.position()) {
        let changes = if session == memory_session() {
            read_entries(journal, &session).map(|entries| {
                (0..)
                    .zip(&entries)
                    .flat_map(|(slot, entry)| changes_of(&session, entry, slot, &[]))
                    .collect()
            })
        } else {
            fold_session(team, &session, journal, plans).map(|folded| folded.changes)
        };
        match changes {
            Ok(changes) => store.apply(&changes, None)?,
            Err(failed) => {
                warn!(%session, error = %failed, "session set aside: its journal cannot be read");
                damaged.push((session, failed));
            }
        }
    }
    store.apply(&[], Some(end))?;
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
        let projector = Projector::start(store.clone(), journal.clone()).unwrap();
        let session = memory_session();
        let change = |id: &str| {
            let fact = Fact {
                id: wire::CallKey::new(id).unwrap(),
                text: "a fact".to_owned(),
                at: Timestamp::from_micros(1),
                agent: Name::new("a").unwrap(),
                session: SessionId::new("s").unwrap(),
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

        let plans = std::collections::HashMap::new();
        catch_up(&Name::new("t").unwrap(), &journal, &store, &plans).unwrap();
        assert_eq!(store.facts(10).unwrap().len(), 2);
    }
}
