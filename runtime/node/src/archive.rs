//! The data of one team, opened: by a node that works on it, or for look-ups while none does.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use agents_core::session::{SessionMachine, events_after};
use config::team::Retention;
use journal::{DataLock, Holder, Journal, Options, Since};
use store::{Opened, Store};
use tools::results::{RESULTS_BYTES_MAX, Results};
use tracing::warn;
use wire::event::EventId;
use wire::{Event, Name, Plan, RunId, SessionId, Timestamp, TraceSink};

use crate::error::Error;
use crate::fold::{catch_up, read_entries};
use crate::opening::team_dir;
use crate::plans::PlanShelf;
use crate::retention::at_rest::AtRest;
use crate::retention::pass::pass;
use crate::retention::plans_of;
use crate::retention::{Compacted, Keeper};
use crate::retold::Retold;

/// The folder of the store below a team's directory; a damaged store is moved aside as a whole,
/// so nothing else may stand in it.
const STORE_DIR: &str = "store";

/// The folder of long results of calls below a team's directory; losing it loses what of them was
/// not shown.
const RESULTS_DIR: &str = "results";

/// Holds the data of a team, with the store brought up to the journal.
pub struct Archive {
    pub(crate) journal: Journal,
    pub(crate) store: Store,
    pub(crate) plans: Arc<PlanShelf>,
    /// The sessions that cannot be read.
    pub(crate) damaged: Vec<SessionId>,
    /// Those of which a file cannot be read at present.
    pub(crate) unread: Vec<SessionId>,
    pub(crate) results: Results,
    team: Name,
    /// Fields are dropped in the order in which they stand: whoever waits for the lock must find
    /// the files closed.
    pub(crate) lock: DataLock,
}

/// Returns the directory of a team's store; while nobody holds the team it may be deleted.
pub fn store_dir(data: &Path, team: &Name) -> PathBuf {
    team_dir(data, team).join(STORE_DIR)
}

impl Archive {
    /// Opens the data of a team that nobody else holds. Blocks on the disk, and while somebody
    /// takes a look at the data.
    pub fn open(data: &Path, team: &Name, holder: &Holder) -> Result<Self, Error> {
        Self::open_with(data, team, holder, Options::default(), None, [])
    }

    /// Opens the data and makes the plans of its agents durable.
    pub(crate) fn open_with<'p>(
        data: &Path,
        team: &Name,
        holder: &Holder,
        limits: Options,
        trace_bytes_max: Option<u64>,
        plans: impl IntoIterator<Item = &'p Plan>,
    ) -> Result<Self, Error> {
        let dir = team_dir(data, team);
        let lock = DataLock::acquire(&dir, holder)?;
        let (journal, report) = Journal::open(&dir, limits)?;
        for damage in &report.damage {
            warn!(
                segment = %damage.segment, offset = damage.offset, sessions = ?damage.sessions,
                "the journal is damaged: {}; these sessions are set aside", damage.what
            );
        }
        // Either waits for the disk, and needs nothing of the other.
        let (plans, store) = thread::scope(|threads| {
            let opening = || open_store(data, team, trace_bytes_max, journal.end());
            let thread = thread::Builder::new().name("opening".to_owned());
            let store = thread.spawn_scoped(threads, opening).map_err(Error::Thread)?;
            let plans = PlanShelf::open(journal.clone(), plans);
            let store = store.join().unwrap_or_else(|panicked| resume_unwind(panicked));
            Ok::<_, Error>((Arc::new(plans?), store?))
        })?;
        let (store, damaged) = match catch_up(team, &journal, &store, &plans) {
            Ok(damaged) => (store, damaged),
            // In a large store damage shows only here; opened again, it is replaced.
            Err(Error::Store(store::Error::Damaged { .. })) => {
                drop(store);
                let store = open_store(data, team, trace_bytes_max, journal.end())?;
                let damaged = catch_up(team, &journal, &store, &plans)?;
                (store, damaged)
            }
            Err(error) => return Err(error),
        };
        store.set_spans(Arc::new(Retold {
            team: team.clone(),
            journal: journal.clone(),
            plans: plans.clone(),
        }));
        let (unread, damaged): (Vec<_>, Vec<_>) =
            damaged.into_iter().partition(|(_, error)| error.is_unreadable());
        let ids = |found: Vec<(SessionId, Error)>| found.into_iter().map(|(id, _)| id).collect();
        let (unread, damaged) = (ids(unread), ids(damaged));
        let results = Results::open(dir.join(RESULTS_DIR), RESULTS_BYTES_MAX);
        Ok(Self { journal, store, plans, damaged, unread, results, team: team.clone(), lock })
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the sessions that are set aside because their journal cannot be read.
    pub fn damaged(&self) -> &[SessionId] {
        &self.damaged
    }

    /// Drops what need not be kept any longer, all at once.
    pub async fn compact(&self, kept: &Retention, now: Timestamp) -> Result<Compacted, Error> {
        let keeper = Keeper {
            team: self.team.clone(),
            journal: self.journal.clone(),
            store: self.store.clone(),
            plans: self.plans.clone(),
            results: self.results.clone(),
        };
        let hand = AtRest { keeper: keeper.clone(), now };
        pass(&keeper, &hand, kept, now, true).await
    }

    /// Returns what observers of a session were told. Blocks on the disk.
    pub fn events(&self, session: &SessionId) -> Result<Vec<Event>, Error> {
        events(&self.team, session, &self.journal, &self.plans, Since::Oldest, None)
    }

    /// Hands over what observers of a session were told, one by one. Blocks on the disk.
    pub fn each_event(&self, session: &SessionId, take: impl FnMut(Event)) -> Result<(), Error> {
        each_event(&self.team, session, &self.journal, &self.plans, Since::Oldest, take)
    }
}

/// Scans the journal of a team, with the plans and all else that its entries need, and changes nothing
/// there. Blocks on the disk; somebody may be at work on it.
///
/// # Errors
///
/// Those of reading the files; damage is in the report.
pub fn verify(data: &Path, team: &Name) -> Result<journal::Report, Error> {
    Ok(journal::verify(&team_dir(data, team), &mut plans_of)?)
}

/// Opens the store, or an empty one in its place where it cannot be a projection of the journal.
fn open_store(
    data: &Path,
    team: &Name,
    trace_bytes_max: Option<u64>,
    journal_end: u64,
) -> Result<Store, Error> {
    let dir = store_dir(data, team);
    let (mut store, mut opened) = Store::open(&dir)?;
    let position = store.position();
    if position > journal_end {
        // What the journal gets from now on would be taken for what the store has already.
        store.give_up(&format!(
            "it was brought up to byte {position} of a journal that now ends at {journal_end}: \
             the journal is an older one, or the disk lost what it had said was written"
        ));
        drop(store);
        (store, opened) = Store::open(&dir)?;
    }
    if let Opened::Replaced { moved_to, reason } = &opened {
        warn!(
            %reason, moved_to = %moved_to.display(),
            "the store was moved aside and is rebuilt from the journal"
        );
    }
    if let Some(bytes_max) = trace_bytes_max {
        store.set_trace_bytes_max(bytes_max)?;
    }
    Ok(store)
}

/// Returns where to read what observers were told of a run: a session begins anew only at rest, so
/// all of a run stands between two such entries.
pub(crate) fn around(store: &Store, run: &RunId) -> Result<Since, store::Error> {
    let slot = store.run(run)?.and_then(|row| row.begun.slot);
    Ok(slot.map_or(Since::Oldest, |slot| Since::Around(slot, slot)))
}

/// Folds what observers of a session were told after a position. Blocks on the disk.
pub(crate) fn events(
    team: &Name,
    session: &SessionId,
    journal: &Journal,
    plans: &PlanShelf,
    since: Since,
    after: Option<EventId>,
) -> Result<Vec<Event>, Error> {
    let mut events = Vec::new();
    each_event(team, session, journal, plans, since, |event| {
        if after.is_none_or(|after| event.id.is_some_and(|id| id > after)) {
            events.push(event);
        }
    })?;
    Ok(events)
}

/// Folds what observers of a session were told, and hands it over one by one: all of it may be large.
/// Blocks on the disk.
pub(crate) fn each_event(
    team: &Name,
    session: &SessionId,
    journal: &Journal,
    plans: &PlanShelf,
    since: Since,
    mut take: impl FnMut(Event),
) -> Result<(), Error> {
    let held = read_entries(journal, session, since)?;
    SessionMachine::beginning_at(team.clone(), session.clone(), held.first_slot)
        .telling(TraceSink::Nowhere)
        .fold_on(&held.entries, plans, |_, _, effects| {
            events_after(&effects, None).into_iter().for_each(&mut take);
        })
        .map_err(|source| Error::Fold { session: session.clone(), source })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use agents_core::session::SessionMachine;
    use wire::entry::{Body, Entry, Input};

    use super::*;
    use crate::changes::changes_of;
    use crate::testing;

    #[tokio::test]
    async fn of_a_run_is_read_what_stands_between_two_rests_of_its_session() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let (team, journal, plans) = (&context.team.name, &context.journal, &context.plans);
        let session = SessionId::new("s").unwrap();
        let mut machine = SessionMachine::new(team.clone(), session.clone());
        let runs = ["r0", "r1", "r2"].map(|run| RunId::new(run).unwrap());
        let mut slot = 0;
        for run in &runs {
            let begun = Input::Submitted(testing::submitted(&context, run, "x"));
            let reason = "enough".to_owned();
            for input in
                [Some(begun), Some(Input::CancelRequested { run: run.clone(), reason }), None]
            {
                let at = Timestamp::from_micros(slot + 1);
                let rests = || machine.snapshot(Timestamp::default()).unwrap();
                let input = input.unwrap_or_else(|| Input::Snapshot(Box::new(rests())));
                let entry = Entry::new(at, Body::Session(input.clone()));
                let body = serde_json::to_vec(&entry).unwrap().into();
                if entry.body.begins() {
                    journal.append_begin(&session, slot, body).await.unwrap();
                } else {
                    journal.append(&session, slot, vec![body]).await.unwrap();
                }
                let mut effects = machine.apply(at, &input, &**plans).unwrap();
                let changes = changes_of(&session, &entry, slot, &mut effects, plans);
                context.store.apply(&changes, None).unwrap();
                slot += 1;
            }
        }
        let read = |since| events(team, &session, journal, plans, since, None).unwrap();
        let all = read(Since::Oldest);
        for run in &runs {
            let expected: Vec<_> = all.iter().filter(|event| event.run == *run).cloned().collect();
            assert!(expected.len() > 1, "{run}: {all:?}");
            assert_eq!(read(around(&context.store, run).unwrap()), expected, "{run}");
        }
        let unknown = RunId::new("r9").unwrap();
        assert_eq!(around(&context.store, &unknown).unwrap(), Since::Oldest);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_plan_that_entries_need_is_missed_by_who_looks() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let session = testing::journal_run(&context, "r", 1, None, true).await;
        let team = &context.team.name;
        assert_eq!(verify(data.path(), team).unwrap().damage, []);
        let (plan, _) = context.plans.current(&context.team.entry).unwrap();
        let lost = testing::Unreadable::blob(data.path(), &context, &plan);
        assert!(verify(data.path(), team).is_err(), "it cannot be read at present");
        lost.remove();
        let damage = verify(data.path(), team).unwrap().damage;
        let [found] = &*damage else { panic!("one place: {damage:?}") };
        assert_eq!(found.sessions, [session]);
        assert!(found.segment.starts_with("blobs/"), "{found:?}");
    }

    #[test]
    fn a_store_that_knows_more_than_the_journal_is_filled_anew() {
        // How many bytes of the journal are missing, and whether the store is replaced.
        for (missing, is_replaced) in [(0, false), (1, true), (1 << 40, true)] {
            let data = tempfile::tempdir().unwrap();
            let team = Name::new("small").unwrap();
            let holder = Holder::this_process("test", Timestamp::from_micros(0));
            let archive = Archive::open(data.path(), &team, &holder).unwrap();
            let end = archive.journal.end();
            archive.store.apply(&[], Some(end + missing)).unwrap();
            drop(archive);
            let archive = Archive::open(data.path(), &team, &holder).unwrap();
            assert_eq!(archive.store.position(), archive.journal.end(), "{missing}");
            let aside = team_dir(data.path(), &team).join("store.damaged-1");
            assert_eq!(aside.exists(), is_replaced, "{missing}");
        }
    }

    #[test]
    fn who_waits_for_the_lock_finds_the_files_closed() {
        let data = tempfile::tempdir().unwrap();
        let team = Name::new("small").unwrap();
        let holder = Holder::this_process("test", Timestamp::from_micros(0));
        let archive = Archive::open(data.path(), &team, &holder).unwrap();
        let dir = team_dir(data.path(), &team);
        let lock = File::open(dir.join("lock")).unwrap();
        thread::scope(|threads| {
            let opened = threads.spawn(|| {
                lock.lock().unwrap();
                let journal = Journal::open(&dir, Options::default()).map(drop);
                let store = Store::open(&store_dir(data.path(), &team)).map(drop);
                (journal, store)
            });
            drop(archive);
            let (journal, store) = opened.join().unwrap();
            journal.unwrap();
            store.unwrap();
        });
    }
}
