//! Trace context and finished spans.
//!
//! Span ids are derived from what they stand for, so a span has the same id before and after a
//! restart and can be made from the journal alone.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::chat::Usage;
use crate::id::{CallKey, Digest, Name, RunId, SessionId};
use crate::semconv::{self, operation};
use crate::text;
use crate::time::Timestamp;

mod attribute;
mod attributes;

pub use attribute::Attribute;
pub use attributes::Attributes;

/// The length of a trace context as text, in bytes.
pub(crate) const CONTEXT_BYTES: usize = "00-".len() + 32 + "-".len() + 16 + "-01".len();

/// What names a trace: the W3C trace id, as text 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

/// The text is no [`TraceId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a trace id, which has 32 hex digits that are not all 0")]
pub struct TraceIdError;

impl TryFrom<[u8; 16]> for TraceId {
    type Error = TraceIdError;

    fn try_from(bytes: [u8; 16]) -> Result<Self, TraceIdError> {
        if bytes == [0; 16] { Err(TraceIdError) } else { Ok(Self(bytes)) }
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(const_hex::Buffer::<16>::new().format(&self.0))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for TraceId {
    type Err = TraceIdError;

    fn from_str(text: &str) -> Result<Self, TraceIdError> {
        unhex(text).map(Self).ok_or(TraceIdError)
    }
}

impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(const_hex::Buffer::<16>::new().format(&self.0))
    }
}

impl<'de> Deserialize<'de> for TraceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::read(deserializer)
    }
}

/// A position in a trace: W3C trace id, span id and the sampled flag.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: [u8; 16],
    span: [u8; 8],
    sampled: bool,
}

/// The text is no W3C `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent of the form 00-<32 hex>-<16 hex>-<2 hex>: {0:?}")]
pub struct TraceContextError(String);

impl TraceContext {
    /// Makes the root context of a run that has no caller: its ids follow from the run.
    pub fn root(team: &Name, run: &RunId) -> Self {
        let seed = Digest::of(team.as_str().as_bytes()).then(run.as_str().as_bytes());
        let mut trace = [0; 16];
        trace.copy_from_slice(seed.as_bytes().first_chunk::<16>().unwrap_or(&[1; 16]));
        Self { trace, span: [0; 8], sampled: true }.child("run", run.as_str())
    }

    /// Returns the context of a span below this trace, named by what it stands for.
    #[must_use]
    pub fn child(&self, kind: &str, key: &str) -> Self {
        self.named(self.kind(kind), key)
    }

    /// Returns what the ids of all spans of a kind in this trace begin with.
    fn kind(&self, kind: &str) -> Digest {
        Digest::of(&self.trace).then(kind.as_bytes())
    }

    fn named(&self, kind: Digest, key: &str) -> Self {
        let seed = kind.then(key.as_bytes());
        let mut span = [0; 8];
        span.copy_from_slice(seed.as_bytes().first_chunk::<8>().unwrap_or(&[1; 8]));
        Self { trace: self.trace, span, sampled: self.sampled }
    }

    /// Returns the span of a run.
    #[must_use]
    pub fn of_run(&self, run: &RunId) -> Self {
        self.child("run", run.as_str())
    }

    /// Returns the id of the trace.
    pub const fn trace(&self) -> TraceId {
        TraceId(self.trace)
    }

    /// Returns the trace id as 32 hex digits.
    pub fn trace_id(&self) -> String {
        const_hex::encode(self.trace)
    }

    /// Returns the span id as 16 hex digits.
    pub fn span_id(&self) -> String {
        const_hex::encode(self.span)
    }

    /// Returns the trace id as bytes.
    pub const fn trace_bytes(&self) -> [u8; 16] {
        self.trace
    }

    /// Returns the span id as bytes.
    pub const fn span_bytes(&self) -> [u8; 8] {
        self.span
    }
}

/// The span of a run, and what the spans of its turns and calls are named by. It is worked out once,
/// since each step has some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTrace {
    span: TraceContext,
    turn: Digest,
    call: Digest,
}

impl RunTrace {
    /// Makes it of the run's own span.
    pub fn new(span: TraceContext) -> Self {
        Self { span, turn: span.kind("turn"), call: span.kind("call") }
    }

    /// Returns the run's own span.
    pub const fn span(&self) -> &TraceContext {
        &self.span
    }

    /// Returns the span of a model turn.
    pub fn of_turn(&self, run: &RunId, turn: u32) -> TraceContext {
        self.span.named(self.turn, &numbered(run.as_str(), turn))
    }

    /// Returns the span of a call.
    pub fn of_call(&self, call: &CallKey) -> TraceContext {
        self.span.named(self.call, call.as_str())
    }

    /// Returns the span of one attempt at a call.
    pub fn of_attempt(&self, call: &CallKey, attempt: u32) -> TraceContext {
        self.span.child("attempt", &numbered(call.as_str(), attempt))
    }
}

/// Returns the name of one of several things that an id has.
fn numbered(id: &str, number: u32) -> String {
    let mut text = String::with_capacity(id.len() + "/4294967295".len());
    // A text takes all that is written to it.
    write!(text, "{id}/{number}").unwrap_or_default();
    text
}

/// Adds bytes as hex digits.
fn push_hex<const N: usize>(text: &mut String, bytes: &[u8; N]) {
    text.push_str(const_hex::Buffer::<N>::new().format(bytes));
}

/// Reads an id, which is not all 0.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    unhex_any(text).filter(|bytes| *bytes != [0; N])
}

/// Reads bytes of which each is two hex digits in lower case, the only form that W3C allows.
fn unhex_any<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_lower = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.bytes().all(is_lower) { const_hex::decode_to_array(text).ok() } else { None }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(*self))
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for TraceContext {
    type Err = TraceContextError;
    fn from_str(text: &str) -> Result<Self, TraceContextError> {
        let error = || TraceContextError(text.chars().take(80).collect());
        let mut parts = text.split('-');
        let mut part = || parts.next().ok_or_else(error);
        let (version, trace, span, flags) = (part()?, part()?, part()?, part()?);
        let has_more = parts.next().is_some();
        let [version] = unhex_any::<1>(version).ok_or_else(error)?;
        let [flags] = unhex_any::<1>(flags).ok_or_else(error)?;
        // A later version may add fields; its first ones are read as those of this one.
        if version == 0xff || (version == 0 && has_more) {
            return Err(error());
        }
        Ok(Self {
            trace: unhex(trace).ok_or_else(error)?,
            span: unhex(span).ok_or_else(error)?,
            sampled: flags & 1 == 1,
        })
    }
}

impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from(*self))
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::read(deserializer)
    }
}

impl From<TraceContext> for String {
    fn from(context: TraceContext) -> Self {
        let mut text = Self::with_capacity(CONTEXT_BYTES);
        text.push_str("00-");
        push_hex(&mut text, &context.trace);
        text.push('-');
        push_hex(&mut text, &context.span);
        text.push_str(if context.sampled { "-01" } else { "-00" });
        text
    }
}

/// The side of a hop that a span stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// Work inside.
    Internal,
    /// A request to someone else.
    Client,
    /// A request from someone else.
    Server,
    /// A message to someone else.
    Producer,
    /// A message from someone else.
    Consumer,
}

/// Something that happened within a span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanEvent {
    /// What: one of [`crate::semconv::event`].
    pub name: String,
    /// When.
    pub at: Timestamp,
    /// Under the names of [`crate::semconv`].
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
}

/// Another span that has to do with one, and does not stand above it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanLink {
    /// The other span, which may be in another trace.
    pub context: TraceContext,
    /// Under the names of [`crate::semconv`].
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
}

/// One finished span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpanRecord {
    /// Its trace and its own id.
    pub context: TraceContext,
    /// The span above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TraceContext>,
    /// Its name, such as `execute_tool calculate`.
    pub name: String,
    /// Its side.
    pub kind: SpanKind,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// The session.
    pub session: SessionId,
    /// The run.
    pub run: RunId,
    /// The agent.
    pub agent: Name,
    /// Attributes under the names of [`crate::semconv`].
    pub attributes: Attributes,
    /// What happened within it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<SpanEvent>,
    /// Other spans that have to do with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<SpanLink>,
    /// What went wrong; absent means that nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SpanRecord {
    /// Returns what it used if it stands for a turn of a model, or for a call of a tool that asks
    /// one. Others repeat what these used.
    pub fn model_usage(&self) -> Option<Usage> {
        let asks = match self.attributes.text(semconv::OPERATION_NAME) {
            Some(operation::CHAT) => true,
            Some(operation::EXECUTE_TOOL) => self.attributes.contains(semconv::MODEL),
            Some(_) | None => false,
        };
        let count = |name| self.attributes.number(name).unwrap_or(0);
        asks.then(|| Usage {
            cost_nano_usd: count(semconv::COST_NANO_USD),
            ..Usage::of_tokens(count(semconv::INPUT_TOKENS), count(semconv::OUTPUT_TOKENS))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceparents_are_read_strictly() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(good.parse::<TraceContext>().unwrap().to_string(), good);
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "1-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "0A-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333ä-01",
            "00-0x0af7651916cd43dd8448eb211c8031-b7ad6b7169203331-01",
            "00-0x0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
        ] {
            assert!(bad.parse::<TraceContext>().is_err(), "{bad}");
        }
        let unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        assert_eq!(unsampled.parse::<TraceContext>().unwrap().to_string(), unsampled);
    }

    #[test]
    fn traceparents_of_later_versions_are_read_by_their_first_fields() {
        let ids = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";
        for (version, flags, written) in [
            ("01", "01", "01"),
            ("01", "00", "00"),
            ("01", "03", "01"),
            ("cc", "01-", "01"),
            ("fe", "00-what-the-future-will-be-like", "00"),
        ] {
            let read: TraceContext = format!("{version}-{ids}-{flags}").parse().unwrap();
            assert_eq!(read.to_string(), format!("00-{ids}-{written}"), "{version} {flags}");
        }
    }

    #[test]
    fn span_ids_follow_from_what_they_stand_for() {
        let run = RunId::new("r1").unwrap();
        let root = TraceContext::root(&Name::new("t").unwrap(), &run);
        assert_eq!(root.of_run(&run), root);
        let (trace, call) = (RunTrace::new(root), CallKey::new("k1").unwrap());
        let below = [
            (trace.of_turn(&run, 1), root.child("turn", "r1/1")),
            (trace.of_turn(&run, 2), root.child("turn", "r1/2")),
            (trace.of_call(&call), root.child("call", "k1")),
            (trace.of_attempt(&call, 1), root.child("attempt", "k1/1")),
        ];
        for (span, same) in below {
            assert_eq!(span, same);
            assert_eq!(span.trace_id(), root.trace_id());
            assert_eq!(below.iter().filter(|(other, _)| *other == span).count(), 1);
        }
    }
}
