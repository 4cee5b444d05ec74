//! One process: the shells of its sessions, and the journal that they write.
//!
//! A shell takes one input at a time, writes the entry, performs the effects when it is durable,
//! and takes the next. The process may end at any of these points.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use agents_core::effect::{CallEffect, Earlier, Effect, Rejected};
use agents_core::invariant::Record;
use agents_core::session::SessionMachine;
use wire::entry::{Body, Entry, Submitted};
use wire::plan::Target;
use wire::run::{Budget, Parent, RunStatus};
use wire::{
    CallKey, CallOutcome, Digest, EffectClass, ErrorCode, Input, Name, OpenCall, RunId, RunReply,
    SessionId, Timestamp, TraceContext, Usage, WireError,
};

use crate::message::{Answer, Ask, Asker, Message};
use crate::team::name;
use crate::world::{Flaw, Position, World};

/// Milliseconds after which a request that may be repeated is sent again.
const AGAIN_MS: u64 = 1200;

/// What the process keeps in memory.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) shells: BTreeMap<SessionId, Shell>,
}

/// One session in memory.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) machine: SessionMachine,
    inbox: VecDeque<(Input, Option<Asker>)>,
    pub(crate) writing: Option<Writing>,
    /// Who waits for the reply of a run.
    waiting: BTreeMap<RunId, Vec<Asker>>,
    /// Calls whose answer has not come, with the attempt that is under way.
    calls: BTreeMap<CallKey, u32>,
}

/// An entry that is being written.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) record: Record,
    asker: Option<Asker>,
    pub(crate) crash: Option<Position>,
}

/// What happens within the process.
#[derive(Clone, Debug)]
pub(crate) enum Own {
    Durable(SessionId),
    Timer(SessionId, RunId),
    /// The time of a call is over.
    CallLate(SessionId, Box<CallEffect>),
    /// A request without an answer is sent again.
    CallAgain(SessionId, Box<CallEffect>),
    /// The time in which a call could be allowed, or a question be answered, is over.
    Expiry(SessionId, CallKey, Option<Name>),
    /// The time of a call that was told what a person said is over.
    SayLate(SessionId, CallKey, u32),
    /// The time of a probe is over.
    ProbeLate(SessionId, CallKey, u32),
    /// A called agent that has not said that it is over is told again to end.
    TellAgain(SessionId, CallKey),
    /// A failure that the process finds by itself.
    Gives(Box<Message>),
}

impl Shell {
    pub(crate) fn new(machine: SessionMachine) -> Self {
        Self {
            machine,
            inbox: VecDeque::new(),
            writing: None,
            waiting: BTreeMap::new(),
            calls: BTreeMap::new(),
        }
    }
}

impl World {
    /// Takes a request to an agent.
    pub(crate) fn door(&mut self, ask: Ask) {
        // Whoever asks for a called agent has to wait for it: its run may have ended by now.
        if let Asker::Call { session, call } = &ask.asker
            && !self.shell(session).is_some_and(|shell| shell.machine.awaits(call))
        {
            return;
        }
        let (digest, plan) = self.team.plan(&ask.agent, self.when_busy);
        let latest = self.timestamp().plus_ms(plan.limits.deadline_ms);
        let trace = TraceContext::root(&plan.team, &ask.run);
        let run = if self.flaw == Some(Flaw::AcceptsTwice) && self.rng.percent(20) {
            RunId::new(&format!("other-{}", self.now)).unwrap_or(ask.run)
        } else {
            ask.run
        };
        let submitted = Submitted {
            run,
            agent: ask.agent,
            plan: digest,
            body: Digest::of(ask.text.as_bytes()),
            text: ask.text,
            deadline: ask.until.map_or(latest, |until| until.min(latest)),
            budget: ask.budget,
            trace,
            caller_span: None,
            parent: ask.parent,
            begins: false,
        };
        self.take(&ask.session, Input::Submitted(submitted), Some(ask.asker));
    }

    /// Gives an input to a session.
    pub(crate) fn input(&mut self, session: &SessionId, input: Input) {
        self.take(session, input, None);
    }

    fn take(&mut self, session: &SessionId, input: Input, asker: Option<Asker>) {
        let Some(node) = &mut self.node else { return };
        let shell = node
            .shells
            .entry(session.clone())
            .or_insert_with(|| Shell::new(SessionMachine::new(name("team"), session.clone())));
        shell.inbox.push_back((input, asker));
        self.work(session);
    }

    /// Takes inputs until one has to be written.
    pub(crate) fn work(&mut self, session: &SessionId) {
        loop {
            let now = self.timestamp();
            let Some(shell) = self.shell(session) else { return };
            if shell.writing.is_some() {
                return;
            }
            let next =
                shell.inbox.pop_front().or_else(|| Some((self.past_to_drop(session)?, None)));
            let Some((input, asker)) = next else { return };
            self.note(|| format!("{session} takes {input:?}"));
            let plans = &self.team.plans;
            let Some(shell) = self.node.as_mut().and_then(|node| node.shells.get_mut(session))
            else {
                return;
            };
            let before = shell.machine.clone();
            let effects = match shell.machine.apply(now, &input, plans) {
                Ok(effects) => effects,
                Err(rejected) => {
                    if shell.machine != before {
                        self.fail(&format!("the rejected {input:?} changed {session}"));
                    }
                    self.on_rejected(session, &rejected, asker);
                    continue;
                }
            };
            let crash = self.draw_crash();
            let record = Record { entry: Entry::new(now, Body::Session(input)), effects };
            if self.flaw == Some(Flaw::EffectsFirst) {
                let life = self.life;
                for effect in record.effects.clone() {
                    self.perform(session, effect);
                }
                if life != self.life {
                    return;
                }
            }
            let Some(shell) = self.shell(session) else { return };
            shell.writing = Some(Writing { record, asker, crash });
            match crash {
                Some(Position::Before | Position::Unknown) => {
                    self.crash(crash);
                    return;
                }
                Some(Position::Durable | Position::Part(_)) | None => {
                    let ms = self.rng.below(4);
                    self.own(ms, Own::Durable(session.clone()));
                }
            }
        }
    }

    /// Lets a session at rest go on with a snapshot now and then. All runs are kept in it, since
    /// their clients may ask again for as long as the world lasts.
    fn past_to_drop(&mut self, session: &SessionId) -> Option<Input> {
        let snapshot = self.shell(session)?.machine.snapshot(Timestamp::default())?;
        (self.is_faulty() && self.rng.percent(30)).then(|| Input::Snapshot(Box::new(snapshot)))
    }

    pub(crate) fn shell(&mut self, session: &SessionId) -> Option<&mut Shell> {
        self.node.as_mut()?.shells.get_mut(session)
    }

    fn on_rejected(&mut self, session: &SessionId, rejected: &Rejected, asker: Option<Asker>) {
        self.note(|| format!("{session} refuses: {rejected}"));
        self.refused.push(rejected.clone());
        let Some(asker) = asker else { return };
        let Some(shell) = self.shell(session) else { return };
        let reply = match rejected {
            Rejected::Repeated { run } => {
                let (held, ended) = (shell.machine.reply(run), shell.machine.ended(run));
                // What the machine does not hold any more is in the store.
                let stored =
                    ended.and_then(|_| crate::check::reply_of(self, session, run).cloned());
                let Some(reply) = held.or(stored) else {
                    if let Some(shell) = self.shell(session) {
                        shell.waiting.entry(run.clone()).or_default().push(asker);
                    }
                    return;
                };
                Answer::Reply(reply)
            }
            Rejected::Conflict { .. } => Answer::Conflict,
            // Whoever asked asks again later.
            Rejected::QueueFull { .. } | Rejected::Busy { .. } => return,
            Rejected::PlanUnknown
            | Rejected::UnknownRun { .. }
            | Rejected::UnknownCall { .. }
            | Rejected::Superseded { .. }
            | Rejected::StaleTurn { .. }
            | Rejected::OutOfPlace => {
                self.fail(&format!("a request was refused: {rejected}"));
                return;
            }
        };
        self.send(Message::Reply { asker, reply }, true);
    }

    pub(crate) fn on_own(&mut self, own: Own) {
        match own {
            Own::Durable(session) => self.on_durable(&session),
            Own::Timer(session, run) => self.input(&session, Input::DeadlinePassed { run }),
            Own::CallLate(session, call) => {
                if self.awaits(&session, &call) {
                    self.end_wait(&session, &call.call);
                    let error = WireError::new(ErrorCode::ToolTimeout, "no answer");
                    let (attempt, key) = (call.attempt, call.call);
                    self.input(
                        &session,
                        match call.target {
                            Target::Tool => Input::CallLost {
                                call: key,
                                attempt,
                                error,
                                usage: Usage::default(),
                                tainted: false,
                                hop: None,
                            },
                            Target::Agent => {
                                let outcome = CallOutcome::Error { error };
                                Input::CallSettled {
                                    call: key,
                                    outcome,
                                    usage: Usage::default(),
                                    tainted: false,
                                    hop: None,
                                }
                            }
                        },
                    );
                }
            }
            Own::CallAgain(session, call) => {
                if self.awaits(&session, &call) {
                    self.call(&session, &call);
                }
            }
            Own::Expiry(session, call, None) => {
                self.input(&session, Input::ApprovalExpired { call });
            }
            Own::Expiry(session, call, Some(question)) => {
                self.input(&session, Input::QuestionExpired { call, question });
            }
            Own::SayLate(session, call, attempt) => {
                if self.attempt(&session, &call) == Some(attempt) {
                    self.end_wait(&session, &call);
                    let error = WireError::new(ErrorCode::ToolTimeout, "no answer");
                    self.input(
                        &session,
                        Input::CallLost {
                            call,
                            attempt,
                            error,
                            usage: Usage::default(),
                            tainted: false,
                            hop: None,
                        },
                    );
                }
            }
            Own::ProbeLate(session, call, probe) => {
                let outcome = CallOutcome::error(ErrorCode::ToolTimeout, "no answer");
                self.input(&session, Input::CallProbed { call, probe, outcome, tainted: false });
            }
            Own::TellAgain(session, call) => {
                if self.owes(&session, &call) {
                    self.tell_end(&session, &call);
                }
            }
            Own::Gives(message) => self.arrives(*message),
        }
    }

    fn on_durable(&mut self, session: &SessionId) {
        let Some(Writing { record, asker, crash }) =
            self.shell(session).and_then(|shell| shell.writing.take())
        else {
            return;
        };
        let effects = record.effects.clone();
        if let (Body::Session(Input::Submitted(submitted)), Some(asker)) =
            (&record.entry.body, asker)
        {
            let run = submitted.run.clone();
            self.acknowledged.insert((session.clone(), run.clone()));
            if let Some(shell) = self.shell(session) {
                shell.waiting.entry(run).or_default().push(asker);
            }
        }
        self.disk.entry(session.clone()).or_default().push(record);
        if crash == Some(Position::Durable) {
            self.crash(crash);
            return;
        }
        let mut performed = 0;
        for effect in effects {
            if crash == Some(Position::Part(performed)) {
                break;
            }
            let reports = matches!(
                effect,
                Effect::Tell(_) | Effect::Span(_) | Effect::Opened(_) | Effect::Closed { .. }
            );
            performed += usize::from(!reports);
            if self.flaw != Some(Flaw::EffectsFirst) {
                self.perform(session, effect);
            }
        }
        if crash.is_some() {
            self.crash(crash);
            return;
        }
        self.work(session);
    }

    pub(crate) fn perform(&mut self, session: &SessionId, effect: Effect) {
        match effect {
            Effect::AskModel { run, turn, role, deadline, .. } => {
                let agent = self
                    .shell(session)
                    .and_then(|shell| shell.machine.view(&run))
                    .map(|view| view.agent);
                if let Some(agent) = agent {
                    self.ask_model(session, (&run, turn, role), &agent, deadline);
                }
            }
            Effect::Call(call) => {
                self.ledger.sent.insert(call.call.clone(), call.attempt);
                if let Some(shell) = self.shell(session) {
                    shell.calls.insert(call.call.clone(), call.attempt);
                }
                let left = call.deadline.ms_since(self.timestamp());
                let call = Box::new(call);
                self.call(session, &call);
                self.own(left, Own::CallLate(session.clone(), call));
            }
            Effect::Abort { calls, .. } => {
                for aborted in calls {
                    self.end_wait(session, &aborted.call);
                    if aborted.target == Target::Agent {
                        self.tell_end(session, &aborted.call);
                    }
                }
            }
            Effect::Publish { reply } => {
                let run = reply.run.clone();
                let askers = self.shell(session).and_then(|shell| shell.waiting.remove(&run));
                for asker in askers.unwrap_or_default() {
                    let reply = Answer::Reply(reply.clone());
                    self.send(Message::Reply { asker, reply }, true);
                }
            }
            Effect::SetTimer { run, at } => {
                if self.flaw != Some(Flaw::NoTimers) {
                    let left = at.ms_since(self.timestamp());
                    self.own(left, Own::Timer(session.clone(), run));
                }
            }
            Effect::Probe { of, number, call } => {
                let left = call.deadline.ms_since(self.timestamp());
                let asked = (session.clone(), of.clone(), number);
                self.own(left, Own::ProbeLate(asked.0, asked.1, asked.2));
                self.send(Message::ProbeAsked { session: session.clone(), of, number }, true);
            }
            Effect::Say { call, question, said, deadline, .. } => {
                let attempt = self.shell(session).and_then(|shell| {
                    let (_, attempt) = shell.machine.decidable(&call)?;
                    shell.calls.insert(call.clone(), attempt);
                    Some(attempt)
                });
                let left = deadline.ms_since(self.timestamp());
                if let Some(attempt) = attempt {
                    self.own(left, Own::SayLate(session.clone(), call, attempt));
                }
                self.send(Message::Said { question, said }, false);
            }
            Effect::Expire { call, question, at, .. } => {
                let left = at.ms_since(self.timestamp());
                self.own(left, Own::Expiry(session.clone(), call, question));
            }
            Effect::Opened(open) => self.on_opened(*open),
            Effect::Closed { .. } | Effect::Tell(_) | Effect::Span(_) => {}
        }
    }

    /// Sends the request of a call, and again until it is answered if that is allowed.
    fn call(&mut self, session: &SessionId, call: &CallEffect) {
        match call.target {
            Target::Tool => {
                let message = Message::ToolAsked { session: session.clone(), call: call.clone() };
                // The bus itself repeats nothing; requests that may be repeated are.
                self.send(message, call.effect != EffectClass::Once);
            }
            Target::Agent => self.send(
                Message::Ask(Ask {
                    session: SessionId::of_call(&call.call),
                    run: RunId::of_call(&call.call),
                    agent: call.name.clone(),
                    text: call.arguments.to_string(),
                    budget: call.budget,
                    until: Some(call.deadline),
                    parent: Some(Parent {
                        session: session.clone(),
                        run: call.run.clone(),
                        depth: call.depth,
                        tainted: call.tainted,
                    }),
                    asker: Asker::Call { session: session.clone(), call: call.call.clone() },
                }),
                true,
            ),
        }
        if call.effect != EffectClass::Once || self.flaw == Some(Flaw::RepeatsOnce) {
            self.own(AGAIN_MS, Own::CallAgain(session.clone(), Box::new(call.clone())));
        }
    }

    /// Stops waiting for the answer of a call; tells whether anyone did.
    pub(crate) fn end_wait(&mut self, session: &SessionId, call: &CallKey) -> bool {
        self.shell(session).is_some_and(|shell| shell.calls.remove(call).is_some())
    }

    /// Tells whether the answer of an attempt is waited for.
    fn awaits(&mut self, session: &SessionId, call: &CallEffect) -> bool {
        self.attempt(session, &call.call) == Some(call.attempt)
    }

    /// Returns the attempt of a call whose answer is waited for.
    pub(crate) fn attempt(&mut self, session: &SessionId, call: &CallKey) -> Option<u32> {
        self.shell(session)?.calls.get(call).copied()
    }

    /// Makes a call that waits for leave, as a broken shell might.
    pub(crate) fn make_without_leave(&mut self, open: &OpenCall) {
        let call = CallEffect {
            internal: false,
            run: open.run.clone(),
            agent: open.agent.clone(),
            call: open.call.clone(),
            name: open.tool.clone(),
            target: Target::Tool,
            arguments: open.arguments.clone(),
            task: None,
            deadline: self.timestamp(),
            effect: EffectClass::Once,
            attempt: 1,
            earlier: Earlier::Nothing,
            budget: Budget::default(),
            depth: 1,
            trace: TraceContext::root(&open.agent, &open.run),
            tainted: false,
            may_go_out: true,
            reader: None,
        };
        let message = Message::ToolAsked { session: open.session.clone(), call };
        self.send(message, false);
    }

    pub(crate) fn on_agent_replied(
        &mut self,
        session: &SessionId,
        call: CallKey,
        reply: &Arc<RunReply>,
    ) {
        self.end_wait(session, &call);
        let outcome = match reply.status {
            RunStatus::Completed => CallOutcome::text(reply.output.as_str()),
            status => CallOutcome::Ended {
                status,
                output: reply.output.to_string(),
                error: reply
                    .error
                    .clone()
                    .unwrap_or_else(|| WireError::new(ErrorCode::AgentFailed, "no reason given")),
            },
        };
        let (usage, tainted) = (reply.usage, reply.tainted);
        self.input(session, Input::CallSettled { call, outcome, usage, tainted, hop: None });
    }

    pub(crate) fn session_machine(&self, session: &SessionId) -> Option<&SessionMachine> {
        Some(&self.node.as_ref()?.shells.get(session)?.machine)
    }
}
