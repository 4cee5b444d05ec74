//! Traces: their spans, one row for each, and the places at which they are found.

pub(crate) mod ended;
pub(crate) mod query;
pub(crate) mod row;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, hash_map};

use wire::{SpanRecord, Timestamp};

use crate::error::Error;
use crate::key::{self, Space};
use crate::page::row;
use crate::pending::{Pending, get};
use crate::record::{self, Head};
use ended::EndedSpan;
use row::Summary;

/// The most spans that one trace keeps; later ones are counted and not kept, so that a run that
/// loops cannot fill the disk.
pub const SPANS_MAX: u32 = 5_000;
/// Spans of whole runs that are kept beyond [`SPANS_MAX`]: they come last, and say what came of it.
pub const RUN_SPANS_SPARE: u32 = 500;
/// The most traces of a segment that are held in memory while spans are added to them: those of as
/// many runs as are in work at once, with called agents.
const RECENT_TRACES_MAX: usize = 2048;
/// The most ids of spans that are held with them, some 2 MiB.
const RECENT_SPANS_MAX: usize = 65_536;
/// The most records of spans that are dropped at once, so that nothing waits long for it.
const DROPPED_SPANS_MAX: usize = 500;
/// The least hex digits by which a trace is found.
const PREFIX_DIGITS_MIN: usize = 4;

/// Traces to which spans were added lately, so that adding more reads nothing.
#[derive(Default)]
pub(crate) struct Recent {
    traces: HashMap<TraceId, Known>,
    spans: usize,
}

/// What is known of a trace: its row, and the ids of its spans.
struct Known {
    summary: Summary,
    spans: HashSet<[u8; 8]>,
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
        if self.traces.len() > RECENT_TRACES_MAX || self.spans > RECENT_SPANS_MAX {
            *self = Self::default();
        }
    }
}

/// Spans on their way into their traces. All of a trace that come together make one record: what a
/// database does for a record costs more than a span.
pub(crate) struct Adding<'s> {
    pending: Pending,
    recent: Recent,
    added: BTreeMap<TraceId, Added<'s>>,
    bytes: usize,
    bytes_max: u64,
}

/// What is added to a trace.
#[derive(Default)]
struct Added<'s> {
    /// What was stored of the trace before, if it was known.
    before: Option<Place>,
    /// The spans as JSON.
    spans: Vec<&'s [u8]>,
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

impl<'s> Adding<'s> {
    /// Begins to add spans to traces that have so many bytes at most.
    pub(crate) const fn new(pending: Pending, recent: Recent, bytes_max: u64) -> Self {
        Self { pending, recent, added: BTreeMap::new(), bytes: 0, bytes_max }
    }

    /// Returns how many bytes of spans were added.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a span to its trace, unless the trace has as many spans or bytes as it may. A span that
    /// was added before is replaced. `is_stored` tells whether there is anything of the trace.
    pub(crate) fn add(&mut self, span: &'s EndedSpan, is_stored: bool) -> Result<(), Error> {
        let (trace, id) = (span.context.trace_bytes(), span.context.span_bytes());
        let tree = self.pending.tree();
        let (known, added) = match self.recent.traces.entry(trace) {
            hash_map::Entry::Occupied(known) => {
                let known = known.into_mut();
                let before = || Some(Place::of(&known.summary));
                let added = self.added.entry(trace);
                let added = added.or_insert_with(|| Added { before: before(), spans: Vec::new() });
                (known, added)
            }
            hash_map::Entry::Vacant(new) => {
                let stored =
                    if is_stored { row::<Summary>(tree, &key::trace(&trace))? } else { None };
                let spans: HashSet<_> = match &stored {
                    Some(stored) => {
                        let stored = spans(tree, &trace, stored.filed)?;
                        stored.iter().map(|stored| stored.context.span_bytes()).collect()
                    }
                    None => HashSet::new(),
                };
                self.recent.spans += spans.len();
                let added = self.added.entry(trace).or_default();
                added.before = stored.as_ref().map(Place::of);
                let summary = stored.unwrap_or_else(|| Summary::of(span));
                (new.insert(Known { summary, spans }), added)
            }
        };
        let summary = &mut known.summary;
        if known.spans.contains(&id) {
            // Rare: the journal is told again, or a run was taken up in the middle of the span.
            let told: Vec<SpanRecord> = record::from_json(&list(&added.spans, Vec::new()))?;
            let mut stored = told.into_iter().rev().chain(spans(tree, &trace, summary.filed)?);
            if let Some(stored) = stored.find(|stored| stored.context == span.context) {
                let stored = EndedSpan::of(&stored)?;
                if stored == *span {
                    return Ok(());
                }
                summary.take_back(&stored);
            }
        }
        let bytes = span.json();
        let spare = if span.ends_run() { RUN_SPANS_SPARE } else { 0 };
        let has_room =
            summary.bytes.saturating_add(bytes.len() as u64) <= self.bytes_max || spare > 0;
        if summary.row.spans < SPANS_MAX + spare && has_room {
            summary.add(span, bytes.len());
            added.spans.push(bytes);
            self.bytes = self.bytes.saturating_add(bytes.len());
            self.recent.spans += usize::from(known.spans.insert(id));
        } else {
            summary.row.spans_dropped = summary.row.spans_dropped.saturating_add(1);
        }
        let of_run = span.context.of_run(&span.run).span_bytes();
        let is_over = span.ends_run() || known.spans.contains(&of_run);
        summary.note_run(&span.run, is_over);
        Ok(())
    }

    /// Writes the spans and the rows of their traces.
    pub(crate) fn finish(mut self) -> Result<(Pending, Recent), Error> {
        let mut json = Vec::new();
        for (trace, added) in self.added {
            let Some(Known { summary, .. }) = self.recent.traces.get_mut(&trace) else { continue };
            if !added.spans.is_empty() {
                json = list(&added.spans, json);
                let at = key::spans_at(summary.filed, &trace, summary.records);
                self.pending.put_new(at, &record::pack(&json))?;
                summary.records = summary.records.saturating_add(1);
            }
            put(&mut self.pending, added.before.as_ref(), summary, &trace)?;
        }
        self.recent.trim();
        Ok((self.pending, self.recent))
    }
}

/// Writes values in JSON as a list, to where another stood.
fn list(values: &[&[u8]], mut list: Vec<u8>) -> Vec<u8> {
    list.clear();
    list.push(b'[');
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            list.push(b',');
        }
        list.extend_from_slice(value);
    }
    list.push(b']');
    list
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
    let Some(summary) = row::<Summary>(from, &key::trace(trace))? else { return Ok(()) };
    for key in from.scan_prefix(key::spans(summary.filed, trace)).keys() {
        let key = key.map_err(|error| Error::engine("copy a trace", error))?;
        if let Some(span) = get(from, &key)? {
            into.put(key.to_vec(), &span)?;
        }
    }
    put(into, None, &summary, trace)
}

/// Returns the spans of a trace by their begin; none if there is no such trace.
pub(crate) fn stored_spans(tree: &sled::Tree, trace: &[u8]) -> Result<Vec<SpanRecord>, Error> {
    let summary = row::<Summary>(tree, &key::trace(trace))?;
    summary.map_or_else(|| Ok(Vec::new()), |summary| spans(tree, trace, summary.filed))
}

fn spans(tree: &sled::Tree, trace: &[u8], filed: Timestamp) -> Result<Vec<SpanRecord>, Error> {
    // Of those with one id, the one that was added last stands for all.
    let mut spans = HashMap::new();
    for entry in tree.scan_prefix(key::spans(filed, trace)) {
        let (key, value) = entry.map_err(|error| Error::engine("read a trace", error))?;
        let part = |key: &[u8]| tree.get(key).map_err(|error| Error::engine("read a trace", error));
        let packed = Head::read(&value)?.join(&key, part)?;
        let list: Vec<SpanRecord> = record::from_json(&record::unpack(&packed)?)?;
        spans.extend(list.into_iter().map(|span| (span.context.span_bytes(), span)));
    }
    let mut spans: Vec<SpanRecord> = spans.into_values().collect();
    spans.sort_by_key(|span: &SpanRecord| {
        (span.start, Reverse(span.end), span.context.span_bytes())
    });
    Ok(spans)
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

/// Tells whether all traces of a database ended at a time or before.
pub(crate) fn all_ended(tree: &sled::Tree, cutoff: Timestamp) -> Result<bool, Error> {
    for entry in tree.scan_prefix(Space::TraceAt.key(&[])) {
        let (_, value) = entry.map_err(|error| Error::engine("drop old traces", error))?;
        if Head::read(&value)?.end()? > cutoff {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Drops traces that ended at a time or before, up to a limit; returns how many records went.
///
/// `pending` must hold no writes of traces, because they are not seen here.
pub(crate) fn drop_until(
    tree: &sled::Tree,
    pending: &mut Pending,
    cutoff: Timestamp,
) -> Result<u64, Error> {
    let mut left = DROPPED_SPANS_MAX;
    for entry in tree.range(key::until(Space::TraceAt, cutoff)) {
        if left == 0 {
            break;
        }
        let (by_start, value) = entry.map_err(|error| Error::engine("drop old traces", error))?;
        if Head::read(&value)?.end()? <= cutoff {
            remove(tree, pending, &by_start, &mut left)?;
        }
    }
    Ok((DROPPED_SPANS_MAX - left) as u64)
}

/// Drops a trace, or as many of its spans as are left to be dropped at once.
fn remove(
    tree: &sled::Tree,
    pending: &mut Pending,
    by_start: &[u8],
    left: &mut usize,
) -> Result<(), Error> {
    let trace = key::id_of(by_start);
    let summary = row::<Summary>(tree, &key::trace(trace))?;
    let spans = summary.as_ref().map(|summary| key::spans(summary.filed, trace));
    for span in spans.iter().flat_map(|spans| tree.scan_prefix(spans).keys()).take(*left) {
        pending.remove(&span.map_err(|error| Error::engine("drop old traces", error))?)?;
        *left = left.saturating_sub(1);
    }
    // A trace keeps its row until its last span is gone; the next batch goes on with it.
    if *left > 0 {
        if let Some(summary) = summary {
            summary.keys().iter().try_for_each(|key| pending.remove(key))?;
        }
        pending.remove(&key::trace(trace))?;
        pending.remove(by_start)?;
        pending.state.traces = pending.state.traces.saturating_sub(1);
        *left -= 1;
    }
    Ok(())
}
