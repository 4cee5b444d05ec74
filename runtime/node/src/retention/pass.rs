//! One pass over all that need not be kept, of a team at work and of data at rest.
//!
//! Sessions come first; only then are segments rewritten and blobs removed. Each step is whole by
//! itself, so a pass may end anywhere.

use std::time::Duration;

use config::team::Retention;
use futures_util::future::try_join_all;
use tokio::time::sleep;
use tracing::warn;
use wire::{SessionId, Timestamp};

use super::{Candidates, Compacted, Cutoffs, Keeper};
use crate::error::Error;
use crate::session::Tidied;

/// The pause between two rewritings, each of some ten megabytes, so that runs find the disk free.
const REWRITE_PAUSE: Duration = Duration::from_millis(200);

/// Whoever writes to the data of a team: its actors, or the pass itself while nobody works on it.
pub(crate) trait Hand {
    /// How many sessions are tidied at once, before the pause.
    const SESSIONS_AT_ONCE: usize;

    /// Sessions after which what they held is given back, before others follow: where very many are
    /// due, the disk does not wait for the last of them.
    const SESSIONS_BETWEEN: usize = 4096;

    /// The pause after those that are tidied at once, if others work meanwhile.
    const SESSIONS_PAUSE: Option<Duration>;

    /// The pause between two batches of dropped records, if others work meanwhile.
    const RECORDS_PAUSE: Option<Duration>;

    /// Does what is due about a session. `is_asked` says whether a run in work may still ask for
    /// it.
    async fn tidy(
        &self,
        session: &SessionId,
        cutoffs: &Cutoffs,
        is_asked: bool,
    ) -> Result<Tidied, Error>;

    /// Drops from the store a session that the journal has not.
    async fn drop_stale(&self, session: &SessionId) -> Result<(), Error>;

    /// Says anew what is remembered, if the journal has much more than that or what was forgotten.
    async fn restate_memory(&self, keeper: &Keeper) -> Result<bool, Error>;
}

/// Rewrites what is to be, as far as there is room for it.
async fn rewrite(keeper: &Keeper) -> Result<(), Error> {
    loop {
        match keeper.apart(|keeper| Ok(keeper.journal.rewrite_next()?)).await {
            Ok(Some(_)) => sleep(REWRITE_PAUSE).await,
            Ok(None) | Err(Error::Journal(journal::Error::StorageFull)) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Drops from the store what is past, batch by batch; returns how much it was.
async fn drop_records<H: Hand>(keeper: &Keeper, cutoffs: Cutoffs) -> Result<u64, Error> {
    let mut total = 0;
    while !keeper.journal.is_full() {
        let dropped = keeper.apart(move |keeper| keeper.drop_records(&cutoffs)).await?;
        total += dropped;
        if dropped == 0 {
            break;
        }
        rest(H::RECORDS_PAUSE).await;
    }
    Ok(total)
}

async fn rest(pause: Option<Duration>) {
    if let Some(pause) = pause {
        sleep(pause).await;
    }
}

/// Goes once through all that may be dropped, through the blobs too if that is asked.
///
/// What is left of the reserve of a full disk is for ending runs, so nothing is written then.
pub(crate) async fn pass<H: Hand>(
    keeper: &Keeper,
    hand: &H,
    kept: &Retention,
    now: Timestamp,
    sweeps: bool,
) -> Result<Compacted, Error> {
    let (journal, kept) = (&keeper.journal, *kept);
    let found = keeper.apart(move |keeper| {
        let cutoffs = Cutoffs::at(now, &kept, &keeper.store)?;
        Ok((cutoffs, keeper.candidates(&cutoffs)?))
    });
    let (cutoffs, Candidates { due, stale }) = found.await?;
    let mut total = Compacted { bytes_before: journal.usage().bytes, ..Compacted::default() };
    for session in stale {
        hand.drop_stale(&session).await?;
    }
    for (number, due) in due.chunks(H::SESSIONS_BETWEEN).enumerate() {
        if number > 0 {
            total.records_dropped += drop_records::<H>(keeper, cutoffs).await?;
            rewrite(keeper).await?;
        }
        for sessions in due.chunks(H::SESSIONS_AT_ONCE) {
            if journal.is_full() {
                break;
            }
            let tidied = sessions.iter().map(async |session| {
                let id = session.clone();
                let is_asked = keeper.apart(move |keeper| keeper.is_asked(&id)).await?;
                hand.tidy(session, &cutoffs, is_asked).await
            });
            let tidied = try_join_all(tidied).await?;
            let forgotten = tidied.into_iter().filter(|tidied| *tidied == Tidied::Forgotten);
            total.sessions_forgotten += forgotten.count() as u64;
            rest(H::SESSIONS_PAUSE).await;
        }
    }
    let mut sweeps = sweeps;
    if !journal.is_full() {
        match hand.restate_memory(keeper).await {
            Ok(true) => {
                // What was forgotten may be known by the store alone once the journal is rid of it.
                keeper.apart(|keeper| Ok(keeper.store.flush()?)).await?;
                // A large memory stands in a blob, which is to be gone as well.
                sweeps = true;
            }
            Ok(false) => {}
            // A memory that is set aside stays as it is, and keeps no session from being shortened.
            Err(error) => warn!(%error, "the memory is not said anew"),
        }
    }
    total.sessions_shortened = keeper.apart(move |keeper| Ok(keeper.retire_all(&cutoffs))).await?;
    total.records_dropped += drop_records::<H>(keeper, cutoffs).await?;
    if !journal.is_full() {
        keeper.apart(|keeper| Ok(keeper.store.rest()?)).await?;
    }
    keeper
        .apart(|keeper| {
            keeper.results.retain(|session| keeper.journal.knows(session));
            Ok(())
        })
        .await?;
    // A rewriting takes room before it gives some back, and a sweep gives only. What is rewritten
    // then leaves its blobs to the next sweep: two in a row would not wait for entries on their way.
    let sweeps_first = sweeps && journal.is_full();
    if sweeps_first {
        total.blobs = keeper.apart(Keeper::sweep).await?;
    }
    rewrite(keeper).await?;
    if sweeps && !sweeps_first {
        total.blobs = keeper.apart(Keeper::sweep).await?;
    }
    let usage = journal.usage();
    (total.bytes_after, total.live_bytes) = (usage.bytes, usage.live_bytes);
    Ok(total)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use journal::testing::{Step, Watch, watch};
    use tokio::sync::Barrier;
    use tokio::time::timeout;
    use wire::Name;
    use wire::entry::memory_session;

    use super::*;
    use crate::opening::team_dir;
    use crate::retention::at_rest::AtRest;
    use crate::{clock, testing};

    /// A disk that has room for a rewritten segment or not.
    struct Disk {
        has_room: bool,
    }

    impl Watch for Disk {
        fn before(&self, _: Step<'_>) {}

        fn after(&self, _: Step<'_>) {}

        fn refuse(&self, step: Step<'_>) -> io::Result<()> {
            let is_refused = step == Step::RewriteAppend && !self.has_room;
            if is_refused { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
    }

    /// Notes how many sessions it has in hand, and how many runs the store has then.
    struct Noting {
        keeper: Keeper,
        /// Where the first ones wait for each other.
        first: Barrier,
        begun: AtomicUsize,
        in_hand: AtomicUsize,
        seen: Mutex<Vec<(usize, usize)>>,
    }

    impl Hand for Noting {
        const SESSIONS_AT_ONCE: usize = 4;
        const SESSIONS_BETWEEN: usize = 10;
        const SESSIONS_PAUSE: Option<Duration> = None;
        const RECORDS_PAUSE: Option<Duration> = None;

        async fn tidy(&self, _: &SessionId, _: &Cutoffs, _: bool) -> Result<Tidied, Error> {
            self.in_hand.fetch_add(1, Ordering::Relaxed);
            if self.begun.fetch_add(1, Ordering::Relaxed) < Self::SESSIONS_AT_ONCE {
                self.first.wait().await;
            }
            let runs = self.keeper.store.runs(100)?.len();
            self.seen.lock().unwrap().push((self.in_hand.load(Ordering::Relaxed), runs));
            self.in_hand.fetch_sub(1, Ordering::Relaxed);
            Ok(Tidied::Forgotten)
        }

        async fn drop_stale(&self, _: &SessionId) -> Result<(), Error> {
            Ok(())
        }

        async fn restate_memory(&self, _: &Keeper) -> Result<bool, Error> {
            Ok(false)
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_many_sessions_some_are_tidied_at_once_and_the_first_are_gone_before_the_last() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        for number in 0..25 {
            testing::journal_run(&context, &format!("s{number}"), 40, None, true).await;
        }
        context.projector.sync().await;
        let keeper = Keeper::of(&context);
        let hand = Noting {
            keeper: keeper.clone(),
            first: Barrier::new(Noting::SESSIONS_AT_ONCE),
            begun: AtomicUsize::default(),
            in_hand: AtomicUsize::default(),
            seen: Mutex::default(),
        };
        let pass = pass(&keeper, &hand, &context.team.retention, clock::now(), false);
        let done = timeout(Duration::from_mins(1), pass).await.expect("so many at once").unwrap();
        assert_eq!(done.sessions_forgotten, 25);
        let seen = hand.seen.into_inner().unwrap();
        assert_eq!(seen.iter().map(|(in_hand, _)| *in_hand).max(), Some(Noting::SESSIONS_AT_ONCE));
        let runs: Vec<usize> = seen.into_iter().map(|(_, runs)| runs).collect();
        let (first, later) = runs.split_at(Noting::SESSIONS_BETWEEN);
        assert!(first.iter().all(|runs| *runs == 25), "{runs:?}");
        assert!(later.iter().all(|runs| *runs < 25), "{runs:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_memory_that_cannot_be_read_keeps_nothing_else() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let old = testing::journal_run(&context, "old", 40, None, true).await;
        let fact = vec![b'x'; 64 << 10];
        let digest = wire::Digest::of(&fact);
        context.journal.append(&memory_session(), 0, vec![fact.into()]).await.unwrap();
        let _unreadable = testing::Unreadable::blob(data.path(), &context, &digest);
        context.projector.sync().await;
        let keeper = Keeper::of(&context);
        let hand = AtRest { keeper: keeper.clone(), now: clock::now() };
        let kept = &context.team.retention;
        let done = pass(&keeper, &hand, kept, hand.now, false).await.unwrap();
        assert!(done.sessions_shortened == 1 && done.records_dropped > 0, "{done:?}");
        let again = pass(&keeper, &hand, kept, hand.now, false).await.unwrap();
        assert_eq!(context.journal.next_slot(&old), 3, "shortened once: {again:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn blobs_are_swept_whatever_room_there_is_for_rewriting() {
        // Whether the disk counts as full, whether it has room for a rewriting, and how many blobs
        // go: the one that nothing names, and one that is named only by what is not held.
        for (is_full, has_room, removed) in
            [(false, true, 2), (false, false, 1), (true, true, 1), (true, false, 1)]
        {
            let case = format!("full {is_full}, room {has_room}");
            let data = tempfile::tempdir().unwrap();
            let dir = team_dir(data.path(), &Name::new("quickstart").unwrap());
            let _watching = watch(&dir, Arc::new(Disk { has_room }));
            let context = testing::open(data.path());
            let (keeper, journal) = (Keeper::of(&context), &context.journal);
            let session = SessionId::new("s").unwrap();
            for (slot, bytes) in [(0, 64 << 10), (1, 8 << 10)] {
                journal.append(&session, slot, vec![vec![b'x'; bytes].into()]).await.unwrap();
            }
            journal.append_begin(&session, 2, "state".into()).await.unwrap();
            assert!(journal.retire(&session, 2), "{case}");
            journal.put_blob(b"nothing names it").unwrap();
            // What was put of late stays once.
            let before = keeper.apart(Keeper::sweep).await.unwrap();
            assert_eq!(before.removed, 0, "{case}");
            if is_full {
                journal.report_full();
            }
            let hand = AtRest { keeper: keeper.clone(), now: clock::now() };
            let kept = &context.team.retention;
            let done = pass(&keeper, &hand, kept, hand.now, true).await.unwrap();
            assert_eq!(done.blobs.removed, removed, "{case}: {done:?}");
            assert_eq!(done.bytes_after < done.bytes_before, has_room, "{case}: {done:?}");
        }
    }
}
