//! One model: a place, an attempt at its server, and further ones while they make sense.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use config::team::Model;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};
use wire::{Digest, ErrorCode, ModelReply, Name, Scope, Usage, WireError};

use crate::answer::{Answer, BYTES_PER_TOKEN, Received};
use crate::breaker::{Cause, Rest, Sign};
use crate::client::{Conversation, Progress};
use crate::error::Error;
use crate::fair::Flow;
use crate::gate::{Gate, Place};
use crate::guard::{Attempt, Guard, Guards, random};
use crate::provider::{Backend, Heard, Written};
use crate::rate::{Grant, Rate};
use crate::reasoning::REASONING_BYTES_MAX;
use crate::recorder::Recorder;
use crate::retry::{Came, Class, Repeat, Tries};

/// When a turn that found the queue full may come again, in milliseconds. Turns take seconds, so
/// that sooner would most often be in vain.
const OVERLOADED_RETRY_MS: u64 = 1_000;

/// The team that a model belongs to, as others at the same server see it.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) team: Name,
    pub(crate) weight: u32,
}

/// A model that can be asked.
pub(crate) struct Source {
    name: Name,
    owner: Owner,
    backend: Backend,
    /// Names it in reasoning that it alone is sent back, if it is sent any.
    digest: Option<Digest>,
    recorder: Option<Arc<Recorder>>,
    guard: Arc<Guard>,
    rate: Rate,
    /// The door: as many turns as have a place or may wait for one.
    admitted: Arc<Semaphore>,
    /// How many that are.
    door: usize,
    gate: Arc<Gate>,
    concurrency: u32,
    queue_max: u32,
    timeout: Duration,
    /// How long an answer may be awaited in vain before it speaks against the server.
    patience: Duration,
    retries_max: u32,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A turn without a reply.
#[derive(Debug)]
pub(crate) struct Failed {
    /// What the asker is told.
    pub(crate) error: WireError,
    /// How often the server was asked.
    pub(crate) asked: u32,
    /// Whether it is the server's doing, so that another one may do better.
    pub(crate) passes_on: bool,
}

/// Why there are no more attempts.
enum Stop {
    /// The time is over.
    Overtime,
    /// The server is not asked at present, for longer than there is time.
    Resting(Rest),
    /// The limits of a minute leave no room in time.
    Crowded(Duration),
    /// The request cannot be put into words.
    Unwritten(WireError),
    /// An attempt failed and there is no other.
    Failed { error: Error, class: Class, retries_spent: bool },
}

/// The time of a turn.
#[derive(Clone, Copy)]
struct Time {
    limit: Duration,
    end: Instant,
    /// Whether the limit is the model's own, and not what the run has left.
    own: bool,
}

/// What a turn has done so far.
struct Course {
    tries: Tries,
    asked: u32,
    last: Option<Error>,
    /// What attempts without a reply may have used.
    lost: Usage,
}

/// How an attempt ended: with an answer, with a failure and what is to be done about it, or with
/// the turn.
type Ended = Result<Result<Answer, (Error, Class)>, Stop>;

impl Source {
    /// Makes the source of a model; calls nobody.
    pub(crate) fn new(
        model: &Model,
        owner: Owner,
        guards: &Guards,
        http: reqwest::Client,
    ) -> Result<Self, WireError> {
        let name = &model.name;
        let named = |error: WireError| WireError {
            message: format!("model {name}: {}", error.message),
            ..error
        };
        let backend = Backend::new(model, http).map_err(named)?;
        let recorder = match &model.record {
            Some(file) => Some(Recorder::open(file, backend.secrets()).map_err(named)?),
            None => None,
        };
        let places = usize::try_from(model.concurrency.max(1)).unwrap_or(Semaphore::MAX_PERMITS);
        let queue = usize::try_from(model.queue_max).unwrap_or(Semaphore::MAX_PERMITS);
        let door = places.saturating_add(queue).min(Semaphore::MAX_PERMITS);
        Ok(Self {
            name: name.clone(),
            owner,
            digest: model.reasoning.then(|| backend.digest(name)),
            backend,
            recorder,
            guard: guards.of(&model.provider),
            rate: Rate::new(model.requests_per_minute, model.tokens_per_minute),
            admitted: Arc::new(Semaphore::new(door)),
            door,
            gate: Gate::new(places),
            concurrency: model.concurrency,
            queue_max: model.queue_max,
            timeout: Duration::from_millis(model.timeout_ms),
            // Half of the time where that is less: of all of it some always goes before the request.
            patience: Duration::from_millis(model.idle_timeout_ms.min(model.timeout_ms / 2)),
            retries_max: model.retries_max,
        })
    }

    /// Returns the model's name in the team.
    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    /// Returns how many turns are in work or wait for a place, and how many may.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.door.saturating_sub(self.admitted.available_permits()), self.door)
    }

    /// Lets a turn in, to a place or into the queue, unless that is full.
    pub(crate) fn admit(&self) -> Result<OwnedSemaphorePermit, WireError> {
        Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| {
            let text = format!(
                "model {}: its {} places are taken and the queue for them (`queue_max` {}) is full",
                self.name, self.concurrency, self.queue_max
            );
            WireError::overloaded(Scope::Model, text, OVERLOADED_RETRY_MS)
        })
    }

    /// Asks for one reply; whoever calls has been let in. Returns beside it what attempts that gave
    /// none may have used.
    pub(crate) async fn turn(
        &self,
        conversation: &Conversation,
        remaining: Duration,
        on_progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> (Result<ModelReply, Failed>, Usage) {
        let limit = remaining.min(self.timeout);
        let time = Time { limit, end: Instant::now() + limit, own: self.timeout < remaining };
        let tries = Tries::new(self.retries_max);
        let mut course = Course { tries, asked: 0, last: None, lost: Usage::default() };
        let result = match self.attempts(conversation, time, &mut course, on_progress).await {
            Ok(answer) => Ok(self.reply(answer, conversation, &course).await),
            Err(stop) => Err(self.failed(stop, time, &course)),
        };
        (result, course.lost)
    }

    /// Makes attempts until one succeeds or the next would make no sense. The place is kept while
    /// waiting, so that a provider in trouble is asked less and not more.
    async fn attempts(
        &self,
        conversation: &Conversation,
        time: Time,
        course: &mut Course,
        on_progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Answer, Stop> {
        if time.limit.is_zero() {
            return Err(Stop::Overtime);
        }
        if let Some(rest) = self.guard.failing() {
            return Err(Stop::Resting(rest));
        }
        let flow = Flow {
            team: self.owner.team.clone(),
            weight: self.owner.weight,
            session: conversation.session.clone(),
        };
        let entered = timeout_at(time.end, self.gate.enter(&flow)).await;
        let _place = entered.map_err(|_| Stop::Overtime)?;
        let request =
            self.backend.write(conversation, self.digest.as_ref()).map_err(Stop::Unwritten)?;
        let tokens = (request.len() / BYTES_PER_TOKEN)
            .saturating_add(conversation.max_tokens.unwrap_or_default());
        loop {
            let begun = self.begin(&flow, tokens, course.asked > 0, time).await?;
            course.asked = course.asked.saturating_add(1);
            let mut shown = false;
            let mut show = |piece: &str| {
                shown = true;
                on_progress(Progress::Piece(piece));
            };
            let (ended, lost) =
                self.attempt(conversation, &request, begun, tokens, time, &mut show).await;
            course.lost.add(lost);
            let (error, class) = match ended? {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let left = time.end.saturating_duration_since(Instant::now());
            let wait = course.tries.next(class.repeat, error.advice(), random());
            let Some(wait) = wait.filter(|wait| *wait < left) else {
                return Err(Stop::Failed { error, class, retries_spent: false });
            };
            if !self.guard.retry() {
                return Err(Stop::Failed { error, class, retries_spent: true });
            }
            tracing::warn!(
                model = %self.name,
                role = conversation.role.as_str(),
                %error,
                attempt = course.asked,
                wait_ms = millis(wait),
                "model request failed, will retry"
            );
            if shown {
                let error = WireError::new(class.code, error.to_string());
                on_progress(Progress::Retried { model: &self.name, error: &error });
            }
            course.last = Some(error);
            sleep(wait).await;
        }
    }

    /// Waits until the server may be asked once more.
    async fn begin(
        &self,
        flow: &Flow,
        tokens: u64,
        retry: bool,
        time: Time,
    ) -> Result<(Attempt, Grant<'_>, Place), Stop> {
        loop {
            self.guard.calm(time.end).await.map_err(Stop::Resting)?;
            let grant = self.rate.enter(tokens, time.end).await.map_err(Stop::Crowded)?;
            let place = timeout_at(time.end, self.guard.gate.enter(flow)).await;
            let place = place.map_err(|_| Stop::Overtime)?;
            // What was calm may not be so after the wait for room.
            if let Some(attempt) = self.guard.begin(retry, self.patience) {
                return Ok((attempt, grant, place));
            }
        }
    }

    /// Makes one attempt and tells all who share the server how it went. Returns beside its end what
    /// it may have used if that is no answer.
    async fn attempt(
        &self,
        conversation: &Conversation,
        request: &Written,
        (mut attempt, mut grant, _place): (Attempt, Grant<'_>, Place),
        tokens: u64,
        time: Time,
        on_piece: &mut (dyn FnMut(&str) + Send),
    ) -> (Ended, Usage) {
        let mut came = Came::Nothing;
        let mut received = Received::default();
        let mut hear = |heard: Heard<'_>| match heard {
            Heard::Byte => attempt.heard(),
            Heard::Piece(piece) => {
                if came < Came::Shown {
                    attempt.answered();
                }
                came = Came::Shown;
                on_piece(piece);
            }
            Heard::Part(part) => {
                if part.bytes > 0 {
                    came = came.max(Came::Part);
                }
                received = part;
            }
        };
        grant.send();
        let asked = self.backend.attempt(conversation, request, &mut hear);
        let Ok(outcome) = timeout_at(time.end, asked).await else {
            grant.settle(tokens);
            attempt.overtime(time.own);
            return (Err(Stop::Overtime), received.used(request.len()));
        };
        match outcome {
            Ok(answer) => {
                attempt.end(Sign::Up, None);
                let used = answer.usage.total();
                grant.settle(if used == 0 { tokens } else { used });
                (Ok(Ok(answer)), Usage::default())
            }
            Err(error) => {
                let class = Class::of(&error, came);
                let passing = class.code == ErrorCode::ModelUnavailable;
                attempt.end(error.sign(), error.advice().filter(|_| passing));
                // What was begun may have been counted.
                let is_begun = class.repeat == Repeat::Spoilt
                    || came > Came::Nothing
                    || matches!(error, Error::TooLarge);
                grant.settle(if is_begun { tokens } else { 0 });
                let lost = if is_begun { received.used(request.len()) } else { Usage::default() };
                (Ok(Err((error, class))), lost)
            }
        }
    }

    async fn reply(&self, answer: Answer, asked: &Conversation, course: &Course) -> ModelReply {
        let model = self.backend.model().unwrap_or(self.name.as_str());
        if answer.reasoning.is_over && self.digest.is_some() {
            tracing::warn!(
                model = %self.name,
                "the reasoning behind the calls of a reply has more than {REASONING_BYTES_MAX} bytes and is dropped; its provider may refuse the next turn"
            );
        }
        let who = (self.backend.word(), model, self.digest);
        let reply = answer.into_reply(asked, who, course.asked);
        if let Some(recorder) = &self.recorder {
            recorder.add(asked, &reply).await;
        }
        reply
    }

    fn failed(&self, stop: Stop, time: Time, course: &Course) -> Failed {
        let name = &self.name;
        let which = if time.own { "of `timeout_ms`" } else { "left to the run" };
        let time = format!("the {} ms {which}", time.limit.as_millis());
        let before = course.last.as_ref();
        let before = before.map(|error| format!("; the last attempt: {error}")).unwrap_or_default();
        let place = self.backend.address().map(|address| format!(" at {address}"));
        let place = place.unwrap_or_default();
        let asked = match course.asked {
            0 => String::new(),
            1 => ", asked once".to_owned(),
            asked => format!(", asked {asked} times"),
        };
        let told = |code, what: String| {
            WireError::new(code, format!("model {name}{place}{asked}: {what}{before}"))
        };
        // Whoever is told that nothing was begun asks again, with all retries of a turn before him.
        let untaken = |code, what: String, after: u64| {
            let code = if course.tries.has_spoilt() { ErrorCode::ModelUnavailable } else { code };
            let scope = (code == ErrorCode::Overloaded).then_some(Scope::Model);
            WireError { scope, ..told(code, what).retry_after(after) }
        };
        let overloaded = |what, after| untaken(ErrorCode::Overloaded, what, after);
        let error = match stop {
            Stop::Unwritten(error) => error,
            Stop::Overtime => told(ErrorCode::DeadlineExceeded, format!("no reply in {time}")),
            Stop::Resting(Rest { cause: Cause::Failing, after }) => {
                let after = millis(after);
                let what = format!(
                    "left alone for another {after} ms, since half of the last requests to its server failed"
                );
                untaken(ErrorCode::ModelResting, what, after)
            }
            Stop::Resting(Rest { cause: Cause::Throttling, after }) => {
                let after = millis(after);
                let what = format!(
                    "its server wants to be left alone for another {after} ms, and the turn has no more than {time}"
                );
                overloaded(what, after)
            }
            Stop::Crowded(after) => {
                let after = millis(after);
                let what = format!(
                    "`requests_per_minute` or `tokens_per_minute` leave no room for another {after} ms, and the turn has no more than {time}"
                );
                overloaded(what, after)
            }
            Stop::Failed { error, class, retries_spent } => {
                let spent =
                    if retries_spent { "; the retries of its server are used up" } else { "" };
                let message = format!("model {name}{place}{asked}: {error}{spent}");
                let retry_after_ms = error
                    .advice()
                    .filter(|_| class.code == ErrorCode::ModelUnavailable)
                    .map(millis);
                WireError { retry_after_ms, ..WireError::new(class.code, message) }
            }
        };
        let passes_on = error.code != ErrorCode::ModelRefused;
        Failed { error, asked: course.asked, passes_on }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
