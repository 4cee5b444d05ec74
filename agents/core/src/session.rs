//! One conversation: which run is in work, which wait, which replies are still to be handed over.
//!
//! [`SessionMachine::apply`] takes one input and returns what is to be done about it. The shell
//! makes the input durable first and performs the effects then. After a restart the machine is
//! folded from the journal, told [`Input::Resumed`], and says again what is outstanding.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use wire::entry::{Body, Entry, Input, Submitted};
use wire::event::{EventId, EventKind};
use wire::run::{AnswerRequest, RunReply, RunState, RunStatus, RunView};
use wire::{
    CallKey, Digest, ErrorCode, Event, Name, OpenCall, Plan, Resolution, RunId, SessionId,
    Timestamp, TraceSink, WireError,
};

use crate::dialect::{Exchange, Transcript};
use crate::effect::{Aborted, Effect, Effects, Rejected};
use crate::run::{Missed, Run, late, not_asked};

mod busy;
mod called;
mod kept;
mod parting;
mod snapshot;
#[cfg(test)]
mod tests;

use busy::Entrance;
pub use kept::{EXCHANGES_BYTES_MAX, EXCHANGES_MAX, REPLIES_BYTES_MAX, REPLIES_MAX};
use parting::Parting;

/// Calls with an unknown outcome that a session keeps for people once their runs are over; the
/// oldest are let go, since nothing waits for them.
pub const UNRESOLVED_MAX: usize = 256;

/// Finds the plan that a run began with.
pub trait Plans {
    /// Returns the plan of a digest.
    fn plan(&self, digest: &Digest) -> Option<Arc<Plan>>;
}

impl<S: std::hash::BuildHasher> Plans for HashMap<Digest, Arc<Plan>, S> {
    fn plan(&self, digest: &Digest) -> Option<Arc<Plan>> {
        self.get(digest).cloned()
    }
}

/// Decides what a session does next. Owns no clock, no client and no mailbox.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionMachine {
    team: Name,
    session: SessionId,
    /// The slot of the next input.
    slot: u64,
    exchanges: Vec<Exchange>,
    /// How many there were, those that are out of reach included.
    exchanges_total: u64,
    /// In a box, since most sessions have none and are many.
    run: Option<Box<Run>>,
    queue: VecDeque<Queued>,
    /// Runs that are over, of which called agents have still to be told.
    partings: Vec<Parting>,
    /// Every run that was accepted, by the hash of its request.
    known: HashMap<RunId, Box<Known>>,
    /// Runs whose replies are held, in the order in which they ended, and what each reply takes.
    ended: VecDeque<(RunId, usize)>,
    /// Calls of runs that are over whose outcome nobody knows, the oldest first.
    unresolved: VecDeque<OpenCall>,
    /// What is known of the session as a whole, once it has had a run.
    activity: Option<Activity>,
    /// Where the spans go that it tells.
    sink: TraceSink,
}

/// With whom a session is held, and when.
#[derive(Clone, Debug, PartialEq)]
struct Activity {
    agent: Name,
    is_called: bool,
    begun: Timestamp,
    seen: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
struct Queued {
    submitted: Submitted,
    plan: Arc<Plan>,
    at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
struct Known {
    body: Digest,
    agent: Name,
    trace: wire::TraceContext,
    /// How and when it ended.
    end: Option<(RunStatus, Timestamp)>,
    reply: Option<Arc<RunReply>>,
    /// The run that the message joined, if it did.
    joined: Option<RunId>,
}

impl SessionMachine {
    /// Makes the machine of a session to which nothing has happened.
    pub fn new(team: Name, session: SessionId) -> Self {
        Self::beginning_at(team, session, 0)
    }

    /// Makes the machine of a session whose first entry will have some slot: one whose earlier
    /// entries are dropped must not use their slots again, since the keys of calls come from them.
    pub fn beginning_at(team: Name, session: SessionId, slot: u64) -> Self {
        Self {
            team,
            session,
            slot,
            exchanges: Vec::new(),
            exchanges_total: 0,
            run: None,
            queue: VecDeque::new(),
            partings: Vec::new(),
            known: HashMap::new(),
            ended: VecDeque::new(),
            unresolved: VecDeque::new(),
            activity: None,
            sink: TraceSink::default(),
        }
    }

    /// Has the machine tell spans as they are to be where they go; [`TraceSink::Export`] unless it is
    /// said.
    #[must_use]
    pub fn telling(self, sink: TraceSink) -> Self {
        Self { sink, ..self }
    }

    /// Rebuilds a machine from its whole journal, passing the effects of each entry to `each`.
    pub fn fold<'e>(
        team: Name,
        session: SessionId,
        entries: impl IntoIterator<Item = &'e Entry>,
        plans: &dyn Plans,
        each: impl FnMut(&Entry, u64, Vec<Effect>),
    ) -> Result<Self, FoldError> {
        Self::new(team, session).fold_on(entries, plans, each)
    }

    /// Applies entries that follow what the machine stands for; for one that was made by
    /// [`Self::beginning_at`] they may begin with a snapshot.
    pub fn fold_on<'e>(
        self,
        entries: impl IntoIterator<Item = &'e Entry>,
        plans: &dyn Plans,
        mut each: impl FnMut(&Entry, u64, Vec<Effect>),
    ) -> Result<Self, FoldError> {
        let mut machine = self;
        for entry in entries {
            let slot = machine.slot;
            if entry.v > wire::entry::ENTRY_VERSION {
                return Err(FoldError::Newer { slot, version: entry.v });
            }
            let Body::Session(input) = &entry.body else {
                return Err(FoldError::Foreign { slot });
            };
            let effects = machine
                .apply(entry.at, input, plans)
                .map_err(|rejected| FoldError::Rejected { slot, rejected })?;
            each(entry, slot, effects);
        }
        Ok(machine)
    }

    /// Takes one input and returns what is to be done. A rejected input changes nothing.
    pub fn apply(
        &mut self,
        now: Timestamp,
        input: &Input,
        plans: &dyn Plans,
    ) -> Result<Vec<Effect>, Rejected> {
        let mut effects = Effects::new(self.session.clone(), self.slot, now, self.sink);
        let resumed = matches!(input, Input::Resumed { .. });
        match input {
            Input::Submitted(submitted) => {
                self.on_submitted(submitted.clone(), plans, &mut effects)?;
            }
            Input::ModelReplied(replied) => {
                let run = self.run_mut(&replied.run)?;
                run.on_model_replied(replied.turn, &replied.outcome, &mut effects)?;
            }
            Input::CallSuspended { call, attempt, question } => {
                let run = self.run_of_call(call)?;
                run.on_call_suspended(call, *attempt, question.clone(), &mut effects)?;
            }
            Input::CallAsked { call, attempt, question } => {
                let run = self.run_of_call(call)?;
                run.on_call_asked(call, *attempt, question.clone(), &mut effects)?;
            }
            Input::QuestionAnswered { call, question, said } => {
                let run = self.run_of_call(call)?;
                run.on_answered(call, question, said.clone(), &mut effects)?;
            }
            Input::QuestionExpired { call, question } => {
                self.run_of_call(call)?.on_question_expired(call, question, &mut effects)?;
            }
            Input::CallSettled { call, outcome, usage, tainted, hop } => {
                let (run, hop) = (self.run_of_call(call)?, hop.as_deref());
                run.on_call_settled(call, outcome, *usage, *tainted, hop, &mut effects)?;
            }
            Input::CallLost { call, attempt, error, usage, tainted, hop } => {
                let (usage, tainted, hop) = (*usage, *tainted, hop.as_deref());
                let missed = Missed { error, usage, tainted, hop };
                self.run_of_call(call)?.on_call_lost(call, *attempt, &missed, &mut effects)?;
            }
            Input::CallProbed { call, probe, outcome, tainted } => {
                let run = self.run_of_call(call)?;
                run.on_call_probed(call, *probe, outcome, *tainted, &mut effects)?;
            }
            Input::CallApproved { call, digest } => {
                self.run_of_call(call)?.on_approved(call, digest, &mut effects)?;
            }
            Input::CallDenied { call, reason } => {
                self.run_of_call(call)?.on_denied(call, reason, &mut effects)?;
            }
            Input::ApprovalExpired { call } => {
                self.run_of_call(call)?.on_approval_expired(call, &mut effects)?;
            }
            Input::CallResolved { call, attempt, resolution } => {
                self.on_resolved(call, *attempt, resolution, &mut effects)?;
            }
            Input::CancelRequested { run, reason } => {
                let error = WireError::new(ErrorCode::Cancelled, reason);
                self.end_early(run, RunStatus::Cancelled, &error, &mut effects)?;
            }
            Input::DeadlinePassed { run } => {
                self.end_early(run, RunStatus::Deadline, &late(), &mut effects)?;
            }
            Input::ReplyPublished { run } => {
                self.ended(run).ok_or_else(|| Rejected::UnknownRun { run: run.clone() })?;
            }
            Input::CancelDelivered { call } => {
                let parting = self.partings.iter_mut().find(|parting| parting.aborts(call));
                parting.ok_or_else(|| Rejected::UnknownCall { call: call.clone() })?.on_told(call);
                self.drop_partings();
            }
            Input::Resumed { waiting, drained } => {
                let run = self.run.as_mut().ok_or(Rejected::OutOfPlace)?;
                effects.extend(self.partings.iter().map(Parting::effect));
                run.on_resumed(*waiting || *drained, &mut effects);
            }
            Input::Snapshot(snapshot) => self.on_snapshot((**snapshot).clone(), &mut effects)?,
        }
        self.move_on(&mut effects);
        if resumed {
            effects.drop_begun();
            effects.extend(self.to_be_begun());
        }
        self.slot += 1;
        Ok(effects.into_vec())
    }

    /// Returns what the session waits for. A restarted shell performs these again.
    pub fn outstanding(&self) -> Vec<Effect> {
        self.partings.iter().map(Parting::effect).chain(self.to_be_begun()).collect()
    }

    /// Returns what the runs that are not over wait for.
    fn to_be_begun(&self) -> impl Iterator<Item = Effect> {
        let timers = self.queue.iter().map(|queued| Effect::SetTimer {
            run: queued.submitted.run.clone(),
            at: queued.submitted.deadline,
        });
        timers.chain(self.run.iter().flat_map(|run| run.outstanding()))
    }

    /// Returns the input by which a restart takes up the run in work, if there is one. `drained` says
    /// that whoever had the session before let go of it in order.
    pub fn resumption(&self, drained: bool) -> Option<Input> {
        let run = self.run.as_ref()?;
        Some(Input::Resumed { waiting: run.waits_for_others_only(), drained })
    }

    /// Tells whether nothing is in work or waiting, and nobody is to be told of a run that is over.
    pub fn is_idle(&self) -> bool {
        self.run.is_none() && self.queue.is_empty() && self.partings.is_empty()
    }

    /// Returns the slot of the next input.
    pub const fn slot(&self) -> u64 {
        self.slot
    }

    /// Returns how the run in work began, with what its models are shown.
    pub fn transcript(&self) -> Option<(&Submitted, Transcript<'_>)> {
        let run = self.run.as_ref()?;
        Some((run.submitted(), run.transcript(&self.exchanges)))
    }

    /// Returns where a run stands, if it was ever accepted.
    pub fn view(&self, id: &RunId) -> Option<RunView> {
        let known = self.known.get(id)?;
        let state = match (known.end, &self.run) {
            (Some((status, _)), _) => RunState::Ended { status },
            (None, Some(run)) if run.id() == id || run.is_joined_by(id) => run.state(),
            (None, _) => RunState::Queued,
        };
        Some(RunView {
            run: id.clone(),
            session: self.session.clone(),
            agent: known.agent.clone(),
            state,
            trace: known.trace,
            joined: known.joined.clone(),
            waiting: Vec::new(),
        })
    }

    /// Returns the reply of a run, if it ended and the reply is still in memory.
    pub fn reply(&self, id: &RunId) -> Option<Arc<RunReply>> {
        self.known.get(id)?.reply.clone()
    }

    /// Returns how a run ended, if it did.
    pub fn ended(&self, id: &RunId) -> Option<RunStatus> {
        self.known.get(id)?.end.map(|(status, _)| status)
    }

    /// Returns the calls that wait for an answer, if the run is in work, in the order in which they
    /// are answered where nobody says which is meant. Whoever joined a run may answer for it.
    pub fn asks(&self, id: &RunId) -> Vec<CallKey> {
        let run = self.run.as_ref().filter(|run| run.id() == id || run.is_joined_by(id));
        run.iter().flat_map(|run| run.asks()).cloned().collect()
    }

    /// Returns the input that a person's answer to a run comes to, or why it is none.
    pub fn answer(&self, id: &RunId, request: &AnswerRequest) -> Result<Input, WireError> {
        let run = self.run.as_ref().filter(|run| run.id() == id || run.is_joined_by(id));
        run.map_or_else(|| Err(not_asked(id)), |run| run.read_answer(id, request))
    }

    /// Returns what can be decided about a call: the digest of what it asks for, and its attempt.
    pub fn decidable(&self, call: &CallKey) -> Option<(Digest, u32)> {
        self.run.as_ref().and_then(|run| run.decidable(call)).or_else(|| {
            let open = self.unresolved.iter().find(|open| open.call == *call)?;
            Some((open.digest, open.attempt))
        })
    }

    /// Returns what stands in the way of a call that waits for leave: two of a turn may ask for the
    /// same, and one of them was denied, or made with an outcome that nobody knows, while the other
    /// waited.
    pub fn bar_of(&self, call: &CallKey) -> Option<String> {
        self.run.as_ref()?.bar_of(call)
    }

    /// Tells whether called agents have still to be told that a run is over.
    pub fn is_telling(&self, id: &RunId) -> bool {
        self.partings.iter().any(|parting| parting.is_of(id))
    }

    /// Tells whether something goes on in it: a run in work that does not only wait for people and
    /// called agents, whose own sessions tell of them, or somebody to be told of one that is over.
    pub fn is_busy(&self) -> bool {
        !self.partings.is_empty()
            || self.run.as_ref().is_some_and(|run| !run.waits_for_others_only())
    }

    /// Tells whether the run in work awaits a call.
    pub fn awaits(&self, call: &CallKey) -> bool {
        self.run.as_ref().is_some_and(|run| run.awaits(call))
    }

    /// Returns the exchanges of earlier runs, oldest first.
    pub fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.exchanges.iter()
    }

    fn on_submitted(
        &mut self,
        submitted: Submitted,
        plans: &dyn Plans,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        if let Some(known) = self.known.get(&submitted.run) {
            let run = submitted.run;
            return Err(if known.body == submitted.body {
                Rejected::Repeated { run }
            } else {
                Rejected::Conflict { run }
            });
        }
        let plan = plans.plan(&submitted.plan).ok_or(Rejected::PlanUnknown)?;
        let entrance = self.entrance(&submitted, &plan)?;
        let joins = self.run.as_ref().filter(|_| entrance == Entrance::Joins);
        let known = Box::new(Known {
            body: submitted.body,
            agent: submitted.agent.clone(),
            trace: submitted.trace,
            end: None,
            reply: None,
            joined: joins.map(|run| run.id().clone()),
        });
        let activity = self.activity.get_or_insert_with(|| Activity {
            agent: submitted.agent.clone(),
            is_called: submitted.parent.is_some(),
            begun: effects.now(),
            seen: effects.now(),
        });
        activity.agent.clone_from(&submitted.agent);
        activity.seen = effects.now();
        self.known.insert(submitted.run.clone(), known);
        effects.tell(&submitted, EventKind::RunAccepted { input: submitted.text.clone() });
        effects.push(Effect::SetTimer { run: submitted.run.clone(), at: submitted.deadline });
        self.enter(entrance, submitted, plan, effects);
        Ok(())
    }

    /// Takes what a person says of an unknown outcome, in the run in work or in one that is over.
    fn on_resolved(
        &mut self,
        call: &CallKey,
        attempt: u32,
        resolution: &Resolution,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let position = self.unresolved.iter().position(|open| open.call == *call);
        let Some(position) = position else {
            let run = self.run.as_mut();
            let run = run.ok_or_else(|| Rejected::UnknownCall { call: call.clone() })?;
            return run.on_resolved(call, attempt, resolution, effects);
        };
        let open = self.unresolved.get(position).filter(|open| open.attempt == attempt);
        let run = open.map(|open| open.run.clone());
        let run = run.ok_or_else(|| Rejected::Superseded { call: call.clone() })?;
        self.unresolved.remove(position);
        effects.push(Effect::Closed { run, call: call.clone() });
        Ok(())
    }

    /// Ends a run that has not come to its reply by itself.
    fn end_early(
        &mut self,
        id: &RunId,
        status: RunStatus,
        error: &WireError,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        if let Some(run) = self.run.as_mut().filter(|run| run.id() == id) {
            run.end_early(status, error.clone(), effects);
            return Ok(());
        }
        let joined = self.run.as_mut().and_then(|run| run.leave(id, status, error, effects));
        if let Some(reply) = joined {
            self.part(reply, Vec::new(), effects);
            return Ok(());
        }
        let position = self.queue.iter().position(|queued| queued.submitted.run == *id);
        let queued = position
            .and_then(|position| self.queue.remove(position))
            .ok_or_else(|| Rejected::UnknownRun { run: id.clone() })?;
        let mut run =
            Run::new(self.team.clone(), queued.submitted, queued.plan, queued.at, effects.now());
        run.end_early(status, error.clone(), effects);
        self.hand_over(&mut run, effects);
        Ok(())
    }

    /// Hands over the reply of a run that has ended and begins the next, until one is in work.
    fn move_on(&mut self, effects: &mut Effects) {
        loop {
            if let Some(mut run) = self.run.take() {
                if run.reply().is_none() {
                    self.run = Some(run);
                    return;
                }
                self.hand_over(&mut run, effects);
            }
            let Some(queued) = self.queue.pop_front() else { return };
            if self.queue.is_empty() {
                // Most sessions never have two runs at once, and are many.
                self.queue = VecDeque::new();
            }
            let mut run = Box::new(Run::new(
                self.team.clone(),
                queued.submitted,
                queued.plan,
                queued.at,
                effects.now(),
            ));
            let before = if run.submitted().begins { &[][..] } else { &self.exchanges };
            run.begin_after(before, self.exchanges_total);
            run.start(effects);
            self.run = Some(run);
        }
    }

    fn hand_over(&mut self, run: &mut Run, effects: &mut Effects) {
        let Some(reply) = run.reply().cloned() else { return };
        self.remember(run.remembered());
        self.unresolved.extend(run.unresolved().cloned());
        while self.unresolved.len() > UNRESOLVED_MAX
            && let Some(oldest) = self.unresolved.pop_front()
        {
            effects.push(Effect::Closed { run: oldest.run, call: oldest.call });
        }
        self.part(reply, run.aborted().to_vec(), effects);
        for reply in run.answer_joined(effects) {
            self.part(reply, Vec::new(), effects);
        }
    }

    /// Keeps the reply of a run that is over, and hands it over.
    fn part(&mut self, reply: Arc<RunReply>, aborted: Vec<Aborted>, effects: &mut Effects) {
        self.keep(&reply, effects.now());
        self.partings.extend(Parting::of(&reply.run, aborted));
        effects.push(Effect::Publish { reply });
    }

    /// Lets go of the runs of which every called agent has been told.
    fn drop_partings(&mut self) {
        self.partings.retain(|parting| !parting.is_over());
        if self.partings.is_empty() {
            // Most sessions have none for most of the time, and are many.
            self.partings = Vec::new();
        }
    }

    fn run_mut(&mut self, id: &RunId) -> Result<&mut Run, Rejected> {
        self.run
            .as_deref_mut()
            .filter(|run| run.id() == id)
            .ok_or_else(|| Rejected::UnknownRun { run: id.clone() })
    }

    fn run_of_call(&mut self, call: &CallKey) -> Result<&mut Run, Rejected> {
        self.run
            .as_deref_mut()
            .filter(|run| run.awaits(call))
            .ok_or_else(|| Rejected::UnknownCall { call: call.clone() })
    }
}

/// Why a journal cannot be folded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// An entry was refused, although only accepted ones are written.
    #[error("entry {slot} cannot follow what stands before it: {rejected}")]
    Rejected {
        /// The entry's slot.
        slot: u64,
        /// Why.
        rejected: Rejected,
    },
    /// An entry was written by a newer version.
    #[error("entry {slot} is of format {version}, which needs a newer version of callboard")]
    Newer {
        /// The entry's slot.
        slot: u64,
        /// Its format.
        version: u8,
    },
    /// An entry is not one of a session.
    #[error("entry {slot} does not belong to a session")]
    Foreign {
        /// The entry's slot.
        slot: u64,
    },
}

/// Collects the events of a folded journal after a position, for observers that re-attach.
pub fn events_after(effects: &[Effect], after: Option<EventId>) -> Vec<Event> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Tell(event) => Some(event),
            _ => None,
        })
        .filter(|event| after.is_none_or(|after| event.id.is_some_and(|id| id > after)))
        .cloned()
        .collect()
}
