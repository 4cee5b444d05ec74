//! Traces: their spans, one row for each, and the end of the oldest.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use wire::{Name, RunId, SessionId, SpanRecord, Timestamp, Usage};

use crate::error::Error;
use crate::key::{self, Space};
use crate::page::{newest, row};
use crate::pending::Pending;
use crate::record::{self, Head};
use crate::run::RunBegun;

/// The most traces that are kept: weeks of use by a person, and some 100 MB at 50 spans each.
pub const TRACES_MAX: u64 = 2_000;
/// The most spans that one trace keeps; later ones are counted and not kept, so that a run that
/// loops cannot fill the disk.
pub const SPANS_MAX: u32 = 5_000;
/// The most spans that are dropped after one batch, so that no batch waits long for it.
const EVICTED_SPANS_MAX: usize = 500;
/// The most traces that are dropped after one batch. More than one, so that dropping keeps pace.
const EVICTED_TRACES_MAX: usize = 8;
/// The least hex digits by which a trace is found.
const PREFIX_DIGITS_MIN: usize = 4;

/// The names under which model turns report their tokens in the OpenTelemetry GenAI conventions.
const OPERATION: &str = "gen_ai.operation.name";
const CHAT: &str = "chat";
const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
const COST_NANO_USD: &str = "callboard.usage.cost_nano_usd";

/// One trace in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRow {
    /// The trace id as 32 hex digits.
    pub trace_id: String,
    /// The name of its root span.
    pub name: String,
    /// The run that the root span stands for.
    pub run: RunId,
    /// The agent of that run.
    pub agent: Name,
    /// The session of that run.
    pub session: SessionId,
    /// When its first span began.
    pub start: Timestamp,
    /// When its last span ended.
    pub end: Timestamp,
    /// How many spans it has.
    pub spans: u32,
    /// How many of them failed.
    pub errors: u32,
    /// Why the root span failed; absent means that it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Tokens of its model turns.
    pub usage: Usage,
    /// How many spans came after [`SPANS_MAX`] and are not kept.
    #[serde(default)]
    pub spans_dropped: u32,
}

/// A trace as stored: the row, and by what its root was chosen.
#[derive(Serialize, Deserialize)]
struct Summary {
    row: TraceRow,
    root: Rank,
}

/// Orders spans by how likely they are the root; the least is it. Children end, and so arrive,
/// before their parents, and a parent outside leaves no span without a parent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Rank {
    has_parent: bool,
    start: Timestamp,
    end: Reverse<Timestamp>,
    span: String,
}

impl Rank {
    fn of(span: &SpanRecord) -> Self {
        Self {
            has_parent: span.parent.is_some(),
            start: span.start,
            end: Reverse(span.end),
            span: span.context.span_id(),
        }
    }
}

impl Summary {
    fn of(span: &SpanRecord) -> Self {
        let row = TraceRow {
            trace_id: span.context.trace_id(),
            name: span.name.clone(),
            run: span.run.clone(),
            agent: span.agent.clone(),
            session: span.session.clone(),
            start: span.start,
            end: span.end,
            spans: 0,
            errors: 0,
            error: span.error.clone(),
            usage: Usage::default(),
            spans_dropped: 0,
        };
        Self { row, root: Rank::of(span) }
    }

    fn add(&mut self, span: &SpanRecord) {
        let rank = Rank::of(span);
        if rank < self.root || rank.span == self.root.span {
            self.row.name.clone_from(&span.name);
            self.row.run.clone_from(&span.run);
            self.row.agent.clone_from(&span.agent);
            self.row.session.clone_from(&span.session);
            self.row.error.clone_from(&span.error);
            self.root = rank;
        }
        let row = &mut self.row;
        row.start = row.start.min(span.start);
        row.end = row.end.max(span.end);
        row.spans = row.spans.saturating_add(1);
        row.errors = row.errors.saturating_add(u32::from(span.error.is_some()));
        row.usage.add(tokens(span));
    }

    /// Takes back what a span counted for, before another of the same id is added. The time that
    /// it spanned stays.
    fn take_back(&mut self, span: &SpanRecord) {
        let (row, used) = (&mut self.row, tokens(span));
        row.spans = row.spans.saturating_sub(1);
        row.errors = row.errors.saturating_sub(u32::from(span.error.is_some()));
        row.usage.input_tokens = row.usage.input_tokens.saturating_sub(used.input_tokens);
        row.usage.output_tokens = row.usage.output_tokens.saturating_sub(used.output_tokens);
        row.usage.cost_nano_usd = row.usage.cost_nano_usd.saturating_sub(used.cost_nano_usd);
    }
}

/// Returns what a model turn used; other spans repeat what their turns used.
pub(crate) fn tokens(span: &SpanRecord) -> Usage {
    let is_turn = is_turn(span);
    let count = |name| span.attributes.get(name).filter(|_| is_turn)?.as_u64();
    let tokens =
        Usage::of_tokens(count(INPUT_TOKENS).unwrap_or(0), count(OUTPUT_TOKENS).unwrap_or(0));
    Usage { cost_nano_usd: count(COST_NANO_USD).unwrap_or(0), ..tokens }
}

/// Tells whether a span is a model turn.
pub(crate) fn is_turn(span: &SpanRecord) -> bool {
    span.attributes.get(OPERATION).and_then(|name| name.as_str()) == Some(CHAT)
}

pub(crate) fn add(pending: &mut Pending<'_>, span: &SpanRecord) -> Result<(), Error> {
    let trace = span.context.trace_bytes();
    let (span_key, trace_key) = (key::span(&span.context), key::trace(&trace));
    let stored = pending.row::<SpanRecord>(&span_key)?;
    if stored.as_ref() == Some(span) {
        return Ok(());
    }
    let mut summary = if let Some(summary) = pending.row::<Summary>(&trace_key)? {
        pending.remove(&key::trace_at(summary.row.start, &trace))?;
        summary
    } else {
        pending.state.traces += 1;
        Summary::of(span)
    };
    if let Some(stored) = &stored {
        summary.take_back(stored);
    }
    if summary.row.spans < SPANS_MAX {
        summary.add(span);
        pending.put_row(span_key, span)?;
    } else {
        summary.row.spans_dropped = summary.row.spans_dropped.saturating_add(1);
    }
    pending.put(key::trace_at(summary.row.start, &trace), &[])?;
    pending.put_row(trace_key, &summary)
}

pub(crate) fn list(tree: &sled::Tree, limit: usize) -> Result<Vec<TraceRow>, Error> {
    newest(tree, Space::TraceAt, limit, |trace| {
        Ok(row::<Summary>(tree, &key::trace(trace))?.map(|summary| summary.row))
    })
}

/// Returns the spans of a trace by their begin. It is named by its id, by a run, or by the
/// beginning of its id; an unknown one has no spans.
pub(crate) fn spans(tree: &sled::Tree, name: &str) -> Result<Vec<SpanRecord>, Error> {
    let Some(trace) = resolve(tree, name)? else { return Ok(Vec::new()) };
    let mut spans = Vec::new();
    for entry in tree.scan_prefix(key::spans(&trace)) {
        let (key, value) = entry.map_err(|error| Error::engine("read a trace", error))?;
        let part = |key: &[u8]| tree.get(key).map_err(|error| Error::engine("read a trace", error));
        spans.push(record::from_json(&Head::read(&value)?.join(&key, part)?)?);
    }
    spans.sort_by_key(|span: &SpanRecord| (span.start, Reverse(span.end)));
    Ok(spans)
}

fn resolve(tree: &sled::Tree, name: &str) -> Result<Option<Vec<u8>>, Error> {
    let matching = beginning_with(tree, name)?;
    if let [only] = matching.as_slice()
        && name.len() == only.len() * 2
    {
        return Ok(Some(only.clone()));
    }
    // The run of an agent called as a tool has 32 hex digits too, so ids of traces go first.
    if let Ok(run) = RunId::new(name)
        && let Some(begun) = row::<RunBegun>(tree, &key::run(&run))?
    {
        return Ok(Some(begun.trace.trace_bytes().to_vec()));
    }
    match matching.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        _ => Err(Error::AmbiguousTrace { prefix: name.to_owned() }),
    }
}

/// Returns up to two traces whose id begins with some hex digits.
fn beginning_with(tree: &sled::Tree, digits: &str) -> Result<Vec<Vec<u8>>, Error> {
    let mut nibbles = Vec::with_capacity(digits.len());
    for digit in digits.chars() {
        match digit.to_digit(16).and_then(|nibble| u8::try_from(nibble).ok()) {
            Some(nibble) => nibbles.push(nibble),
            None => return Ok(Vec::new()),
        }
    }
    if nibbles.len() < PREFIX_DIGITS_MIN {
        return Ok(Vec::new());
    }
    let (pairs, half) = nibbles.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    let mut found = Vec::new();
    for entry in tree.scan_prefix(key::trace(&bytes)) {
        let (key, _) = entry.map_err(|error| Error::engine("look up a trace", error))?;
        let trace = key.get(1..).unwrap_or_default();
        let fits = half.iter().all(|half| trace.get(bytes.len()).is_some_and(|b| b >> 4 == *half));
        if fits {
            found.push(trace.to_vec());
        }
        if found.len() == 2 {
            break;
        }
    }
    Ok(found)
}

/// Drops spans of the oldest traces while there are more than [`TRACES_MAX`], up to a limit.
///
/// `pending` must hold no writes, because what it holds is not seen here.
pub(crate) fn evict(tree: &sled::Tree, pending: &mut Pending<'_>) -> Result<(), Error> {
    let mut left = EVICTED_SPANS_MAX;
    let oldest = tree.scan_prefix(Space::TraceAt.key(&[])).keys().take(EVICTED_TRACES_MAX);
    for entry in oldest {
        if pending.state.traces <= TRACES_MAX || left == 0 {
            break;
        }
        let by_start = entry.map_err(|error| Error::engine("drop old traces", error))?;
        remove(tree, pending, &by_start, &mut left)?;
    }
    Ok(())
}

/// Drops traces that ended at a time or before, up to a limit; returns how many records went.
///
/// `pending` must hold no writes of traces, because they are not seen here.
pub(crate) fn drop_until(
    tree: &sled::Tree,
    pending: &mut Pending<'_>,
    cutoff: Timestamp,
) -> Result<u64, Error> {
    let mut left = EVICTED_SPANS_MAX;
    for entry in tree.range(key::until(Space::TraceAt, cutoff)).keys() {
        if left == 0 {
            break;
        }
        let by_start = entry.map_err(|error| Error::engine("drop old traces", error))?;
        let summary: Option<Summary> = row(tree, &key::trace(key::id_of(&by_start)))?;
        if summary.is_some_and(|summary| summary.row.end <= cutoff) {
            remove(tree, pending, &by_start, &mut left)?;
        }
    }
    Ok((EVICTED_SPANS_MAX - left) as u64)
}

/// Drops a trace, or as many of its spans as are left to be dropped at once.
fn remove(
    tree: &sled::Tree,
    pending: &mut Pending<'_>,
    by_start: &[u8],
    left: &mut usize,
) -> Result<(), Error> {
    let trace = key::id_of(by_start);
    for span in tree.scan_prefix(key::spans(trace)).keys().take(*left) {
        pending.remove(&span.map_err(|error| Error::engine("drop old traces", error))?)?;
        *left = left.saturating_sub(1);
    }
    // A trace keeps its row until its last span is gone; the next batch goes on with it.
    if *left > 0 {
        pending.remove(&key::trace(trace))?;
        pending.remove(by_start)?;
        pending.state.traces = pending.state.traces.saturating_sub(1);
        *left -= 1;
    }
    Ok(())
}
