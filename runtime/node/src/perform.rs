//! Carries out what a session decided: asks models, tools and other agents on their subjects.

mod asking;
mod talk;

use std::sync::Arc;
use std::time::Duration;

use agents_core::dialect;
use agents_core::effect::{Aborted, CallEffect};
use agents_core::validate::Catalogue;
use bus::Content;
use bytes::Bytes;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tools::{Missed, Template};
use tracing::{debug, warn};
use wire::chat::{Observed, PrefixHeld};
use wire::entry::{ModelOutcome, TurnReport};
use wire::run::{Budget, Parent, RunState, RunView};
use wire::subject::RunVerb;
use wire::{
    CallOutcome, ErrorCode, Headers, Input, ModelReply, ModelRequest, Name, Planned, RunId,
    RunReply, RunRequest, RunStatus, SessionId, Timestamp, ToolReply, ToolRequest, TraceContext,
    Usage, WireError, WorkId, header,
};

pub(crate) use asking::{Asking, Stop, Stopped, request, stop};
use asking::{PAUSE_MAX, PAUSE_MIN, REPEATS_UNBOUNDED, Waiting, decode, request_held};
pub(crate) use talk::{Say, Saying, converse};

use crate::clock;
use crate::context::TeamContext;
use crate::prefix::{Outgoing, in_pieces};

/// What a called agent is given beyond its own deadline to hand over its reply.
const REPLY_GRACE: Duration = Duration::from_secs(1);

/// How often the run of a called agent is told to end: it may not be known yet when it is told
/// first, and has begun after a second and a half if it begins at all.
const CANCEL_TRIES: u32 = 6;

/// How long an answer to that is waited for.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a conversation is sent whole that is not held: what was handed over in pieces may be
/// forgotten before it is asked for.
const WHOLE_TRIES: u32 = 2;

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

/// Asks a model and reads its reply.
pub(crate) async fn ask_model(context: &Arc<TeamContext>, turn: &Turn) -> ModelOutcome {
    let role = turn.outgoing.request.role;
    match ask(context, turn).await {
        Ok(reply) => {
            let dialect::Read { reading, unread, reasoning, faults } =
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
                detail: reply.detail,
            };
            ModelOutcome::Read { reading, unread, reasoning, turn: Box::new(report) }
        }
        Err(error) => ModelOutcome::Failed { error },
    }
}

async fn ask(context: &Arc<TeamContext>, turn: &Turn) -> Result<ModelReply, WireError> {
    let work = WorkId::of_turn(turn.run.clone(), turn.number);
    let headers = Headers::new()
        .with(header::TRACEPARENT, turn.trace)
        .with(header::SESSION, turn.observed.session.clone());
    let asking = Asking::of_model(context, &turn.model, work, headers, turn.deadline);
    let mut tries = WHOLE_TRIES;
    let mut whole = None;
    loop {
        let form = whole.as_deref().unwrap_or(&turn.outgoing.request);
        match ask_form(context, turn, &asking, form).await {
            Err(error) if error.code == ErrorCode::PrefixUnknown && tries > 0 => {
                tries -= 1;
                whole.get_or_insert_with(|| Box::new(turn.outgoing.whole()));
            }
            asked => return asked,
        }
    }
}

/// Asks for a turn in one of the forms in which its conversation can be sent.
async fn ask_form(
    context: &Arc<TeamContext>,
    turn: &Turn,
    asking: &Asking,
    form: &ModelRequest,
) -> Result<ModelReply, WireError> {
    let complete = Arc::new(ModelRequest {
        max_tokens: Some(turn.max_tokens),
        observed: Some(turn.observed.clone()),
        ..form.clone()
    });
    // A turn changes nothing outside, so it may be asked for again for as long as there is time.
    let asked = match request::<ModelReply>(context, asking, complete.clone()).await {
        Err(Missed::NotDelivered(error)) if error.code == ErrorCode::TooLarge => {
            Box::pin(ask_in_pieces(context, asking, &complete)).await
        }
        asked => asked,
    };
    asked.map_err(Missed::into_error)
}

/// Hands a conversation over that is too large for one message, and asks for the turn with the last
/// of it.
async fn ask_in_pieces(
    context: &Arc<TeamContext>,
    asking: &Asking,
    whole: &ModelRequest,
) -> Result<ModelReply, Missed> {
    let (pieces, last) = in_pieces(whole, context.bus.payload_bytes_max());
    for piece in pieces {
        request::<PrefixHeld>(context, asking, Arc::new(piece)).await?;
    }
    request::<ModelReply>(context, asking, Arc::new(last)).await
}

/// Calls a tool, and returns what it says first, which is the end of it unless it asks something.
async fn begin_call(
    context: &Arc<TeamContext>,
    session: &SessionId,
    call: &CallEffect,
) -> (ToolReply, Option<Waiting>) {
    let present = context.present.strictness(&call.name);
    let outgrown = present.and_then(|(effect, labels)| call.outgrown(effect, labels));
    if let Some(outcome) = outgrown {
        return (ToolReply::settled(outcome), None);
    }
    let headers = Headers::new()
        .with(header::TRACEPARENT, call.trace)
        .with(header::IDEMPOTENCY_KEY, call.call.clone())
        .with(header::MESSAGE_ID, call.call.clone());
    let body = ToolRequest {
        call: call.call.clone(),
        arguments: call.arguments.clone(),
        session: session.clone(),
        run: call.run.clone(),
        agent: call.agent.clone(),
        budget: (call.budget != Budget::default()).then_some(call.budget),
        rejoin: call.is_awaited(),
        tainted: call.tainted,
        depth: call.depth.saturating_sub(1),
        reader: call.reader.clone(),
    };
    let asking = Asking {
        subject: context.subjects.tool(&context.team.name, &call.name),
        headers,
        deadline: call.deadline,
        grace: Duration::ZERO,
        stop: Some(Stop {
            whom: Stopped::Tool(call.name.clone()),
            work: WorkId::of_call(call.call.clone()),
        }),
        // What follows from a call without an answer depends on its effect class.
        repeats_max: 0,
        // A tool that is gone does not come back within the time of a call.
        patient: context.present.serves(&call.name),
        is_long: false,
    };
    let missed = match request_held(context, &asking, Arc::new(body)).await {
        Ok((reply, waiting)) => return (call.judge(reply), waiting),
        Err(missed) => missed,
    };
    let reply = match missed {
        Missed::Unanswered(error) => ToolReply::unanswered(error),
        // The call was made before, so that nobody waits for its outcome does not undo it.
        Missed::NotDelivered(error) if call.is_awaited() || call.may_have_happened() => {
            ToolReply::unanswered(error)
        }
        Missed::NotDelivered(_) if !asking.patient => {
            let text = format!("tool {} is gone from the team; the call was not made", call.name);
            ToolReply::settled(CallOutcome::error(ErrorCode::ToolUnavailable, text))
        }
        Missed::NotDelivered(error) => ToolReply::settled(CallOutcome::Error { error }),
    };
    (reply, None)
}

/// Asks a probe, and tells whether what it says holds untrusted words; one that does not say at once
/// what it knows does not know it.
pub(crate) async fn probe(
    context: &Arc<TeamContext>,
    session: &SessionId,
    call: &CallEffect,
) -> (CallOutcome, bool) {
    let (reply, held) = begin_call(context, session, call).await;
    match reply {
        ToolReply::Settled { outcome, tainted, .. } => {
            if let Some(held) = held {
                held.end();
            }
            (outcome, tainted)
        }
        ToolReply::Lost { error, tainted, .. } => (CallOutcome::Error { error }, tainted),
        ToolReply::Suspended { .. } | ToolReply::Asks { .. } => {
            let note = format!("{} asks a person, which a probe must not", call.name);
            (CallOutcome::Unknown { note }, false)
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

/// Returns the request for the run of a called agent.
fn run_request(session: &SessionId, call: &CallEffect) -> RunRequest {
    let remaining = clock::until(call.deadline);
    RunRequest {
        input: task(call),
        session: Some(SessionId::of_call(&call.call)),
        run: Some(RunId::of_call(&call.call)),
        timeout_ms: Some(u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX)),
        budget: Some(call.budget),
        parent: Some(Parent {
            session: session.clone(),
            run: call.run.clone(),
            depth: call.depth,
            tainted: call.tainted,
        }),
    }
}

/// Returns the request for the run of a called agent as the session that calls makes it, if what
/// somebody sent to an agent is that: its depth, its taint, its time and what it may use are the
/// caller's to say.
pub(crate) fn as_called(
    session: &SessionId,
    call: &CallEffect,
    agent: &Name,
    sent: &RunRequest,
) -> Option<RunRequest> {
    let meant = run_request(session, call);
    let parent = sent.parent.as_ref()?;
    let is_meant = call.name == *agent
        && (&call.run, session) == (&parent.run, &parent.session)
        && (&meant.input, &meant.session, &meant.run) == (&sent.input, &sent.session, &sent.run);
    is_meant.then_some(meant)
}

/// Asks another agent, and returns what settles the call. Its run goes under the call's key, so
/// asking again begins nothing new.
pub(crate) async fn call_agent(
    context: &Arc<TeamContext>,
    session: &SessionId,
    call: &CallEffect,
) -> Input {
    let settled = |outcome, usage, tainted| Input::CallSettled {
        call: call.call.clone(),
        outcome,
        usage,
        tainted,
        hop: None,
    };
    let child = RunId::of_call(&call.call);
    let body = run_request(session, call);
    let headers = Headers::new()
        .with(header::TRACEPARENT, call.trace)
        .with(header::DEPTH, u64::from(call.depth));
    let asking = Asking {
        subject: context.subjects.agent_run(&context.team.name, &call.name),
        headers,
        deadline: call.deadline.plus_ms(u64::try_from(REPLY_GRACE.as_millis()).unwrap_or(0)),
        // A run that is taken late would otherwise have it as well.
        grace: REPLY_GRACE,
        // A run is not stopped by whoever asked for it, but by name and through its journal.
        stop: None,
        // It is begun once.
        repeats_max: REPEATS_UNBOUNDED,
        patient: true,
        is_long: true,
    };
    let asked = if context.team.agents.contains_key(&call.name) {
        reply_of(context, &asking, Arc::new(body)).await
    } else if call.may_have_happened() {
        // It goes on by the plan with which it began.
        let subject = context.subjects.run(&context.team.name, &child, RunVerb::Result);
        reply_of(context, &Asking { subject, ..asking }, Arc::new(Value::Null)).await
    } else {
        let text = format!("agent {} is gone from the team; the call was not made", call.name);
        Err(Missed::NotDelivered(WireError::new(ErrorCode::UnknownAgent, text)))
    };
    match asked.and_then(|reply| reply_to(&child, reply)) {
        Ok(reply) => {
            let outcome = match reply.status {
                RunStatus::Completed => CallOutcome::text(reply.output.as_str()),
                status => {
                    let error = reply.error.unwrap_or_else(|| {
                        let text = format!("agent {} ended as {}", call.name, status.as_str());
                        WireError::new(ErrorCode::AgentFailed, text)
                    });
                    CallOutcome::Ended { status, output: reply.output.to_string(), error }
                }
            };
            settled(outcome, reply.usage, reply.tainted)
        }
        Err(Missed::NotDelivered(error)) if !call.may_have_happened() => {
            settled(ended(RunStatus::Refused, error), Usage::default(), false)
        }
        // Its run may have begun by an attempt before.
        Err(Missed::NotDelivered(error) | Missed::Unanswered(error)) => {
            // Its run may go on, for nobody.
            let aborted = Aborted {
                call: call.call.clone(),
                name: call.name.clone(),
                target: call.target,
                deadline: call.deadline,
            };
            let told = context.clone();
            tokio::spawn(async move { cancel_agent(&told, &aborted).await });
            settled(ended(RunStatus::Unknown, error), Usage::default(), false)
        }
    }
}

/// Asks for the reply of a called agent's run until there is one.
async fn reply_of(
    context: &Arc<TeamContext>,
    asking: &Asking,
    body: Arc<dyn Content>,
) -> Result<RunReply, Missed> {
    let mut may_be_taken = false;
    loop {
        match request::<RunReply>(context, asking, body.clone()).await {
            // A look-up ends before a long run does, and a session that stands still takes no run in
            // time; it is known by its id, if it was taken.
            Err(Missed::Unanswered(error))
                if error.code == ErrorCode::DeadlineExceeded
                    && clock::until(asking.deadline) > PAUSE_MAX =>
            {
                debug!(subject = asking.subject, %error, "a called agent is asked again");
                may_be_taken = true;
                sleep(PAUSE_MIN).await;
            }
            Err(Missed::NotDelivered(error)) if may_be_taken => {
                return Err(Missed::Unanswered(error));
            }
            replied => return replied,
        }
    }
}

/// Refuses a reply that is not that of the run which was asked for.
fn reply_to(run: &RunId, reply: RunReply) -> Result<RunReply, Missed> {
    if reply.run == *run {
        return Ok(reply);
    }
    let text = format!("the answer to run {run} is the reply of another run, {}", reply.run);
    Err(Missed::Unanswered(WireError::new(ErrorCode::AgentFailed, text)))
}

/// The outcome of a called agent that handed nothing over.
const fn ended(status: RunStatus, error: WireError) -> CallOutcome {
    CallOutcome::Ended { status, output: String::new(), error }
}

/// Returns what a called agent is told.
fn task(call: &CallEffect) -> String {
    match (&call.task, call.arguments.as_object(), call.arguments.get("task")) {
        (Some(template), Some(arguments), _) => Template::parse(template).fill_lenient(arguments),
        (None, _, Some(Value::String(task))) => task.clone(),
        (Some(_), None, _) | (None, _, Some(_) | None) => call.arguments.to_string(),
    }
}

/// Ends the run of a called agent, and returns when it is over or it is certain that there is none.
///
/// A run that is not known may be about to begin, and one whose node cannot be reached goes on, so
/// both are asked for again; at its deadline a run ends by itself.
pub(crate) async fn cancel_agent(context: &TeamContext, aborted: &Aborted) {
    let child = RunId::of_call(&aborted.call);
    let subject = context.subjects.run(&context.team.name, &child, RunVerb::Cancel);
    let end = Instant::now() + clock::until(aborted.deadline) + REPLY_GRACE;
    let mut pause = PAUSE_MIN;
    let mut unknown = 0;
    while unknown < CANCEL_TRIES && Instant::now() < end {
        let told = context.bus.request(&subject, Headers::new(), Bytes::new(), CANCEL_TIMEOUT);
        match told.await {
            Ok(answer) => match decode::<RunView>(&answer) {
                Ok(view) if matches!(view.state, RunState::Ended { .. }) => return,
                Ok(_) => debug!(%child, "called agent told to end and goes on"),
                Err(error) if error.code == ErrorCode::UnknownRun => unknown += 1,
                Err(error) => debug!(%child, %error, "called agent not told to end"),
            },
            Err(error) => debug!(%child, %error, "called agent not told to end"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    debug!(%child, "no run of a called agent was there to be ended");
}

#[cfg(test)]
mod tests;
