//! Traces: one row for each, and the places at which they are found.
//!
//! Their spans are not written a second time. The journal holds what they are made of for as long
//! as a trace is kept, so a row says which entries tell of it, and [`told`] has them told again.

pub(crate) mod beside;
pub(crate) mod ended;
pub(crate) mod query;
pub(crate) mod row;
pub(crate) mod stored;
pub(crate) mod told;
pub(crate) mod walk;

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

use wire::{Name, RunId, Timestamp};

use crate::error::Error;
use crate::key::{self, Facet, Space};
use crate::pending::Pending;
use crate::shelf::arrived::Arrived;
use beside::Beside;
use row::{Summary, TraceStatus};
use stored::Stored;

/// The most spans that are counted and told of one trace, so that a run that loops cannot fill
/// the memory of who looks at it; later ones are counted apart.
pub const SPANS_MAX: u32 = 5_000;
/// Spans of whole runs that are told beyond [`SPANS_MAX`]: they come last, and say what came of it.
pub const RUN_SPANS_SPARE: u32 = 500;
/// The most traces of a segment that are held in memory while spans are added to them: those of as
/// many runs as are in work at once, with called agents.
const RECENT_TRACES_MAX: usize = 2048;
/// The most bytes of them, since one of many called agents takes as much as a hundred others. When
/// there are more, all are written at once.
const RECENT_BYTES_MAX: usize = 8 << 20;
/// The most traces that are dropped at once, so that nothing waits long for it.
const DROPPED_TRACES_MAX: usize = 200;
/// The least hex digits by which a trace is found.
const PREFIX_DIGITS_MIN: usize = 4;

/// Traces in work to which spans were added lately, so that adding more reads nothing. Most of them
/// are over soon and are written then. Until then memory alone has their spans, and those who look for
/// traces look here too.
#[derive(Default)]
pub(crate) struct Recent {
    traces: HashMap<TraceId, Held>,
}

/// A trace that is held in memory.
struct Held {
    summary: Summary,
    /// Where the database has it, if it does.
    stored: Option<Place>,
    /// Whether spans were added that the database lacks.
    is_ahead: bool,
}

/// The id of a trace.
pub(crate) type TraceId = [u8; 16];

impl Recent {
    /// Tells whether a trace is among them.
    pub(crate) fn has(&self, trace: &TraceId) -> bool {
        self.traces.contains_key(trace)
    }

    /// Returns those of which the database lacks spans.
    pub(crate) fn ahead(&self) -> impl Iterator<Item = (&TraceId, &Summary)> {
        let ahead = self.traces.iter().filter(|(_, held)| held.is_ahead);
        ahead.map(|(trace, held)| (trace, &held.summary))
    }

    /// Returns what is known of a trace, if the database lacks spans of it.
    pub(crate) fn ahead_of(&self, trace: &TraceId) -> Option<&Summary> {
        self.traces.get(trace).filter(|held| held.is_ahead).map(|held| &held.summary)
    }

    /// Tells how many the database has nothing of.
    pub(crate) fn new_traces(&self) -> u64 {
        self.traces.values().filter(|held| held.stored.is_none()).count() as u64
    }

    /// Writes what the database lacks; once that is [there](Self::caught_up), it is to be said.
    pub(crate) fn write(&self, pending: &mut Pending) -> Result<(), Error> {
        let mut ahead = self.traces.iter().filter(|(_, held)| held.is_ahead);
        ahead.try_for_each(|(trace, held)| put(pending, held.stored.as_ref(), &held.summary, trace))
    }

    /// Notes that the database lacks nothing.
    pub(crate) fn caught_up(&mut self) {
        for (trace, held) in self.traces.iter_mut().filter(|(_, held)| held.is_ahead) {
            held.stored = Some(Place::of(&held.summary, trace));
            held.is_ahead = false;
        }
    }

    /// Tells whether they take too much; what is forgotten and needed is read again.
    fn is_large(&self) -> bool {
        let bytes: usize = self.traces.values().map(|held| held.summary.bytes()).sum();
        self.traces.len() > RECENT_TRACES_MAX || bytes > RECENT_BYTES_MAX
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
    /// The agent of its root, and how many names are noted besides: the names by which it is found
    /// change with these.
    agent: Name,
    names: usize,
}

impl Place {
    fn of(summary: &Summary, trace: &[u8]) -> Self {
        Self {
            start: summary.row.start,
            keys: summary.keys(trace),
            agent: summary.row.agent.clone(),
            names: summary.names(),
        }
    }

    /// Tells whether the seconds by which it is found are others.
    fn has_other_seconds(&self, than: &Self) -> bool {
        (self.start, &self.agent, self.names) != (than.start, &than.agent, than.names)
    }
}

impl Adding {
    /// Begins to add spans to traces.
    pub(crate) const fn new(pending: Pending, recent: Recent) -> Self {
        Self { pending, recent, bytes: 0 }
    }

    /// Returns about how many bytes the traces take to which spans were added.
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
        let held = match self.recent.traces.remove(&trace) {
            None if is_stored => stored::read(self.pending.tree(), &trace)?
                .map(|summary| (Some(Place::of(&summary, &trace)), summary)),
            held => held.map(|held| (held.stored, held.summary)),
        };
        let (stored, mut summary) = held.unwrap_or_else(|| (None, Summary::of(first)));
        for Arrived { span, .. } in spans {
            summary.add(span);
        }
        self.bytes += summary.bytes();
        if summary.row.status == TraceStatus::Running {
            self.recent.traces.insert(trace, Held { summary, stored, is_ahead: true });
            return Ok(());
        }
        // Hardly anything comes of a trace that is over.
        put(&mut self.pending, stored.as_ref(), &summary, &trace)
    }

    /// Returns what is to be written, and the traces that are still in work.
    pub(crate) fn finish(mut self) -> Result<(Pending, Recent), Error> {
        if self.recent.is_large() {
            self.recent.write(&mut self.pending)?;
            self.recent = Recent::default();
        }
        Ok((self.pending, self.recent))
    }
}

/// Writes the row of a trace, and moves it from where it was found before to where it is found.
fn put(
    pending: &mut Pending,
    before: Option<&Place>,
    summary: &Summary,
    trace: &[u8],
) -> Result<(), Error> {
    let now = Place::of(summary, trace);
    let beside = summary.beside().to_bytes();
    if before.is_none_or(|before| before.has_other_seconds(&now)) {
        // They stay when the trace goes, or is found to have begun before.
        for second in summary.seconds() {
            if !pending.has(&second)? {
                pending.put_new(second, &[])?;
            }
        }
    }
    let Place { start, keys, .. } = now;
    let Some(before) = before else {
        // All these keys hold the id of the trace, of which there is nothing yet.
        pending.state.traces += 1;
        keys.into_iter().try_for_each(|key| pending.put_new(key, &[]))?;
        pending.put_new(key::trace_at(start, trace), &beside)?;
        return pending.put_new_row(key::trace(trace), &Stored::of(summary));
    };
    if before.start != start {
        pending.remove(&key::trace_at(before.start, trace))?;
    }
    before.keys.difference(&keys).try_for_each(|gone| pending.remove(gone))?;
    keys.difference(&before.keys).try_for_each(|key| pending.put_new(key.clone(), &[]))?;
    pending.put(key::trace_at(start, trace), &beside)?;
    pending.put_row(key::trace(trace), &Stored::of(summary))
}

/// Copies a trace as it is into another database.
pub(crate) fn copy(from: &sled::Tree, into: &mut Pending, trace: &[u8]) -> Result<(), Error> {
    let summary = stored::read(from, trace)?;
    summary.map_or(Ok(()), |summary| put(into, None, &summary, trace))
}

/// The first hex digits of a trace's id, enough of them to look for it.
#[derive(Debug)]
pub(crate) struct Digits(Vec<u8>);

impl Digits {
    /// Reads them, unless it is something else that a text names.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let nibble = |digit: char| digit.to_digit(16).and_then(|nibble| u8::try_from(nibble).ok());
        let nibbles: Vec<u8> = text.chars().map(nibble).collect::<Option<_>>()?;
        let are_enough = (PREFIX_DIGITS_MIN..=2 * size_of::<TraceId>()).contains(&nibbles.len());
        are_enough.then_some(Self(nibbles))
    }

    /// Returns the first and the last id that begins so.
    pub(crate) fn ids(&self) -> RangeInclusive<TraceId> {
        let filled = |filler: u8| {
            let mut id = [filler << 4 | filler; size_of::<TraceId>()];
            for (byte, nibbles) in id.iter_mut().zip(self.0.chunks(2)) {
                *byte = match nibbles {
                    [high, low] => high << 4 | low,
                    [high, ..] => high << 4 | filler,
                    [] => *byte,
                };
            }
            id
        };
        filled(0)..=filled(0xf)
    }
}

/// Adds traces whose id begins with some digits, until there are two.
pub(crate) fn beginning_with(
    tree: &sled::Tree,
    digits: &Digits,
    found: &mut Vec<TraceId>,
) -> Result<(), Error> {
    let ids = digits.ids();
    for entry in tree.range(key::trace(ids.start())..=key::trace(ids.end())).keys() {
        if found.len() >= 2 {
            break;
        }
        let key = entry.map_err(|error| Error::engine("look up a trace", error))?;
        let trace = key.get(1..).and_then(|id| TraceId::try_from(id).ok());
        found.extend(trace.filter(|trace| !found.contains(trace)));
    }
    Ok(())
}

/// How many traces ended at a time or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All, and none is in work.
    All,
    /// Some, or others are in work.
    Some,
    /// None.
    None,
}

/// Tells how many traces of a database ended at a time or before.
pub(crate) fn ended(tree: &sled::Tree, cutoff: Timestamp) -> Result<Ended, Error> {
    let failed = |error| Error::engine("drop old traces", error);
    if any_running(tree).map_err(failed)? {
        return Ok(Ended::Some);
    }
    for entry in tree.scan_prefix(Space::TraceAt.key(&[])) {
        let (_, value) = entry.map_err(failed)?;
        if Beside::read(&value)?.end > cutoff {
            return Ok(Ended::Some);
        }
    }
    Ok(Ended::All)
}

/// Tells whether any trace of a database is in work.
pub(crate) fn any_running(tree: &sled::Tree) -> sled::Result<bool> {
    tree.scan_prefix(running()).keys().next().transpose().map(|found| found.is_some())
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
        if Beside::read(&value)?.end <= cutoff && !goes_on(tree, &by_start, &is_open)? {
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
    let Some(trace) = stored::read(tree, key::id_of(by_start))? else {
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
    let trace = key::id_of(by_start);
    if let Some(summary) = stored::read(tree, trace)? {
        summary.keys(trace).iter().try_for_each(|key| pending.remove(key))?;
    }
    pending.remove(&key::trace(trace))?;
    pending.remove(by_start)?;
    pending.state.traces = pending.state.traces.saturating_sub(1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_an_id_stand_for_all_ids_that_begin_so() {
        for (text, expected) in [
            ("00ab", Some((0x00ab << 112, (0x00ac << 112) - 1))),
            ("00Abc", Some((0x00abc << 108, (0x00abd << 108) - 1))),
            ("000000000000000000000000000a2b3c", Some((0x000a_2b3c, 0x000a_2b3c))),
            ("", None),
            ("abc", None),
            ("lead", None),
            ("+abc", None),
            ("00112233445566778899aabbccddeeff0", None),
        ] {
            let ids = Digits::read(text).map(|digits| digits.ids());
            let numbers =
                ids.map(|ids| (u128::from_be_bytes(*ids.start()), u128::from_be_bytes(*ids.end())));
            assert_eq!(numbers, expected, "{text}");
        }
    }
}
