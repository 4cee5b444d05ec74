//! One turn with a model: a place, an attempt, and further ones while they make sense.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use config::team::Model;
use tokio::time::{Instant, sleep, timeout};
use wire::chat::Head;
use wire::{ErrorCode, Message, ModelReply, ModelRole, Name, Scope, WireError};

use crate::answer::Answer;
use crate::error::Error;
use crate::gate::Gate;
use crate::provider::Backend;
use crate::recorder::Recorder;
use crate::retry::{Class, Tries};

/// When a turn that found the queue full may come again, in milliseconds. Turns take seconds, so
/// that sooner would most often be in vain.
const OVERLOADED_RETRY_MS: u64 = 1_000;

/// What a model is asked in one turn.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The tools and the form of the reply.
    pub head: Arc<Head>,
    /// The messages, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// The most tokens that the reply may have.
    pub max_tokens: Option<u64>,
    /// The part that the model plays; it is not sent.
    pub role: ModelRole,
}

/// A client of one model of a team.
pub struct ModelClient {
    name: Name,
    backend: Backend,
    recorder: Option<Arc<Recorder>>,
    gate: Gate,
    concurrency: u32,
    queue_max: u32,
    timeout: Duration,
    retries_max: u32,
}

impl fmt::Debug for ModelClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelClient").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ModelClient {
    /// Makes a client; calls nobody.
    ///
    /// Fails with [`ErrorCode::SecretMissing`] if the key cannot be read, with
    /// [`ErrorCode::ConfigInvalid`] if the address or a pattern of the script is not valid, and
    /// with [`ErrorCode::FileUnreadable`] if replies cannot be recorded.
    pub fn new(model: &Model, http: reqwest::Client) -> Result<Self, WireError> {
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
        Ok(Self {
            name: name.clone(),
            backend,
            recorder,
            gate: Gate::new(model.concurrency, model.queue_max),
            concurrency: model.concurrency,
            queue_max: model.queue_max,
            timeout: Duration::from_millis(model.timeout_ms),
            retries_max: model.retries_max,
        })
    }

    /// Asks for one reply and waits for the whole of it, `remaining` at most.
    ///
    /// `on_delta` is given the pieces of the text as they come. They are provisional: an attempt
    /// that is cut half way is dropped, the next one begins its text anew, and only the returned
    /// reply counts. An error that the provider itself reports after some text is final. Dropping
    /// the future cancels the request.
    ///
    /// Fails with [`ErrorCode::Overloaded`] at once if the model's queue is full,
    /// [`ErrorCode::DeadlineExceeded`] if `remaining` or the model's `timeout_ms` is over,
    /// [`ErrorCode::ModelRefused`] if asking again would be in vain, and with
    /// [`ErrorCode::ModelUnavailable`] or [`ErrorCode::ModelProtocol`] if asking again did not help.
    pub async fn turn(
        &self,
        conversation: &Conversation,
        remaining: Duration,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<ModelReply, WireError> {
        let limit = remaining.min(self.timeout);
        let mut last = None;
        if !limit.is_zero() {
            let turn = self.attempts(conversation, limit, on_delta, &mut last);
            if let Ok(result) = timeout(limit, turn).await {
                return result;
            }
        }
        let which = if remaining <= self.timeout { "left to the run" } else { "of `timeout_ms`" };
        let before = last.map(|error| format!("; the last attempt: {error}")).unwrap_or_default();
        Err(WireError::new(
            ErrorCode::DeadlineExceeded,
            format!(
                "model {}: no reply in the {} ms {which}{before}",
                self.name,
                limit.as_millis()
            ),
        ))
    }

    /// Makes attempts until one succeeds or the next would make no sense. The place is kept while
    /// waiting, so that a provider in trouble is asked less and not more.
    async fn attempts(
        &self,
        conversation: &Conversation,
        limit: Duration,
        on_delta: &mut (dyn FnMut(&str) + Send),
        last: &mut Option<Error>,
    ) -> Result<ModelReply, WireError> {
        let begun = Instant::now();
        let Some(_place) = self.gate.enter().await else {
            return Err(self.overloaded());
        };
        let request = self.backend.write(conversation)?;
        let mut tries = Tries::new(self.retries_max);
        loop {
            let mut shown = false;
            let mut show = |piece: &str| {
                shown = true;
                on_delta(piece);
            };
            let error = match self.backend.attempt(conversation, &request, &mut show).await {
                Ok(answer) => return Ok(self.reply(answer, conversation, &tries).await),
                Err(error) => error,
            };
            let class = Class::of(&error, shown);
            let wait = tries
                .next(class.repeat, error.advice(), random())
                .filter(|wait| begun.elapsed() + *wait < limit);
            let Some(wait) = wait else {
                return Err(self.failed(&error, class, &tries));
            };
            tracing::warn!(
                model = %self.name,
                role = conversation.role.as_str(),
                %error,
                attempt = tries.failed(),
                wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                "model request failed, will retry"
            );
            *last = Some(error);
            sleep(wait).await;
        }
    }

    async fn reply(&self, answer: Answer, asked: &Conversation, tries: &Tries) -> ModelReply {
        let model = self.backend.model().unwrap_or(self.name.as_str());
        let attempts = tries.failed().saturating_add(1);
        let reply = answer.into_reply(asked, self.backend.word(), model, attempts);
        if let Some(recorder) = &self.recorder {
            recorder.add(asked, &reply).await;
        }
        reply
    }

    fn failed(&self, error: &Error, class: Class, tries: &Tries) -> WireError {
        let address = self.backend.address();
        let place = address.map(|address| format!(" at {address}")).unwrap_or_default();
        let attempts = tries.failed();
        let times = if attempts == 1 { "once".to_owned() } else { format!("{attempts} times") };
        let text = format!("model {}{place}, asked {times}: {error}", self.name);
        let retry_after_ms = error
            .advice()
            .filter(|_| class.code == ErrorCode::ModelUnavailable)
            .and_then(|wait| u64::try_from(wait.as_millis()).ok());
        WireError { retry_after_ms, ..WireError::new(class.code, text) }
    }

    fn overloaded(&self) -> WireError {
        let text = format!(
            "model {}: its {} places are taken and the queue for them (`queue_max` {}) is full",
            self.name, self.concurrency, self.queue_max
        );
        WireError::overloaded(Scope::Model, text, OVERLOADED_RETRY_MS)
    }
}

/// Returns a number that is random enough to spread retries: the keys of the standard library's
/// hash maps are seeded by the system.
fn random() -> u64 {
    RandomState::new().hash_one(())
}
