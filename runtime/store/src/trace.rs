//! Traces: one row for each, and the places at which they are found.
//!
//! Their spans are not written a second time. The journal holds what they are made of for as long
//! as a trace is kept, so a row says which entries tell of it, and [`told`] has them told again.

pub(crate) mod ended;
pub(crate) mod query;
pub(crate) mod row;
pub(crate) mod told;

use std::collections::{BTreeSet, HashMap};

use wire::{RunId, Timestamp};

use crate::error::Error;
use crate::key::{self, Facet, Space};
use crate::page::row;
use crate::pending::Pending;
use crate::record::Head;
use crate::shelf::arrived::Arrived;
use row::{Summary, TraceStatus};

/// The most spans that are counted and told of one trace, so that a run that loops cannot fill
/// the memory of who looks at it; later ones are counted apart.
pub const SPANS_MAX: u32 = 5_000;
/// Spans of whole runs that are told beyond [`SPANS_MAX`]: they come last, and say what came of it.
pub const RUN_SPANS_SPARE: u32 = 500;
/// The most traces of a segment that are held in memory while spans are added to them: those of as
/// many runs as are in work at once, with called agents.
const RECENT_TRACES_MAX: usize = 2048;
/// The most bytes of them, since one of many called agents takes as much as a hundred others.
const RECENT_BYTES_MAX: usize = 8 << 20;
/// The most traces that are dropped at once, so that nothing waits long for it.
const DROPPED_TRACES_MAX: usize = 200;
/// The least hex digits by which a trace is found.
const PREFIX_DIGITS_MIN: usize = 4;

/// Traces in work to which spans were added lately, so that adding more reads nothing.
#[derive(Default)]
pub(crate) struct Recent {
    traces: HashMap<TraceId, Summary>,
}

/// The id of a trace.
pub(crate) type TraceId = [u8; 16];

impl Recent {
    /// Tells whether a trace is among them.
    pub(crate) fn has(&self, trace: &TraceId) -> bool {
        self.traces.contains_key(trace)
    }

    /// Forgets everything before it grows too large; what is needed is read again.
    fn trim(&mut self) {
        let bytes: usize = self.traces.values().map(Summary::bytes).sum();
        if self.traces.len() > RECENT_TRACES_MAX || bytes > RECENT_BYTES_MAX {
            *self = Self::default();
        }
    }
}

/// Spans on their way into the rows of their traces, each of which is written once for all spans
/// that come together.
pub(crate) struct Adding {
    pending: Pending,
    recent: Recent,
    bytes: usize,
}

/// Where a trace is found.
struct Place {
    start: Timestamp,
    keys: BTreeSet<Vec<u8>>,
}

impl Place {
    fn of(summary: &Summary) -> Self {
        Self { start: summary.row.start, keys: summary.keys() }
    }
}

impl Adding {
    /// Begins to add spans to traces.
    pub(crate) const fn new(pending: Pending, recent: Recent) -> Self {
        Self { pending, recent, bytes: 0 }
    }

    /// Returns about how many bytes are to be written.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tells whether a trace is among the recent ones.
    pub(crate) fn has(&self, trace: &TraceId) -> bool {
        self.recent.has(trace)
    }

    /// Adds the spans of one trace to its row, but those that were added before. `is_stored` tells
    /// whether there is anything of the trace.
    pub(crate) fn add(&mut self, spans: &[Arrived<'_>], is_stored: bool) -> Result<(), Error> {
        let Some(Arrived { span: first, .. }) = spans.first() else { return Ok(()) };
        let trace = first.context.trace_bytes();
        let mut known = self.recent.traces.remove(&trace);
        if known.is_none() && is_stored {
            known = row(self.pending.tree(), &key::trace(&trace))?;
        }
        let before = known.as_ref().map(Place::of);
        let mut summary = known.unwrap_or_else(|| Summary::of(first));
        for Arrived { span, .. } in spans {
            summary.add(span);
        }
        self.bytes += summary.bytes();
        put(&mut self.pending, before.as_ref(), &summary, &trace)?;
        // Hardly anything comes of a trace that is over.
        if summary.row.status == TraceStatus::Running {
            self.recent.traces.insert(trace, summary);
        }
        Ok(())
    }

    /// Returns what is to be written, and the traces that are still in work.
    pub(crate) fn finish(mut self) -> (Pending, Recent) {
        self.recent.trim();
        (self.pending, self.recent)
    }
}

/// Writes the row of a trace, and moves it from where it was found before to where it is found.
fn put(
    pending: &mut Pending,
    before: Option<&Place>,
    summary: &Summary,
    trace: &[u8],
) -> Result<(), Error> {
    let Place { start, keys } = Place::of(summary);
    let end = summary.row.end.as_micros().to_be_bytes();
    let Some(before) = before else {
        // All keys hold the id of the trace, of which there is nothing yet.
        pending.state.traces += 1;
        keys.into_iter().try_for_each(|key| pending.put_new(key, &[]))?;
        pending.put_new(key::trace_at(start, trace), &end)?;
        return pending.put_new_row(key::trace(trace), summary);
    };
    if before.start != start {
        pending.remove(&key::trace_at(before.start, trace))?;
    }
    before.keys.difference(&keys).try_for_each(|gone| pending.remove(gone))?;
    keys.difference(&before.keys).try_for_each(|key| pending.put_new(key.clone(), &[]))?;
    pending.put(key::trace_at(start, trace), &end)?;
    pending.put_row(key::trace(trace), summary)
}

/// Copies a trace as it is into another database.
pub(crate) fn copy(from: &sled::Tree, into: &mut Pending, trace: &[u8]) -> Result<(), Error> {
    let summary = row::<Summary>(from, &key::trace(trace))?;
    summary.map_or(Ok(()), |summary| put(into, None, &summary, trace))
}

/// Adds up to two traces whose id begins with some hex digits.
pub(crate) fn beginning_with(
    tree: &sled::Tree,
    digits: &str,
    found: &mut Vec<Vec<u8>>,
) -> Result<(), Error> {
    let mut nibbles = Vec::with_capacity(digits.len());
    for digit in digits.chars() {
        match digit.to_digit(16).and_then(|nibble| u8::try_from(nibble).ok()) {
            Some(nibble) => nibbles.push(nibble),
            None => return Ok(()),
        }
    }
    if nibbles.len() < PREFIX_DIGITS_MIN {
        return Ok(());
    }
    let (pairs, half) = nibbles.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    for entry in tree.scan_prefix(key::trace(&bytes)).keys() {
        if found.len() >= 2 {
            break;
        }
        let key = entry.map_err(|error| Error::engine("look up a trace", error))?;
        let trace = key.get(1..).unwrap_or_default();
        let fits = half.iter().all(|half| trace.get(bytes.len()).is_some_and(|b| b >> 4 == *half));
        if fits {
            found.push(trace.to_vec());
        }
    }
    Ok(())
}

/// Tells whether all traces of a database are over, and were so at a time or before.
pub(crate) fn all_ended(tree: &sled::Tree, cutoff: Timestamp) -> Result<bool, Error> {
    if tree.scan_prefix(running()).keys().next().is_some() {
        return Ok(false);
    }
    for entry in tree.scan_prefix(Space::TraceAt.key(&[])) {
        let (_, value) = entry.map_err(|error| Error::engine("drop old traces", error))?;
        if Head::read(&value)?.end()? > cutoff {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Drops traces that ended at a time or before, up to a limit; returns how many went.
///
/// One that is in work stays, however long ago its last span ended, as long as one of its runs
/// `is_open`. One whose run is gone without an end will never be over, and goes with the others.
///
/// `pending` must hold no writes of traces, because they are not seen here.
pub(crate) fn drop_until(
    tree: &sled::Tree,
    pending: &mut Pending,
    cutoff: Timestamp,
    is_open: impl Fn(&RunId) -> Result<bool, Error>,
) -> Result<u64, Error> {
    let mut dropped = 0;
    for entry in tree.range(key::until(Space::TraceAt, cutoff)) {
        if dropped == DROPPED_TRACES_MAX {
            break;
        }
        let (by_start, value) = entry.map_err(|error| Error::engine("drop old traces", error))?;
        if Head::read(&value)?.end()? <= cutoff && !goes_on(tree, &by_start, &is_open)? {
            remove(tree, pending, &by_start)?;
            dropped += 1;
        }
    }
    Ok(dropped as u64)
}

/// Tells whether a trace is in work, and may still be over one day.
fn goes_on(
    tree: &sled::Tree,
    by_start: &[u8],
    is_open: impl Fn(&RunId) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let mut running = running();
    running.extend_from_slice(by_start.get(1..).unwrap_or_default());
    let is_running = tree.contains_key(running);
    if !is_running.map_err(|error| Error::engine("drop old traces", error))? {
        return Ok(false);
    }
    let Some(trace) = row::<Summary>(tree, &key::trace(key::id_of(by_start)))? else {
        return Ok(false);
    };
    for run in trace.open() {
        if is_open(run)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the prefix of all traces that are in work.
fn running() -> Vec<u8> {
    key::traces_by(Facet::Status, TraceStatus::Running.as_str())
}

fn remove(tree: &sled::Tree, pending: &mut Pending, by_start: &[u8]) -> Result<(), Error> {
    let trace = key::trace(key::id_of(by_start));
    if let Some(summary) = row::<Summary>(tree, &trace)? {
        summary.keys().iter().try_for_each(|key| pending.remove(key))?;
    }
    pending.remove(&trace)?;
    pending.remove(by_start)?;
    pending.state.traces = pending.state.traces.saturating_sub(1);
    Ok(())
}
