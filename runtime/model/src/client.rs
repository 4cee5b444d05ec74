//! One turn with a model, or with one that stands in for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use config::Team;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use wire::chat::{Head, Lost};
use wire::{ErrorCode, Message, ModelReply, ModelRole, Name, SessionId, WireError};

use crate::guard::Guards;
use crate::messages::Messages;
use crate::part::Part;
use crate::source::{Failed, Owner, Source};

/// What a model is asked in one turn.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The tools and the form of the reply.
    pub head: Arc<Part<Head>>,
    /// The messages, oldest first.
    pub messages: Messages,
    /// How many of the newest messages are of this turn alone, so that later ones do not have them.
    pub passing: usize,
    /// The most tokens that the reply may have.
    pub max_tokens: Option<u64>,
    /// The part that the model plays; it is not sent.
    pub role: ModelRole,
    /// The session for which it is asked, so that those of a team take turns; it is not sent.
    pub session: Option<SessionId>,
}

impl Conversation {
    /// Iterates over the messages, oldest first.
    pub(crate) fn said(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.messages.iter()
    }
}

/// What happens on the way to a reply.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A piece of the text came; it is provisional.
    Piece(&'a str),
    /// A reply of which pieces were shown came to nothing, and the model is asked again; all pieces
    /// so far are void.
    Retried {
        /// The model.
        model: &'a Name,
        /// What became of the reply.
        error: &'a WireError,
    },
    /// Another model is asked; all pieces so far are void.
    Switched {
        /// The model that is given up.
        from: &'a Name,
        /// The model that is asked.
        to: &'a Name,
        /// Why.
        error: &'a WireError,
    },
}

/// The clients of all models of a team.
#[derive(Debug)]
pub struct ModelClients(BTreeMap<Name, ModelClient>);

/// A client of one model of a team and of those that stand in for it.
#[derive(Clone)]
pub struct ModelClient {
    /// The model, and then its fallbacks.
    sources: Arc<[Arc<Source>]>,
}

/// A turn that was let in. Given back when dropped.
#[derive(Debug)]
pub struct Admission {
    /// Which source let it in.
    at: usize,
    permit: OwnedSemaphorePermit,
    /// Why the one before did not.
    refused: Option<WireError>,
}

impl ModelClients {
    /// Makes the clients of a team's models; calls nobody. `guards` are those of the whole node.
    ///
    /// Fails with [`ErrorCode::SecretMissing`] if a key cannot be read, with
    /// [`ErrorCode::ConfigInvalid`] if an address or a pattern of a script is not valid, and
    /// with [`ErrorCode::FileUnreadable`] if replies cannot be recorded.
    pub fn new(team: &Team, guards: &Guards, http: &reqwest::Client) -> Result<Self, WireError> {
        let owner = Owner { team: team.name.clone(), weight: team.weight };
        let mut sources = BTreeMap::new();
        for (name, model) in &team.models {
            let source = Source::new(model, owner.clone(), guards, http.clone())?;
            sources.insert(name, Arc::new(source));
        }
        let clients = team.models.iter().map(|(name, model)| {
            let chain = std::iter::once(name).chain(&model.fallback);
            let sources = chain.filter_map(|name| sources.get(name).cloned()).collect();
            (name.clone(), ModelClient { sources })
        });
        Ok(Self(clients.collect()))
    }

    /// Returns the client of a model.
    pub fn client(&self, model: &Name) -> Option<&ModelClient> {
        self.0.get(model)
    }
}

impl fmt::Debug for ModelClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sources.iter().map(|source| source.name())).finish()
    }
}

impl ModelClient {
    /// Returns how many turns are in work or wait for a place of the model, and how many may. Those
    /// that went to another model in its place are not counted.
    pub fn load(&self) -> (usize, usize) {
        self.sources.first().map_or((0, 0), |source| source.load())
    }

    /// Lets a turn in, to a place of the model or into the queue for them, or else to a model that
    /// stands in for it. It never waits.
    ///
    /// Fails with [`ErrorCode::Overloaded`] if all queues are full.
    pub fn admit(&self) -> Result<Admission, WireError> {
        let mut refused = None;
        for (at, source) in self.sources.iter().enumerate() {
            match source.admit() {
                Ok(permit) => return Ok(Admission { at, permit, refused }),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(no_source))
    }

    /// Asks for one reply and waits for the whole of it, `remaining` at most.
    ///
    /// `on_progress` is given the pieces of the text as they come. They are provisional: an attempt
    /// that is cut half way is dropped, which it is told before the next one begins its text anew, and
    /// only the returned reply counts. An error that the provider itself reports after some text is not repeated.
    /// Where a server fails for good, the next model of `fallback` is asked, and the reply names
    /// it. The reply and the error say what was lost. Dropping the future cancels the request, and
    /// tells nothing of what it used.
    ///
    /// Fails, with what was met last, with [`ErrorCode::DeadlineExceeded`] if `remaining` or a
    /// model's `timeout_ms` is over, [`ErrorCode::Overloaded`] if the limits of a minute or the
    /// server itself leave no room in time, [`ErrorCode::ModelResting`] at once if the server fails
    /// too often, [`ErrorCode::ModelRefused`] if asking again would be in vain, and with
    /// [`ErrorCode::ModelUnavailable`] or [`ErrorCode::ModelProtocol`] if asking again did not help.
    pub async fn turn(
        &self,
        admission: Admission,
        conversation: &Conversation,
        remaining: Duration,
        on_progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<ModelReply, WireError> {
        let mut lost = Vec::new();
        let outcome =
            self.outcome(admission, conversation, remaining, &mut lost, on_progress).await;
        match outcome {
            Ok(mut reply) => {
                reply.detail.lost = lost;
                Ok(reply)
            }
            Err(error) => Err(WireError { lost, ..error }),
        }
    }

    async fn outcome(
        &self,
        admission: Admission,
        conversation: &Conversation,
        remaining: Duration,
        lost: &mut Vec<Lost>,
        on_progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<ModelReply, WireError> {
        let began = Instant::now();
        let Admission { at, permit, refused } = admission;
        let mut permit = Some(permit);
        let mut failures = Failures::default();
        failures.add(refused.map(|error| Failed { error, asked: 0, passes_on: true }));
        let mut from = at.checked_sub(1).and_then(|before| self.sources.get(before));
        for source in self.sources.iter().skip(at) {
            let left = match from {
                Some(_) => remaining.saturating_sub(began.elapsed()),
                None => remaining,
            };
            let _permit = match permit.take().map_or_else(|| source.admit(), Ok) {
                Ok(permit) => permit,
                Err(error) => {
                    failures.add(Some(Failed { error, asked: 0, passes_on: true }));
                    continue;
                }
            };
            if let (Some(from), Some(error)) = (from, failures.last()) {
                let (from, to) = (from.name(), source.name());
                tracing::warn!(%from, %to, %error, "model is replaced for this turn");
                on_progress(Progress::Switched { from, to, error });
            }
            let (result, usage) = source.turn(conversation, left, on_progress).await;
            if !usage.is_none() {
                lost.push(Lost { model: source.name().clone(), usage });
            }
            let failed = match result {
                Ok(mut reply) => {
                    reply.attempts = reply.attempts.saturating_add(failures.asked());
                    reply.served_by = from.is_some().then(|| source.name().clone());
                    return Ok(reply);
                }
                Err(failed) => failed,
            };
            let over = !failed.passes_on || began.elapsed() >= remaining;
            failures.add(Some(failed));
            if over {
                break;
            }
            from = Some(source);
        }
        Err(failures.into_error())
    }
}

/// What went wrong with the models of one turn, in order.
#[derive(Default)]
struct Failures(Vec<Failed>);

impl Failures {
    fn add(&mut self, failed: Option<Failed>) {
        self.0.extend(failed);
    }

    fn last(&self) -> Option<&WireError> {
        self.0.last().map(|failed| &failed.error)
    }

    fn asked(&self) -> u32 {
        self.0.iter().fold(0, |sum, failed| sum.saturating_add(failed.asked))
    }

    /// Returns one error for all. Its code is that of the last model that was asked: whoever is
    /// told that nothing was begun asks again, which must not be after requests were made.
    fn into_error(self) -> WireError {
        let decisive = self.0.iter().rposition(|failed| failed.asked > 0);
        let decisive = decisive.or_else(|| self.0.len().checked_sub(1));
        let Some(Failed { error, .. }) = decisive.and_then(|at| self.0.get(at)) else {
            return no_source();
        };
        let messages: Vec<&str> =
            self.0.iter().map(|failed| failed.error.message.as_str()).collect();
        WireError { message: messages.join("; then "), ..error.clone() }
    }
}

fn no_source() -> WireError {
    WireError::new(ErrorCode::Internal, "ask a model: there is none")
}
