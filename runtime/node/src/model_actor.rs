//! Serves one model: takes turns from its subject, asks the provider, publishes what is written.
//!
//! Both roles are served by this actor; which part the model plays is said by each request.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bus::Message;
use model::{Conversation, ModelClient};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::time::Instant;
use tracing::error;
use wire::chat::Observed;
use wire::event::EventKind;
use wire::{
    ErrorCode, Event, Headers, ModelRequest, ModelRole, Name, TraceContext, WireError, header,
};

use crate::clock;
use crate::context::TeamContext;
use crate::feed;
use crate::prefix::{Held, HeldPrefixes};
use crate::worklist::{contained, work_of};

/// Time for a turn whose sender does not say how long it waits.
const REMAINING_DEFAULT: Duration = Duration::from_secs(120);

/// How long pieces of a reply are gathered before they are published.
const DELTA_INTERVAL: Duration = Duration::from_millis(40);

/// Bytes of pieces that are published without waiting longer.
const DELTA_BYTES: usize = 2048;

pub(crate) struct ModelActor;

pub(crate) enum ModelMsg {
    Request(Message),
}

pub(crate) struct ModelArgs {
    pub(crate) context: Arc<TeamContext>,
    pub(crate) model: Name,
    pub(crate) client: Arc<ModelClient>,
}

pub(crate) struct ModelState {
    args: ModelArgs,
    held: HeldPrefixes,
    _feed: feed::Feed,
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
        let subject = args.context.subjects.model(&args.context.team.name, &args.model);
        let feed = feed::start(&args.context.bus, &subject, move |message| {
            myself.cast(ModelMsg::Request(message)).is_ok()
        })
        .await?;
        Ok(ModelState { args, held: HeldPrefixes::default(), _feed: feed })
    }

    async fn handle(
        &self,
        _: ActorRef<ModelMsg>,
        msg: ModelMsg,
        state: &mut ModelState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            ModelMsg::Request(message) => state.on_request(message),
        }
        Ok(())
    }
}

impl ModelState {
    fn on_request(&mut self, message: Message) {
        let context = self.args.context.clone();
        let request = match serde_json::from_slice::<ModelRequest>(&message.payload) {
            Ok(request) => request,
            Err(error) => {
                let text = format!("not a model request: {error}");
                refuse(context, message, WireError::new(ErrorCode::BadRequest, text));
                return;
            }
        };
        let Some(conversation) = self.held.complete(&request) else {
            let text = "the conversation is not held here; send head and all messages";
            refuse(context, message, WireError::new(ErrorCode::PrefixUnknown, text));
            return;
        };
        let client = self.args.client.clone();
        let requests = context.requests.clone();
        requests.spawn(async move { turn(context, client, message, request, conversation).await });
    }
}

fn refuse(context: Arc<TeamContext>, message: Message, error: WireError) {
    tokio::spawn(async move { feed::answer_error(&context.bus, &message, &error).await });
}

async fn turn(
    context: Arc<TeamContext>,
    client: Arc<ModelClient>,
    message: Message,
    request: ModelRequest,
    held: Held,
) {
    let remaining = message
        .headers
        .number(header::REMAINING_MS)
        .map_or(REMAINING_DEFAULT, Duration::from_millis);
    let conversation = Conversation {
        head: held.head,
        messages: held.messages,
        max_tokens: request.max_tokens,
        role: request.role,
    };
    let trace = message.headers.get(header::TRACEPARENT).and_then(|text| text.parse().ok());
    let mut deltas = Deltas::start(&context, request.role, request.observed, trace);
    // Who asks without naming its work cannot stop it.
    let work = work_of(&message).map(|work| context.work.begin(work));
    let stopped = async {
        match &work {
            Some(work) => work.stop().cancelled().await,
            None => pending().await,
        }
    };
    let mut on_delta = |piece: &str| deltas.push(piece);
    let turn = client.turn(&conversation, remaining, &mut on_delta);
    let answer = tokio::select! {
        biased;
        () = stopped => Err(WireError::new(ErrorCode::Cancelled, "nobody waits for the turn")),
        answered = contained(turn) => answered.unwrap_or_else(|panic| {
            error!(subject = %message.subject, panic, "model adapter panicked");
            let text = format!("the model's adapter met a fault of its own: {panic}");
            Err(WireError::new(ErrorCode::Internal, text))
        }),
    };
    drop(work);
    deltas.finish();
    match answer {
        Ok(reply) => feed::answer(&context.bus, &message, Headers::new(), &reply).await,
        Err(error) => feed::answer_error(&context.bus, &message, &error).await,
    }
}

/// Gathers the pieces of a reply, so that observers get a few larger ones.
struct Deltas {
    observed: Option<(Observed, TraceContext)>,
    context: Arc<TeamContext>,
    role: ModelRole,
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
        self.text.push_str(piece);
        if self.text.len() >= DELTA_BYTES || self.since.elapsed() >= DELTA_INTERVAL {
            self.finish();
        }
    }

    fn finish(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.since = Instant::now();
        let Some((observed, trace)) = &self.observed else { return };
        if text.is_empty() {
            return;
        }
        let event = Event {
            id: None,
            at: clock::now(),
            trace_id: trace.trace_id(),
            session: observed.session.clone(),
            run: observed.run.clone(),
            agent: observed.agent.clone(),
            depth: observed.depth,
            kind: EventKind::Delta { step: observed.step, role: self.role, text },
        };
        self.context.tell(&event);
    }
}
