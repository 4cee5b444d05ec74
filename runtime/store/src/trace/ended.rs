//! A span on its way into its trace.

use serde_json::Value;
use wire::semconv::{
    COST_NANO_USD, INPUT_TOKENS, MODEL, OPERATION_NAME, OUTPUT_TOKENS, TOOL_NAME, TURN,
    operation::CHAT,
};
use wire::{Name, RunId, SessionId, SpanRecord, Timestamp, TraceContext, Usage};

use crate::error::Error;
use crate::usage::Counted;

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
    pub(crate) turn: Option<Turn>,
    /// What the turn used; other spans repeat what their turns used.
    pub(crate) used: Usage,
    json: Box<[u8]>,
}

/// A turn of a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) number: u64,
    pub(crate) model: Name,
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
            tool: text(span, TOOL_NAME).map(str::to_owned),
            turn: turn_of(span),
            used: used_by(span),
            json: json.as_slice().into(),
        })
    }

    /// Returns what of it counts as used, if it stands for a turn.
    pub(crate) fn counted(&self) -> Option<Counted<'_>> {
        let Self { run, agent, start, used, .. } = self;
        let turn = self.turn.as_ref()?;
        Some(Counted { run, agent, start: *start, turn, used: *used })
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

/// A turn of a model whose span is not kept, as far as it counts as used.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnUsed {
    run: RunId,
    agent: Name,
    start: Timestamp,
    turn: Turn,
    used: Usage,
}

impl TurnUsed {
    /// Returns what a span says of a turn, if it stands for one.
    pub fn of(span: &SpanRecord) -> Option<Self> {
        let turn = turn_of(span)?;
        let (run, agent) = (span.run.clone(), span.agent.clone());
        Some(Self { run, agent, start: span.start, turn, used: used_by(span) })
    }

    pub(crate) fn counted(&self) -> Counted<'_> {
        let Self { run, agent, start, turn, used } = self;
        Counted { run, agent, start: *start, turn, used: *used }
    }
}

fn text<'s>(span: &'s SpanRecord, name: &str) -> Option<&'s str> {
    span.attributes.get(name).and_then(Value::as_str)
}

fn number(span: &SpanRecord, name: &str) -> Option<u64> {
    span.attributes.get(name).and_then(Value::as_u64)
}

fn is_turn(span: &SpanRecord) -> bool {
    text(span, OPERATION_NAME) == Some(CHAT)
}

fn turn_of(span: &SpanRecord) -> Option<Turn> {
    let turn =
        || Some(Turn { number: number(span, TURN)?, model: Name::new(text(span, MODEL)?).ok()? });
    is_turn(span).then(turn).flatten()
}

/// Returns what a turn used; other spans repeat what their turns used.
fn used_by(span: &SpanRecord) -> Usage {
    if !is_turn(span) {
        return Usage::default();
    }
    let count = |name| number(span, name).unwrap_or(0);
    let usage = Usage::of_tokens(count(INPUT_TOKENS), count(OUTPUT_TOKENS));
    Usage { cost_nano_usd: count(COST_NANO_USD), ..usage }
}
