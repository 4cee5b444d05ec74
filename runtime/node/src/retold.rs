//! Tells the spans of traces again, from what the journal holds.
//!
//! What a machine told once it tells again, span for span, so the store keeps only where in the
//! journal a trace stands. Reading begins at the snapshot before it and ends at the one after it,
//! so that it costs the same however long the session is.

use std::sync::Arc;

use agents_core::effect::Effect;
use agents_core::session::SessionMachine;
use journal::{Journal, Since};
use store::{SpanSource, TracePart, TraceSpans, Untold};
use wire::{Capture, Name, TraceSink};

use crate::clean;
use crate::fold::read_entries;
use crate::plans::PlanShelf;

/// The journal of a team, and the plans that its runs began with.
pub(crate) struct Retold {
    pub(crate) team: Name,
    pub(crate) journal: Journal,
    pub(crate) plans: Arc<PlanShelf>,
}

impl SpanSource for Retold {
    fn tell(&self, part: &TracePart, spans: &mut TraceSpans) -> Result<(), Untold> {
        let TracePart { session, first_slot, last_slot } = part;
        // A run that is no longer kept has left the journal, and its trace is about to go.
        if !self.journal.knows(session) {
            return Ok(());
        }
        let held = read_entries(&self.journal, session, Since::Around(*first_slot, *last_slot))?;
        let until = held.entries.iter().zip(held.first_slot..=*last_slot).map(|(entry, _)| entry);
        SessionMachine::beginning_at(self.team.clone(), session.clone(), held.first_slot)
            .telling(TraceSink::Store)
            .fold_on(until, &*self.plans, |_, _, effects| {
                for effect in effects {
                    let Effect::Span(span) = effect else { continue };
                    if !span.levels.off && spans.want(&span.record) {
                        let most = if spans.are_long() { Capture::Metadata } else { Capture::Full };
                        spans.add(clean::span(span.record, span.levels.store.min(most)));
                    }
                }
            })?;
        Ok(())
    }
}
