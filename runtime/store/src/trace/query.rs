//! Looks for traces, the newest first, by what is known of them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use wire::{Name, RunId, SessionId, Timestamp};

use crate::error::Error;
use crate::key::{self, Facet, PLACE_LEN, Space};
use crate::page::LIST_MAX;
use crate::shelf::segment::Segment;
use crate::trace::beside::{Beside, Marks};
use crate::trace::row::{Summary, TraceRow, TraceStatus};
use crate::trace::stored;
use crate::trace::walk::{Driver, Index, Walk};

/// The most places of traces that one look-up looks at, seconds without one included: some ten
/// milliseconds' work. One that needs more says where to go on.
pub const TRACES_SCANNED_MAX: usize = 20_000;

/// What it is about, if it fails.
const DOING: &str = "read a list";

/// Which traces are looked for. What is absent is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceQuery {
    /// A run whose trace it is.
    pub run: Option<RunId>,
    /// An agent that has a span in it.
    pub agent: Option<Name>,
    /// A tool that was called in it.
    pub tool: Option<String>,
    /// A session that has a span in it.
    pub session: Option<SessionId>,
    /// How it stands.
    pub status: Option<TraceStatus>,
    /// The shortest time from its begin to its end.
    pub duration_min: Option<Duration>,
    /// The longest time from its begin to its end.
    pub duration_max: Option<Duration>,
    /// The time at or after which it began.
    pub since: Option<Timestamp>,
    /// The time at or before which it began.
    pub until: Option<Timestamp>,
    /// Where an earlier look-up ended.
    pub after: Option<TraceCursor>,
}

/// The place of a trace in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceCursor([u8; PLACE_LEN]);

/// The text is no place of a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a place of a trace, which is 48 hex digits that an earlier list gave as `next`")]
pub struct TraceCursorError;

/// Some traces, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePage {
    /// The traces.
    pub rows: Vec<TraceRow>,
    /// Where to go on; absent if there are no more. There may be none even so, which only the next
    /// look-up tells.
    pub next: Option<TraceCursor>,
    /// How many places were looked at.
    pub scanned: usize,
}

impl fmt::Display for TraceCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for TraceCursor {
    type Err = TraceCursorError;

    fn from_str(text: &str) -> Result<Self, TraceCursorError> {
        let nibble = |c: char| c.to_digit(16).and_then(|n| u8::try_from(n).ok());
        let nibbles: Option<Vec<u8>> = text.chars().map(nibble).collect();
        let nibbles =
            nibbles.filter(|found| found.len() == PLACE_LEN * 2).ok_or(TraceCursorError)?;
        let mut place = [0; PLACE_LEN];
        for (byte, [high, low]) in place.iter_mut().zip(nibbles.as_chunks::<2>().0) {
            *byte = high << 4 | low;
        }
        Ok(Self(place))
    }
}

impl TraceQuery {
    /// Returns the values that a trace has which is looked for, the rarest first.
    fn values(&self) -> Vec<(Facet, &str)> {
        let session = self.session.as_ref().map(|id| (Facet::Session, id.as_str()));
        let status = self.status.map(|status| (Facet::Status, status.as_str()));
        let tool = self.tool.as_ref().map(|tool| (Facet::Tool, tool.as_str()));
        let agent = self.agent.as_ref().map(|agent| (Facet::Agent, agent.as_str()));
        [session, status, tool, agent].into_iter().flatten().collect()
    }

    /// Tells whether a row is one that is looked for.
    pub(crate) fn fits(&self, summary: &Summary) -> bool {
        let row = &summary.row;
        let is_in_time = self.since.is_none_or(|since| row.start >= since)
            && self.until.is_none_or(|until| row.start <= until);
        let wanted = self.values();
        let mut wanted = wanted.iter();
        let has_all = wanted.all(|wanted| summary.values().any(|value| value == *wanted));
        is_in_time && has_all && self.fits_time(row.start, row.end)
    }

    fn fits_time(&self, start: Timestamp, end: Timestamp) -> bool {
        let took = end.since(start);
        self.duration_min.is_none_or(|min| took >= min)
            && self.duration_max.is_none_or(|max| took <= max)
    }

    /// Returns the places between which it is looked, the upper one left out.
    fn places(&self) -> (Vec<u8>, Vec<u8>) {
        let lower = key::place(self.since.unwrap_or_default(), &[0; 16]);
        let upper = match self.until.map(Timestamp::as_micros) {
            None | Some(u64::MAX) => vec![u8::MAX; PLACE_LEN + 1],
            Some(until) => key::place(Timestamp::from_micros(until + 1), &[0; 16]),
        };
        let upper = self.after.map_or(upper.clone(), |after| upper.min(after.0.to_vec()));
        (lower.min(upper.clone()), upper)
    }
}

/// What is still to come of one segment.
struct Source<'s> {
    segment: &'s Segment,
    /// What is left there, once it is its turn.
    walk: Option<Walk>,
    /// Where its next trace stands; before it is opened, a place that none is later than.
    place: Option<Vec<u8>>,
    value: Option<sled::IVec>,
}

impl<'s> Source<'s> {
    fn of(segment: &'s Segment, query: &TraceQuery, (lower, upper): (&[u8], &[u8])) -> Self {
        let is_running = query.status == Some(TraceStatus::Running);
        let place = match segment.outline() {
            Some(outline) if is_running && !outline.is_running() => None,
            Some(outline) => outline.latest(lower, upper),
            None => Some(upper.to_vec()),
        };
        Self { segment, walk: None, place, value: None }
    }

    /// Opens its database, and looks for its latest trace between two places.
    fn open(&mut self, driver: &Driver, between: (&[u8], &[u8])) -> Result<(), Error> {
        self.walk = Some(driver.walk(self.segment.database()?, between));
        self.advance()
    }

    /// Tells whether memory has more of the trace at a place.
    fn is_behind(&self, place: &[u8]) -> bool {
        let by_time = Space::TraceAt.key(&[place]);
        let trace = key::id_of(&by_time).try_into();
        trace.is_ok_and(|trace| self.segment.recent.ahead_of(trace).is_some())
    }

    fn advance(&mut self) -> Result<(), Error> {
        let next = self.walk.as_mut().map(Walk::next).transpose()?.flatten();
        (self.place, self.value) = next.map_or((None, None), |(place, value)| (Some(place), value));
        Ok(())
    }
}

/// Looks through segments, each of which has its own traces.
pub(crate) fn find(
    segments: &[Segment],
    query: &TraceQuery,
    limit: usize,
) -> Result<TracePage, Error> {
    let wanted = query.values();
    let driver = Driver::of(&wanted);
    let aside = Aside::of(query, &driver, &wanted);
    let (lower, upper) = query.places();
    let between = (lower.as_slice(), upper.as_slice());
    let mut sources: Vec<Source<'_>> =
        segments.iter().map(|segment| Source::of(segment, query, between)).collect();
    let mut ahead = ahead(segments, query, between);
    let mut page = TracePage::default();
    let limit = limit.min(LIST_MAX);
    loop {
        let newest = sources
            .iter_mut()
            .filter(|source| source.place.is_some())
            .max_by(|a, b| a.place.cmp(&b.place));
        let stored = newest.as_ref().and_then(|source| source.place.as_deref());
        let is_ahead = ahead.last().is_some_and(|(place, _)| stored <= Some(place.as_slice()));
        if stored.is_none() && !is_ahead {
            page.next = None;
            return Ok(page);
        }
        if page.rows.len() == limit || page.scanned == TRACES_SCANNED_MAX {
            return Ok(page);
        }
        if let Some((place, summary)) = ahead.pop_if(|_| is_ahead) {
            page.pass(&place);
            page.rows.push(summary.row.clone());
            continue;
        }
        let Some(newest) = newest else { continue };
        let Some(walk) = &newest.walk else {
            newest.open(&driver, between)?;
            continue;
        };
        let tree = walk.database.clone();
        let (place, value) = (newest.place.take(), newest.value.take());
        newest.advance()?;
        // What memory has of a trace goes before what is stored.
        let Some(place) = place.filter(|place| !newest.is_behind(place)) else { continue };
        page.pass(&place);
        let Some(value) = value else { continue };
        if aside.may_fit(&tree, &place, value)? {
            page.rows.extend(read(&tree, query, &place)?);
        }
    }
}

/// Returns the traces that are looked for as memory has them, the newest last.
fn ahead<'s>(
    segments: &'s [Segment],
    query: &TraceQuery,
    (lower, upper): (&[u8], &[u8]),
) -> Vec<(Vec<u8>, &'s Summary)> {
    let ahead = segments.iter().flat_map(|segment| segment.recent.ahead());
    let mut found: Vec<(Vec<u8>, &Summary)> = ahead
        .filter(|(_, summary)| query.fits(summary))
        .map(|(trace, summary)| (key::place(summary.row.start, trace), summary))
        .filter(|(place, _)| place.as_slice() >= lower && place.as_slice() < upper)
        .collect();
    found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    found
}

impl TracePage {
    /// Notes that the trace at a place is looked at.
    fn pass(&mut self, place: &[u8]) {
        self.scanned += 1;
        self.next = place.try_into().ok().map(TraceCursor);
    }
}

/// What is asked of what stands beside a trace.
struct Aside<'q> {
    query: &'q TraceQuery,
    marks: Marks,
    is_gone_by_place: bool,
    /// Whether all that is asked for is what is gone by.
    is_known: bool,
}

impl<'q> Aside<'q> {
    fn of(query: &'q TraceQuery, driver: &Driver, wanted: &[(Facet, &str)]) -> Self {
        let is_gone_by_place = driver.index == Index::Place;
        let is_any_time = query.duration_min.or(query.duration_max).is_none();
        Self {
            query,
            marks: Marks::of(wanted.iter().copied()),
            is_gone_by_place,
            is_known: is_gone_by_place && is_any_time && wanted.len() == 1,
        }
    }

    /// Tells whether the trace at a place may be one that is looked for.
    fn may_fit(&self, tree: &sled::Tree, place: &[u8], value: sled::IVec) -> Result<bool, Error> {
        if self.is_known {
            return Ok(true);
        }
        let by_time = Space::TraceAt.key(&[place]);
        let value = if self.is_gone_by_place {
            tree.get(&by_time).map_err(|error| Error::engine(DOING, error))?
        } else {
            Some(value)
        };
        let Some(value) = value else { return Ok(false) };
        let Beside { end, marks } = Beside::read(&value)?;
        let start = key::time_of(&by_time).unwrap_or_default();
        Ok(marks.have(self.marks) && self.query.fits_time(start, end))
    }
}

/// Reads the trace at a place, if it is one that is looked for.
fn read(tree: &sled::Tree, query: &TraceQuery, place: &[u8]) -> Result<Option<TraceRow>, Error> {
    let by_time = Space::TraceAt.key(&[place]);
    let summary = stored::read(tree, key::id_of(&by_time))?;
    let summary =
        summary.ok_or_else(|| Error::damaged(DOING, "it names a record that is missing"))?;
    Ok(query.fits(&summary).then_some(summary.row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        let cursor = TraceCursor([0x5a; PLACE_LEN]);
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for bad in ["", "5a", &"5".repeat(47), &"g".repeat(48), &"5".repeat(49), "ä"] {
            assert_eq!(bad.parse::<TraceCursor>(), Err(TraceCursorError), "{bad}");
        }
    }
}
