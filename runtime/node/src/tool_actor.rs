//! Serves one tool: takes calls from its subject, checks the arguments, runs them within bounds.

use std::sync::Arc;
use std::time::Duration;

use agents_core::validate::{faults, validator};
use bus::Message;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tools::{Tool, ToolContext};
use wire::{ErrorCode, Headers, Name, ToolReply, ToolRequest, TraceContext, WireError, header};

use crate::clock;
use crate::context::TeamContext;
use crate::feed;
use crate::team::tool_endpoint;

/// Calls that may wait for a place, for each that may be under way; further ones are refused.
const WAITING_PER_PLACE: usize = 32;

pub(crate) struct ToolActor;

pub(crate) enum ToolMsg {
    Request(Message),
}

pub(crate) struct ToolArgs {
    pub(crate) context: Arc<TeamContext>,
    pub(crate) name: Name,
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) offer: wire::plan::Offer,
    pub(crate) concurrency: u32,
}

pub(crate) struct ToolState {
    served: Arc<Served>,
    waiting: Arc<Semaphore>,
    _feed: feed::Feed,
}

struct Served {
    args: ToolArgs,
    validator: jsonschema::Validator,
    places: Semaphore,
}

impl Actor for ToolActor {
    type Msg = ToolMsg;
    type State = ToolState;
    type Arguments = ToolArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<ToolMsg>,
        args: ToolArgs,
    ) -> Result<ToolState, ActorProcessingErr> {
        let subject = args.context.subjects.tool(&args.context.team.name, &args.name);
        let feed = feed::start(&args.context.bus, &subject, move |message| {
            myself.cast(ToolMsg::Request(message)).is_ok()
        })
        .await?;
        let validator = validator(&args.offer.spec.parameters)?;
        let places = args.concurrency.max(1) as usize;
        Ok(ToolState {
            served: Arc::new(Served { args, validator, places: Semaphore::new(places) }),
            waiting: Arc::new(Semaphore::new(places.saturating_mul(1 + WAITING_PER_PLACE))),
            _feed: feed,
        })
    }

    async fn handle(
        &self,
        _: ActorRef<ToolMsg>,
        msg: ToolMsg,
        state: &mut ToolState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            ToolMsg::Request(message) => state.on_request(message),
        }
        Ok(())
    }
}

impl ToolState {
    fn on_request(&self, message: Message) {
        let served = self.served.clone();
        let Ok(ticket) = self.waiting.clone().try_acquire_owned() else {
            let text =
                format!("too many calls of {} wait; raise its concurrency", served.args.name);
            let error = WireError::new(ErrorCode::Overloaded, text).retry_after(200);
            tokio::spawn(async move {
                feed::answer_error(&served.args.context.bus, &message, &error).await;
            });
            return;
        };
        tokio::spawn(async move {
            let bus = &served.args.context.bus;
            let began = Instant::now();
            let done = served.call(&message).await;
            let endpoint = tool_endpoint(&served.args.name);
            served.args.context.record(&endpoint, began.elapsed(), done.as_ref().err());
            match done {
                Ok(reply) => feed::answer(bus, &message, Headers::new(), &reply).await,
                Err(error) => feed::answer_error(bus, &message, &error).await,
            }
            drop(ticket);
        });
    }
}

impl Served {
    async fn call(&self, message: &Message) -> Result<ToolReply, WireError> {
        let request: ToolRequest = serde_json::from_slice(&message.payload).map_err(|error| {
            WireError::new(ErrorCode::BadRequest, format!("not a tool call: {error}"))
        })?;
        // The session has checked its model's arguments; others may ask here too.
        let faults = faults(&self.validator, &request.arguments);
        if !faults.is_empty() {
            return Err(WireError::new(ErrorCode::InvalidArguments, faults.join("; ")));
        }
        let longest = Duration::from_millis(self.args.offer.timeout_ms);
        let asked = message.headers.number(header::REMAINING_MS).map(Duration::from_millis);
        let remaining = asked.map_or(longest, |asked| asked.min(longest));
        let end = Instant::now() + remaining;
        let Ok(Ok(_place)) = timeout_at(end, self.places.acquire()).await else {
            let text = format!("all places of {} stayed taken; it was not called", self.args.name);
            return Err(WireError::new(ErrorCode::Overloaded, text));
        };
        let trace = message
            .headers
            .get(header::TRACEPARENT)
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| TraceContext::root(&self.args.context.team.name, &request.run));
        let context = ToolContext {
            call: request.call,
            team: self.args.context.team.name.clone(),
            tool: self.args.name.clone(),
            agent: request.agent,
            session: request.session,
            run: request.run,
            trace,
            now: clock::now(),
            remaining: end.saturating_duration_since(Instant::now()),
            stop: tokio_util::sync::CancellationToken::new(),
        };
        let Ok(reply) = timeout_at(end, self.args.tool.call(&context, &request.arguments)).await
        else {
            return Ok(self.timed_out(remaining));
        };
        Ok(reply)
    }

    fn timed_out(&self, after: Duration) -> ToolReply {
        let (name, seconds) = (&self.args.name, after.as_secs_f64());
        let message = format!("{name} did not answer within {seconds:.1} s");
        ToolReply::lost(ErrorCode::ToolTimeout, message)
    }
}
