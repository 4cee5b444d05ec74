//! What lines of the log say of the work that they are about.

use tracing::Span;
use tracing::field::{Empty, display};
use wire::{CallKey, RunId, TraceContext};

/// Makes the span of the log in which work for a run is done. It is one of errors, so that lines
/// of every level have it, whatever is let through, and has no other around it: who asks may do the
/// work of who is asked, and lines would tell of both.
pub(crate) fn work(run: &RunId, trace: &TraceContext, call: Option<&CallKey>) -> Span {
    let span =
        tracing::error_span!(parent: None, "work", %run, trace_id = trace.trace_id(), call = Empty);
    if let Some(call) = call {
        span.record("call", display(call));
    }
    span
}
