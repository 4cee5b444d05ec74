//! Drops what need not be kept from data on which nobody works.

use std::time::Duration;

use agents_core::session::SessionMachine;
use journal::Since;
use wire::entry::{Body, Entry, Input, memory_session};
use wire::{SessionId, Timestamp};

use super::pass::Hand;
use super::{Cutoffs, Due, Keeper, forgotten, warn_too_large};
use crate::error::Error;
use crate::fold::fold_machine;
use crate::session::Tidied;

/// Writes to the data of a team itself, since nobody works on it.
pub(crate) struct AtRest {
    pub(crate) keeper: Keeper,
    /// When the pass began.
    pub(crate) now: Timestamp,
}

impl AtRest {
    async fn append_begin(&self, session: &SessionId, entry: &Entry) -> Result<(), Error> {
        let journal = &self.keeper.journal;
        let slot = journal.next_slot(session);
        let body = wire::json::to_vec(entry).map_err(|source| Error::Entry {
            session: session.clone(),
            slot,
            source,
        })?;
        journal.append_begin(session, slot, body.into()).await?;
        Ok(())
    }
}

impl Hand for AtRest {
    const SESSIONS_AT_ONCE: usize = 1;
    const SESSIONS_PAUSE: Option<Duration> = None;
    const RECORDS_PAUSE: Option<Duration> = None;

    async fn tidy(
        &self,
        session: &SessionId,
        cutoffs: &Cutoffs,
        is_asked: bool,
    ) -> Result<Tidied, Error> {
        let id = session.clone();
        let folded = self.keeper.apart(move |keeper| {
            let Keeper { team, journal, plans, .. } = keeper;
            Ok(fold_machine(team, &id, journal, plans, Since::Newest))
        });
        // A session that cannot be read stays as it is.
        let Ok(machine): Result<SessionMachine, _> = folded.await? else {
            return Ok(Tidied::Unchanged);
        };
        match cutoffs.decide(&machine, is_asked) {
            Due::Nothing => Ok(Tidied::Unchanged),
            Due::TooLarge { bytes } => {
                // A pass comes to each session once.
                warn_too_large(session, bytes);
                Ok(Tidied::Unchanged)
            }
            Due::Shorten(snapshot) => {
                let entry = Entry::new(self.now, Body::Session(Input::Snapshot(snapshot)));
                self.append_begin(session, &entry).await?;
                Ok(Tidied::Shortened)
            }
            Due::Forget => {
                self.keeper.journal.forget(session).await?;
                self.drop_stale(session).await?;
                Ok(Tidied::Forgotten)
            }
        }
    }

    async fn drop_stale(&self, session: &SessionId) -> Result<(), Error> {
        let session = session.clone();
        let dropped =
            self.keeper.apart(move |keeper| Ok(keeper.store.apply(&forgotten(&session), None)?));
        dropped.await.map(drop)
    }

    async fn restate_memory(&self, keeper: &Keeper) -> Result<bool, Error> {
        // Nobody works on it, so what was forgotten need not gather.
        let now = self.now;
        match keeper.apart(move |keeper| keeper.restatement(now)).await? {
            Some(entry) => self.append_begin(&memory_session(), &entry).await.map(|()| true),
            None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use config::team::Retention;
    use wire::RunId;
    use wire::run::Parent;

    use super::*;
    use crate::retention::pass::pass;
    use crate::{clock, testing};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_called_session_stays_while_the_run_that_asked_for_it_is_in_work() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let session = testing::journal_run(&context, "open", 40, None, false).await;
        let parent = Parent { session, run: RunId::new("open").unwrap(), depth: 1, tainted: false };
        let asked = testing::journal_run(&context, "asked", 40, Some(parent), true).await;
        let other = Parent {
            session: SessionId::new("gone").unwrap(),
            run: RunId::new("gone").unwrap(),
            depth: 1,
            tainted: false,
        };
        let over = testing::journal_run(&context, "over", 40, Some(other), true).await;
        context.projector.sync().await;
        let keeper = Keeper::of(&context);
        let kept = Retention {
            runs_ms: Some(86_400_000),
            runs_max: None,
            sessions_ms: None,
            traces_ms: None,
            trace_bytes_max: None,
        };
        // What the first drops, the second decides without.
        for _ in 0..2 {
            let hand = AtRest { keeper: keeper.clone(), now: clock::now() };
            pass(&keeper, &hand, &kept, hand.now, true).await.unwrap();
            assert!(context.journal.knows(&asked));
            assert!(!context.journal.knows(&over));
        }
    }
}
