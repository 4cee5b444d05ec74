//! Keeps the sessions of a team: activates them by their first message, restarts them after a
//! fault, sets poisoned ones aside, and lets idle ones go.

mod resting;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agents_core::restart::{Faults, RestartPolicy, Verdict};
use agents_core::session::SessionMachine;
use ractor::{
    Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, ActorRuntime, RpcReplyPort,
    SupervisionEvent,
};
use tokio::task::AbortHandle;
use tokio::time::{Duration, Instant};
use tracing::{error, warn};
use wire::{ErrorCode, SessionId, WireError};

use resting::Resting;

use crate::context::TeamContext;
use crate::session::{Door, SessionActor, SessionArgs, SessionMsg};

/// How long a session without work stays in memory.
const IDLE: Duration = Duration::from_secs(60);

/// How long such a session has an actor, which takes several times as much memory as its machine:
/// longer than those wait who send their next message by themselves.
const ACTING: Duration = Duration::from_secs(2);

/// How many sessions without work stay in memory, so that it does not grow with the users of an
/// hour. What those without an actor take together is bounded as well, by [`resting::BYTES_MAX`].
/// One that left is folded again by its next message.
const IDLE_SESSIONS_MAX: usize = 1024;

pub(crate) struct SessionSupervisor;

pub(crate) enum SessionsMsg {
    /// A message for a session, which is activated if need be.
    Route { session: SessionId, door: Door },
    /// Activates a session that has work to do.
    Activate { session: SessionId },
    /// A session has no work, having handled so many messages.
    Idle { session: SessionId, handled: u64 },
    /// Sessions have been without work for long enough.
    LetGo,
    /// A session wants to end its actor, having handled so many messages.
    Passivate { session: SessionId, handled: u64 },
    /// The actor of a session has ended without work. Here is its machine.
    Rest { session: SessionId, machine: Box<SessionMachine> },
    /// How many sessions are in memory.
    Count(RpcReplyPort<usize>),
    /// How many of them have work to do by themselves; those that are about to be restarted count.
    Busy(RpcReplyPort<usize>),
}

pub(crate) struct SessionsState {
    context: Arc<TeamContext>,
    started: Instant,
    live: HashMap<SessionId, Live>,
    /// The sessions of all actors that have not ended, also of those that were told to.
    actors: HashMap<ActorId, SessionId>,
    /// The sessions with an actor that have no work, by the order in which they said so.
    idle: BTreeMap<u64, Idle>,
    idle_next: u64,
    /// Those whose actor has ended.
    resting: Resting,
    /// When it is looked which of these and those have been without work for long enough, and the
    /// one timer that says so.
    wake: Option<(Instant, AbortHandle)>,
    faults: HashMap<SessionId, Faults>,
    aside: HashMap<SessionId, WireError>,
    /// Sessions that failed and wait to be started again.
    restarting: HashSet<SessionId>,
}

struct Live {
    actor: ActorRef<SessionMsg>,
    /// Messages routed to this actor; those it has not handled stand in its mailbox.
    routed: u64,
    /// Whether it has work to do by itself; it is taken to have until it is rebuilt.
    busy: Arc<AtomicBool>,
    /// Its place among those without work, if it is there.
    idle: Option<u64>,
}

/// A session without work.
struct Idle {
    session: SessionId,
    handled: u64,
    since: Instant,
}

impl Actor for SessionSupervisor {
    type Msg = SessionsMsg;
    type State = SessionsState;
    type Arguments = Arc<TeamContext>;

    async fn pre_start(
        &self,
        _: ActorRef<SessionsMsg>,
        context: Arc<TeamContext>,
    ) -> Result<SessionsState, ActorProcessingErr> {
        Ok(SessionsState {
            context,
            started: Instant::now(),
            live: HashMap::new(),
            actors: HashMap::new(),
            idle: BTreeMap::new(),
            idle_next: 0,
            resting: Resting::default(),
            wake: None,
            faults: HashMap::new(),
            aside: HashMap::new(),
            restarting: HashSet::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SessionsMsg>,
        msg: SessionsMsg,
        state: &mut SessionsState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            SessionsMsg::Route { session, door } => state.route(&myself, &session, door),
            SessionsMsg::Activate { session } => {
                state.restarting.remove(&session);
                state.activate(&myself, &session);
            }
            SessionsMsg::Idle { session, handled } => state.on_idle(&myself, session, handled),
            SessionsMsg::LetGo => state.let_go(&myself),
            SessionsMsg::Passivate { session, handled } => state.passivate(&session, handled),
            SessionsMsg::Rest { session, machine } => state.rest(&myself, session, machine),
            SessionsMsg::Count(reply) => drop(reply.send(state.live.len() + state.resting.len())),
            SessionsMsg::Busy(reply) => drop(reply.send(state.busy())),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SessionsMsg>,
        event: SupervisionEvent,
        state: &mut SessionsState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(actor, fault) => {
                state.on_fault(&myself, &actor, &fault);
            }
            SupervisionEvent::ActorTerminated(actor, ..) => drop(state.forget(&actor)),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl SessionsState {
    fn route(&mut self, myself: &ActorRef<SessionsMsg>, session: &SessionId, door: Door) {
        if let Some(error) = self.aside.get(session) {
            door.refuse(error.clone());
            return;
        }
        let Some(live) = self.activate(myself, session) else {
            let text = format!("session {session} cannot be activated");
            door.refuse(WireError::new(ErrorCode::Internal, text));
            return;
        };
        live.routed += 1;
        let idle = live.idle.take();
        if let Err(failed) = live.actor.cast(SessionMsg::Door(door)) {
            // It ended a moment ago and its supervision event is still to come.
            self.live.remove(session);
            if let ractor::MessagingErr::SendErr(SessionMsg::Door(door)) = failed {
                let text = format!("session {session} is being restarted");
                let error = WireError::new(ErrorCode::Unavailable, text).retry_after(100);
                door.refuse(error);
            }
        }
        if let Some(at) = idle {
            self.idle.remove(&at);
        }
    }

    fn activate(
        &mut self,
        myself: &ActorRef<SessionsMsg>,
        session: &SessionId,
    ) -> Option<&mut Live> {
        if self.aside.contains_key(session) {
            return None;
        }
        if !self.live.contains_key(session) {
            let busy = Arc::new(AtomicBool::new(true));
            let args = SessionArgs {
                context: self.context.clone(),
                session: session.clone(),
                supervisor: myself.clone(),
                busy: busy.clone(),
                machine: self.resting.take(session),
            };
            let spawned =
                ActorRuntime::spawn_linked_instant(None, SessionActor, args, myself.get_cell());
            match spawned {
                Ok((actor, _)) => {
                    self.actors.insert(actor.get_id(), session.clone());
                    self.live.insert(session.clone(), Live { actor, routed: 0, busy, idle: None });
                }
                Err(failed) => {
                    error!(%session, error = %failed, "session actor not started");
                    return None;
                }
            }
        }
        self.live.get_mut(session)
    }

    fn busy(&self) -> usize {
        let busy = self.live.values().filter(|live| live.busy.load(Ordering::Relaxed)).count();
        busy + self.restarting.len()
    }

    /// Notes that a session has no work, and lets the first of these go if they are too many.
    fn on_idle(&mut self, myself: &ActorRef<SessionsMsg>, session: SessionId, handled: u64) {
        // If a message is on its way to it, it says so again.
        let live = self.live.get_mut(&session).filter(|live| live.routed == handled);
        let Some(live) = live else { return };
        let at = self.idle_next;
        self.idle_next += 1;
        if let Some(before) = live.idle.replace(at) {
            self.idle.remove(&before);
        }
        self.idle.insert(at, Idle { session, handled, since: Instant::now() });
        self.drop_resting();
        if self.idle.len() > IDLE_SESSIONS_MAX
            && let Some((_, first)) = self.idle.pop_first()
        {
            self.ask_to_leave(&first);
        }
        self.wake(myself, Instant::now() + ACTING);
    }

    /// Drops the first of those that rest while there are too many without work.
    fn drop_resting(&mut self) {
        while self.idle.len() + self.resting.len() > IDLE_SESSIONS_MAX && self.resting.drop_first()
        {
        }
    }

    /// Looks at a time who has been without work for long enough, unless that is done before.
    fn wake(&mut self, myself: &ActorRef<SessionsMsg>, at: Instant) {
        if self.wake.as_ref().is_some_and(|(before, _)| *before <= at) {
            return;
        }
        self.sleep_on();
        let timer = myself.send_after(at - Instant::now(), || SessionsMsg::LetGo);
        self.wake = Some((at, timer.abort_handle()));
    }

    /// Ends the timer. One more for each that is overtaken would make ever more of them.
    fn sleep_on(&mut self) {
        if let Some((_, timer)) = self.wake.take() {
            timer.abort();
        }
    }

    /// Lets those go that have been without work for long enough, and awaits the next.
    fn let_go(&mut self, myself: &ActorRef<SessionsMsg>) {
        self.sleep_on();
        while let Some(first) = self.idle.first_entry() {
            let until = first.get().since + ACTING;
            if until > Instant::now() {
                self.wake(myself, until);
                break;
            }
            let first = first.remove();
            self.ask_to_leave(&first);
        }
        if let Some(until) = self.resting.expire(IDLE.saturating_sub(ACTING)) {
            self.wake(myself, until);
        }
    }

    /// Keeps the machine of a session whose actor has ended, unless it has another by now.
    fn rest(
        &mut self,
        myself: &ActorRef<SessionsMsg>,
        session: SessionId,
        machine: Box<SessionMachine>,
    ) {
        if self.live.contains_key(&session) || self.aside.contains_key(&session) {
            return;
        }
        self.resting.put(session, machine);
        self.drop_resting();
        self.wake(myself, Instant::now() + IDLE.saturating_sub(ACTING));
    }

    fn ask_to_leave(&mut self, idle: &Idle) {
        let Some(live) = self.live.get_mut(&idle.session) else { return };
        live.idle = None;
        // One that has ended is forgotten when its supervision event comes.
        drop(live.actor.cast(SessionMsg::IdleCheck { handled: idle.handled }));
    }

    fn passivate(&mut self, session: &SessionId, handled: u64) {
        let idle = self.live.get(session).is_some_and(|live| live.routed == handled);
        if idle && let Some(live) = self.remove(session) {
            live.actor.stop(Some("idle".to_owned()));
        }
    }

    fn remove(&mut self, session: &SessionId) -> Option<Live> {
        let live = self.live.remove(session)?;
        if let Some(at) = live.idle {
            self.idle.remove(&at);
        }
        Some(live)
    }

    fn forget(&mut self, actor: &ActorCell) -> Option<SessionId> {
        let id = actor.get_id();
        let session = self.actors.remove(&id)?;
        // Another may stand for the session by now.
        self.live.get(&session).filter(|live| live.actor.get_id() == id)?;
        self.remove(&session);
        Some(session)
    }

    fn on_fault(
        &mut self,
        myself: &ActorRef<SessionsMsg>,
        actor: &ActorCell,
        fault: &ActorProcessingErr,
    ) {
        let Some(session) = self.forget(actor) else { return };
        let now = self.started.elapsed();
        let faults = self.faults.entry(session.clone()).or_default();
        match faults.on_fault(now, &RestartPolicy::SESSION) {
            Verdict::Restart(wait) => {
                self.context.metrics.restarted("session");
                warn!(%session, %fault, ?wait, "session failed, will be restarted");
                self.context.counters.note_restart();
                self.restarting.insert(session.clone());
                myself.send_after(wait, move || SessionsMsg::Activate { session });
            }
            Verdict::GiveUp => {
                error!(%session, %fault, "session failed too often and is set aside");
                let text = format!("session {session} failed too often and is set aside: {fault}");
                self.aside.insert(session, WireError::new(ErrorCode::SessionDamaged, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::time::sleep;
    use wire::entry::{Body, Entry, Input, Submitted};
    use wire::run::Budget;
    use wire::{Digest, RunId, TraceContext};

    use super::*;
    use crate::testing;

    /// A session whose actor panics at its first message.
    struct Grenade;

    impl Actor for Grenade {
        type Msg = SessionMsg;
        type State = ();
        type Arguments = ();

        async fn pre_start(
            &self,
            _: ActorRef<SessionMsg>,
            (): (),
        ) -> Result<(), ActorProcessingErr> {
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
            state.live.insert(session(), Live { actor, routed: 0, busy, idle: None });
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
        let agent = context.team.entry.clone();
        let now = crate::clock::now();
        let submitted = Submitted {
            run: run.clone(),
            plan: context.plans.current(&agent).unwrap().0,
            agent,
            text: "x".to_owned(),
            body: Digest::of(b"x"),
            deadline: now.plus_ms(3_600_000),
            budget: Budget::default(),
            trace: TraceContext::root(&context.team.name, &run),
            caller_span: None,
            parent: None,
        };
        let entry = Entry::new(now, Body::Session(Input::Submitted(submitted)));
        context.append(&session, 0, &[entry]).await.unwrap().project(Vec::new()).await;
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
}
