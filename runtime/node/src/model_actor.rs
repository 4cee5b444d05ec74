//! Serves one model: takes turns from its subject, asks the provider, publishes what is written.
//!
//! Both roles are served by this actor; which part the model plays is said by each request. Turns
//! are let in where they arrive and do not pass its mailbox, which has no bound of its own and costs
//! a wake-up.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agents_core::dialect::continued::Veil;
use bus::{Message, Parcel};
use model::{Admission, Conversation, ModelClient, Progress};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use telemetry::{LogContext, logged};
use tokio::time::Instant;
use tools::secret;
use tracing::error;
use wire::chat::{Observed, PrefixHeld};
use wire::event::EventKind;
use wire::look::{Doing, DoingKind};
use wire::{ErrorCode, Event, ModelRequest, ModelRole, Name, TraceContext, WireError, header};

use crate::context::TeamContext;
use crate::feed::{self, Starting};
use crate::prefix::{Held, HeldPrefixes, is_last_word};
use crate::worklist::{contained, work_of};
use crate::{clean, clock};

/// Time for a turn whose sender does not say how long it waits.
const REMAINING_DEFAULT: Duration = Duration::from_secs(120);

/// How long pieces of a reply are gathered before they are published.
const DELTA_INTERVAL: Duration = Duration::from_millis(40);

/// Bytes of pieces that are published without waiting longer.
const DELTA_BYTES: usize = 2048;

/// How often it is looked which conversations nobody goes on with.
const TIDY: Duration = Duration::from_mins(1);

pub(crate) struct ModelActor;

pub(crate) enum ModelMsg {
    /// Some time has passed.
    Tidy,
}

pub(crate) struct ModelArgs {
    pub(crate) context: Arc<TeamContext>,
    pub(crate) model: Name,
    pub(crate) client: ModelClient,
}

pub(crate) struct ModelState {
    served: Arc<Served>,
    _feed: feed::Feed,
}

struct Served {
    context: Arc<TeamContext>,
    name: Name,
    client: ModelClient,
    held: Mutex<HeldPrefixes>,
}

impl Actor for ModelActor {
    type Msg = ModelMsg;
    type State = ModelState;
    type Arguments = ModelArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<ModelMsg>,
        args: ModelArgs,
    ) -> Result<ModelState, ActorProcessingErr> {
        let ModelArgs { context, model, client } = args;
        let subject = context.subjects.model(&context.team.name, &model);
        let served = Served { context, name: model, client, held: Mutex::default() };
        let served = Arc::new(served);
        let feed = served.clone().listen(subject).await?;
        // It ends with the actor, when it is due next.
        myself.send_interval(TIDY, || ModelMsg::Tidy);
        Ok(ModelState { served, _feed: feed })
    }

    async fn handle(
        &self,
        _: ActorRef<ModelMsg>,
        msg: ModelMsg,
        state: &mut ModelState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            ModelMsg::Tidy => state.served.held().expire(),
        }
        Ok(())
    }
}

impl Served {
    /// Takes turns from a subject.
    fn listen(self: Arc<Self>, subject: String) -> Starting {
        let serving = self.clone();
        let take = move |parcel: Parcel| {
            let (served, admission) = (serving.clone(), serving.client.admit());
            async move {
                let refused = match admission {
                    Ok(admission) => served.on_request(&parcel, admission).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = refused {
                    feed::answer_error(&served.context.bus, parcel.message(), &error).await;
                }
            }
        };
        Box::pin(async move { feed::start(&self.context, &subject, take).await })
    }

    fn held(&self) -> MutexGuard<'_, HeldPrefixes> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a turn that was let in, or says why it is not begun.
    async fn on_request(&self, parcel: &Parcel, admission: Admission) -> Result<(), WireError> {
        let request: Arc<ModelRequest> = parcel.read().map_err(|error| {
            WireError::new(ErrorCode::BadRequest, format!("not a model request: {error}"))
        })?;
        let conversation = self.held().complete(&request);
        let conversation = conversation.ok_or_else(|| {
            let text = "the conversation is not held here; send head and all messages";
            WireError::new(ErrorCode::PrefixUnknown, text)
        })?;
        let message = parcel.message();
        if request.fills {
            drop(admission);
            let held = PrefixHeld { held: conversation.digest };
            feed::answer_of(&self.context.bus, message, Arc::new(held)).await;
            return Ok(());
        }
        self.turn(message, admission, &request, conversation).await;
        Ok(())
    }

    async fn turn(
        &self,
        message: &Message,
        admission: Admission,
        request: &ModelRequest,
        held: Held,
    ) {
        let Self { context, client, .. } = self;
        let Held { digest, head, messages, passing } = held;
        let remaining = message
            .headers
            .read(header::REMAINING_MS)
            .map_or(REMAINING_DEFAULT, Duration::from_millis);
        let conversation = Conversation {
            head,
            messages,
            passing,
            max_tokens: request.max_tokens,
            role: request.role,
            session: message.headers.read(header::SESSION),
        };
        let trace = message.headers.read(header::TRACEPARENT);
        let logging = request.observed.as_ref().zip(trace).map(|(observed, trace)| LogContext {
            run: observed.run.clone(),
            trace,
            call: None,
        });
        let run = request.observed.as_ref().map(|observed| observed.run.clone());
        let mut deltas = Deltas::start(context, request.role, request.observed.clone(), trace);
        // Who asks without naming its work cannot stop it.
        let doing = Doing { kind: DoingKind::Turn, name: self.name.clone(), since: clock::now() };
        let work = work_of(message).map(|work| context.work.begin(work, run, doing));
        let stopped = async {
            match &work {
                Some(work) => work.stop().cancelled().await,
                None => pending().await,
            }
        };
        let mut on_progress = |progress: Progress<'_>| match progress {
            Progress::Piece(piece) => deltas.push(piece),
            Progress::Retried { model, error } => deltas.retry(model, error),
            Progress::Switched { from, to, error } => deltas.switch(from, to, error),
        };
        // Kept in one place: what is around it would move it again, each to a place of its own.
        let turn = Box::pin(client.turn(admission, &conversation, remaining, &mut on_progress));
        let answer = tokio::select! {
            biased;
            () = stopped => Err(WireError::new(ErrorCode::Cancelled, "nobody waits for the turn")),
            answered = logged(logging, contained(turn)) => answered.unwrap_or_else(|panic| {
                error!(subject = %message.subject, panic, "model adapter panicked");
                let text = format!("the model's adapter met a fault of its own: {panic}");
                Err(WireError::new(ErrorCode::Internal, text))
            }),
        };
        deltas.finish();
        match answer {
            Ok(reply) => {
                if is_last_word(&conversation.head, request, &reply) {
                    self.held().end(&digest);
                }
                let reply = clean::model_reply(reply);
                feed::answer_of(&context.bus, message, Arc::new(reply)).await;
            }
            Err(error) => {
                feed::answer_error(&context.bus, message, &clean::error(error)).await;
            }
        }
        // Until it is answered it is under way: who asked would take it for lost, and ask again.
        drop(work);
    }
}

/// Makes what hides the word by which an agent goes on, if it has one.
fn veil(observed: &Observed) -> Option<Veil> {
    observed.hidden.as_deref().map(Veil::new)
}

/// Gathers the pieces of a reply, so that observers get a few larger ones.
struct Deltas {
    observed: Option<(Observed, TraceContext)>,
    context: Arc<TeamContext>,
    role: ModelRole,
    /// Hides the word by which the agent goes on.
    veil: Option<Veil>,
    text: String,
    since: Instant,
}

impl Deltas {
    fn start(
        context: &Arc<TeamContext>,
        role: ModelRole,
        observed: Option<Observed>,
        trace: Option<TraceContext>,
    ) -> Self {
        Self {
            veil: observed.as_ref().and_then(veil),
            observed: observed.zip(trace),
            context: context.clone(),
            role,
            text: String::new(),
            since: Instant::now(),
        }
    }

    fn push(&mut self, piece: &str) {
        if self.observed.is_none() {
            return;
        }
        match &mut self.veil {
            Some(veil) => self.text.push_str(&veil.push(piece)),
            None => self.text.push_str(piece),
        }
        if self.text.len() >= DELTA_BYTES || self.since.elapsed() >= DELTA_INTERVAL {
            self.publish();
        }
    }

    fn retry(&mut self, model: &Name, error: &WireError) {
        self.begin_anew();
        let (model, error) = (model.clone(), clean::error(error.clone()));
        self.tell(|step, role| EventKind::ModelRetried { step, role, model, error });
    }

    fn switch(&mut self, from: &Name, to: &Name, error: &WireError) {
        self.begin_anew();
        let (from, to, error) = (from.clone(), to.clone(), clean::error(error.clone()));
        self.tell(|step, role| EventKind::ModelSwitched { step, role, from, to, error });
    }

    /// Lets go of what is not published, since what was is void with it.
    fn begin_anew(&mut self) {
        self.text.clear();
        self.veil = self.observed.as_ref().and_then(|(observed, _)| veil(observed));
    }

    fn finish(&mut self) {
        if let Some(veil) = &mut self.veil {
            self.text.push_str(&veil.finish());
        }
        let text = secret::clean(std::mem::take(&mut self.text));
        self.show(text);
    }

    /// Publishes all but what may be the beginning of a secret.
    fn publish(&mut self) {
        let text = secret::clean_settled(&mut self.text);
        self.show(text);
    }

    fn show(&mut self, text: String) {
        self.since = Instant::now();
        if !text.is_empty() {
            self.tell(|step, role| EventKind::Delta { step, role, text });
        }
    }

    fn tell(&self, kind: impl FnOnce(u32, ModelRole) -> EventKind) {
        let Some((observed, trace)) = &self.observed else { return };
        let event = Event {
            id: None,
            at: clock::now(),
            trace_id: trace.trace(),
            session: observed.session.clone(),
            run: observed.run.clone(),
            agent: observed.agent.clone(),
            depth: observed.depth,
            kind: kind(observed.step, self.role),
        };
        self.context.tell(&event);
    }
}

#[cfg(test)]
mod tests;
