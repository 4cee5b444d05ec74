//! What the store has to know of a span that ended.

use wire::semconv::TOOL_NAME;
use wire::{Name, RunId, SessionId, SpanRecord, Timestamp, TraceContext, Usage};

use crate::usage::{Counted, Turn};

/// Where in the journal a span is told: its entry, and which of that entry's spans it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// The entry's slot in its session.
    pub slot: u64,
    /// The number of the span among those of the entry, from 0.
    pub number: u32,
}

/// What is known of a span without its attributes, which are told again when somebody asks.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedSpan {
    pub(crate) context: TraceContext,
    pub(crate) has_parent: bool,
    pub(crate) name: String,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) session: SessionId,
    pub(crate) run: RunId,
    pub(crate) agent: Name,
    pub(crate) error: Option<String>,
    /// The tool that was called.
    pub(crate) tool: Option<String>,
    /// The turn of a model that it stands for, or in which its tool asks one.
    pub(crate) turn: Option<Turn>,
    /// What was used then; other spans repeat what those used.
    pub(crate) used: Usage,
    pub(crate) told: Told,
}

impl EndedSpan {
    /// Takes of a span what the store has to know. Its error is told as it is.
    pub fn of(span: SpanRecord, told: Told) -> Self {
        let used = span.model_usage();
        let turn = used.and_then(|_| Turn::of(&span));
        let tool = span.attributes.text(TOOL_NAME).map(str::to_owned);
        let SpanRecord { context, parent, name, start, end, session, run, agent, error, .. } = span;
        let has_parent = parent.is_some();
        Self {
            context,
            has_parent,
            name,
            start,
            end,
            session,
            run,
            agent,
            error,
            tool,
            turn,
            used: used.unwrap_or_default(),
            told,
        }
    }

    /// Returns what it counts, if it stands for a turn.
    pub(crate) fn counted(&self) -> Option<Counted<'_>> {
        let Self { run, agent, turn, start, end, used, .. } = self;
        let turn = turn.as_ref()?;
        Some(Counted { run, agent, turn, start: *start, end: *end, used: *used })
    }

    /// Tells whether it stands for its whole run, which is then over.
    pub(crate) fn ends_run(&self) -> bool {
        let is_part = self.turn.is_some() || self.tool.is_some();
        !is_part && self.context == self.context.of_run(&self.run)
    }
}
