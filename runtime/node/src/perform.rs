//! Carries out what a session decided: asks models, tools and other agents on their subjects.

use std::sync::Arc;
use std::time::Duration;

use agents_core::dialect;
use agents_core::effect::CallEffect;
use agents_core::validate::Catalogue;
use bus::Message;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tools::Template;
use tracing::{debug, warn};
use wire::chat::Observed;
use wire::entry::{ModelOutcome, TurnReport};
use wire::error::ErrorBody;
use wire::run::Parent;
use wire::subject::RunVerb;
use wire::{
    CallKey, CallOutcome, ErrorCode, Headers, ModelReply, ModelRequest, Name, Planned, RunId,
    RunReply, RunRequest, RunStatus, SessionId, Timestamp, ToolReply, ToolRequest, TraceContext,
    Usage, WireError, header,
};

use crate::clock;
use crate::context::TeamContext;
use crate::prefix::Outgoing;

/// The first pause before a request is made again that nobody took.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What a called agent is given beyond its own deadline to hand over its reply.
const REPLY_GRACE: Duration = Duration::from_secs(1);

/// How often the run of a called agent is told to end: it may not be known yet when it is told
/// first, and has begun after a second and a half if it begins at all.
const CANCEL_TRIES: u32 = 6;

/// How long an answer to that is waited for.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A model turn that is to be asked for.
pub(crate) struct Turn {
    pub(crate) run: RunId,
    pub(crate) number: u32,
    pub(crate) model: Name,
    pub(crate) max_tokens: u64,
    pub(crate) deadline: Timestamp,
    /// The span of the turn.
    pub(crate) trace: TraceContext,
    pub(crate) observed: Observed,
    pub(crate) outgoing: Outgoing,
    pub(crate) catalogue: Arc<Catalogue>,
    /// What the planner wants done in the step, if it has said so.
    pub(crate) planned: Option<Planned>,
}

/// Why a request has no answer.
pub(crate) enum Missed {
    /// Nobody took it, so nothing can have happened.
    NotDelivered(WireError),
    /// Someone may have taken it.
    Unanswered(WireError),
}

impl Missed {
    pub(crate) fn into_error(self) -> WireError {
        match self {
            Self::NotDelivered(error) | Self::Unanswered(error) => error,
        }
    }
}

/// Asks a model and reads its reply.
pub(crate) async fn ask_model(context: &TeamContext, turn: Turn) -> ModelOutcome {
    let role = turn.outgoing.full.role;
    match ask(context, &turn).await {
        Ok(reply) => {
            let dialect::Read { reading, unread, faults } =
                dialect::read(role, &turn.catalogue, turn.planned.as_ref(), &reply);
            for fault in faults {
                warn!(run = %turn.run, %fault, "a text of the team failed");
            }
            let report = TurnReport {
                role,
                usage: reply.usage,
                finish: reply.finish,
                provider: reply.provider,
                model: reply.model,
                attempts: reply.attempts,
                served_by: reply.served_by,
            };
            ModelOutcome::Read { reading, unread, turn: Box::new(report) }
        }
        Err(error) => ModelOutcome::Failed { error },
    }
}

async fn ask(context: &TeamContext, turn: &Turn) -> Result<ModelReply, WireError> {
    let subject = context.subjects.model(&context.team.name, &turn.model);
    let headers = Headers::new()
        .with(header::TRACEPARENT, turn.trace.to_string())
        .with(header::SESSION, turn.observed.session.as_str());
    let complete = |request: &ModelRequest| ModelRequest {
        max_tokens: Some(turn.max_tokens),
        observed: Some(turn.observed.clone()),
        ..request.clone()
    };
    if let Some(short) = &turn.outgoing.short {
        let body = complete(short);
        match request::<ModelReply>(context, &subject, &headers, &body, turn.deadline).await {
            Err(missed) => {
                let error = missed.into_error();
                if error.code != ErrorCode::PrefixUnknown {
                    return Err(error);
                }
            }
            Ok(reply) => return Ok(reply),
        }
    }
    let body = complete(&turn.outgoing.full);
    // A turn changes nothing outside, so it may be asked for again for as long as there is time.
    request(context, &subject, &headers, &body, turn.deadline).await.map_err(Missed::into_error)
}

/// Calls a tool.
pub(crate) async fn call_tool(
    context: &TeamContext,
    session: &SessionId,
    call: &CallEffect,
) -> ToolReply {
    let subject = context.subjects.tool(&context.team.name, &call.name);
    let headers = Headers::new()
        .with(header::TRACEPARENT, call.trace.to_string())
        .with(header::IDEMPOTENCY_KEY, call.call.as_str())
        .with(header::MESSAGE_ID, call.call.as_str());
    let body = ToolRequest {
        call: call.call.clone(),
        arguments: call.arguments.clone(),
        session: session.clone(),
        run: call.run.clone(),
        agent: call.agent.clone(),
    };
    match request(context, &subject, &headers, &body, call.deadline).await {
        Ok(reply) => reply,
        Err(Missed::Unanswered(error)) => ToolReply::Lost { error },
        Err(Missed::NotDelivered(error)) => ToolReply::settled(CallOutcome::Error { error }),
    }
}

/// Asks a probe; one that does not say at once what it knows does not know it.
pub(crate) async fn probe(
    context: &TeamContext,
    session: &SessionId,
    call: &CallEffect,
) -> CallOutcome {
    match call_tool(context, session, call).await {
        ToolReply::Settled { outcome, .. } => outcome,
        ToolReply::Lost { error } => CallOutcome::Error { error },
        ToolReply::Suspended { .. } => {
            let note = format!("{} asks a person, which a probe must not", call.name);
            CallOutcome::Unknown { note }
        }
    }
}

/// Waits before a call is made again, longer each time.
pub(crate) async fn pause_before(attempt: u32) {
    let doublings = attempt.saturating_sub(2).min(16);
    if attempt > 1 {
        sleep((PAUSE_MIN * 2u32.pow(doublings)).min(PAUSE_MAX)).await;
    }
}

/// Asks another agent. Its run goes under the call's key, so asking again begins nothing new.
pub(crate) async fn call_agent(
    context: &TeamContext,
    session: &SessionId,
    call: &CallEffect,
) -> (CallOutcome, Usage) {
    let subject = context.subjects.agent_run(&context.team.name, &call.name);
    let remaining = clock::until(call.deadline);
    let body = RunRequest {
        input: task(call),
        session: Some(SessionId::of_call(&call.call)),
        run: Some(RunId::of_call(&call.call)),
        timeout_ms: Some(u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX)),
        budget: Some(call.budget),
        parent: Some(Parent { session: session.clone(), run: call.run.clone(), depth: call.depth }),
    };
    let headers = Headers::new()
        .with(header::TRACEPARENT, call.trace.to_string())
        .with(header::DEPTH, call.depth.to_string());
    let latest = call.deadline.plus_ms(u64::try_from(REPLY_GRACE.as_millis()).unwrap_or(0));
    match request::<RunReply>(context, &subject, &headers, &body, latest).await {
        Ok(reply) => {
            let outcome = match (reply.status, reply.error) {
                (RunStatus::Completed, _) => CallOutcome::text(reply.output),
                (RunStatus::Failed | RunStatus::Cancelled, error) => {
                    let reason = error.map_or_else(
                        || reply.status.as_str().to_owned(),
                        |error| error.to_string(),
                    );
                    CallOutcome::error(
                        ErrorCode::AgentFailed,
                        format!("agent {} did not complete: {reason}", call.name),
                    )
                }
            };
            (outcome, reply.usage)
        }
        Err(Missed::NotDelivered(error)) => (CallOutcome::Error { error }, Usage::default()),
        Err(Missed::Unanswered(error)) => {
            // What it used is not known, so all that was set aside for it counts as used.
            let output_tokens = call.budget.tokens.unwrap_or_default();
            (CallOutcome::Error { error }, Usage { output_tokens, ..Usage::default() })
        }
    }
}

/// Returns what a called agent is told.
fn task(call: &CallEffect) -> String {
    match (&call.task, call.arguments.as_object(), call.arguments.get("task")) {
        (Some(template), Some(arguments), _) => Template::parse(template).fill_lenient(arguments),
        (None, _, Some(Value::String(task))) => task.clone(),
        (Some(_), None, _) | (None, _, Some(_) | None) => call.arguments.to_string(),
    }
}

/// Ends the run of a called agent.
pub(crate) async fn cancel_agent(context: &TeamContext, call: &CallKey) {
    let child = RunId::of_call(call);
    let subject = context.subjects.run(&context.team.name, &child, RunVerb::Cancel);
    let mut pause = PAUSE_MIN;
    for _ in 0..CANCEL_TRIES {
        let told = context.bus.request(&subject, Headers::new(), Bytes::new(), CANCEL_TIMEOUT);
        match told.await {
            Ok(answer) if answer.headers.get(header::SERVICE_ERROR_CODE).is_none() => return,
            Ok(_) | Err(_) => sleep(pause).await,
        }
        pause *= 2;
    }
    debug!(%child, "no run of a called agent was there to be ended");
}

/// Makes a request until it is answered or its time is over.
///
/// It is made again only where it is certain that nobody took it, or where the answer says that
/// nothing was begun.
pub(crate) async fn request<T: DeserializeOwned>(
    context: &TeamContext,
    subject: &str,
    headers: &Headers,
    body: &impl Serialize,
    deadline: Timestamp,
) -> Result<T, Missed> {
    let end = Instant::now() + clock::until(deadline);
    let body: Bytes = match serde_json::to_vec(body) {
        Ok(body) => body.into(),
        Err(error) => {
            let error = WireError::new(ErrorCode::Internal, format!("write a request: {error}"));
            return Err(Missed::NotDelivered(error));
        }
    };
    let mut pause = PAUSE_MIN;
    loop {
        let remaining = end.saturating_duration_since(Instant::now());
        let millis = u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX);
        let headers = headers.clone().with(header::REMAINING_MS, millis.to_string());
        let sent = context.bus.request(subject, headers, body.clone(), remaining).await;
        let (error, wait) = match sent {
            Ok(message) => match decode::<T>(&message) {
                Ok(answer) => return Ok(answer),
                Err(error) => match (error.code, error.retry_after_ms) {
                    (
                        ErrorCode::Overloaded | ErrorCode::Unavailable | ErrorCode::ModelResting,
                        wait,
                    ) => (error, wait.map(Duration::from_millis)),
                    (code, _) if is_refusal(code) => return Err(Missed::NotDelivered(error)),
                    // Whoever answers so, or so that it cannot be read, may have done the work.
                    _ => return Err(Missed::Unanswered(error)),
                },
            },
            Err(error @ (bus::Error::NoResponders { .. } | bus::Error::Overflow { .. })) => {
                (error.to_wire(), None)
            }
            Err(error @ bus::Error::Timeout { .. }) => {
                return Err(Missed::Unanswered(error.to_wire()));
            }
            Err(error @ (bus::Error::TooLarge { .. } | bus::Error::InvalidSubject { .. })) => {
                return Err(Missed::NotDelivered(error.to_wire()));
            }
            Err(error) => return Err(Missed::Unanswered(error.to_wire())),
        };
        let wait = wait.unwrap_or(pause).min(PAUSE_MAX);
        if Instant::now() + wait >= end {
            return Err(Missed::NotDelivered(error));
        }
        sleep(wait).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Tells whether an error says that nothing was begun.
const fn is_refusal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::BadRequest
            | ErrorCode::InvalidArguments
            | ErrorCode::UnknownAgent
            | ErrorCode::RunConflict
            | ErrorCode::PrefixUnknown
    )
}

/// Reads an answer: the body that was promised, or an error.
pub(crate) fn decode<T: DeserializeOwned>(message: &Message) -> Result<T, WireError> {
    match serde_json::from_slice::<T>(&message.payload) {
        Ok(answer) => Ok(answer),
        Err(error) => {
            if let Ok(body) = serde_json::from_slice::<ErrorBody>(&message.payload) {
                return Err(body.error);
            }
            let told = message.headers.get(header::SERVICE_ERROR).unwrap_or_default();
            let text = format!("the answer on {} cannot be read: {error} {told}", message.subject);
            Err(WireError::new(ErrorCode::ToolFailed, text.trim_end()))
        }
    }
}

#[cfg(test)]
mod tests;
