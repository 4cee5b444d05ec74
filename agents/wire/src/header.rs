//! Message headers: their names, and the list that carries them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// W3C trace context of the caller; lower case, since NATS compares names exactly.
pub const TRACEPARENT: &str = "traceparent";
/// The client's message id.
pub const MESSAGE_ID: &str = "Nats-Msg-Id";
/// The key of a call, the same on every attempt.
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// What kind of data a body is; without it whoever reads looks at the body.
pub const CONTENT_TYPE: &str = "Content-Type";
/// A short text of the error that a reply carries.
pub const SERVICE_ERROR: &str = "Nats-Service-Error";
/// The stable code of the error that a reply carries.
pub const SERVICE_ERROR_CODE: &str = "Nats-Service-Error-Code";
/// How a run request wants to be answered: [`REPLY_ACCEPTED`], or absent for the final reply.
pub const REPLY_MODE: &str = "Callboard-Reply";
/// Value of [`REPLY_MODE`]: answer as soon as the request is durable.
pub const REPLY_ACCEPTED: &str = "accepted";
/// Milliseconds that the caller still waits, counted anew at each hop.
pub const REMAINING_MS: &str = "Callboard-Remaining-Ms";
/// The session for which a model is asked, so that the sessions of a team take turns.
pub const SESSION: &str = "Callboard-Session";
/// How many agents stand above this run.
pub const DEPTH: &str = "Callboard-Depth";

/// What a request to a model or a tool is done for, and what a stop concerns: a
/// [`WorkId`](crate::WorkId).
pub const WORK: &str = "Callboard-Work";

/// The headers that an ordinary message has, so that its list need not grow.
const ORDINARY: usize = 6;

/// The headers of one message, in order; names are compared exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Headers(Vec<(Cow<'static, str>, String)>);

impl Headers {
    /// Makes an empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the first value under a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Sets the one value under a name, in place of any it had.
    pub fn insert(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        let name = name.into();
        self.0.retain(|(n, _)| *n != name);
        if self.0.capacity() == 0 {
            self.0.reserve_exact(ORDINARY);
        }
        self.0.push((name, value.into()));
    }

    /// Adds a header and returns the list.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.insert(name, value);
        self
    }

    /// Returns the first value under a name, read as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (&**n, v.as_str()))
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds up the bytes of names and values with their separators, as NATS counts them.
    pub fn wire_len(&self) -> usize {
        if self.0.is_empty() {
            0
        } else {
            12 + self.0.iter().map(|(n, v)| n.len() + v.len() + 4).sum::<usize>()
        }
    }
}
