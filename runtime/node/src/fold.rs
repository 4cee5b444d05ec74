//! Folds what the journal holds: one session into its machine, or all that the store lacks.

use std::collections::HashSet;
use std::sync::Arc;

use agents_core::effect::Effect;
use agents_core::session::{FoldError, SessionMachine};
use agents_core::validate::Catalogue;
use journal::{Journal, Since};
use store::{Change, Store};
use tracing::warn;
use wire::entry::{Body, Entry, Input, memory_session};
use wire::{Digest, Name, SessionId, TraceSink};

use crate::changes::changes_of;
use crate::error::Error;
use crate::plans::PlanShelf;

/// Changes that are gathered over sessions before the store takes them at once, which costs as much
/// for one as for hundreds; about 1 MiB of memory without the replies in them.
const CATCH_UP_CHANGES: usize = 1024;

/// Bytes of replies that are gathered likewise. One session's are gathered whole, as it is read.
const CATCH_UP_BYTES: usize = 8 << 20;

/// Changes that the store is to take at once.
#[derive(Default)]
struct Gathered {
    changes: Vec<Change>,
    /// Bytes of the replies in them.
    bytes: usize,
}

impl Gathered {
    fn add(&mut self, changes: Vec<Change>) {
        let reply = |change: &Change| {
            if let Change::RunEnded { reply, .. } = change { reply.len() } else { 0 }
        };
        let replies = changes.iter().map(reply);
        self.bytes = replies.fold(self.bytes, usize::saturating_add);
        self.changes.extend(changes);
    }

    const fn is_enough(&self) -> bool {
        self.changes.len() >= CATCH_UP_CHANGES || self.bytes >= CATCH_UP_BYTES
    }
}

/// Reads and folds what is held of one session into its machine, which is still to be said where its
/// spans go. Blocks on the disk, unless the journal does not know the session.
pub(crate) fn fold_machine(
    team: &Name,
    session: &SessionId,
    journal: &Journal,
    plans: &PlanShelf,
    since: Since,
) -> Result<SessionMachine, Error> {
    fold(team, session, journal, plans, since, |_, _, _| ())
}

/// Reads and folds what is held of one session into what it means to the store. Blocks on the disk.
pub(crate) fn fold_changes(
    team: &Name,
    session: &SessionId,
    journal: &Journal,
    plans: &PlanShelf,
) -> Result<Vec<Change>, Error> {
    let mut changes = Vec::new();
    fold(team, session, journal, plans, Since::Oldest, |entry, slot, mut effects| {
        changes.extend(changes_of(session, entry, slot, &mut effects, plans));
    })?;
    Ok(changes)
}

fn fold(
    team: &Name,
    session: &SessionId,
    journal: &Journal,
    plans: &PlanShelf,
    since: Since,
    on_entry: impl FnMut(&Entry, u64, Vec<Effect>),
) -> Result<SessionMachine, Error> {
    let held = read_entries(journal, session, since)?;
    let _plans = plans_of(&held.entries, plans)?;
    SessionMachine::beginning_at(team.clone(), session.clone(), held.first_slot)
        .telling(TraceSink::Nowhere)
        .fold_on(&held.entries, plans, on_entry)
        .map_err(|source| Error::Fold { session: session.clone(), source })
}

/// Returns the plans with which the runs of some entries began; they stay at hand for as long as they
/// are held. Fails if a file cannot be read at present. One that is lost is left out, and the fold
/// that misses it fails.
fn plans_of(entries: &[Entry], plans: &PlanShelf) -> Result<Vec<Arc<Catalogue>>, journal::Error> {
    let named: HashSet<Digest> = entries
        .iter()
        .filter_map(|entry| match &entry.body {
            Body::Session(Input::Submitted(submitted)) => Some(submitted.plan),
            Body::Session(_) | Body::Memory(_) => None,
        })
        .collect();
    let read = named.iter().map(|digest| plans.catalogue(digest));
    read.filter(|found| matches!(found, Ok(_) | Err(journal::Error::File { .. }))).collect()
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
/// If one of them may be another time, the store's position stays where it is: a session is folded
/// again only if it was touched since then, and what was accepted in it would be forgotten. Blocks on
/// the disk.
pub(crate) fn catch_up(
    team: &Name,
    journal: &Journal,
    store: &Store,
    plans: &PlanShelf,
) -> Result<Vec<(SessionId, Error)>, Error> {
    let end = journal.end();
    let mut unread = Vec::new();
    let mut gathered = Gathered::default();
    let touched = journal.touched_since(store.position());
    let is_behind = !touched.is_empty();
    for session in touched {
        let changes = if session == memory_session() {
            read_entries(journal, &session, Since::Oldest).map(|held| {
                (held.first_slot..)
                    .zip(&held.entries)
                    .flat_map(|(slot, entry)| {
                        changes_of(&session, entry, slot, &mut Vec::new(), plans)
                    })
                    .collect()
            })
        } else {
            fold_changes(team, &session, journal, plans)
        };
        match changes {
            Ok(changes) => gathered.add(changes),
            Err(failed) => {
                if failed.may_pass() {
                    warn!(%session, error = %failed, "session left for the next start");
                } else {
                    warn!(%session, error = %failed, "session set aside: its journal cannot be read");
                }
                unread.push((session, failed));
            }
        }
        if gathered.is_enough() {
            store.apply(&std::mem::take(&mut gathered).changes, None)?;
        }
    }
    let is_passing = unread.iter().any(|(_, failed): &(_, Error)| failed.may_pass());
    store.apply(&gathered.changes, (!is_passing).then_some(end))?;
    if is_behind {
        // Else a stop soon after the start would have it all done again at the next one.
        store.flush()?;
    }
    Ok(unread)
}

#[cfg(test)]
mod tests {
    use wire::entry::{Fact, MemoryChange, memory_session};
    use wire::{CallKey, RunId, RunStatus, Timestamp};

    use super::*;
    use crate::clock;
    use crate::projector::Projector;
    use crate::testing::{self, Unreadable, submitted};

    /// What is wrong with the session of a run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fault {
        EntryUnreadable,
        PlanUnreadable,
        Newer,
        EntryMissing,
    }

    #[tokio::test]
    async fn what_was_forgotten_stays_so_where_only_a_restatement_tells_it() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let (team, journal) = (&context.team.name, &context.journal);
        let (store, _) = Store::open(&data.path().join("store")).unwrap();
        let plans = Arc::new(PlanShelf::open(journal.clone(), []).unwrap());
        let fact = |id: &str| Fact {
            id: CallKey::new(id).unwrap(),
            text: "a fact".to_owned(),
            at: Timestamp::from_micros(1),
            agent: Name::new("a").unwrap(),
            session: SessionId::new("s").unwrap(),
            tainted: false,
        };
        let changes = [
            MemoryChange::Remembered(fact("c0")),
            MemoryChange::Remembered(fact("c1")),
            MemoryChange::Restated { facts: vec![fact("c1")] },
        ];
        for (slot, change) in (0..).zip(changes) {
            let entry = Entry::new(clock::now(), Body::Memory(change));
            let commit = context.append(&memory_session(), slot, &Arc::new(vec![entry])).await;
            drop(commit.unwrap());
            if slot == 1 {
                catch_up(team, journal, &store, &plans).unwrap();
                assert_eq!(store.facts(9).unwrap().len(), 2);
            }
        }
        // The entry by which the first was forgotten is gone with all before the restatement.
        assert!(journal.purge(&memory_session(), 2));
        catch_up(team, journal, &store, &plans).unwrap();
        assert_eq!(store.facts(9).unwrap(), [fact("c1")]);
    }

    #[tokio::test]
    async fn a_session_that_may_be_read_another_time_is_tried_again_at_the_next_start() {
        let cases = [
            (Fault::EntryUnreadable, false),
            (Fault::PlanUnreadable, false),
            (Fault::Newer, false),
            (Fault::EntryMissing, true),
        ];
        for (fault, moves_on) in cases {
            let data = tempfile::tempdir().unwrap();
            let context = testing::open(data.path());
            let (team, journal) = (&context.team.name, &context.journal);
            let (session, run) = (SessionId::new("s").unwrap(), RunId::new("r").unwrap());
            let begun = submitted(&context, &run, &"x".repeat(1 << 20));
            let plan = begun.plan;
            let mut entry = Entry::new(clock::now(), Body::Session(Input::Submitted(begun)));
            if fault == Fault::Newer {
                entry.v += 1;
            }
            let blob = Digest::of(&wire::json::to_vec(&entry).unwrap());
            drop(context.append(&session, 0, &Arc::new(vec![entry])).await.unwrap());

            // As at another start: a store that knows nothing, and no plans at hand.
            let (store, _) = Store::open(&data.path().join("store")).unwrap();
            let shelf = || Arc::new(PlanShelf::open(journal.clone(), []).unwrap());
            let hidden = match fault {
                Fault::EntryUnreadable | Fault::EntryMissing => Some(blob),
                Fault::PlanUnreadable => Some(plan),
                Fault::Newer => None,
            };
            let hidden = hidden.map(|digest| Unreadable::blob(data.path(), &context, &digest));
            if fault == Fault::EntryMissing {
                hidden.as_ref().unwrap().remove();
            }
            let plans = shelf();
            assert_eq!(catch_up(team, journal, &store, &plans).unwrap().len(), 1, "{fault:?}");
            assert_eq!(store.position() == journal.end(), moves_on, "{fault:?}");

            // What is committed from then on does not move the position beyond it either.
            let projector =
                Projector::start(team.clone(), store.clone(), journal.clone(), plans).unwrap();
            projector.begin().project(Vec::new()).await;
            projector.sync().await;
            assert_eq!(store.position() == journal.end(), moves_on, "{fault:?}");
            drop(hidden);
            if !moves_on && fault != Fault::Newer {
                assert_eq!(catch_up(team, journal, &store, &shelf()).unwrap().len(), 0);
                assert!(store.run(&run).unwrap().is_some(), "{fault:?}");
                assert_eq!(store.position(), journal.end(), "{fault:?}");
            }
        }
    }

    #[test]
    fn the_store_takes_what_is_many_changes_or_many_bytes() {
        let ended = |bytes: usize| Change::RunEnded {
            run: RunId::new("r").unwrap(),
            at: Timestamp::default(),
            status: RunStatus::Completed,
            reply: vec![b'x'; bytes].into(),
        };
        // How many replies of how many bytes are enough.
        let cases = [(1 << 20, 8), (8 << 20, 1), (9 << 20, 1), (10, 1024), (0, 1024)];
        for (bytes, expected) in cases {
            let mut gathered = Gathered::default();
            let mut count = 0;
            while !gathered.is_enough() {
                gathered.add(vec![ended(bytes)]);
                count += 1;
            }
            assert_eq!(count, expected, "{bytes}");
        }
    }
}
