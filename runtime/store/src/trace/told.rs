//! The spans of a trace, told again by those who know what the journal holds.

use std::cmp::Reverse;
use std::error::Error;

use wire::{SessionId, SpanRecord};

use crate::trace::{RUN_SPANS_SPARE, SPANS_MAX, TraceId};

/// Bytes of what was said in a trace after which nobody wants to read more of it at once. Spans are
/// told without it from then on.
pub const SAID_BYTES_MAX: usize = 16 << 20;

/// A part of a trace: what some entries of one session tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePart {
    /// The session.
    pub session: SessionId,
    /// The slot of the first entry that tells of the trace.
    pub first_slot: u64,
    /// The slot of the last one.
    pub last_slot: u64,
}

/// Why a part of a trace cannot be told.
pub type Untold = Box<dyn Error + Send + Sync>;

/// Tells spans again.
pub trait SpanSource: Send + Sync {
    /// Adds all spans that the entries of a part tell; those of other traces are left out there.
    fn tell(&self, part: &TracePart, spans: &mut TraceSpans) -> Result<(), Untold>;
}

/// The spans of one trace while they are told.
#[derive(Debug)]
pub struct TraceSpans {
    trace: TraceId,
    spans: Vec<SpanRecord>,
    said_bytes: usize,
}

impl TraceSpans {
    pub(crate) const fn of(trace: TraceId) -> Self {
        Self { trace, spans: Vec::new(), said_bytes: 0 }
    }

    /// Tells whether so much was told already that spans are to come without what was said.
    pub const fn are_long(&self) -> bool {
        self.said_bytes >= SAID_BYTES_MAX
    }

    /// Tells whether a span belongs to the trace.
    pub fn want(&self, span: &SpanRecord) -> bool {
        span.context.trace_bytes() == self.trace
    }

    /// Adds a span that belongs to the trace, unless there are as many as a trace may have.
    pub fn add(&mut self, span: SpanRecord) {
        let most = SPANS_MAX + if stands_for_run(&span) { RUN_SPANS_SPARE } else { 0 };
        if self.want(&span) && self.spans.len() < most as usize {
            let texts = span.attributes.iter().filter_map(|(_, value)| value.as_str());
            self.said_bytes += texts.map(str::len).sum::<usize>();
            self.spans.push(span);
        }
    }

    /// Returns them by their begin, and a run before what took all of its time.
    pub(crate) fn sorted(mut self) -> Vec<SpanRecord> {
        self.spans.sort_by_key(|span| {
            (span.start, Reverse(span.end), !stands_for_run(span), span.context.span_bytes())
        });
        self.spans
    }
}

fn stands_for_run(span: &SpanRecord) -> bool {
    span.context == span.context.of_run(&span.run)
}
