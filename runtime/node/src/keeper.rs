//! Looks now and then what a team need not keep any longer, while the team works.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};
use wire::SessionId;
use wire::entry::memory_session;

use crate::clock;
use crate::context::TeamContext;
use crate::error::Error;
use crate::retention::pass::{Hand, pass};
use crate::retention::{Cutoffs, Keeper, forgotten};
use crate::session::{Door, Tidied};
use crate::sessions::SessionsMsg;

/// How long a team works before it is looked for the first time: it has other things to do.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// How often it is looked.
const INTERVAL: Duration = Duration::from_secs(600);

/// In how many looks the blobs are looked through once, for which all of the journal is read.
const SWEEP_LOOKS: u32 = 6;

/// How often it is looked while the disk is full.
const FULL_INTERVAL: Duration = Duration::from_secs(10);

/// How many sessions are tidied at once, and the pause until the next ones. They come into memory
/// for it and have an actor for two seconds more, so this keeps these below two thousand, and gets
/// rid of more sessions than a busy team begins.
const SESSIONS_AT_ONCE: usize = 16;
const SESSIONS_PAUSE: Duration = Duration::from_millis(20);

/// The pause between two batches of dropped records.
const RECORDS_PAUSE: Duration = Duration::from_millis(50);

/// How long what was forgotten may stay in the journal, besides the time until it is looked again:
/// each time all facts are written anew, and the segments that hold what was forgotten too.
const FORGOTTEN_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// How long a session may take; one that is at work is not waited for, since it says so at once.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// Keeps a team tidy for as long as the node runs.
pub(crate) async fn keep(context: Arc<TeamContext>, sessions: ActorRef<SessionsMsg>) {
    let mut fullness = context.journal.fullness();
    let mut pause = FIRST_PAUSE;
    for look in 1u32.. {
        let room_ends = async {
            // While the disk is full its next look comes soon.
            if fullness.wait_for(|full| *full).await.is_ok() {
                sleep(FULL_INTERVAL).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = room_ends => {}
        }
        pause = INTERVAL;
        let sweeps = look % SWEEP_LOOKS == 0 || context.journal.is_full();
        let keeper = Keeper::of(&context);
        let hand = AtWork { context: &context, sessions: &sessions };
        match pass(&keeper, &hand, &context.team.retention, clock::now(), sweeps).await {
            Ok(done) if done.is_nothing() => {}
            Ok(done) => info!(?done, "dropped what need not be kept"),
            Err(error) => warn!(%error, "not all was dropped that need not be kept"),
        }
    }
}

/// Has the actors of a team at work write what a pass comes to.
pub(crate) struct AtWork<'a> {
    pub(crate) context: &'a Arc<TeamContext>,
    pub(crate) sessions: &'a ActorRef<SessionsMsg>,
}

impl Hand for AtWork<'_> {
    const SESSIONS_AT_ONCE: usize = SESSIONS_AT_ONCE;
    const SESSIONS_PAUSE: Option<Duration> = Some(SESSIONS_PAUSE);
    const RECORDS_PAUSE: Option<Duration> = Some(RECORDS_PAUSE);

    async fn tidy(
        &self,
        session: &SessionId,
        cutoffs: &Cutoffs,
        is_asked: bool,
    ) -> Result<Tidied, Error> {
        let TeamContext { journal, drained, .. } = &**self.context;
        if drained.is_left(session, journal.next_slot(session)) {
            // It is not at rest, and asking it would take it up.
            return Ok(Tidied::Unchanged);
        }
        let (answer, on_answer) = oneshot::channel();
        let door = Door::Tidy { cutoffs: *cutoffs, is_asked, answer };
        if self.sessions.cast(SessionsMsg::Route { session: session.clone(), door }).is_err() {
            return Err(Error::Ending);
        }
        // A session that is set aside stays as it is, and one that is being restarted has time.
        match timeout(SESSION_TIMEOUT, on_answer).await {
            Ok(Ok(Ok(done))) => Ok(done),
            Ok(Ok(Err(_)) | Err(_)) | Err(_) => Ok(Tidied::Unchanged),
        }
    }

    async fn drop_stale(&self, session: &SessionId) -> Result<(), Error> {
        self.context.projector.begin().project(forgotten(session)).await;
        Ok(())
    }

    async fn restate_memory(&self, keeper: &Keeper) -> Result<bool, Error> {
        let until = clock::now().minus_ms(FORGOTTEN_KEPT_MS);
        let find = || keeper.apart(move |keeper| keeper.restatement(until));
        // Nobody has to wait while it is read that nothing is to be done.
        if find().await?.is_none() {
            return Ok(false);
        }
        let mut slot = self.context.memory_slot.lock().await;
        let Some(entry) = find().await? else { return Ok(false) };
        let commit = self.context.append(&memory_session(), *slot, &Arc::new(vec![entry])).await?;
        // The store has all of it already.
        commit.project(Vec::new()).await;
        *slot += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ractor::Actor;
    use tools::Memory as _;
    use wire::entry::{Body, Entry, Fact, MemoryChange};
    use wire::run::Parent;
    use wire::{CallKey, RunId};

    use super::*;
    use crate::memory::TeamMemory;
    use crate::opening::team_dir;
    use crate::retention::at_rest::AtRest;
    use crate::sessions::SessionSupervisor;
    use crate::testing;

    /// Journals a run that was cancelled some days ago.
    async fn ended(
        context: &Arc<TeamContext>,
        id: &str,
        days: u64,
        parent: Option<Parent>,
    ) -> SessionId {
        testing::journal_run(context, id, days, parent, true).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_team_at_work_is_kept_tidy() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let old = ended(&context, "old", 40, None).await;
        let young = ended(&context, "young", 20, None).await;
        let session = old.clone();
        let parent = |run: &str| {
            let (session, run) = (session.clone(), RunId::new(run).unwrap());
            Some(Parent { session, run, depth: 1, tainted: false })
        };
        let called = ended(&context, "called", 40, parent("old")).await;
        for number in 0..150 {
            let slot = number * 2;
            let id = CallKey::new(&format!("f{number}")).unwrap();
            let fact = Fact {
                id: id.clone(),
                text: "a fact".to_owned(),
                at: clock::now(),
                agent: context.team.entry.clone(),
                session: old.clone(),
                tainted: false,
            };
            let by = CallKey::new("by").unwrap();
            let changes = [
                MemoryChange::Remembered(fact),
                MemoryChange::Forgotten { facts: if number == 7 { vec![] } else { vec![id] }, by },
            ];
            for (slot, change) in (slot..).zip(changes) {
                let entry = Entry::new(clock::now(), Body::Memory(change));
                context.remember(slot, entry).await.unwrap();
            }
        }
        *context.memory_slot.lock().await = 300;
        context.projector.sync().await;
        assert_eq!(context.store.runs(10).unwrap().len(), 3);

        let (sessions, _) = Actor::spawn(None, SessionSupervisor, context.clone()).await.unwrap();
        let keeper = Keeper::of(&context);
        let hand = AtWork { context: &context, sessions: &sessions };
        // Those that are shortened or forgotten are let go of.
        for session in [&old, &young, &called] {
            assert!(context.too_large.note(session));
        }
        let pass = || pass(&keeper, &hand, &context.team.retention, clock::now(), true);
        let done = pass().await.unwrap();
        context.projector.sync().await;
        // The memory is shortened too.
        assert_eq!((done.sessions_shortened, done.sessions_forgotten), (2, 1), "{done:?}");
        assert!(done.bytes_after * 10 <= done.live_bytes * 12, "{done:?}");
        let journal = &context.journal;
        assert_eq!((journal.first_slot(&old), journal.next_slot(&old)), (2, 3));
        assert_eq!((journal.first_slot(&young), journal.next_slot(&young)), (0, 2));
        assert!(!journal.knows(&called));
        let let_go = [&old, &young, &called].map(|session| context.too_large.note(session));
        assert_eq!(let_go, [true, false, true]);
        assert_eq!(journal.first_slot(&memory_session()), 300);
        let runs = context.store.runs(10).unwrap();
        let left: Vec<&str> = runs.iter().map(|row| row.begun.run.as_str()).collect();
        assert_eq!(left, ["young"]);
        assert_eq!(context.store.sessions(10).unwrap().len(), 2);
        let facts = context.store.facts(10).unwrap();
        assert_eq!(facts.iter().map(|fact| fact.id.as_str()).collect::<Vec<_>>(), ["f7"]);

        let again = pass().await.unwrap();
        assert!(again.is_nothing(), "{again:?}");
        let memory = TeamMemory::new(context.clone());
        let by = CallKey::new("later").unwrap();
        let facts = facts.into_iter().map(|fact| fact.id).collect();
        memory.change(MemoryChange::Forgotten { facts, by }).await.unwrap();
        assert_eq!(context.journal.next_slot(&memory_session()), 302);
    }

    /// Tells whether a text stands in any segment of a team's journal.
    fn stands(dir: &Path, text: &str) -> bool {
        let files = std::fs::read_dir(dir.join("journal")).unwrap();
        let mut files = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
        files.any(|bytes| bytes.windows(text.len()).any(|found| found == text.as_bytes()))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_was_forgotten_leaves_the_journal() {
        let (text, day) = ("lives at 7 Elm Street", FORGOTTEN_KEPT_MS);
        for (at_work, age_ms, stays) in
            [(true, 0, true), (true, day + 1, false), (false, 0, false), (false, day + 1, false)]
        {
            let case = format!("at work {at_work}, forgotten {age_ms} ms ago");
            let data = tempfile::tempdir().unwrap();
            let context = testing::open(data.path());
            let at = clock::now().minus_ms(age_ms);
            let fact = |id: &str, text: &str| {
                MemoryChange::Remembered(Fact {
                    id: CallKey::new(id).unwrap(),
                    text: text.to_owned(),
                    at,
                    agent: context.team.entry.clone(),
                    session: SessionId::new("s").unwrap(),
                    tainted: false,
                })
            };
            let (facts, by) = (vec![CallKey::new("gone").unwrap()], CallKey::new("by").unwrap());
            let changes = [
                fact("gone", text),
                fact("kept", "likes green tea"),
                MemoryChange::Forgotten { facts, by },
            ];
            for (slot, change) in (0..).zip(changes) {
                context.remember(slot, Entry::new(at, Body::Memory(change))).await.unwrap();
            }
            *context.memory_slot.lock().await = 3;
            // Beside it the memory is too little to have a segment rewritten.
            let other = SessionId::new("other").unwrap();
            let much = vec![b'x'; 64 << 10];
            context.journal.append(&other, 0, vec![much.into()]).await.unwrap();
            let dir = team_dir(data.path(), &context.team.name);
            assert!(stands(&dir, text), "{case}");

            let keeper = Keeper::of(&context);
            let now = clock::now();
            if at_work {
                let (sessions, _) =
                    Actor::spawn(None, SessionSupervisor, context.clone()).await.unwrap();
                let hand = AtWork { context: &context, sessions: &sessions };
                pass(&keeper, &hand, &context.team.retention, now, true).await.unwrap();
            } else {
                let hand = AtRest { keeper: keeper.clone(), now };
                pass(&keeper, &hand, &context.team.retention, now, true).await.unwrap();
            }
            assert_eq!(stands(&dir, text), stays, "{case}");
            assert!(stands(&dir, "likes green tea"), "{case}");
            assert_eq!(context.journal.read(&other).unwrap().len(), 1, "{case}");
            let again = keeper.restatement(now.minus_ms(if stays { day } else { 0 })).unwrap();
            assert_eq!(again, None, "{case}");
        }
    }
}
