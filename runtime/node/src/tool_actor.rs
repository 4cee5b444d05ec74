//! Serves one tool: takes calls from its subject, checks the arguments, runs them within bounds.

mod line;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use agents_core::validate::{faults, validator};
use bus::{Message, Parcel};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use telemetry::{LogContext, logged};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tools::interim::{Ear, Interim};
use tools::{HopLog, Tool, ToolContext};
use tracing::error;
use wire::look::{Doing, DoingKind};
use wire::{
    CallOutcome, ErrorCode, Name, Scope, ToolReply, ToolRequest, TraceContext, WireError, WorkId,
    header,
};

use crate::context::TeamContext;
use crate::feed::{self, Starting};
use crate::metrics::{Load, TOOL};
use crate::results::Asked;
use crate::team::tool_endpoint;
use crate::worklist::{contained, work_of};
use crate::{clean, clock, results};
use line::{Line, Teller};

/// Calls that may wait for a place, for each that may be under way; further ones are refused.
const WAITING_PER_PLACE: usize = 32;

/// The time before the end of a call in which it is answered by what is known here, which is more
/// than its caller would know of a call without an answer. At most a tenth of the call's time.
const ANSWER_MARGIN: Duration = Duration::from_millis(100);

/// When a call that found no room may come again, in milliseconds: most tools answer within that.
const RETRY_MS: u64 = 200;

pub(crate) struct ToolActor;

/// What the actor is told. Calls do not pass its mailbox, which has no bound of its own and costs a
/// wake-up.
pub(crate) enum ToolMsg {
    /// The tool is another one once this is answered; calls under way go on with what it was.
    Change(Box<Definition>, oneshot::Sender<()>),
}

/// What a tool is at a time.
pub(crate) struct Definition {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) offer: wire::plan::Offer,
    /// Bytes of a result that are shown; nothing if the tool cuts its results itself. What does not
    /// fit into a message is cut in any case.
    pub(crate) shown_bytes_max: Option<usize>,
}

pub(crate) struct ToolArgs {
    pub(crate) context: Arc<TeamContext>,
    pub(crate) name: Name,
    pub(crate) definition: Definition,
    /// Calls that may be under way at once, whatever the tool becomes.
    pub(crate) concurrency: u32,
}

pub(crate) struct ToolState {
    present: Arc<RwLock<Arc<Served>>>,
    _feed: feed::Feed,
}

struct Served {
    context: Arc<TeamContext>,
    name: Name,
    /// As what the team's service counts its calls.
    endpoint: String,
    definition: Definition,
    validator: jsonschema::Validator,
    places: Arc<Semaphore>,
}

impl Actor for ToolActor {
    type Msg = ToolMsg;
    type State = ToolState;
    type Arguments = ToolArgs;

    async fn pre_start(
        &self,
        _: ActorRef<ToolMsg>,
        args: ToolArgs,
    ) -> Result<ToolState, ActorProcessingErr> {
        let subject = args.context.subjects.tool(&args.context.team.name, &args.name);
        let validator = validator(&args.definition.offer.spec.parameters)?;
        let places = args.concurrency.max(1) as usize;
        let limit = places.saturating_mul(1 + WAITING_PER_PLACE);
        let tickets = Arc::new(Semaphore::new(limit));
        let asked = tickets.clone();
        args.context.loads.set(TOOL, &args.name, move || Load {
            taken: limit.saturating_sub(asked.available_permits()),
            limit,
        });
        let places = Arc::new(Semaphore::new(places));
        let ToolArgs { context, name, definition, .. } = args;
        let team = context.clone();
        let endpoint = tool_endpoint(&name);
        let served = Served { context, name, endpoint, definition, validator, places };
        let served = Arc::new(served);
        let present = Arc::new(RwLock::new(served));
        let feed = listen(team, subject, present.clone(), tickets).await?;
        Ok(ToolState { present, _feed: feed })
    }

    async fn handle(
        &self,
        _: ActorRef<ToolMsg>,
        msg: ToolMsg,
        state: &mut ToolState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            ToolMsg::Change(definition, done) => {
                let mut present = state.present.write().unwrap_or_else(PoisonError::into_inner);
                *present = Arc::new(present.with(*definition)?);
                // Whoever asked may have gone.
                done.send(()).unwrap_or_default();
            }
        }
        Ok(())
    }
}

/// What the headers of a call say.
struct Head {
    remaining: Option<Duration>,
    work: Option<WorkId>,
    trace: Option<TraceContext>,
}

impl Head {
    fn of(message: &Message) -> Self {
        Self {
            remaining: message.headers.read(header::REMAINING_MS).map(Duration::from_millis),
            work: work_of(message),
            trace: message.headers.read(header::TRACEPARENT),
        }
    }
}

/// How a call ended.
enum Ended {
    Replied(ToolReply),
    Panicked(String),
    /// Nobody wants the outcome any more.
    Stopped,
    TimedOut,
}

/// Takes calls from a subject for the tool as it is at present, as far as there are tickets.
fn listen(
    team: Arc<TeamContext>,
    subject: String,
    present: Arc<RwLock<Arc<Served>>>,
    tickets: Arc<Semaphore>,
) -> Starting {
    let take = move |parcel| {
        let served = present.read().unwrap_or_else(PoisonError::into_inner).clone();
        let ticket = tickets.clone().try_acquire_owned();
        let came = Instant::now();
        async move {
            match ticket {
                Ok(ticket) => served.on_request(parcel, came, ticket).await,
                Err(_) => served.refuse(&parcel).await,
            }
        }
    };
    Box::pin(async move { feed::start(&team, &subject, take).await })
}

impl Served {
    /// Answers a call that has a ticket, which bounds how many wait.
    async fn on_request(
        self: Arc<Self>,
        parcel: Parcel,
        came: Instant,
        ticket: OwnedSemaphorePermit,
    ) {
        let began = Instant::now();
        let request = parcel.read().map_err(|error| {
            WireError::new(ErrorCode::BadRequest, format!("not a tool call: {error}"))
        });
        let message = parcel.into_head();
        let said = Head::of(&message);
        let mut line = Line::new(self.clone(), message);
        let done = match request {
            Ok(request) => self.call(request, said, came, &mut line).await,
            Err(error) => Err(error),
        };
        self.context.record(&self.endpoint, began.elapsed(), done.as_ref().err());
        line.end(done).await;
        drop(ticket);
    }

    /// Answers a call for which there is no ticket.
    async fn refuse(&self, parcel: &Parcel) {
        let text = format!("too many calls of {} wait; raise its concurrency", self.name);
        let error = WireError::overloaded(Scope::Tool, text, RETRY_MS);
        feed::answer_error(&self.context.bus, parcel.message(), &error).await;
    }

    /// Returns what another form of the tool is served with: the same places.
    fn with(&self, definition: Definition) -> Result<Self, ActorProcessingErr> {
        let validator = validator(&definition.offer.spec.parameters)?;
        Ok(Self {
            context: self.context.clone(),
            name: self.name.clone(),
            endpoint: self.endpoint.clone(),
            definition,
            validator,
            places: self.places.clone(),
        })
    }

    async fn call(
        self: &Arc<Self>,
        request: Arc<ToolRequest>,
        said: Head,
        came: Instant,
        line: &mut Line,
    ) -> Result<ToolReply, WireError> {
        // The session has checked its model's arguments; others may ask here too. What was sent
        // before is not judged by what the tool takes at present.
        if !request.rejoin && !self.validator.is_valid(&request.arguments) {
            let faults = faults(&self.validator, &request.arguments);
            return Err(WireError::new(ErrorCode::InvalidArguments, faults.join("; ")));
        }
        let longest = Duration::from_millis(self.definition.offer.timeout_ms);
        let remaining = said.remaining.map_or(longest, |asked| asked.min(longest));
        let end = came + shortened(remaining);
        let work = said.work.unwrap_or_else(|| WorkId::of_call(request.call.clone()));
        let doing = Doing { kind: DoingKind::Call, name: self.name.clone(), since: clock::now() };
        let work = self.context.work.begin(work, Some(request.run.clone()), doing);
        let Some(place) = self.place(end, work.stop()).await else {
            // Nothing was begun, whatever the effect class.
            let code = if work.stop().is_cancelled() {
                ErrorCode::Cancelled
            } else {
                ErrorCode::DeadlineExceeded
            };
            let text = format!("the time was over before {} had a place for it", self.name);
            return Ok(if request.rejoin {
                ToolReply::lost(code, text)
            } else {
                ToolReply::settled(CallOutcome::error(code, text))
            });
        };
        let (interim, ear) = Interim::open(end);
        let context = self.context(said.trace, &request, end, interim, work.stop().clone());
        let asked = Asked::of(&request);
        let hop = context.hop.clone();
        let (run, call) = (request.run.clone(), request.call.clone());
        let logging = LogContext { run, trace: context.trace, call: Some(call) };
        let running = Box::pin(self.clone().run(context, request, ear, place, line));
        let ended = logged(Some(logging), running).await;
        let reply = match ended {
            Ended::Replied(reply) => reply,
            Ended::Panicked(text) => {
                error!(tool = %self.name, panic = text, "tool panicked");
                let text = format!("{} met a fault of its own: {text}", self.name);
                ToolReply::lost(ErrorCode::Internal, text)
            }
            Ended::Stopped => {
                line.stopped();
                let text = format!("{} was stopped", self.name);
                ToolReply::lost(ErrorCode::Cancelled, text)
            }
            Ended::TimedOut => {
                let seconds = remaining.as_secs_f64();
                let text = format!("{} did not answer within {seconds:.1} s", self.name);
                ToolReply::lost(ErrorCode::ToolTimeout, text)
            }
        };
        let mut reply = clean::tool_reply(reply.met(hop.report()));
        // The run's plan has the label of its begin; the reply carries the present one.
        if let ToolReply::Settled { tainted, .. } | ToolReply::Lost { tainted, .. } = &mut reply {
            *tainted |= self.definition.offer.labels.untrusted;
        }
        // The call is over, and must not seem to be without an answer because that is too long.
        let fits = results::fitting(&reply, self.context.bus.payload_bytes_max());
        let bytes_max = self.definition.shown_bytes_max.into_iter().chain(fits).min();
        let Some(bytes_max) = bytes_max else { return Ok(reply) };
        let results = &self.context.results;
        Ok(Box::pin(results::shown(reply, bytes_max, asked, results)).await)
    }

    /// Waits for a place until a call's time is over or it is stopped.
    async fn place(&self, end: Instant, stop: &CancellationToken) -> Option<OwnedSemaphorePermit> {
        if stop.is_cancelled() {
            return None;
        }
        // Those who wait are given what becomes free, so that nobody is passed here.
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Some(place);
        }
        let waiting = stop.run_until_cancelled(self.places.clone().acquire_owned());
        Box::pin(timeout_at(end, waiting)).await.ok().flatten().and_then(Result::ok)
    }

    fn context(
        &self,
        trace: Option<TraceContext>,
        request: &ToolRequest,
        end: Instant,
        interim: Interim,
        stop: CancellationToken,
    ) -> ToolContext {
        let trace =
            trace.unwrap_or_else(|| TraceContext::root(&self.context.team.name, &request.run));
        ToolContext {
            call: request.call.clone(),
            team: self.context.team.name.clone(),
            tool: self.name.clone(),
            agent: request.agent.clone(),
            session: request.session.clone(),
            run: request.run.clone(),
            trace,
            hop: HopLog::default(),
            now: clock::wall(),
            remaining: end.saturating_duration_since(Instant::now()),
            budget: request.budget.unwrap_or_default(),
            tainted: request.tainted,
            interim,
            stop,
        }
    }

    /// Runs the tool until it replies or has to stop. One that puts things in order afterwards
    /// keeps its place for as long, and the team waits for it at its end.
    async fn run(
        self: Arc<Self>,
        context: ToolContext,
        request: Arc<ToolRequest>,
        ear: Ear,
        place: OwnedSemaphorePermit,
        line: &mut Line,
    ) -> Ended {
        let stop = context.stop.clone();
        let (served, asked) = (self.clone(), request.clone());
        let (now, trace) = (context.now, context.trace);
        // Nothing of this is made for a call that is over at once.
        let attended = async move {
            let mut heard = ear.listen();
            let mut teller = Teller::new(served, &asked, now, trace);
            let over = heard.over();
            tokio::select! {
                biased;
                // Nobody is left who could answer it, or be answered.
                () = line.attend(&mut heard, &mut teller) => Ended::Stopped,
                () = over => Ended::TimedOut,
            }
        };
        let grace = self.definition.tool.stop_grace();
        let team = self.context.clone();
        let call = async move {
            let (tool, arguments) = (&self.definition.tool, &request.arguments);
            if request.rejoin {
                tool.rejoin(&context, arguments).await
            } else {
                tool.call(&context, arguments).await
            }
        };
        let mut call = Box::pin(contained(call));
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => Ended::Stopped,
            replied = &mut call => {
                return replied.map_or_else(Ended::Panicked, Ended::Replied);
            }
            ended = attended => ended,
        };
        stop.cancel();
        if !grace.is_zero() {
            team.stopping.spawn(async move {
                drop(timeout(grace, call).await);
                drop(place);
            });
        }
        ended
    }
}

/// Returns the part of a call's time in which it is to be over.
fn shortened(remaining: Duration) -> Duration {
    remaining.saturating_sub(ANSWER_MARGIN.min(remaining / 10))
}

#[cfg(test)]
mod tests;
