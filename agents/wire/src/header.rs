//! Message headers: their names, and the list that carries them.

use std::borrow::Cow;
use std::str::FromStr;

use crate::id::{CallKey, SessionId};
use crate::text;
use crate::trace::{self, TraceContext};
use crate::work::WorkId;

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

/// The value of one header: a text, or what is written as one only where it leaves the process.
#[derive(Clone, Debug)]
pub enum HeaderValue {
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
    /// A position in a trace.
    Trace(TraceContext),
    /// A session.
    Session(SessionId),
    /// A call.
    Call(CallKey),
    /// Work that can be stopped.
    Work(WorkId),
}

impl HeaderValue {
    /// Returns the value as text.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::Number(number) => number.to_string().into(),
            Self::Trace(trace) => String::from(*trace).into(),
            Self::Session(session) => session.as_str().into(),
            Self::Call(call) => call.as_str().into(),
            Self::Work(work) => String::from(work).into(),
        }
    }

    /// Returns the length of the text, in bytes.
    fn text_len(&self) -> usize {
        match self {
            Self::Trace(_) => trace::CONTEXT_BYTES,
            Self::Number(number) => text::digits(*number),
            Self::Work(work) => work.text_bytes(),
            Self::Text(_) | Self::Session(_) | Self::Call(_) => self.text().len(),
        }
    }
}

/// What the value of a header may stand for.
pub trait HeaderType: FromStr + Into<HeaderValue> {
    /// Takes it out of a value that is of this type already.
    fn taken(value: &HeaderValue) -> Option<Self>;
}

macro_rules! header_types {
    ($($kind:ident: $type:ty),+) => {$(
        impl From<$type> for HeaderValue {
            fn from(value: $type) -> Self {
                Self::$kind(value)
            }
        }

        impl HeaderType for $type {
            fn taken(value: &HeaderValue) -> Option<Self> {
                match value {
                    HeaderValue::$kind(value) => Some(value.clone()),
                    _ => None,
                }
            }
        }
    )+};
}

header_types!(Number: u64, Trace: TraceContext, Session: SessionId, Call: CallKey, Work: WorkId);

impl From<String> for HeaderValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for HeaderValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The headers of one message, in order; names are compared exactly.
#[derive(Clone, Debug, Default)]
pub struct Headers(Vec<(Cow<'static, str>, HeaderValue)>);

impl Headers {
    /// Makes an empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the first value under a name, as text.
    pub fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        self.value(name).map(HeaderValue::text)
    }

    /// Returns the first value under a name as what it stands for; absent as well if it is a text
    /// that stands for nothing of the kind.
    pub fn read<T: HeaderType>(&self, name: &str) -> Option<T> {
        let value = self.value(name)?;
        T::taken(value).or_else(|| value.text().parse().ok())
    }

    fn value(&self, name: &str) -> Option<&HeaderValue> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// Sets the one value under a name, in place of any it had.
    pub fn insert(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<HeaderValue>) {
        let name = name.into();
        self.0.retain(|(n, _)| *n != name);
        if self.0.capacity() == 0 {
            self.0.reserve_exact(ORDINARY);
        }
        self.0.push((name, value.into()));
    }

    /// Adds a header and returns the list.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<HeaderValue>,
    ) -> Self {
        self.insert(name, value);
        self
    }

    /// Iterates over names and values, these as text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.values().map(|(name, value)| (&**name, value.text()))
    }

    /// Iterates over names and values.
    pub fn values(&self) -> impl Iterator<Item = (&Cow<'static, str>, &HeaderValue)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
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
            12 + self.values().map(|(n, value)| n.len() + value.text_len() + 4).sum::<usize>()
        }
    }
}

/// Headers are the same if they are the same as texts.
impl PartialEq for Headers {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Headers {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_it_stands_for_or_its_text() {
        let (session, call) = (SessionId::new("s").unwrap(), CallKey::new("c").unwrap());
        let trace: TraceContext =
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
        let work = WorkId::of_call(call.clone()).attempt();
        let typed = Headers::new()
            .with(SESSION, session.clone())
            .with(IDEMPOTENCY_KEY, call.clone())
            .with(TRACEPARENT, trace)
            .with(WORK, work.clone())
            .with(REMAINING_MS, 1_200);
        let mut written = Headers::new();
        for (name, value) in typed.iter() {
            written.insert(name.to_owned(), value.into_owned());
        }
        assert_eq!((&typed, typed.wire_len()), (&written, written.wire_len()));
        for headers in [&typed, &written] {
            assert_eq!(headers.read(SESSION), Some(session.clone()));
            assert_eq!(headers.read(IDEMPOTENCY_KEY), Some(call.clone()));
            assert_eq!(headers.read(TRACEPARENT), Some(trace));
            assert_eq!(headers.read(WORK), Some(work.clone()));
            assert_eq!(headers.read(REMAINING_MS), Some(1_200));
            assert_eq!(headers.get(REMAINING_MS).as_deref(), Some("1200"));
            assert_eq!(headers.read::<u64>(SESSION), None, "a text that is no number");
            assert_eq!(headers.read::<u64>(DEPTH), None, "no such header");
        }
        assert_ne!(typed, Headers::new());
    }

    #[test]
    fn the_length_of_a_number_is_that_of_its_text() {
        for number in [0, 9, 10, 99, 100, 86_400_000, u64::MAX] {
            let value = HeaderValue::from(number);
            assert_eq!(value.text_len(), value.text().len(), "{number}");
        }
    }
}
