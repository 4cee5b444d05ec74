//! Runs one session: makes each input durable, then performs the effects it asked for.

mod accept;
mod door;
mod held;
mod submit;
mod tidy;
mod work;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agents_core::effect::Effect;
use agents_core::session::SessionMachine;
use foldhash::fast::RandomState;
use journal::Since;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::Duration;
use tracing::{debug, warn};
use wire::entry::{Input, ModelReplied};
use wire::run::RunView;
use wire::{CallKey, ErrorCode, RunId, SessionId, WireError};

use accept::Refusal;
pub(crate) use door::{Answer, Decision, Door, Receipt, Submit};
use held::Held;
use submit::Unsaid;
pub(crate) use tidy::Tidied;
use work::Work;

use crate::context::TeamContext;
use crate::error::Error;
use crate::fold::{fold_changes, fold_machine};
use crate::perform::Saying;
use crate::prefix::SentPrefixes;
use crate::reply::Final;
use crate::sessions::SessionsMsg;

/// How long an outcome waits that could not be journaled because the disk is full.
const ROOM_PAUSE: Duration = Duration::from_millis(500);
/// How long a session waits before its files are read again that could not be; doubled each time.
const REBUILD_PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest such pause.
const REBUILD_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long an answer to a cancel waits until the called agents know of it as well, so that it
/// speaks for all of them; agents that are out of reach are told later.
const CANCEL_WAIT: Duration = Duration::from_secs(1);

pub(crate) struct SessionActor;

pub(crate) enum SessionMsg {
    /// Something from outside; counted by the supervisor.
    Door(Door),
    /// The outcome of an effect.
    Input(Box<Input>),
    /// What a model said to a turn, which was so many turns after the first that was asked.
    Replied { replied: Box<ModelReplied>, asked: u64 },
    /// The outcome of a call that was made before what led to it was durable, when so many runs were
    /// given up.
    Settled { input: Box<Input>, given_up: u64 },
    /// A call under way is about to ask something, and hears what is said to it.
    Asks { call: CallKey, saying: Saying },
    /// What is held has waited long enough.
    CommitHeld,
    /// A turn whose plan could not be read is to be asked, which is attempt `number` at it.
    AskAgain { effect: Box<Effect>, number: u32 },
    /// The files of the session that could not be read may be now.
    RebuildAgain,
    /// Whoever ended a run has waited long enough for the agents that it had called.
    CancelLate { run: RunId },
    /// The actor is to end, if the session has no work and nothing was handled since.
    IdleCheck { handled: u64 },
}

pub(crate) struct SessionArgs {
    pub(crate) context: Arc<TeamContext>,
    pub(crate) session: SessionId,
    pub(crate) supervisor: ActorRef<SessionsMsg>,
    /// Says whether the session has work to do by itself.
    pub(crate) busy: Arc<AtomicBool>,
    /// Its machine, if it rested in memory.
    pub(crate) machine: Option<Box<SessionMachine>>,
}

pub(crate) struct SessionState {
    context: Arc<TeamContext>,
    session: SessionId,
    /// Where its observers listen.
    events_subject: String,
    supervisor: ActorRef<SessionsMsg>,
    myself: ActorRef<SessionMsg>,
    busy: Arc<AtomicBool>,
    /// The machine, or why it cannot be rebuilt.
    machine: Result<Box<SessionMachine>, WireError>,
    /// The machine that rested in memory, until it is taken up.
    rested: Option<Box<SessionMachine>>,
    waiters: HashMap<RunId, Vec<Answer<Final>>>,
    /// Those who ended a run and are answered when its called agents know of it.
    cancels: Vec<(RunId, Answer<RunView>)>,
    tasks: HashMap<Work, AbortHandle, RandomState>,
    /// Where calls under way that asked something are told what was said.
    saying: HashMap<CallKey, Saying>,
    prefixes: SentPrefixes,
    held: Held,
    /// Who sent the run that is about to become durable.
    unsaid: Option<Box<Unsaid>>,
    /// How many turns were asked for.
    asked: u64,
    /// How many were when a turn of a run became void, since what led to it found no room on the disk.
    void: HashMap<RunId, u64>,
    /// How many runs were given up that had come further than to their first turn.
    given_up: u64,
    /// The next inputs: what came, and outcomes of calls that were over at once because of it.
    outcomes: VecDeque<Input>,
    /// How often in a row the session's files could not be read.
    unread: u32,
    /// The run in work is still to be taken up, for which there was no room on the disk.
    is_resume_due: bool,
    handled: u64,
    /// The newest step that was counted.
    step_counted: Option<(RunId, u32)>,
    /// The count of handled messages at which the supervisor was last told that it has no work.
    idle_said: Option<u64>,
}

impl Actor for SessionActor {
    type Msg = SessionMsg;
    type State = SessionState;
    type Arguments = SessionArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<SessionMsg>,
        args: SessionArgs,
    ) -> Result<SessionState, ActorProcessingErr> {
        let SessionArgs { context, session, supervisor, busy, machine: rested } = args;
        let text = format!("session {session} is being rebuilt");
        let rebuilding = WireError::new(ErrorCode::Unavailable, text).retry_after(100);
        Ok(SessionState {
            events_subject: context.events_of(&session),
            context,
            session,
            supervisor,
            myself,
            busy,
            machine: Err(rebuilding),
            rested,
            step_counted: None,
            waiters: HashMap::new(),
            cancels: Vec::new(),
            tasks: HashMap::default(),
            saying: HashMap::new(),
            prefixes: SentPrefixes::default(),
            held: Held::default(),
            unsaid: None,
            asked: 0,
            void: HashMap::new(),
            given_up: 0,
            outcomes: VecDeque::new(),
            unread: 0,
            is_resume_due: false,
            handled: 0,
            idle_said: None,
        })
    }

    /// Rebuilds the session, before its first message. A fault in `pre_start` would go unnoticed:
    /// the supervisor is told only of actors that have started.
    async fn post_start(
        &self,
        _: ActorRef<SessionMsg>,
        state: &mut SessionState,
    ) -> Result<(), ActorProcessingErr> {
        Box::pin(state.rebuild()).await?;
        Box::pin(state.take_up()).await?;
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<SessionMsg>,
        msg: SessionMsg,
        state: &mut SessionState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            // In boxes, since a session spends most of its life without work.
            SessionMsg::Door(door) => {
                // Nobody is told what is not durable.
                Box::pin(state.commit_held()).await?;
                Box::pin(state.on_door(door)).await?;
            }
            SessionMsg::Input(input) => {
                state.outcomes.push_back(*input);
                Box::pin(state.take_outcomes()).await?;
            }
            SessionMsg::Replied { replied, asked } => {
                let is_valid = state.void.get(&replied.run).is_none_or(|void| asked > *void);
                state.on_outcome(Input::ModelReplied(*replied), is_valid);
                Box::pin(state.take_outcomes()).await?;
            }
            SessionMsg::Settled { input, given_up } => {
                state.on_outcome(*input, given_up == state.given_up);
                Box::pin(state.take_outcomes()).await?;
            }
            SessionMsg::Asks { call, saying } => state.on_asks(call, saying),
            SessionMsg::CommitHeld => Box::pin(state.commit_held()).await?,
            SessionMsg::RebuildAgain => Box::pin(state.rebuild_again()).await?,
            SessionMsg::AskAgain { effect, number } => state.ask(*effect, number),
            SessionMsg::CancelLate { run } => {
                state.answer_cancels(|machine, id| *id == run || !machine.is_telling(id));
            }
            SessionMsg::IdleCheck { handled } => state.on_idle_check(handled),
        }
        state.say_idle();
        Ok(())
    }

    /// Makes durable what is held, and leaves the machine of a session that has no work to the
    /// supervisor.
    async fn post_stop(
        &self,
        _: ActorRef<SessionMsg>,
        state: &mut SessionState,
    ) -> Result<(), ActorProcessingErr> {
        Box::pin(state.commit_held()).await?;
        if state.is_idle() {
            let ended = Err(Error::Ending.to_wire());
            if let Ok(machine) = std::mem::replace(&mut state.machine, ended) {
                let session = state.session.clone();
                drop(state.supervisor.cast(SessionsMsg::Rest { session, machine }));
            }
        }
        Ok(())
    }
}

impl Drop for SessionState {
    fn drop(&mut self) {
        // However the actor ended, what is under way would report to nobody. It is done here and
        // not in `post_stop`, to which a failed actor does not come.
        self.tasks.drain().for_each(|(_, task)| task.abort());
    }
}

impl SessionState {
    /// Takes the machine that rested, or folds it from the journal.
    async fn rebuild(&mut self) -> Result<(), Error> {
        // Somebody may have added to the journal of a session without an actor.
        let next = self.context.journal.next_slot(&self.session);
        if let Some(machine) = self.rested.take().filter(|machine| machine.slot() == next) {
            self.machine = Ok(machine);
            return Ok(());
        }
        let (context, session) = (self.context.clone(), self.session.clone());
        let fold = move || {
            let plans = &*context.plans;
            fold_machine(&context.team.name, &session, &context.journal, plans, Since::Newest)
        };
        let folded = if self.context.journal.knows(&self.session) {
            spawn_blocking(fold).await.map_err(|_| Error::Ending)?
        } else {
            fold()
        };
        let failed = std::mem::take(&mut self.unread);
        self.machine = match folded {
            Ok(machine) => Ok(Box::new(machine.telling(self.context.sink()))),
            Err(error) if error.is_unreadable() => Err(self.rebuild_later(&error, failed)),
            Err(error) => {
                warn!(session = %self.session, %error, "session set aside: it cannot be rebuilt");
                self.context.places.set_aside(&self.session);
                Err(error.to_wire())
            }
        };
        Ok(())
    }

    /// Has the session rebuilt after a pause, since its run is in nobody's hands until then. Returns
    /// what is said to whoever asks for it meanwhile.
    fn rebuild_later(&mut self, error: &Error, failed: u32) -> WireError {
        self.unread = failed.saturating_add(1);
        let pause = REBUILD_PAUSE_MIN * 2u32.pow(failed.min(16));
        let pause = pause.min(REBUILD_PAUSE_MAX);
        warn!(session = %self.session, %error, "session cannot be read at present");
        self.myself.send_after(pause, || SessionMsg::RebuildAgain);
        error.to_wire().retry_after(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX))
    }

    /// Tells the store what it may not know of the session, if that could not be read at the start.
    async fn tell_store(&self) -> Result<(), Error> {
        let commit = self.context.projector.begin();
        let (context, session) = (self.context.clone(), self.session.clone());
        let fold =
            move || fold_changes(&context.team.name, &session, &context.journal, &context.plans);
        match spawn_blocking(fold).await {
            Ok(Ok(changes)) => commit.project_again(changes).await,
            // The next start tries again.
            Ok(Err(_)) => commit.give_up(),
            Err(_) => return Err(Error::Ending),
        }
        Ok(())
    }

    async fn rebuild_again(&mut self) -> Result<(), Error> {
        if self.unread == 0 {
            return Ok(());
        }
        self.rebuild().await?;
        if self.machine.is_ok() {
            // What was under way before is taken up anew.
            self.tasks.drain().for_each(|(_, task)| task.abort());
            self.is_resume_due = false;
            self.tell_store().await?;
        }
        self.take_up().await
    }

    /// Goes on with what was outstanding when the session was last in memory.
    async fn take_up(&mut self) -> Result<(), Error> {
        let Ok(machine) = &self.machine else {
            self.say_busy();
            self.say_idle();
            return Ok(());
        };
        let drained = self.context.drained.has(&self.session, machine.slot());
        if let Some(resumed) = machine.resumption(drained) {
            self.outcomes.push_back(resumed);
            self.take_outcomes().await?;
        } else {
            let effects = machine.outstanding();
            self.perform_all(effects, &[]);
        }
        self.say_busy();
        self.say_idle();
        Ok(())
    }

    async fn on_door(&mut self, door: Door) -> Result<(), Error> {
        self.handled += 1;
        if let Err(error) = &self.machine {
            door.refuse(error.clone());
            return Ok(());
        }
        match door {
            Door::Submit(submit) => self.on_submit(*submit).await,
            Door::Cancel { run, reason, answer } => {
                let input = Input::CancelRequested { run: run.clone(), reason };
                self.on_cancel(input, run, answer).await
            }
            Door::Reply { run, said, answer } => {
                let machine = self.machine.as_ref().map_err(Clone::clone);
                match machine.and_then(|machine| machine.answer(&run, &said)) {
                    Ok(input) => self.control(input, &run, answer).await,
                    Err(error) => {
                        drop(answer.send(Err(error)));
                        Ok(())
                    }
                }
            }
            Door::Decide { run, call, decision, answer } => {
                let decided = self.decide(&run, call, decision).await?;
                drop(answer.send(decided));
                Ok(())
            }
            Door::View { run, answer } => {
                drop(answer.send(self.view(&run)));
                Ok(())
            }
            Door::Await { run, done } => {
                self.attach(&run, done);
                Ok(())
            }
            Door::Tidy { cutoffs, is_asked, answer } => {
                let done = self.tidy(&cutoffs, is_asked).await?;
                drop(answer.send(Ok(done)));
                Ok(())
            }
            Door::Awaits { call, answer } => {
                let machine = self.machine.as_ref().ok();
                let asked = machine.and_then(|machine| machine.called(&call));
                drop(answer.send(Ok(asked.map(Box::new))));
                Ok(())
            }
        }
    }

    /// Ends a run, and answers when it is durable and the called agents know of it.
    async fn on_cancel(
        &mut self,
        input: Input,
        run: RunId,
        answer: Answer<RunView>,
    ) -> Result<(), Error> {
        let accepted = match self.accept(input).await? {
            Ok(()) => true,
            Err(Refusal::Machine(_)) => false,
            // It is not kept, so it must not look as if it were.
            Err(Refusal::NoRoom(error, _)) => {
                drop(answer.send(Err(error)));
                return Ok(());
            }
        };
        let telling = self.machine.as_ref().is_ok_and(|machine| machine.is_telling(&run));
        if accepted && telling {
            self.cancels.push((run.clone(), answer));
            self.myself.send_after(CANCEL_WAIT, move || SessionMsg::CancelLate { run });
            return Ok(());
        }
        // A run that has ended is beyond control, and its state says so.
        drop(answer.send(self.view(&run)));
        Ok(())
    }

    fn answer_cancels(&mut self, ripe: impl Fn(&SessionMachine, &RunId) -> bool) {
        let Ok(machine) = &self.machine else { return };
        let ripe = self.cancels.extract_if(.., |(run, _)| ripe(machine, run)).collect::<Vec<_>>();
        for (run, answer) in ripe {
            drop(answer.send(self.view(&run)));
        }
    }

    async fn control(
        &mut self,
        input: Input,
        run: &RunId,
        answer: Answer<RunView>,
    ) -> Result<(), Error> {
        let view = match self.accept(input).await? {
            Ok(()) => self.view(run),
            // A run that has ended is beyond control, and its state says so.
            Err(Refusal::Machine(rejected)) => self.view(run).map_err(|_| rejected.to_wire()),
            Err(Refusal::NoRoom(error, _)) => Err(error),
        };
        drop(answer.send(view));
        Ok(())
    }

    /// Takes what a person decides about an open call.
    async fn decide(
        &mut self,
        run: &RunId,
        call: CallKey,
        decision: Decision,
    ) -> Result<Result<RunView, WireError>, Error> {
        let known = self.machine.as_ref().ok().and_then(|machine| machine.decidable(&call));
        let Some((present, last)) = known else {
            let text = format!("call {call} is not open any more");
            return Ok(Err(WireError::new(ErrorCode::UnknownCall, text)));
        };
        let input = match decision {
            Decision::Approve { digest } => {
                let bar = self.machine.as_ref().ok().and_then(|machine| machine.bar_of(&call));
                if let Some(bar) = bar {
                    let text = format!("call {call} cannot be allowed: {bar}; deny it");
                    return Ok(Err(WireError::new(ErrorCode::CallDenied, text)));
                }
                Input::CallApproved { call, digest: digest.unwrap_or(present) }
            }
            Decision::Deny { reason } => Input::CallDenied { call, reason },
            Decision::Resolve { attempt, resolution } => {
                Input::CallResolved { call, attempt: attempt.unwrap_or(last), resolution }
            }
        };
        Ok(match self.accept(input).await? {
            Ok(()) => self.view(run),
            Err(rejected) => Err(rejected.to_wire()),
        })
    }

    /// Notes the outcome of a turn or a call, unless that became void since it was begun.
    fn on_outcome(&mut self, input: Input, is_valid: bool) {
        if is_valid {
            self.outcomes.push_back(input);
        } else {
            debug!(session = %self.session, "outcome of what is void");
        }
    }

    /// Takes the outcomes that came, and those of calls that are over at once because of them.
    async fn take_outcomes(&mut self) -> Result<(), Error> {
        if self.machine.is_err() {
            self.outcomes.clear();
            return Ok(());
        }
        while let Some(input) = self.outcomes.pop_front() {
            match self.accept(input).await? {
                Ok(()) => {}
                Err(Refusal::Machine(rejected)) => {
                    debug!(session = %self.session, %rejected, "outcome not awaited");
                }
                Err(Refusal::NoRoom(_, input)) => self.give_again(input),
            }
        }
        self.answer_cancels(|machine, run| !machine.is_telling(run));
        Ok(())
    }

    fn view(&self, run: &RunId) -> Result<RunView, WireError> {
        let machine = self.machine.as_ref().map_err(Clone::clone)?;
        machine.view(run).ok_or_else(|| unknown_run(run))
    }

    /// Takes back the waiter that came last, and leaves nothing behind for a run that has no other.
    fn detach(&mut self, run: &RunId) -> Option<Answer<Final>> {
        let waiters = self.waiters.get_mut(run)?;
        let done = waiters.pop();
        if waiters.is_empty() {
            self.waiters.remove(run);
        }
        done
    }

    /// Gives the reply of a run to someone, at once or when there is one.
    fn attach(&mut self, run: &RunId, done: Answer<Final>) {
        let Ok(machine) = &self.machine else { return };
        if let Some(reply) = machine.reply(run) {
            drop(done.send(Ok(Final::of(&reply, self.context.replies.token()))));
        } else if machine.ended(run).is_some() {
            let (context, run) = (self.context.clone(), run.clone());
            tokio::spawn(async move { drop(done.send(Final::look_up(context, run).await)) });
        } else if machine.view(run).is_some() {
            let waiters = self.waiters.entry(run.clone()).or_default();
            waiters.retain(|waiter| !waiter.is_closed());
            waiters.push(done);
        } else {
            drop(done.send(Err(unknown_run(run))));
        }
    }

    fn say_busy(&self) {
        let busy = self.machine.as_ref().is_ok_and(|machine| machine.is_busy());
        self.busy.store(busy, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        let waiting = self.waiters.values().flatten().any(|waiter| !waiter.is_closed());
        !waiting && self.machine.as_ref().map_or(self.unread == 0, |machine| machine.is_idle())
    }

    fn say_idle(&mut self) {
        if self.idle_said != Some(self.handled) && self.is_idle() {
            // Sessions are many, and most of them are idle: what has ended holds its memory for as
            // long as it is tracked, and no run is there that could go on with what was sent.
            self.prefixes.clear();
            self.tasks.retain(|_, task| !task.is_finished());
            self.saying.retain(|_, saying| !saying.is_closed());
            let (session, handled) = (self.session.clone(), self.handled);
            self.idle_said = Some(handled);
            drop(self.supervisor.cast(SessionsMsg::Idle { session, handled }));
        }
    }

    fn on_idle_check(&mut self, handled: u64) {
        // If the supervisor declines, something is on its way here after which it is told again.
        if handled == self.handled && self.is_idle() {
            let session = self.session.clone();
            drop(self.supervisor.cast(SessionsMsg::Passivate { session, handled }));
        } else {
            self.idle_said = None;
        }
    }
}

fn unknown_run(run: &RunId) -> WireError {
    WireError::new(ErrorCode::UnknownRun, format!("no run {run} is known"))
}
