//! What becomes of a request that is let in: a run with its session, its time and its trace.

use std::sync::Arc;

use agents_core::effect::Rejected;
use bus::Message;
use store::RunBegun;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tools::secret::clean;
use wire::entry::Submitted;
use wire::header::{self, REPLY_ACCEPTED};
use wire::run::{Accepted, INPUT_BYTES_MAX};
use wire::{Digest, ErrorCode, Name, Plan, RunId, RunRequest, SessionId, TraceContext, WireError};

use super::Porter;
use crate::clock;
use crate::context::TeamContext;

/// A request that was let in.
pub(super) struct Arrival {
    pub(super) session: SessionId,
    pub(super) submitted: Submitted,
    /// What is answered if the run is not known by then, where it may only be asked for again.
    pub(super) unless_known: Option<WireError>,
    /// Whoever asks is to be told at once that the run is taken, and does not wait for its reply.
    pub(super) is_let_go: bool,
}

/// Takes the secrets out of a request, before it is compared with another or becomes a run.
pub(super) fn cleaned(request: RunRequest) -> RunRequest {
    RunRequest { input: clean(request.input), ..request }
}

/// Returns the run that a request names, if it names one.
pub(super) fn named(message: &Message, request: &RunRequest) -> Option<RunId> {
    let of_message = || {
        let id = message.headers.get(header::MESSAGE_ID).and_then(|id| RunId::new(&id).ok());
        id.filter(|id| !is_reserved(id.as_str()))
    };
    request.run.clone().or_else(of_message)
}

fn is_reserved(id: &str) -> bool {
    id.starts_with('_')
}

impl Porter {
    /// Makes a run of a request that may name it, or says what is wrong with it. Its time counts from
    /// when the request was received.
    pub(super) async fn arrival(
        &self,
        message: &Message,
        agent: Name,
        request: RunRequest,
        name: Option<RunId>,
        received: Instant,
    ) -> Result<Arrival, WireError> {
        let bad = |text: String| WireError::new(ErrorCode::BadRequest, text);
        let Some((plan_digest, plan)) = self.context.plans.current(&agent) else {
            let text = format!("team {} has no agent {agent}", self.context.team.name);
            return Err(WireError::new(ErrorCode::UnknownAgent, text));
        };
        if request.input.len() > INPUT_BYTES_MAX {
            let text = format!("the input has more than {INPUT_BYTES_MAX} bytes");
            return Err(WireError::new(ErrorCode::TooLarge, text));
        }
        if request.input.trim().is_empty() {
            return Err(bad("the input is empty".to_owned()));
        }
        if request.run.as_ref().is_some_and(|run| is_reserved(run.as_str()))
            || request.session.as_ref().is_some_and(|session| is_reserved(session.as_str()))
        {
            return Err(bad("ids that begin with '_' are reserved".to_owned()));
        }
        // Nobody can have asked before for a run that has no name.
        let known = match &name {
            Some(run) => self.context.session_of_run(run).await?,
            None => None,
        };
        // What a run began with was checked then, and may be otherwise in the team by now.
        if known.is_none() {
            self.check_prices(&request, &plan)?;
        }
        let begins = name.is_some() && request.session.is_none();
        let run = name.unwrap_or_else(RunId::fresh);
        let session = session_of(&request, &run, known)?;
        let now = clock::now();
        let limit = plan.limits.deadline_ms;
        let asked = [request.timeout_ms, message.headers.read(header::REMAINING_MS)];
        let within = asked.into_iter().flatten().min().map_or(limit, |ms| ms.min(limit));
        let passed = u64::try_from(received.elapsed().as_millis()).unwrap_or(u64::MAX);
        let Some(left) = within.checked_sub(passed) else {
            let text =
                format!("{within} ms were over before the run could begin; nothing was done");
            return Err(WireError::new(ErrorCode::DeadlineExceeded, text));
        };
        let caller: Option<TraceContext> = message.headers.read(header::TRACEPARENT);
        let trace = match &caller {
            Some(caller) => caller.of_run(&run),
            None => TraceContext::root(&self.context.team.name, &run),
        };
        let body = body_of(&agent, &request.input);
        let submitted = Submitted {
            run,
            agent,
            plan: plan_digest,
            text: request.input,
            body,
            deadline: now.plus_ms(left),
            budget: request.budget.unwrap_or_default(),
            trace,
            caller_span: caller,
            parent: request.parent,
            begins,
        };
        let is_let_go = message.headers.get(header::REPLY_MODE).as_deref() == Some(REPLY_ACCEPTED);
        Ok(Arrival { session, submitted, unless_known: None, is_let_go })
    }

    /// Refuses a new run whose bound of money cannot be kept.
    fn check_prices(&self, request: &RunRequest, plan: &Plan) -> Result<(), WireError> {
        if request.budget.and_then(|budget| budget.cost_nano_usd).is_none() {
            return Ok(());
        }
        let team = self.context.present.team();
        // Those that the agent calls were looked at where the first of the runs began.
        let below = team.unpriced(&plan.agent).filter(|_| request.parent.is_none());
        let found = [plan].into_iter().chain(below);
        let mut unpriced = found.filter_map(|plan| Some((&plan.agent, plan.unpriced()?)));
        let Some((agent, model)) = unpriced.next() else { return Ok(()) };
        let text = format!(
            "model {model} has no `price`, so the budget's `cost_nano_usd` cannot be kept in runs \
             of agent {agent}"
        );
        Err(WireError::new(ErrorCode::BadRequest, text))
    }
}

/// Returns what tells a repetition from a conflict: what was asked, not how long to wait for it.
fn body_of(agent: &Name, input: &str) -> Digest {
    Digest::of(agent.as_str().as_bytes()).then(input.as_bytes())
}

/// Returns the session of a request: the one it names, or the one in which its run is known to have
/// begun.
fn session_of(
    request: &RunRequest,
    run: &RunId,
    known: Option<SessionId>,
) -> Result<SessionId, WireError> {
    match (&request.session, known) {
        (Some(asked), Some(known)) if *asked != known => {
            let text = format!("run {run} belongs to session {known}");
            Err(WireError::new(ErrorCode::RunConflict, text))
        }
        (Some(asked), _) => Ok(asked.clone()),
        (None, Some(known)) => Ok(known),
        (None, None) => Ok(SessionId::of_run(run)),
    }
}

impl TeamContext {
    /// Accepts a request for a run that is known, and that the same agent was asked for, as it was
    /// accepted before. Another request under its id is refused.
    pub(crate) async fn accepted_before(
        self: &Arc<Self>,
        agent: &Name,
        request: RunRequest,
    ) -> Result<Option<Accepted>, WireError> {
        let request = cleaned(request);
        let Some(run) = &request.run else { return Ok(None) };
        // What was accepted a moment ago is known when the store has caught up.
        self.projector.sync().await;
        let begun = self.begun(run).await?.filter(|begun| begun.agent == *agent);
        let Some(begun) = begun else { return Ok(None) };
        session_of(&request, run, Some(begun.session.clone()))?;
        let RunBegun { run, session, body, trace, joined, .. } = begun;
        if body != body_of(agent, &request.input) {
            return Err(Rejected::Conflict { run }.to_wire());
        }
        Ok(Some(Accepted::new(run, session, trace.trace_id(), joined)))
    }

    /// Returns the session in which a run began, if the run is known.
    pub(crate) async fn session_of_run(
        self: &Arc<Self>,
        run: &RunId,
    ) -> Result<Option<SessionId>, WireError> {
        if let Some(session) = self.projector.session_of_unapplied(run) {
            return Ok(Some(session));
        }
        Ok(self.begun(run).await?.map(|begun| begun.session))
    }

    /// Returns how a run began, if the store knows it.
    async fn begun(self: &Arc<Self>, run: &RunId) -> Result<Option<RunBegun>, WireError> {
        // Never closed.
        let _permit = self.lookups.acquire().await;
        let (context, run) = (self.clone(), run.clone());
        let found = spawn_blocking(move || context.store.run(&run)).await;
        let row = found.map_err(|_| crate::Error::Ending.to_wire())?.map_err(|error| {
            // Every request comes past here, so nothing would be written that could fail instead.
            if matches!(error, store::Error::Damaged { .. }) {
                self.projector.fail();
            }
            crate::Error::from(error).to_wire()
        })?;
        Ok(row.map(|row| row.begun))
    }
}
