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

/// How many sessions without work have an actor: those of two busy seconds.
const ACTING_MAX: usize = 1024;

/// How many sessions without work stay in memory, with an actor or not, so that it does not grow
/// with the users of an hour. What those without an actor take together is bounded as well, by
/// [`resting::BYTES_MAX`]. One that left is folded again by its next message.
const IDLE_SESSIONS_MAX: usize = 4096;

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
        if let Err(ractor::MessagingErr::SendErr(SessionMsg::Door(door))) =
            live.actor.cast(SessionMsg::Door(door))
        {
            // It ended a moment ago and its supervision event is still to come, which has it started
            // again if it failed: it stands for the session until then.
            let text = format!("session {session} is being restarted");
            door.refuse(WireError::new(ErrorCode::Unavailable, text).retry_after(100));
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
        if self.idle.len() > ACTING_MAX
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
        self.faults.retain(|_, faults| !faults.are_over(now, &RestartPolicy::SESSION));
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
                self.context.places.set_aside(&session);
                let text = format!("session {session} failed too often and is set aside: {fault}");
                self.aside.insert(session, WireError::new(ErrorCode::SessionDamaged, text));
            }
        }
    }
}

#[cfg(test)]
mod tests;
