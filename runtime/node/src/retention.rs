//! Decides what need not be kept any longer, so that the disk follows what is.
//!
//! A session whose runs have all ended long enough ago goes on with a snapshot, and what stands
//! before it is no longer held; one that nobody goes on with is forgotten.

pub(crate) mod at_rest;
pub(crate) mod pass;
mod retire;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agents_core::session::SessionMachine;
use config::team::Retention;
use journal::{Journal, Since, Swept};
use serde::Serialize;
use store::{Change, Store};
use tokio::task::spawn_blocking;
use tools::results::Results;
use tracing::warn;
use wire::entry::{Body, Entry, Fact, Input, MemoryChange, memory_session};
use wire::{Digest, Name, Plan, RunId, SessionId, Snapshot, Timestamp};

use crate::context::TeamContext;
use crate::error::Error;
use crate::fold::read_entries;
use crate::plans::PlanShelf;

/// Commits after which a session that is in use gets a snapshot, so that it is quickly rebuilt and
/// its older runs can be dropped one day. They also come to more bytes than the snapshot before, so
/// that all snapshots of a session take no more than what else it wrote.
pub(crate) const SNAPSHOT_COMMITS: usize = 256;

/// Commits after which it gets one in any case: what is compared leaves blobs out on one side, and a
/// session of large answers would wait for its next snapshot until nobody could rebuild it quickly.
const COMMITS_MAX: usize = 16 * SNAPSHOT_COMMITS;

/// The largest snapshot, in bytes, well below what the journal takes as one entry. A session whose
/// conversation is larger keeps its past.
const SNAPSHOT_BYTES_MAX: usize = 48 << 20;

/// Sessions that are noted as too large. Together they hold some 50 GB, so few teams have as many;
/// of more it is said at each look.
const TOO_LARGE_MAX: usize = 1024;

/// Entries beyond twice the facts after which the memory is restated, if nothing was forgotten.
const MEMORY_ENTRIES_SPARE: usize = 256;

// What a team file may say is what the store can do.
const _: () = assert!(
    config::bound::RETENTION_TRACE_BYTES.min == store::TRACE_BYTES_MIN
        && config::bound::RETENTION_TRACE_BYTES.default == store::TRACE_BYTES_DEFAULT
);

/// What a pass came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compacted {
    /// Sessions whose past was dropped.
    pub sessions_shortened: u64,
    /// Sessions that were forgotten.
    pub sessions_forgotten: u64,
    /// Runs and spans that went from the store.
    pub records_dropped: u64,
    /// Bytes of the journal before.
    pub bytes_before: u64,
    /// Bytes of the journal after.
    pub bytes_after: u64,
    /// Bytes of it that are held.
    pub live_bytes: u64,
    /// What became of the blobs; nothing if they were not looked through.
    pub blobs: Swept,
}

impl Compacted {
    /// Tells whether nothing was dropped.
    pub(crate) fn is_nothing(&self) -> bool {
        let Self { sessions_shortened, sessions_forgotten, records_dropped, blobs, .. } = self;
        sessions_shortened + sessions_forgotten + records_dropped + blobs.removed == 0
            && self.bytes_after >= self.bytes_before
    }
}

/// The times up to which things are dropped; what is absent is kept for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cutoffs {
    /// The moment that they are seen from.
    pub(crate) now: Timestamp,
    pub(crate) runs: Option<Timestamp>,
    pub(crate) sessions: Option<Timestamp>,
    pub(crate) traces: Option<Timestamp>,
}

/// What is to be done about a session.
pub(crate) enum Due {
    Nothing,
    /// It would be shortened, and its snapshot has more bytes than one entry may have.
    TooLarge {
        bytes: usize,
    },
    Shorten(Box<Snapshot>),
    Forget,
}

impl Cutoffs {
    /// Returns the cutoffs of some moment. Blocks on the store.
    pub(crate) fn at(now: Timestamp, kept: &Retention, store: &Store) -> Result<Self, Error> {
        let before = |ms| now.minus_ms(ms);
        let by_age = kept.runs_ms.map(before);
        let by_count = match kept.runs_max {
            // What ended before the oldest of them began is not one of them.
            Some(runs_max) => store
                .newest_since(runs_max)?
                .map(|begun| Timestamp::from_micros(begun.as_micros().saturating_sub(1))),
            None => None,
        };
        let sessions = kept.sessions_ms.map(before);
        let runs = by_age.max(by_count);
        // A trace is made of its runs, so it goes with them.
        Ok(Self { now, runs, sessions, traces: runs.max(kept.traces_ms.map(before)) })
    }

    /// Decides about a session. `is_asked` says whether a run in work may still ask for it.
    pub(crate) fn decide(&self, machine: &SessionMachine, is_asked: bool) -> Due {
        let Some(snapshot) = machine.snapshot(self.runs.unwrap_or_default()) else {
            return Due::Nothing;
        };
        // As long as nobody has said what came of a call, somebody still may, and looks at what was
        // around it.
        if !snapshot.unresolved.is_empty() {
            return Due::Nothing;
        }
        let is_past = |cutoff: Option<Timestamp>| Some(snapshot.seen) <= cutoff;
        if snapshot.is_called {
            let forget = is_past(self.runs) && !is_asked;
            return if forget { Due::Forget } else { Due::Nothing };
        }
        // A session goes only with the last of its runs.
        if is_past(self.sessions) && is_past(self.runs) {
            return Due::Forget;
        }
        shortened(snapshot, SNAPSHOT_BYTES_MAX)
    }
}

/// Returns what is due about a session that has a snapshot, which goes into one entry.
fn shortened(snapshot: Snapshot, most: usize) -> Due {
    let bytes = wire::json::measure(&snapshot).unwrap_or(usize::MAX);
    if bytes > most { Due::TooLarge { bytes } } else { Due::Shorten(Box::new(snapshot)) }
}

/// Says in the log that a session keeps its past.
pub(crate) fn warn_too_large(session: &SessionId, bytes: usize) {
    let most = SNAPSHOT_BYTES_MAX;
    warn!(%session, bytes, most, "a session is too large to be shortened");
}

/// The sessions of which the log has that they are too large to be shortened, so that it is not
/// said again at each look.
#[derive(Debug, Default)]
pub(crate) struct TooLarge(Mutex<HashSet<SessionId>>);

impl TooLarge {
    /// Notes a session, if there is room for it; tells whether it was not noted.
    pub(crate) fn note(&self, session: &SessionId) -> bool {
        let mut noted = self.noted();
        if noted.contains(session) {
            return false;
        }
        if noted.len() < TOO_LARGE_MAX {
            noted.insert(session.clone());
        }
        true
    }

    /// Lets go of a session that is short again or gone.
    pub(crate) fn forget(&self, session: &SessionId) {
        self.noted().remove(session);
    }

    fn noted(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The data of a team, for whoever looks what can be dropped. All of it blocks.
#[derive(Clone)]
pub(crate) struct Keeper {
    pub(crate) team: Name,
    pub(crate) journal: Journal,
    pub(crate) store: Store,
    pub(crate) plans: Arc<PlanShelf>,
    pub(crate) results: Results,
}

impl Keeper {
    /// Returns the data of a team that is open.
    pub(crate) fn of(context: &TeamContext) -> Self {
        Self {
            team: context.team.name.clone(),
            journal: context.journal.clone(),
            store: context.store.clone(),
            plans: context.plans.clone(),
            results: context.results.clone(),
        }
    }

    /// Returns the sessions about which something may have to be done.
    pub(crate) fn candidates(&self, cutoffs: &Cutoffs) -> Result<Candidates, Error> {
        let mut found = Candidates::default();
        let mut known = HashSet::new();
        let to_forget = self.store.quiet_since(cutoffs.sessions.unwrap_or_default())?;
        let to_forget: HashSet<SessionId> = to_forget.into_iter().collect();
        for session in self.store.quiet_since(cutoffs.runs.unwrap_or_default())? {
            if !self.journal.knows(&session) {
                found.stale.push(session);
            } else if to_forget.contains(&session) || !self.is_short(&session) {
                known.insert(session.clone());
                found.due.push(session);
            }
        }
        let long: HashSet<SessionId> =
            self.journal.longer_than(COMMITS_MAX).into_iter().map(|(session, _)| session).collect();
        for (session, bytes) in self.journal.longer_than(SNAPSHOT_COMMITS) {
            // One that cannot be read at present is followed by another.
            let outgrown = || self.journal.begin_bytes(&session).is_none_or(|last| bytes > last);
            let is_due = || long.contains(&session) || outgrown();
            if session != memory_session() && !known.contains(&session) && is_due() {
                found.due.push(session);
            }
        }
        Ok(found)
    }

    /// Tells whether nothing is held of a session but a snapshot.
    fn is_short(&self, session: &SessionId) -> bool {
        let newest = self.journal.begins(session).pop();
        newest.is_some_and(|newest| {
            newest == self.journal.first_slot(session)
                && newest + 1 == self.journal.next_slot(session)
        })
    }

    /// Does something with the data where it may block.
    pub(crate) async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let keeper = self.clone();
        spawn_blocking(move || work(&keeper)).await.map_err(|_| Error::Ending)?
    }

    /// Tells whether a run that has not ended asked for the run of a called session.
    pub(crate) fn is_asked(&self, session: &SessionId) -> Result<bool, Error> {
        let Ok(run) = RunId::new(session.as_str()) else { return Ok(false) };
        let parent = self.store.run(&run)?.and_then(|row| row.begun.parent);
        let Some(parent) = parent else { return Ok(false) };
        Ok(self.store.run(&parent.run)?.is_some_and(|row| row.ended.is_none()))
    }

    /// Returns what is remembered as one entry, if that is much less than what the journal has, or
    /// anything was forgotten up to some moment.
    pub(crate) fn restatement(&self, forgotten_until: Timestamp) -> Result<Option<Entry>, Error> {
        if self.is_short(&memory_session()) {
            return Ok(None);
        }
        let held = read_entries(&self.journal, &memory_session(), Since::Newest)?;
        let facts = remembered(&held.entries);
        let at = held.entries.last().map(|entry| entry.at);
        let is_due = held.entries.len() > 2 * facts.len() + MEMORY_ENTRIES_SPARE
            || held.entries.iter().any(|entry| entry.at <= forgotten_until && forgets(entry));
        Ok(at.filter(|_| is_due).and_then(|at| restated(at, facts, SNAPSHOT_BYTES_MAX)))
    }

    /// Drops from the store what ended up to the cutoff, some of it at once; returns how much.
    pub(crate) fn drop_records(&self, cutoffs: &Cutoffs) -> Result<u64, Error> {
        let runs = cutoffs.runs.map_or(Ok(0), |cutoff| self.store.drop_runs_until(cutoff))?;
        let traces = cutoffs.traces.map_or(Ok(0), |cutoff| self.store.drop_traces_until(cutoff))?;
        self.store.drop_old_usage(cutoffs.now)?;
        Ok(runs + traces)
    }

    /// Removes the blobs that no entry needs.
    pub(crate) fn sweep(&self) -> Result<Swept, Error> {
        Ok(self.plans.sweep(|kept| self.journal.sweep_blobs(kept, &mut plans_of, &is_plan))?)
    }
}

/// The sessions about which something may have to be done.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    pub(crate) due: Vec<SessionId>,
    /// Those that the store has and the journal has not.
    pub(crate) stale: Vec<SessionId>,
}

/// Says facts anew, unless that takes more bytes than one entry may have.
fn restated(at: Timestamp, facts: Vec<Fact>, most: usize) -> Option<Entry> {
    let entry = Entry::new(at, Body::Memory(MemoryChange::Restated { facts }));
    match wire::json::measure(&entry) {
        Ok(bytes) if bytes > most => {
            warn!(bytes, most, "the memory is too large to be said anew in one entry");
            None
        }
        // One that cannot be written fails where it is.
        Ok(_) | Err(_) => Some(entry),
    }
}

/// Tells whether an entry takes back what others say.
fn forgets(entry: &Entry) -> bool {
    matches!(&entry.body, Body::Memory(MemoryChange::Forgotten { facts, .. }) if !facts.is_empty())
}

/// Returns the facts that are left of the entries of a memory, in the order in which they came.
fn remembered(entries: &[Entry]) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    let mut gone: HashSet<_> = HashSet::new();
    // From the end, so that each fact is met with what became of it already known.
    for entry in entries.iter().rev() {
        match &entry.body {
            Body::Memory(MemoryChange::Remembered(fact)) => {
                if gone.insert(fact.id.clone()) {
                    facts.push(fact.clone());
                }
            }
            Body::Memory(MemoryChange::Forgotten { facts, .. }) => {
                gone.extend(facts.iter().cloned());
            }
            Body::Memory(MemoryChange::Restated { facts: all }) => {
                facts.extend(all.iter().rev().filter(|fact| !gone.contains(&fact.id)).cloned());
                break;
            }
            Body::Session(_) => {}
        }
    }
    facts.reverse();
    facts
}

/// Adds the plan that an entry names.
pub(crate) fn plans_of(entry: &[u8], found: &mut HashSet<Digest>) {
    const WORD: &[u8] = b"\"submitted\"";
    if !entry.windows(WORD.len()).any(|window| window == WORD) {
        return;
    }
    if let Ok(Entry { body: Body::Session(Input::Submitted(submitted)), .. }) =
        serde_json::from_slice(entry)
    {
        found.insert(submitted.plan);
    }
}

/// Tells whether the bytes of a blob are a plan.
fn is_plan(blob: &[u8]) -> bool {
    serde_json::from_slice::<Plan>(blob).is_ok()
}

/// Returns the changes by which a session goes from the store.
pub(crate) fn forgotten(session: &SessionId) -> Vec<Change> {
    vec![Change::SessionForgotten(session.clone())]
}

#[cfg(test)]
mod tests {
    use wire::CallKey;

    use super::*;
    use crate::testing;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_session_gets_a_snapshot_once_it_wrote_more_than_the_last_one_takes() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let keeper = Keeper::of(&context);
        let (fresh, long) = (SessionId::new("fresh").unwrap(), SessionId::new("long").unwrap());
        let due = || keeper.candidates(&Cutoffs::default()).unwrap().due;
        let fill = async |session: &SessionId, slot: u64, bytes: usize| {
            context.journal.append(session, slot, vec![vec![b'x'; bytes].into()]).await.unwrap();
        };
        // A snapshot of four times the bytes that a segment takes of one entry.
        context.journal.append_begin(&long, 0, vec![b'x'; 64 << 10].into()).await.unwrap();
        let commits = SNAPSHOT_COMMITS as u64;
        for slot in 0..commits {
            fill(&fresh, slot, 1).await;
            fill(&long, slot + 1, 1).await;
        }
        assert_eq!(due(), []);
        fill(&fresh, commits, 1).await;
        fill(&long, commits + 1, 1).await;
        assert_eq!(
            due(),
            std::slice::from_ref(&fresh),
            "the other one has not grown by a snapshot"
        );
        for slot in 0..4 {
            fill(&long, commits + 2 + slot, 16 << 10).await;
        }
        assert_eq!(due(), [fresh, long]);
    }

    #[test]
    fn a_session_is_shortened_only_to_an_entry_of_its_size() {
        let snapshot = || Snapshot {
            agent: Name::new("a").unwrap(),
            is_called: false,
            cutoff: Timestamp::default(),
            begun: Timestamp::from_micros(1),
            seen: Timestamp::from_micros(2),
            exchanges: Vec::new(),
            exchanges_total: 0,
            runs: Vec::new(),
            unresolved: Vec::new(),
        };
        let whole = serde_json::to_vec(&snapshot()).unwrap().len();
        for (most, is_short) in [(whole, true), (whole - 1, false)] {
            match shortened(snapshot(), most) {
                Due::Shorten(_) => assert!(is_short, "{most} of {whole}"),
                Due::TooLarge { bytes } => {
                    assert!(!is_short && bytes == whole, "{most}: {bytes} of {whole}");
                }
                Due::Nothing | Due::Forget => panic!("{most}"),
            }
        }
    }

    #[test]
    fn a_session_is_noted_as_too_large_once_until_it_is_let_go_of() {
        let said = TooLarge::default();
        let session = |number: usize| SessionId::new(&format!("s{number}")).unwrap();
        for number in 0..TOO_LARGE_MAX {
            assert!(said.note(&session(number)), "{number}");
        }
        // The first one is noted, and there is no room for another one.
        let another = session(TOO_LARGE_MAX);
        let steps =
            [(&session(0), false), (&another, true), (&another, true), (&session(0), false)];
        for (session, is_news) in steps {
            assert_eq!(said.note(session), is_news, "{session}");
        }
        said.forget(&session(0));
        for (session, is_news) in [(&another, true), (&another, false), (&session(0), true)] {
            assert_eq!(said.note(session), is_news, "{session}");
        }
    }

    fn fact(id: &str) -> Fact {
        Fact {
            id: CallKey::new(id).unwrap(),
            text: format!("text of {id}"),
            at: Timestamp::from_micros(1),
            agent: Name::new("a").unwrap(),
            session: SessionId::new("s").unwrap(),
            tainted: false,
        }
    }

    #[test]
    fn a_memory_is_said_anew_only_in_an_entry_of_its_size() {
        let (at, facts) = (Timestamp::from_micros(1), vec![fact("a"), fact("b")]);
        let whole = restated(at, facts.clone(), usize::MAX).unwrap();
        let bytes = serde_json::to_vec(&whole).unwrap().len();
        for (most, is_said) in [(bytes, true), (bytes - 1, false)] {
            assert_eq!(restated(at, facts.clone(), most).is_some(), is_said, "{most} of {bytes}");
        }
    }

    #[test]
    fn what_is_remembered_is_what_was_not_forgotten_since() {
        let remembered_one = |id: &str| MemoryChange::Remembered(fact(id));
        let forgotten = |ids: &[&str]| MemoryChange::Forgotten {
            facts: ids.iter().map(|id| CallKey::new(id).unwrap()).collect(),
            by: CallKey::new("by").unwrap(),
        };
        let restated = |ids: &[&str]| MemoryChange::Restated {
            facts: ids.iter().map(|id| fact(id)).collect(),
        };
        let cases: [(Vec<MemoryChange>, &[&str]); 6] = [
            (vec![], &[]),
            (vec![remembered_one("a"), remembered_one("b")], &["a", "b"]),
            (vec![remembered_one("a"), remembered_one("b"), forgotten(&["a"])], &["b"]),
            (vec![remembered_one("a"), forgotten(&["a"]), remembered_one("a")], &["a"]),
            (
                vec![remembered_one("x"), restated(&["a", "b"]), remembered_one("c")],
                &["a", "b", "c"],
            ),
            (vec![restated(&["a", "b", "c"]), forgotten(&["b", "z"])], &["a", "c"]),
        ];
        for (changes, expected) in cases {
            let at = Timestamp::from_micros(2);
            let entries: Vec<Entry> =
                changes.into_iter().map(|change| Entry::new(at, Body::Memory(change))).collect();
            let left: Vec<String> =
                remembered(&entries).iter().map(|fact| fact.id.to_string()).collect();
            assert_eq!(left, expected, "{entries:?}");
        }
    }
}
