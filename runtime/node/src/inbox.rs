//! The door of a team: takes requests from its subjects and brings them to their sessions.
//!
//! Nothing is journaled for a request that is refused here, and every refusal is an answer.

mod arrival;
mod body;
mod calls;
mod gate;
mod locks;

use std::sync::Arc;
use std::time::Duration;

use bus::Message;
use bytes::Bytes;
use ractor::{ActorRef, ActorStatus};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use tools::secret::{clean, clean_value};
use wire::header;
use wire::run::{AnswerRequest, RunState, RunView};
use wire::subject::{CallVerb, RunVerb};
use wire::{CallKey, ErrorCode, Headers, Name, Route, RunId, RunRequest, SessionId, WireError};

use arrival::{Arrival, cleaned, named};
use body::read;
use gate::{Gate, Gates, Pass};
use locks::RunLocks;

use crate::admission::Place;
use crate::clock;
use crate::context::TeamContext;
use crate::feed::{self, Feed, Starting};
use crate::perform::as_called;
use crate::reply::Final;
use crate::session::{Answer, Door, Receipt, Submit};
use crate::sessions::SessionsMsg;
use crate::team::agent_endpoint;

/// How long a look-up of a result waits unless the request says otherwise.
const AWAIT_DEFAULT: Duration = Duration::from_secs(30);

/// How long a look-up of a result waits at most; whoever wants to wait longer asks again.
const AWAIT_MAX: Duration = Duration::from_secs(600);

/// How long past its deadline a run's own reply is waited for.
const REPLY_GRACE: Duration = Duration::from_secs(5);

/// How long a session has to take a message; it needs no more than to rebuild itself.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause before a session that failed is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The subscriptions of a team's door; it closes when they are dropped.
pub(crate) struct Inbox {
    _feeds: Vec<Feed>,
}

#[derive(Clone)]
struct Porter {
    context: Arc<TeamContext>,
    sessions: ActorRef<SessionsMsg>,
    gates: Arc<Gates>,
    locks: Arc<RunLocks>,
}

impl Inbox {
    /// Opens the door.
    pub(crate) fn open(
        context: &Arc<TeamContext>,
        sessions: &ActorRef<SessionsMsg>,
    ) -> Starting<Self> {
        let porter = Porter {
            context: context.clone(),
            sessions: sessions.clone(),
            gates: Arc::new(Gates::new()),
            locks: Arc::default(),
        };
        Box::pin(async move { porter.open().await.map(|feeds| Self { _feeds: feeds }) })
    }
}

impl Porter {
    /// Takes the requests of the team's agents, runs and calls.
    async fn open(&self) -> Result<Vec<Feed>, bus::Error> {
        let (subjects, team, gates) = (&self.context.subjects, &self.context.team, &self.gates);
        let mut feeds = Vec::new();
        for agent in team.agents.keys() {
            let (porter, subject) = (self.clone(), subjects.agent_run(&team.name, agent));
            let feed = feed::start(&self.context, &subject, move |parcel| {
                let porter = porter.clone();
                async move { porter.take(parcel.into_message()).await }
            });
            feeds.push(feed.await?);
        }
        let verbs = RunVerb::ALL
            .iter()
            .map(|verb| (subjects.all_runs(&team.name, *verb), gates.of_run(*verb)));
        let decisions = CallVerb::ALL
            .iter()
            .map(|verb| (subjects.all_calls(&team.name, *verb), gates.of_call(*verb)));
        let list = (subjects.calls(&team.name), &gates.looks);
        for (subject, gate) in verbs.chain(decisions).chain([list]) {
            feeds.push(self.guard(&subject, gate).await?);
        }
        Ok(feeds)
    }

    /// Takes requests of a subject as far as there are places for them at a gate.
    async fn guard(&self, subject: &str, gate: &Arc<Gate>) -> Result<Feed, bus::Error> {
        let (porter, gate) = (self.clone(), gate.clone());
        feed::start(&self.context, subject, move |parcel| {
            let porter = porter.clone();
            let entered = gate.enter(parcel.message().payload.len());
            async move {
                let message = parcel.into_message();
                match entered {
                    Ok(pass) => {
                        porter.take(message).await;
                        drop(pass);
                    }
                    Err(error) => feed::answer_error(&porter.context.bus, &message, &error).await,
                }
            }
        })
        .await
    }

    async fn take(&self, mut message: Message) {
        let bus = &self.context.bus;
        let done = match self.context.subjects.parse(&message.subject) {
            Some(Route::AgentRun { agent, .. }) => {
                let (began, endpoint) = (Instant::now(), agent_endpoint(&agent));
                let done = self.on_run(&mut message, agent).await;
                self.context.record(&endpoint, began.elapsed(), done.as_ref().err());
                done
            }
            Some(Route::Run { run, verb, .. }) => self.on_verb(&message, run, verb).await,
            Some(Route::Calls { .. }) => self.on_calls(&message).await,
            Some(Route::Call { call, verb, .. }) => self.on_call(&message, call, verb).await,
            Some(
                Route::SessionEvents { .. }
                | Route::Model { .. }
                | Route::Tool { .. }
                | Route::ModelStop { .. }
                | Route::EventReply { .. }
                | Route::Question { .. }
                | Route::ToolStop { .. }
                | Route::Owner { .. }
                | Route::NodeTrace { .. }
                | Route::NodeStats,
            )
            | None => {
                let text = format!("{} is not served here", message.subject);
                Err(WireError::new(ErrorCode::BadRequest, text))
            }
        };
        if let Err(error) = done {
            feed::answer_error(bus, &message, &error).await;
        }
    }

    async fn on_run(&self, message: &mut Message, agent: Name) -> Result<(), WireError> {
        let received = Instant::now();
        let request: RunRequest = read(&message.payload)?;
        let called = self.called(message, &agent, &request).await?;
        // A run in work may still ask other agents, and has its place: else it would not end.
        let is_called = called.is_some();
        let request = cleaned(called.unwrap_or(request));
        let place = if is_called { Ok(None) } else { self.place(message.payload.len()).map(Some) };
        let (place, joins) = match place {
            Ok(place) => (place, None),
            // A run that is known needs no further place.
            Err(refused) => match self.joins(message, &request).await {
                Some(pass) => (None, Some((pass, refused))),
                None => return Err(refused),
            },
        };
        let (passed, unless_known) = joins.unzip();
        let name = named(message, &request);
        // One without a name nobody else can ask for.
        let lock = match &name {
            Some(run) => Some(self.locks.lock(run).await),
            None => None,
        };
        let arrival = self.arrival(message, agent, request, name, received).await?;
        let mut arrival = Arrival { unless_known, ..arrival };
        if place.is_some() {
            self.check_room(&arrival.submitted.run).await?;
        }
        let end = Instant::now() + clock::until(arrival.submitted.deadline) + REPLY_GRACE;
        let bus = &self.context.bus;
        let (Receipt { accepted, is_repeated }, done) = self.submit(&arrival, end, false).await?;
        drop((passed, lock));
        // Of all who ask for a run, the one who began it has its place.
        let place = place.filter(|_| !is_repeated);
        if arrival.is_let_go {
            feed::answer(bus, message, Headers::new(), &accepted).await;
            if !is_repeated {
                // The sender has its answer; the run keeps its place until it ends.
                drop(self.finish(&arrival, done, end).await);
            }
            return Ok(());
        }
        let _waiting = if is_repeated && !is_called {
            let waiting = self.gates.awaited.enter(0)?;
            // The run has what was asked of it, and many may wait for it.
            message.payload = Bytes::new();
            arrival.submitted.text = String::new();
            let text = format!("run {} is not known any more", arrival.submitted.run);
            arrival.unless_known = Some(WireError::new(ErrorCode::UnknownRun, text));
            Some(waiting)
        } else {
            None
        };
        let reply = self.finish(&arrival, done, end).await?;
        drop(place);
        let bytes = match &arrival.submitted.parent {
            Some(_) => reply.for_a_caller(bus.payload_bytes_max()),
            None => reply.bytes.clone(),
        };
        let run = &arrival.submitted.run;
        feed::answer_run(bus, message, run, reply.headers(), bytes).await;
        Ok(())
    }

    /// Brings a run to its session until it is durable there.
    ///
    /// `begun` says that it may be so already. Then no refusal is passed on that has the request sent
    /// again: under no run id, or another one, it would be done twice.
    async fn submit(
        &self,
        arrival: &Arrival,
        end: Instant,
        mut begun: bool,
    ) -> Result<(Receipt, oneshot::Receiver<Result<Final, WireError>>), WireError> {
        while Instant::now() < end {
            let (accepted, on_accepted) = oneshot::channel();
            let (done, on_done) = oneshot::channel();
            let Arrival { submitted, unless_known, is_let_go, .. } = arrival;
            let (submitted, unless_known) = (submitted.clone(), unless_known.clone());
            let submit = Submit { submitted, unless_known, is_let_go: *is_let_go, accepted, done };
            self.route(&arrival.session, Door::Submit(Box::new(submit)));
            match timeout_at(end.min(Instant::now() + SESSION_TIMEOUT), on_accepted).await {
                Ok(Ok(Err(refused))) if begun && is_passing(refused.code) => {
                    if self.sessions.get_status() >= ActorStatus::Draining {
                        return Err(left(arrival, refused));
                    }
                }
                Ok(Ok(answer)) => {
                    let receipt = answer?;
                    // If it was begun, it may be by this very request.
                    let is_repeated = receipt.is_repeated && !begun;
                    return Ok((Receipt { is_repeated, ..receipt }, on_done));
                }
                // The session's actor ended, perhaps with the run in its journal.
                Ok(Err(_)) => begun = true,
                Err(_) => break,
            }
            sleep(RETRY_PAUSE).await;
        }
        Err(late(&arrival.submitted.run))
    }

    /// Waits for the reply of a run.
    async fn finish(
        &self,
        arrival: &Arrival,
        mut done: oneshot::Receiver<Result<Final, WireError>>,
        end: Instant,
    ) -> Result<Final, WireError> {
        loop {
            match timeout_at(end, &mut done).await {
                Ok(Ok(reply)) => return reply,
                // The session's actor ended; the run is durable and is taken up by the next one.
                Ok(Err(_)) => {
                    sleep(RETRY_PAUSE).await;
                    done = self.submit(arrival, end, true).await?.1;
                }
                Err(_) => return Err(late(&arrival.submitted.run)),
            }
        }
    }

    /// Takes a place for a new run, if there is one and new runs are taken.
    fn place(&self, bytes: usize) -> Result<Place, WireError> {
        if self.context.is_draining() {
            let text = "the node drains and takes no new runs";
            return Err(WireError::new(ErrorCode::Unavailable, text).retry_after(1000));
        }
        self.context.places.admit(bytes)
    }

    /// Lets a request in for which there is no place of a run, if it names one that is known.
    async fn joins(&self, message: &Message, request: &RunRequest) -> Option<Pass> {
        let run = named(message, request)?;
        let pass = self.gates.joins.enter(message.payload.len()).ok()?;
        let known = self.context.session_of_run(&run).await.ok()?;
        known.map(|_| pass)
    }

    /// Refuses a new run while the disk is full. One that is known has its place there.
    async fn check_room(&self, run: &RunId) -> Result<(), WireError> {
        if !self.context.journal.is_full() || self.context.session_of_run(run).await?.is_some() {
            return Ok(());
        }
        let text = "the disk of the node is full, and it takes no new runs until there is room";
        let error = WireError::new(ErrorCode::StorageFull, text);
        Err(error.retry_after(journal::STORAGE_RETRY_AFTER_MS))
    }

    /// Returns the request of a run of this node that asks for this one, if one is said to. Anyone may
    /// write so into a request, so the session that is said to ask is asked itself. What it does not
    /// confirm is refused: a run without its parent would lose what that knows of it, such as its
    /// taint. Of what it confirms its own word holds.
    async fn called(
        &self,
        message: &Message,
        agent: &Name,
        request: &RunRequest,
    ) -> Result<Option<RunRequest>, WireError> {
        let Some(parent) = &request.parent else { return Ok(None) };
        let refused = || {
            let run = request.run.as_ref().map_or("that has no id", RunId::as_str);
            let text = format!("run {} does not ask for run {run}, or not in this way", parent.run);
            Err(WireError::new(ErrorCode::BadRequest, text))
        };
        let call = request.run.as_ref().and_then(|run| CallKey::new(run.as_str()).ok());
        let Some(call) = call.filter(|_| self.context.journal.slots(&parent.session) > 0) else {
            return refused();
        };
        let _pass = self.gates.claims.enter(message.payload.len())?;
        let end = Instant::now() + SESSION_TIMEOUT;
        let asked = self.ask(&parent.session, end, |answer| Door::Awaits { call, answer }).await;
        let asked = asked.map_err(unbegun)?;
        match asked.and_then(|call| as_called(&parent.session, &call, agent, request)) {
            Some(meant) => Ok(Some(meant)),
            // Its own run may have been cancelled a moment ago; then this one must not begin.
            None => refused(),
        }
    }

    async fn on_verb(&self, message: &Message, run: RunId, verb: RunVerb) -> Result<(), WireError> {
        let mut known = self.context.session_of_run(&run).await?;
        if known.is_none() {
            // The store lags behind the journal.
            self.context.projector.sync().await;
            known = self.context.session_of_run(&run).await?;
        }
        let Some(session) = known else {
            let text = format!("no run {run} is known");
            return Err(WireError::new(ErrorCode::UnknownRun, text));
        };
        let end = Instant::now() + SESSION_TIMEOUT;
        match verb {
            RunVerb::Status => {
                let mut view = self.ask(&session, end, |answer| Door::View { run, answer }).await?;
                if matches!(view.state, RunState::Running { .. } | RunState::Waiting { .. }) {
                    let worked_on = view.joined.as_ref().unwrap_or(&view.run);
                    view.waiting = self.context.waiting_below(worked_on).await?;
                }
                self.answer_view(message, &view).await;
            }
            RunVerb::Cancel => {
                let reason = "cancelled by request".to_owned();
                let door = |answer| Door::Cancel { run, reason, answer };
                let view = self.ask(&session, end, door).await?;
                self.answer_view(message, &view).await;
            }
            RunVerb::Answer => {
                let said: AnswerRequest = read(&message.payload)?;
                let (text, content) = (said.text.map(clean), said.content.map(clean_value));
                let said = AnswerRequest { text, content, ..said };
                let door = |answer| Door::Reply { run, said, answer };
                let view = self.ask(&session, end, door).await?;
                self.answer_view(message, &view).await;
            }
            RunVerb::Result => {
                let wait = message.headers.read(header::REMAINING_MS);
                let wait = wait.map_or(AWAIT_DEFAULT, Duration::from_millis).min(AWAIT_MAX);
                let end = Instant::now() + wait;
                let door = |done| Door::Await { run: run.clone(), done };
                // Whoever waits in vain for a reply is told of the run, not of its session.
                let reply =
                    self.ask(&session, end, door).await.map_err(|error| match error.code {
                        ErrorCode::DeadlineExceeded => late(&run),
                        _ => error,
                    })?;
                let (bus, bytes) = (&self.context.bus, reply.bytes.clone());
                feed::answer_run(bus, message, &run, reply.headers(), bytes).await;
            }
        }
        Ok(())
    }

    async fn answer_view(&self, message: &Message, view: &RunView) {
        feed::answer(&self.context.bus, message, Headers::new(), view).await;
    }

    async fn ask<T>(
        &self,
        session: &SessionId,
        end: Instant,
        door: impl FnOnce(Answer<T>) -> Door,
    ) -> Result<T, WireError> {
        let (answer, on_answer) = oneshot::channel();
        self.route(session, door(answer));
        match timeout_at(end, on_answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                let text = format!("session {session} is being restarted");
                Err(WireError::new(ErrorCode::Unavailable, text).retry_after(200))
            }
            Err(_) => {
                let text = format!("session {session} had no answer in time");
                Err(WireError::new(ErrorCode::DeadlineExceeded, text))
            }
        }
    }

    fn route(&self, session: &SessionId, door: Door) {
        let message = SessionsMsg::Route { session: session.clone(), door };
        if let Err(ractor::MessagingErr::SendErr(SessionsMsg::Route { door, .. })) =
            self.sessions.cast(message)
        {
            let text = "the node is ending";
            door.refuse(WireError::new(ErrorCode::Unavailable, text).retry_after(1000));
        }
    }
}

/// Says that the node ends before a run that was begun has its reply.
fn left(arrival: &Arrival, refused: WireError) -> WireError {
    if arrival.submitted.parent.is_some() {
        // A session that asks for a run names it, so for it to ask again is right.
        return refused;
    }
    let run = &arrival.submitted.run;
    let text = format!(
        "the node ends, and run {run} may be taken up when its team is next served; ask for its \
         result then, or send the request again with this run id"
    );
    WireError::new(ErrorCode::DeadlineExceeded, text)
}

/// Says of a request for which nothing was begun that it may be made again, where a session did not
/// answer in time.
fn unbegun(error: WireError) -> WireError {
    if error.code != ErrorCode::DeadlineExceeded {
        return error;
    }
    WireError { code: ErrorCode::Unavailable, ..error }.retry_after(200)
}

/// Tells whether a session that refuses so may know the run all the same. One that is full or busy
/// does not: it answers first whether a run is known.
const fn is_passing(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::Unavailable | ErrorCode::StorageFull)
}

fn late(run: &RunId) -> WireError {
    let text = format!("run {run} has no reply yet; ask again with the same run id");
    WireError::new(ErrorCode::DeadlineExceeded, text)
}
