//! The attempts of a call as its trace tells them: each that left the process has a span.

use wire::hop::HopReport;
use wire::semconv::ERROR_OTHER;
use wire::{CallOutcome, TraceContext, WireError};

use super::Run;
use super::call::Pending;
use crate::effect::{Earlier, Effects};
use crate::spans;

impl Run {
    /// Returns the span below which the other side of an attempt reports.
    pub(super) fn attempt_trace(&self, pending: &Pending) -> TraceContext {
        let offer = self.plan.tools.get(pending.offer);
        match offer.and_then(|offer| offer.hop.as_ref()) {
            Some(_) => self.trace.of_attempt(&pending.key, pending.attempt),
            None => self.trace.of_call(&pending.key),
        }
    }

    /// Tells of an attempt that is over, unless that was told.
    pub(super) fn end_attempt(
        &mut self,
        position: usize,
        report: Option<&HopReport>,
        error: Option<(&str, &str)>,
        effects: &mut Effects,
    ) {
        let since = self.pending.get_mut(position).and_then(|pending| pending.attempted.take());
        let Some(pending) = self.pending.get(position) else { return };
        let offer = self.plan.tools.get(pending.offer);
        let hop = offer.and_then(|offer| Some((offer, offer.hop.as_ref()?)));
        let (Some(start), Some((offer, hop))) = (since, hop) else { return };
        let span = spans::hop_span(
            &self.facts(effects),
            &spans::AttemptFacts {
                call: &pending.key,
                tool: &offer.spec.name,
                hop,
                attempt: pending.attempt,
                rejoined: matches!(pending.earlier, Earlier::Awaited { .. }),
                start,
                end: effects.now(),
                report,
                error,
            },
        );
        self.trace(span, effects);
    }

    /// Tells of an attempt that failed.
    pub(super) fn end_failed_attempt(
        &mut self,
        position: usize,
        report: Option<&HopReport>,
        error: &WireError,
        effects: &mut Effects,
    ) {
        let told = error.to_string();
        self.end_attempt(position, report, Some((error.code.as_str(), &told)), effects);
    }

    /// Tells of an attempt that came to an outcome.
    pub(super) fn end_settled_attempt(
        &mut self,
        position: usize,
        report: Option<&HopReport>,
        outcome: &CallOutcome,
        effects: &mut Effects,
    ) {
        match outcome {
            CallOutcome::Ok { .. } => self.end_attempt(position, report, None, effects),
            CallOutcome::Error { error } | CallOutcome::Ended { error, .. } => {
                self.end_failed_attempt(position, report, error, effects);
            }
            CallOutcome::Unknown { note } => {
                self.end_attempt(position, report, Some((ERROR_OTHER, note.as_str())), effects);
            }
        }
    }
}
