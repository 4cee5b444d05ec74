//! What all who use a server share: whether it is asked at present, and how much.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config::team::{Provider, Server};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tools::SecretRef;

use crate::breaker::{Breaker, Cause, Rest, Sign, Ticket};
use crate::budget::RetryBudget;
use crate::gate::Gate;

/// Places of a server without a limit: more than all models of a node have.
const PLACES_UNLIMITED: usize = usize::MAX;

/// By what two models are at one server: the address, and where the key stands.
type Key = (String, Option<SecretRef>);

/// The servers that the models of a node use, by address and key.
///
/// Models at one server share what is learned of it, whatever team they belong to. A scripted model
/// is a server of its own.
#[derive(Default)]
pub struct Guards(Mutex<HashMap<Key, Arc<Guard>>>);

impl fmt::Debug for Guards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guards").finish_non_exhaustive()
    }
}

impl Guards {
    /// Returns the guard of the server behind a model.
    pub(crate) fn of(&self, provider: &Provider) -> Arc<Guard> {
        let server: &Server = match provider {
            Provider::OpenAi(options) => &options.server,
            Provider::LlamaCpp(options) => &options.server,
            Provider::Ollama(options) => &options.server,
            Provider::Anthropic(server) => server,
            Provider::Scripted(_) => return Arc::new(Guard::new()),
        };
        let key = (server.base_url.clone(), server.api_key.clone());
        let mut guards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let guard = guards.entry(key).or_insert_with(|| Arc::new(Guard::new()));
        if let Some(places) = server.concurrency {
            guard.gate.narrow(usize::try_from(places).unwrap_or(PLACES_UNLIMITED));
        }
        Arc::clone(guard)
    }
}

/// One server, as all who use it see it.
pub(crate) struct Guard {
    began: Instant,
    state: Mutex<State>,
    /// Wakes those who wait until the server may be asked again.
    changed: Notify,
    /// The places of all models together.
    pub(crate) gate: Arc<Gate>,
}

#[derive(Default)]
struct State {
    breaker: Breaker,
    retries: RetryBudget,
}

impl Guard {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            state: Mutex::default(),
            changed: Notify::new(),
            gate: Gate::new(PLACES_UNLIMITED),
        }
    }

    /// Tells whether the server fails too often to be asked at present.
    pub(crate) fn failing(&self) -> Option<Rest> {
        self.rest().filter(|rest| rest.cause == Cause::Failing)
    }

    /// Waits until the server may be asked. Fails at once if it fails too often, and if what is
    /// known of its rest is longer than there is time.
    pub(crate) async fn calm(&self, end: Instant) -> Result<(), Rest> {
        if self.rest().is_none() {
            return Ok(());
        }
        loop {
            // Enlisted before it is asked again, so that no change in between is missed.
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let Some(rest) = self.rest() else { return Ok(()) };
            if rest.cause == Cause::Failing || Instant::now() + rest.after >= end {
                return Err(rest);
            }
            tokio::select! {
                () = sleep(rest.after) => {}
                () = changed => {}
            }
        }
    }

    /// Begins an attempt; `retry` tells whether it is not the first of its turn. Declines if the
    /// server is not to be asked just now. For `patience` see [`Attempt`].
    pub(crate) fn begin(self: &Arc<Self>, retry: bool, patience: Duration) -> Option<Attempt> {
        let now = self.now();
        let mut state = self.lock();
        let ticket = state.breaker.begin(now).ok()?;
        if !retry {
            state.retries.request(now);
        }
        let guard = Arc::clone(self);
        Some(Attempt { guard, ticket: Some(ticket), patience, is_heard: false })
    }

    /// Grants a retry, if those of the server are not used up.
    pub(crate) fn retry(&self) -> bool {
        let now = self.now();
        self.lock().retries.retry(now)
    }

    fn rest(&self) -> Option<Rest> {
        self.lock().breaker.rest(self.now())
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt that is under way. Dropped before its end, it says nothing of the server, unless that
/// was silent for as long as its patience: whoever waits for a server that answers nobody gives up
/// some time, and which of the limits of time ends first is chance.
pub(crate) struct Attempt {
    guard: Arc<Guard>,
    ticket: Option<Ticket>,
    /// How long the server may leave a request without an answer that is then given up.
    patience: Duration,
    /// Whether a byte of the answer came.
    is_heard: bool,
}

impl Attempt {
    /// Tells that the first byte of the answer came.
    pub(crate) fn heard(&mut self) {
        self.is_heard = true;
        let now = self.guard.now();
        self.guard.lock().breaker.hear(now);
    }

    /// Tells that the reply has begun.
    pub(crate) fn answered(&mut self) {
        if let Some(ticket) = &mut self.ticket {
            *ticket = self.guard.lock().breaker.answered(*ticket);
            self.guard.changed.notify_waiters();
        }
    }

    /// Tells how it ended, and when the server wants to be asked again.
    pub(crate) fn end(mut self, sign: Sign, advice: Option<Duration>) {
        self.finish(Some(sign), advice);
    }

    /// Tells that the time of the turn is over; `own` tells whether it is the time that the model
    /// has, and not what was left to a run: that a run has little time is nothing against the server.
    pub(crate) fn overtime(mut self, own: bool) {
        let sign = if own && self.is_overdue() { Some(Sign::Down) } else { self.silence() };
        self.finish(sign, None);
    }

    /// Tells whether the attempt has lasted as long as its patience. One that began late in its
    /// turn, because there was no place before, may have had no time to be answered.
    fn is_overdue(&self) -> bool {
        let now = self.guard.now();
        self.ticket.is_some_and(|ticket| ticket.waited(now) >= self.patience)
    }

    fn silence(&self) -> Option<Sign> {
        (!self.is_heard && self.is_overdue()).then_some(Sign::Silent)
    }

    fn finish(&mut self, sign: Option<Sign>, advice: Option<Duration>) {
        if let Some(ticket) = self.ticket.take() {
            let now = self.guard.now();
            self.guard.lock().breaker.end(now, ticket, sign, advice, random());
            self.guard.changed.notify_waiters();
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let sign = self.silence();
        self.finish(sign, None);
    }
}

/// Returns a number that is random enough to spread retries: the keys of the standard library's
/// hash maps are seeded by the system.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(())
}
