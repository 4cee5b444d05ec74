//! Everything around one node: the clock, the network, the clients, the models and the tools.

use std::collections::{BTreeMap, BTreeSet};

use agents_core::dialect::Act;
use agents_core::effect::{CallEffect, Rejected};
use agents_core::invariant::Record;
use wire::entry::{ModelOutcome, ModelReplied};
use wire::plan::WhenBusy;
use wire::run::Budget;
use wire::{
    CallOutcome, ErrorCode, Input, ModelRole, Name, RunId, Said, SessionId, Timestamp, ToolReply,
};

use crate::ledger::Ledger;
use crate::message::{Answer, Ask, Asker, Message};
use crate::model;
use crate::node::{Node, Own};
use crate::rng::Rng;
use crate::team::{POLICIES, Team, name};

/// Things that may happen in one world; more means that something goes round in circles.
const EVENTS_MAX: usize = 20_000;

/// Milliseconds after which nothing is lost, repeated or crashed any more.
const CALM_AT: u64 = 15_000;

/// When the process ends: at which write of the journal, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crashes {
    /// At random, so many times at most.
    Random(u32),
    /// Once, at a write counted from 0.
    At(u64, Position),
}

/// Where in a write the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// Before the entry is durable.
    Before,
    /// Before anyone knows whether it is durable; it is.
    Unknown,
    /// When it is durable and none of its effects is performed.
    Durable,
    /// When so many of its effects are performed.
    Part(usize),
}

/// A mistake that a shell could make. The checks have to find every one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Effects are performed before the entry is durable.
    EffectsFirst,
    /// A call that must not be repeated is made again when no answer comes.
    RepeatsOnce,
    /// A restarted session is not told that it was restarted.
    SkipsResumed,
    /// A restarted session without a run in work tells no called agent that its caller is over.
    SkipsParted,
    /// No timer is set.
    NoTimers,
    /// Called agents are told once that their caller's run is over, and never again.
    TellsOnce,
    /// A called agent is said to know that its caller's run is over before it does.
    TellsNobody,
    /// A repeated request begins a run under another id.
    AcceptsTwice,
    /// A call that needs leave is made at once.
    SkipsLeave,
}

#[derive(Clone, Debug)]
enum Event {
    Arrives(Box<Message>),
    /// Within the process of a life; it dies with it.
    Own(u32, Own),
    Restart,
    ClientAsks(usize),
}

/// One who asks until there is an answer.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) ask: Ask,
    pub(crate) answers: Vec<Answer>,
    /// Waits for an answer at present.
    asking: bool,
}

/// The world. What can happen in it follows from the seed alone.
pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) now: u64,
    serial: u64,
    events: BTreeMap<(u64, u64), Event>,
    pub(crate) team: Team,
    /// What becomes of a message that comes while a run is in work, with all agents.
    pub(crate) when_busy: WhenBusy,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) crashes: Crashes,
    pub(crate) writes: u64,
    /// Counts the lives of the process.
    pub(crate) life: u32,
    pub(crate) node: Option<Node>,
    /// The durable part of the journal, with what was decided live from each entry.
    pub(crate) disk: BTreeMap<SessionId, Vec<Record>>,
    pub(crate) ledger: Ledger,
    /// Calls under way that wait for an answer, by their questions.
    pub(crate) asking: BTreeMap<Name, (SessionId, CallEffect)>,
    /// Counts the questions of calls under way.
    pub(crate) questions: u32,
    pub(crate) clients: Vec<Client>,
    /// Runs whose acceptance somebody was told.
    pub(crate) acknowledged: BTreeSet<(SessionId, RunId)>,
    /// What the models of a run were shown of messages that joined it.
    pub(crate) heard: BTreeMap<RunId, BTreeSet<String>>,
    /// Every input that a machine refused.
    pub(crate) refused: Vec<Rejected>,
    /// The first rule that was seen broken.
    pub(crate) broken: Option<String>,
    /// What happened, if somebody wants to know.
    pub(crate) log: Option<Vec<String>>,
}

impl World {
    pub(crate) fn new(team: Team, seed: u64, crashes: Crashes, flaw: Option<Flaw>) -> Self {
        let mut rng = Rng::new(seed);
        let when_busy = *rng.pick(&POLICIES);
        Self {
            rng,
            when_busy,
            now: 0,
            serial: 0,
            events: BTreeMap::new(),
            team,
            flaw,
            crashes,
            writes: 0,
            life: 0,
            node: Some(Node::default()),
            disk: BTreeMap::new(),
            ledger: Ledger::default(),
            asking: BTreeMap::new(),
            questions: 0,
            clients: Vec::new(),
            acknowledged: BTreeSet::new(),
            heard: BTreeMap::new(),
            refused: Vec::new(),
            broken: None,
            log: None,
        }
    }

    /// Lets everything happen until nothing more does, and then once more asks for every reply.
    pub(crate) fn run(&mut self) {
        self.arrange();
        self.go_on();
        for client in 0..self.clients.len() {
            self.clients[client].asking = true;
            self.after(0, Event::ClientAsks(client));
        }
        self.go_on();
    }

    fn arrange(&mut self) {
        let runs = 1 + self.rng.below(3);
        for number in 0..runs {
            let session = SessionId::new(["s0", "s1"][usize::from(self.rng.percent(30))]).unwrap();
            let agent =
                name(["lead", "lead", "finder", "writer", "planner"][index(self.rng.below(5))]);
            let tokens = self.rng.percent(10).then(|| self.rng.below(300));
            let ask = Ask {
                session,
                run: RunId::new(&format!("r{number}")).unwrap(),
                agent,
                text: format!("question {number}"),
                budget: Budget { tokens, ..Budget::default() },
                until: None,
                parent: None,
                asker: Asker::Client(self.clients.len()),
            };
            if self.rng.percent(20) {
                self.add_client(ask.clone());
            }
            if self.rng.percent(10) {
                self.add_client(Ask { text: "another question".to_owned(), ..ask.clone() });
            }
            if self.rng.percent(15) {
                let (session, run) = (ask.session.clone(), ask.run.clone());
                let cancel = Message::Cancel { session, run, parent: None };
                let ms = self.rng.below(4000);
                self.after(ms, Event::Arrives(Box::new(cancel)));
            }
            self.add_client(ask);
        }
    }

    fn add_client(&mut self, ask: Ask) {
        let asker = Asker::Client(self.clients.len());
        let ms = self.rng.below(3000);
        self.after(ms, Event::ClientAsks(self.clients.len()));
        self.clients.push(Client { ask: Ask { asker, ..ask }, answers: Vec::new(), asking: true });
    }

    fn go_on(&mut self) {
        let mut count = 0;
        while let Some(((at, _), event)) = self.events.pop_first() {
            count += 1;
            if count > EVENTS_MAX {
                self.fail(&format!("no rest after {EVENTS_MAX} events"));
            }
            if self.broken.is_some() {
                return;
            }
            self.now = at;
            match event {
                Event::Arrives(message) => self.on_message(*message),
                Event::Own(life, own) if life == self.life => self.on_own(own),
                Event::Own(..) => {}
                Event::Restart => self.restart(),
                Event::ClientAsks(client) => self.client_asks(client),
            }
        }
    }

    fn client_asks(&mut self, number: usize) {
        let client = &self.clients[number];
        if client.asking {
            self.send(Message::Ask(client.ask.clone()), true);
            let ms = 2000 + self.rng.below(3000);
            self.after(ms, Event::ClientAsks(number));
        }
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Ask(ask) => self.door(ask),
            Message::Cancel { session, run, parent } => self.on_cancel(&session, run, parent),
            Message::CancelDelivered { session, call } => {
                self.input(&session, Input::CancelDelivered { call });
            }
            Message::ModelReplied { session, replied } => {
                self.input(&session, Input::ModelReplied(replied));
            }
            Message::ToolAsked { session, call } => {
                if self.asks_first(&session, &call) {
                    return;
                }
                self.tool_works(&session, call);
            }
            Message::Said { question, said } => {
                let Some((session, call)) = self.asking.remove(&question) else { return };
                if matches!(said, Said::Accept { .. }) {
                    self.tool_works(&session, call);
                } else {
                    let outcome = CallOutcome::error(ErrorCode::ToolFailed, "nobody says it");
                    let (call, attempt) = (call.call, call.attempt);
                    let reply = ToolReply::settled(outcome);
                    self.send(Message::ToolReplied { session, call, attempt, reply }, true);
                }
            }
            Message::Ends { question } => {
                if let Some((session, call)) = self.asking.remove(&question) {
                    self.tool_works(&session, call);
                }
            }
            Message::ToolReplied { session, call, attempt, reply } => {
                if !matches!(reply, ToolReply::Lost { .. })
                    || self.attempt(&session, &call) == Some(attempt)
                {
                    self.end_wait(&session, &call);
                }
                let input = match reply {
                    ToolReply::Settled { outcome, usage, tainted, hop } => {
                        Input::CallSettled { call, outcome, usage, tainted, hop }
                    }
                    ToolReply::Suspended { question } => {
                        Input::CallSuspended { call, attempt: Some(attempt), question }
                    }
                    ToolReply::Asks { question } => Input::CallAsked { call, attempt, question },
                    ToolReply::Lost { error, usage, tainted, hop } => {
                        Input::CallLost { call, attempt, error, usage, tainted, hop }
                    }
                };
                self.input(&session, input);
            }
            Message::Answered { session, call } => {
                let outcome = CallOutcome::text("yes");
                let usage = wire::Usage::default();
                self.input(
                    &session,
                    Input::CallSettled { call, outcome, usage, tainted: false, hop: None },
                );
            }
            Message::ProbeAsked { session, of, number } => {
                self.on_probe_asked(session, of, number);
            }
            Message::Decided { session, input } => self.input(&session, input),
            Message::Inspected { open } => self.on_inspected(&open),
            Message::Reply { asker: Asker::Client(number), reply } => {
                let client = &mut self.clients[number];
                client.answers.push(reply);
                client.asking = false;
            }
            Message::Reply { asker: Asker::Call { session, call }, reply } => match reply {
                Answer::Reply(reply) => self.on_agent_replied(&session, call, &reply),
                Answer::Conflict => self.fail("a call's own run id is taken"),
            },
        }
    }

    /// Does what a call asks for.
    fn tool_works(&mut self, session: &SessionId, call: CallEffect) {
        let reply = self.ledger.perform(&mut self.rng, session, &call);
        self.note(|| format!("tool {} {} says {reply:?}", call.name, call.call));
        let (call, attempt) = (call.call, call.attempt);
        if matches!(reply, ToolReply::Suspended { .. }) && self.rng.percent(70) {
            let ms = 500 + self.rng.below(5000);
            let message = Message::Answered { session: session.clone(), call: call.clone() };
            self.after(ms, Event::Arrives(Box::new(message)));
        }
        let session = session.clone();
        self.send(Message::ToolReplied { session, call, attempt, reply }, true);
    }

    /// Asks a model. An answer that is lost is a failure by the deadline.
    pub(crate) fn ask_model(
        &mut self,
        session: &SessionId,
        (run, turn, role): (&RunId, u32, ModelRole),
        agent: &Name,
        deadline: Timestamp,
    ) {
        let plan = self.team.plan(agent, self.when_busy).1.clone();
        let machine = self.shell(session).map(|shell| &shell.machine);
        let transcript = machine.and_then(|machine| machine.transcript());
        let seen = transcript.iter().flat_map(|(_, transcript)| transcript.steps);
        let seen = seen.flat_map(|step| &step.acts).filter_map(|act| match act {
            Act::Steered { text } => Some(text.clone()),
            _ => None,
        });
        let seen: Vec<String> = seen.collect();
        let planned = transcript.and_then(|(_, transcript)| transcript.planned().cloned());
        self.heard.entry(run.clone()).or_default().extend(seen);
        let outcome = model::reply(&mut self.rng, &plan, planned.as_ref(), role);
        let replied = |outcome: ModelOutcome| Message::ModelReplied {
            session: session.clone(),
            replied: ModelReplied { run: run.clone(), turn, outcome },
        };
        let left = deadline.ms_since(self.timestamp());
        if self.is_faulty() && self.rng.percent(6) {
            self.own(left, Own::Gives(replied(model::failed()).into()));
            return;
        }
        let ms = self.rng.below(600).min(left);
        self.after(ms, Event::Arrives(Box::new(replied(outcome.clone()))));
        if self.is_faulty() && self.rng.percent(8) {
            let again = self.rng.below(3000);
            self.after(ms + again, Event::Arrives(Box::new(replied(outcome))));
        }
    }

    /// Sends a message over a network that may lose it, and may repeat it if that is said.
    pub(crate) fn send(&mut self, message: Message, repeats: bool) {
        let faulty = self.is_faulty();
        if faulty && self.rng.percent(10) {
            self.note(|| format!("lost {message:?}"));
            return;
        }
        if faulty && repeats && self.rng.percent(8) {
            let ms = self.rng.below(3000);
            self.after(ms, Event::Arrives(Box::new(message.clone())));
        }
        let late = faulty && self.rng.percent(10);
        let ms = self.rng.below(if late { 4000 } else { 100 });
        self.after(ms, Event::Arrives(Box::new(message)));
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.serial += 1;
        self.events.insert((self.now + ms, self.serial), event);
    }

    /// Lets a message arrive that no network loses: people see for themselves.
    pub(crate) fn later(&mut self, ms: u64, message: Message) {
        self.after(ms, Event::Arrives(Box::new(message)));
    }

    /// Lets something happen in the process, unless it ends before.
    pub(crate) fn own(&mut self, ms: u64, own: Own) {
        self.after(ms, Event::Own(self.life, own));
    }

    pub(crate) fn restart_after(&mut self, ms: u64) {
        self.after(ms, Event::Restart);
    }

    pub(crate) fn arrives(&mut self, message: Message) {
        self.on_message(message);
    }

    pub(crate) const fn is_faulty(&self) -> bool {
        self.now < CALM_AT
    }

    pub(crate) const fn timestamp(&self) -> Timestamp {
        Timestamp::from_micros(self.now * 1000)
    }

    pub(crate) fn fail(&mut self, what: &str) {
        self.note(|| format!("broken: {what}"));
        self.broken.get_or_insert_with(|| what.to_owned());
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(log) = &mut self.log {
            log.push(format!("{now} {}", line()));
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}
