//! Sessions that fail, that are many, and that have nothing to do.

use std::io;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use journal::testing::{Step, Watch, watch};
use ractor::ActorStatus;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use wire::entry::{Body, Entry, Input};
use wire::run::{RunState, RunView};
use wire::{RunId, RunStatus};

use super::*;
use crate::clock;
use crate::opening::team_dir;
use crate::session::Submit;
use crate::testing::{self, Unreadable, submitted};

/// Asks for a run.
async fn view(
    sessions: &ActorRef<SessionsMsg>,
    session: &SessionId,
    run: &RunId,
) -> Result<RunView, WireError> {
    let (answer, on_answer) = oneshot::channel();
    let door = Door::View { run: run.clone(), answer };
    sessions.cast(SessionsMsg::Route { session: session.clone(), door }).unwrap();
    on_answer.await.unwrap()
}

/// A session whose actor panics at its first message.
struct Grenade;

impl Actor for Grenade {
    type Msg = SessionMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<SessionMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<SessionMsg>,
        _: SessionMsg,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        panic!("pulled")
    }
}

/// The supervisor, with such a session in its care or not, which counts how often it looks who
/// may go.
#[derive(Default)]
struct Watched {
    is_mined: bool,
    /// Whether a message meets the session when it has failed and nobody knows yet.
    is_met: bool,
    looks: Arc<AtomicUsize>,
}

fn session() -> SessionId {
    SessionId::new("s").unwrap()
}

impl Actor for Watched {
    type Msg = SessionsMsg;
    type State = SessionsState;
    type Arguments = Arc<TeamContext>;

    async fn pre_start(
        &self,
        myself: ActorRef<SessionsMsg>,
        context: Arc<TeamContext>,
    ) -> Result<SessionsState, ActorProcessingErr> {
        let mut state = SessionSupervisor.pre_start(myself.clone(), context).await?;
        if !self.is_mined {
            return Ok(state);
        }
        let (actor, _) = Grenade::spawn_linked(None, Grenade, (), myself.get_cell()).await?;
        let busy = Arc::new(AtomicBool::new(false));
        state.actors.insert(actor.get_id(), session());
        let live = Live { actor: actor.clone(), routed: 0, busy, idle: None };
        state.live.insert(session(), live);
        if self.is_met {
            actor.cast(SessionMsg::CommitHeld)?;
            while actor.get_status() != ActorStatus::Stopped {
                tokio::task::yield_now().await;
            }
            let (answer, on_answer) = oneshot::channel();
            let door = Door::View { run: RunId::new("r").unwrap(), answer };
            state.route(&myself, &session(), door);
            let refused = on_answer.await.unwrap().unwrap_err();
            assert_eq!(refused.code, ErrorCode::Unavailable);
        }
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<SessionsMsg>,
        msg: SessionsMsg,
        state: &mut SessionsState,
    ) -> Result<(), ActorProcessingErr> {
        let looks = matches!(msg, SessionsMsg::LetGo);
        self.looks.fetch_add(usize::from(looks), Ordering::Relaxed);
        SessionSupervisor.handle(myself, msg, state).await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SessionsMsg>,
        event: SupervisionEvent,
        state: &mut SessionsState,
    ) -> Result<(), ActorProcessingErr> {
        SessionSupervisor.handle_supervisor_evt(myself, event, state).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_panics_is_restarted_like_any_that_fails() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let mined = Watched { is_mined: true, ..Watched::default() };
    let (sessions, _) = Actor::spawn(None, mined, context).await.unwrap();
    let view = async || {
        let (answer, on_answer) = oneshot::channel();
        let door = Door::View { run: RunId::new("r").unwrap(), answer };
        sessions.cast(SessionsMsg::Route { session: session(), door }).unwrap();
        on_answer.await.ok().and_then(Result::err).map(|error| error.code)
    };
    assert_eq!(view().await, None, "the panic answers nobody");
    // Counted until the session is in memory again, so that a drain waits for it.
    let busy = async || ractor::call_t!(sessions, SessionsMsg::Busy, 1000).unwrap();
    while busy().await == 0 {
        tokio::task::yield_now().await;
    }
    while busy().await > 0 {
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(view().await, Some(ErrorCode::UnknownRun));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_meets_a_failed_session_does_not_keep_it_from_being_restarted() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let met = Watched { is_mined: true, is_met: true, ..Watched::default() };
    let (sessions, _) = Actor::spawn(None, met, context).await.unwrap();
    let count = async || ractor::call_t!(sessions, SessionsMsg::Count, 1000).unwrap();
    let busy = async || ractor::call_t!(sessions, SessionsMsg::Busy, 1000).unwrap();
    let restarted = async {
        while busy().await == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        while busy().await > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_mins(1), restarted).await.expect("it is restarted");
    assert_eq!(count().await, 1, "it is there without a further message");
}

#[tokio::test(start_paused = true)]
async fn no_more_sessions_without_work_stay_than_may_and_none_for_long() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let (sessions, _) = Actor::spawn(None, SessionSupervisor, context).await.unwrap();
    let named = |n: usize| SessionId::new(&format!("s{n}")).unwrap();
    let count = async || ractor::call_t!(sessions, SessionsMsg::Count, 1000).unwrap();
    let is_there = async |n| {
        let (answer, on_answer) = oneshot::channel();
        let door = Door::View { run: RunId::new("r").unwrap(), answer };
        sessions.cast(SessionsMsg::Route { session: named(n), door }).unwrap();
        let error = on_answer.await.unwrap().unwrap_err();
        assert_eq!(error.code, ErrorCode::UnknownRun);
    };
    for n in 0..IDLE_SESSIONS_MAX {
        is_there(n).await;
    }
    assert_eq!(count().await, IDLE_SESSIONS_MAX);
    // Long before an actor ends because it has rested.
    let few_act = async {
        while sessions.get_children().len() > ACTING_MAX {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(ACTING / 2, few_act).await.expect("no more have an actor than may");
    // Whoever was heard of last stays longest, and a message to one that left brings it back.
    is_there(0).await;
    for n in [IDLE_SESSIONS_MAX, IDLE_SESSIONS_MAX + 1, 1, 2] {
        is_there(n).await;
    }
    while count().await > IDLE_SESSIONS_MAX {
        tokio::task::yield_now().await;
    }
    sleep(IDLE / 2).await;
    is_there(0).await;
    sleep(IDLE * 3 / 4).await;
    assert_eq!(count().await, 1);
    sleep(IDLE).await;
    assert_eq!(count().await, 0);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_come_one_by_one_go_one_by_one() {
    const SESSIONS: usize = 200;
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let watched = Watched::default();
    let looks = watched.looks.clone();
    let (sessions, _) = Actor::spawn(None, watched, context).await.unwrap();
    let count = async || ractor::call_t!(sessions, SessionsMsg::Count, 1000).unwrap();
    for n in 0..SESSIONS {
        let (answer, on_answer) = oneshot::channel();
        let door = Door::View { run: RunId::new("r").unwrap(), answer };
        let session = SessionId::new(&format!("s{n}")).unwrap();
        sessions.cast(SessionsMsg::Route { session, door }).unwrap();
        assert!(on_answer.await.unwrap().is_err());
        sleep(Duration::from_millis(700)).await;
    }
    let there = count().await;
    assert!((80..=90).contains(&there), "{there} stay for a minute, one each 700 ms");
    let looks = looks.load(Ordering::Relaxed);
    assert!(looks <= 3 * SESSIONS, "{looks} looks for {SESSIONS} sessions");
    sleep(2 * IDLE).await;
    assert_eq!(count().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_be_taken_up_is_set_aside() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let (session, run) = (SessionId::new("s").unwrap(), RunId::new("r").unwrap());
    let begun = submitted(&context, &run, "x");
    let entry = Entry::new(clock::now(), Body::Session(Input::Submitted(begun)));
    context.append(&session, 0, &Arc::new(vec![entry])).await.unwrap().project(Vec::new()).await;
    // From here on taking the run up fails, since that has to be journaled first.
    context.journal.clone().close();

    let (sessions, _) = Actor::spawn(None, SessionSupervisor, context).await.unwrap();
    sessions.cast(SessionsMsg::Activate { session: session.clone() }).unwrap();
    let mut last = None;
    for _ in 0..100 {
        sleep(Duration::from_millis(100)).await;
        let (answer, on_answer) = oneshot::channel();
        let door = Door::View { run: run.clone(), answer };
        sessions.cast(SessionsMsg::Route { session: session.clone(), door }).unwrap();
        last = on_answer.await.ok().and_then(Result::err).map(|error| error.code);
        if last == Some(ErrorCode::SessionDamaged) {
            break;
        }
    }
    assert_eq!(last, Some(ErrorCode::SessionDamaged));
}

/// A turn whose plan was dropped from memory and is to be read from its file.
#[tokio::test(start_paused = true)]
async fn a_turn_whose_plan_cannot_be_read_fails() {
    for is_passing in [true, false] {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let (session, run) = (session(), RunId::new("r").unwrap());
        let begun = submitted(&context, &run, "x");
        let plan = begun.plan;
        let machine = {
            let mut machine = SessionMachine::new(context.team.name.clone(), session.clone());
            machine.apply(clock::now(), &Input::Submitted(begun.clone()), &*context.plans).unwrap();
            Box::new(machine)
        };
        let entry = Entry::new(clock::now(), Body::Session(Input::Submitted(begun)));
        context
            .append(&session, 0, &Arc::new(vec![entry]))
            .await
            .unwrap()
            .project(Vec::new())
            .await;
        context.plans.replace([]).unwrap();
        let hidden = Unreadable::blob(data.path(), &context, &plan);
        if !is_passing {
            hidden.remove();
        }

        let (sessions, _) = Actor::spawn(None, SessionSupervisor, context).await.unwrap();
        sessions.cast(SessionsMsg::Rest { session: session.clone(), machine }).unwrap();
        let mut waits = 0;
        loop {
            let found = view(&sessions, &session, &run).await.unwrap();
            if matches!(found.state, RunState::Ended { status: RunStatus::Failed }) {
                break;
            }
            waits += 1;
            assert!(waits < 100, "{found:?}");
            sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(waits > 10, is_passing, "{waits}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_session_that_was_to_be_taken_up_leaves_memory() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let begun = submitted(&context, &RunId::new("r").unwrap(), &"x".repeat(1 << 15));
    let entry = Entry::new(clock::now(), Body::Session(Input::Submitted(begun)));
    let blob = wire::Digest::of(&wire::json::to_vec(&entry).unwrap());
    context.append(&session(), 0, &Arc::new(vec![entry])).await.unwrap().project(Vec::new()).await;
    let hidden = Unreadable::blob(data.path(), &context, &blob);
    hidden.remove();

    let (sessions, _) = Actor::spawn(None, SessionSupervisor, context.clone()).await.unwrap();
    sessions.cast(SessionsMsg::Activate { session: session() }).unwrap();
    let count = async || ractor::call_t!(sessions, SessionsMsg::Count, 1000).unwrap();
    assert_eq!(count().await, 1);
    sleep(3 * IDLE).await;
    assert_eq!((count().await, sessions.get_children().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_sender_was_told_that_nothing_came_of_it_does_not_begin() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let (sessions, _) = Actor::spawn(None, SessionSupervisor, context.clone()).await.unwrap();
    for (id, is_gone) in [("gone", true), ("there", false)] {
        let run = RunId::new(id).unwrap();
        let (accepted, on_accepted) = oneshot::channel();
        let (done, _on_done) = oneshot::channel();
        let submitted = submitted(&context, &run, "x");
        let submit = Submit { submitted, unless_known: None, is_let_go: true, accepted, done };
        let waits = (!is_gone).then_some(on_accepted);
        let door = Door::Submit(Box::new(submit));
        sessions.cast(SessionsMsg::Route { session: session(), door }).unwrap();
        if let Some(on_accepted) = waits {
            on_accepted.await.unwrap().unwrap();
        }
        assert_eq!(view(&sessions, &session(), &run).await.is_err(), is_gone, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_files_cannot_be_read_is_taken_up_once_they_can() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let (session, run) = (session(), RunId::new("r").unwrap());
    let begun = submitted(&context, &run, &"x".repeat(1 << 15));
    let entry = Entry::new(clock::now(), Body::Session(Input::Submitted(begun)));
    let blob = wire::Digest::of(&wire::json::to_vec(&entry).unwrap());
    context.append(&session, 0, &Arc::new(vec![entry])).await.unwrap().project(Vec::new()).await;
    let hidden = Unreadable::blob(data.path(), &context, &blob);

    let (sessions, _) = Actor::spawn(None, SessionSupervisor, context.clone()).await.unwrap();
    sessions.cast(SessionsMsg::Activate { session: session.clone() }).unwrap();
    let refused = view(&sessions, &session, &run).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StorageFailed, "{refused}");
    assert!(refused.retry_after_ms.is_some(), "{refused}");
    // Longer than a session stays that has nothing to do.
    sleep(3 * IDLE).await;
    assert_eq!(context.journal.next_slot(&session), 1);
    drop(hidden);
    // Nobody asks for it.
    sleep(3 * IDLE).await;
    assert!(context.journal.next_slot(&session) > 1, "the run was taken up");
    view(&sessions, &session, &run).await.unwrap();
}

/// A disk that has no room while it is said so, and counts who tries.
#[derive(Default)]
struct Disk {
    is_full: AtomicBool,
    tries: AtomicUsize,
}

impl Watch for Disk {
    fn before(&self, _: Step<'_>) {}

    fn after(&self, _: Step<'_>) {}

    fn refuse(&self, step: Step<'_>) -> io::Result<()> {
        if !matches!(step, Step::Append(_)) || !self.is_full.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.tries.fetch_add(1, Ordering::SeqCst);
        Err(io::ErrorKind::StorageFull.into())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_tried_while_there_is_no_room_at_all() {
    let data = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let team = wire::Name::new("quickstart").unwrap();
    let _watching = watch(&team_dir(data.path(), &team), disk.clone());
    let context = testing::open(data.path());
    let (session, other, run) =
        (session(), SessionId::new("other").unwrap(), RunId::new("r").unwrap());
    let entry =
        Entry::new(clock::now(), Body::Session(Input::Submitted(submitted(&context, &run, "x"))));
    context.append(&session, 0, &Arc::new(vec![entry])).await.unwrap().project(Vec::new()).await;
    let (sessions, _) = Actor::spawn(None, SessionSupervisor, context.clone()).await.unwrap();
    view(&sessions, &session, &run).await.unwrap();
    let cancel = async || {
        let (answer, on_answer) = oneshot::channel();
        let door = Door::Cancel { run: run.clone(), reason: "enough".to_owned(), answer };
        sessions.cast(SessionsMsg::Route { session: session.clone(), door }).unwrap();
        on_answer.await.unwrap()
    };
    let fill = async || {
        let slot = context.journal.next_slot(&other);
        context.journal.append(&other, slot, vec!["x".into()]).await
    };
    // One is let through now and then, which must not happen meanwhile.
    let undisturbed = Duration::from_secs(2);
    loop {
        let begun = Instant::now();
        disk.is_full.store(true, Ordering::SeqCst);
        assert!(matches!(fill().await, Err(journal::Error::StorageFull)));
        let before = disk.tries.load(Ordering::SeqCst);
        let refused = cancel().await.unwrap_err();
        let tried = disk.tries.load(Ordering::SeqCst) - before;
        disk.is_full.store(false, Ordering::SeqCst);
        assert_eq!(refused.code, ErrorCode::StorageFull, "{refused}");
        if begun.elapsed() < undisturbed {
            assert_eq!(tried, 0, "the machine took it, and is folded anew");
            break;
        }
        fill().await.unwrap();
    }
    // Whoever finds room opens the way for all.
    fill().await.unwrap();
    let ended = RunState::Ended { status: RunStatus::Cancelled };
    assert_eq!(cancel().await.unwrap().state, ended);
    // What needs no room is answered all the same.
    disk.is_full.store(true, Ordering::SeqCst);
    assert!(matches!(fill().await, Err(journal::Error::StorageFull)));
    assert_eq!(cancel().await.unwrap().state, ended);
}
