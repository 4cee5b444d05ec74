//! Looks for traces, the newest first, by what is known of them.

use std::fmt;
use std::iter::Rev;
use std::ops::Bound;
use std::str::FromStr;
use std::time::Duration;

use wire::{Name, RunId, SessionId, Timestamp};

use crate::error::Error;
use crate::key::{self, Facet, PLACE_LEN, Space};
use crate::page::{LIST_MAX, row};
use crate::record::Head;
use crate::shelf::segment::Segment;
use crate::trace::row::{Summary, TraceRow, TraceStatus};

/// The most places of traces that one look-up looks at, some ten milliseconds' work; one that needs
/// more says where to go on.
pub const TRACES_SCANNED_MAX: usize = 20_000;

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
    /// Returns the prefixes under which a trace stands that is looked for, the rarest first.
    fn prefixes(&self) -> Vec<Vec<u8>> {
        let session = self.session.as_ref().map(|id| key::traces_by(Facet::Session, id.as_str()));
        let tool = self.tool.as_ref().map(|tool| key::traces_by(Facet::Tool, tool));
        let agent = self.agent.as_ref().map(|agent| key::traces_by(Facet::Agent, agent.as_str()));
        let status = self.status.map(|status| key::traces_by(Facet::Status, status.as_str()));
        let found: Vec<Vec<u8>> = [session, tool, agent, status].into_iter().flatten().collect();
        if found.is_empty() { vec![Space::TraceAt.key(&[])] } else { found }
    }

    /// Tells whether a row is one that is looked for.
    pub(crate) fn fits(&self, summary: &Summary) -> bool {
        let place = key::place(summary.row.start, &[]);
        let is_in_time = self.since.is_none_or(|since| summary.row.start >= since)
            && self.until.is_none_or(|until| summary.row.start <= until);
        let keys = summary.keys();
        let facets = self.prefixes();
        let mut facets =
            facets.iter().filter(|prefix| prefix.first() == Some(&(Space::TraceBy as u8)));
        let is_found = facets.all(|prefix| {
            let from = [prefix.as_slice(), &place].concat();
            keys.range(from.clone()..).next().is_some_and(|key| key.starts_with(&from))
        });
        is_in_time && is_found && self.fits_time(summary.row.start, summary.row.end)
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
    /// Its database and what is left there, once it is its turn.
    opened: Option<(sled::Db, Rev<sled::Iter>)>,
    /// Where its next trace stands; before it is opened, a place that none is later than.
    place: Option<Vec<u8>>,
    value: sled::IVec,
}

impl<'s> Source<'s> {
    fn of(segment: &'s Segment, query: &TraceQuery, (lower, upper): (&[u8], &[u8])) -> Self {
        let is_running = query.status == Some(TraceStatus::Running);
        let place = match segment.outline() {
            Some(outline) if is_running && !outline.is_running() => None,
            Some(outline) => outline.latest(lower, upper),
            None => Some(upper.to_vec()),
        };
        Self { segment, opened: None, place, value: sled::IVec::default() }
    }

    /// Opens its database, and looks for its latest trace under a prefix between two places.
    fn open(&mut self, prefix: &[u8], (lower, upper): (&[u8], &[u8])) -> Result<(), Error> {
        let database = self.segment.database()?;
        let bound = |place: &[u8]| [prefix, place].concat();
        let range = (Bound::Included(bound(lower)), Bound::Excluded(bound(upper)));
        let rest = database.range::<Vec<u8>, _>(range).rev();
        self.opened = Some((database, rest));
        self.advance(prefix)
    }

    fn advance(&mut self, prefix: &[u8]) -> Result<(), Error> {
        let next = self.opened.as_mut().and_then(|(_, rest)| rest.next());
        let next = next.transpose().map_err(|error| Error::engine("read a list", error))?;
        (self.place, self.value) = match next {
            Some((key, value)) => (key.get(prefix.len()..).map(<[u8]>::to_vec), value),
            None => (None, sled::IVec::default()),
        };
        Ok(())
    }
}

/// Looks through segments, each of which has its own traces.
pub(crate) fn find(
    segments: &[Segment],
    query: &TraceQuery,
    limit: usize,
) -> Result<TracePage, Error> {
    let prefixes = query.prefixes();
    let Some((driver, others)) = prefixes.split_first() else { return Ok(TracePage::default()) };
    let (lower, upper) = query.places();
    let between = (lower.as_slice(), upper.as_slice());
    let mut sources: Vec<Source<'_>> =
        segments.iter().map(|segment| Source::of(segment, query, between)).collect();
    let mut page = TracePage::default();
    let limit = limit.min(LIST_MAX);
    while let Some(newest) = sources
        .iter_mut()
        .filter(|source| source.place.is_some())
        .max_by(|a, b| a.place.cmp(&b.place))
    {
        if page.rows.len() == limit || page.scanned == TRACES_SCANNED_MAX {
            return Ok(page);
        }
        let Some((database, _)) = &newest.opened else {
            newest.open(driver, between)?;
            continue;
        };
        let tree = database.clone();
        let (place, value) = (newest.place.take(), std::mem::take(&mut newest.value));
        newest.advance(driver)?;
        let Some(place) = place else { continue };
        page.scanned += 1;
        page.next = place.as_slice().try_into().ok().map(TraceCursor);
        if !is_as_long(&tree, query, driver, &place, value)? {
            continue;
        }
        if let Some(found) = read(&tree, others, &place)? {
            page.rows.push(found);
        }
    }
    page.next = None;
    Ok(page)
}

/// Tells whether the trace at a place took as long as is asked for. Where it was found by its time
/// its end stands there, so that thousands can be passed by.
fn is_as_long(
    tree: &sled::Tree,
    query: &TraceQuery,
    driver: &[u8],
    place: &[u8],
    value: sled::IVec,
) -> Result<bool, Error> {
    if query.duration_min.or(query.duration_max).is_none() {
        return Ok(true);
    }
    let by_time = Space::TraceAt.key(&[place]);
    let value = if driver.first() == by_time.first() {
        Some(value)
    } else {
        tree.get(&by_time).map_err(|error| Error::engine("read a list", error))?
    };
    let end = value.as_deref().map(|value| Head::read(value)?.end()).transpose()?;
    let start = key::time_of(&by_time).unwrap_or_default();
    Ok(end.is_some_and(|end| query.fits_time(start, end)))
}

/// Reads the trace at a place, if it stands under the other prefixes too.
fn read(tree: &sled::Tree, others: &[Vec<u8>], place: &[u8]) -> Result<Option<TraceRow>, Error> {
    let doing = "read a list";
    for other in others {
        let key = [other.as_slice(), place].concat();
        if !tree.contains_key(key).map_err(|error| Error::engine(doing, error))? {
            return Ok(None);
        }
    }
    let by_time = Space::TraceAt.key(&[place]);
    let summary: Option<Summary> = row(tree, &key::trace(key::id_of(&by_time)))?;
    let summary =
        summary.ok_or_else(|| Error::damaged(doing, "it names a record that is missing"))?;
    Ok(Some(summary.row))
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
