//! A span on its way into its trace.

use wire::semconv::TOOL_NAME;
use wire::{Name, RunId, SessionId, SpanRecord, Timestamp, TraceContext, Usage};

use crate::error::Error;
use crate::usage::TurnUsed;

/// What an ordinary span takes as JSON, so that room for it is found once.
const ORDINARY_BYTES: usize = 2048;

/// A span that ended, in its stored form, and what the store has to know of it. It takes a tenth of
/// the memory of a record with its attributes, and many wait at once.
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
    /// The turn of a model that it stands for.
    pub(crate) turn: Option<TurnUsed>,
    /// What the turn used; other spans repeat what their turns used.
    pub(crate) used: Usage,
    json: Box<[u8]>,
}

impl EndedSpan {
    /// Puts a span into its stored form.
    pub fn of(span: &SpanRecord) -> Result<Self, Error> {
        let mut json = Vec::with_capacity(ORDINARY_BYTES);
        serde_json::to_writer(&mut json, span).map_err(Error::Encode)?;
        Ok(Self {
            context: span.context,
            has_parent: span.parent.is_some(),
            name: span.name.clone(),
            start: span.start,
            end: span.end,
            session: span.session.clone(),
            run: span.run.clone(),
            agent: span.agent.clone(),
            error: span.error.clone(),
            tool: span.attributes.text(TOOL_NAME).map(str::to_owned),
            turn: TurnUsed::of(span),
            used: span.turn_usage().unwrap_or_default(),
            json: json.as_slice().into(),
        })
    }

    /// Returns the whole span as JSON.
    pub(crate) fn json(&self) -> &[u8] {
        &self.json
    }

    /// Tells whether it stands for its whole run, which is then over.
    pub(crate) fn ends_run(&self) -> bool {
        self.context == self.context.of_run(&self.run)
    }
}
