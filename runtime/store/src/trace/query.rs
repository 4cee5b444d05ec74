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
    /// Where to go on; absent if there are no more.
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

/// What is still to come of one database.
struct Source<'t> {
    tree: &'t sled::Tree,
    rest: Rev<sled::Iter>,
    prefix_len: usize,
    place: Option<(Vec<u8>, sled::IVec)>,
}

impl Source<'_> {
    fn advance(&mut self) -> Result<(), Error> {
        let entry = self.rest.next().transpose();
        let entry = entry.map_err(|error| Error::engine("read a list", error))?;
        self.place =
            entry.and_then(|(key, value)| Some((key.get(self.prefix_len..)?.to_vec(), value)));
        Ok(())
    }
}

/// Looks through databases, each of which has its own traces.
pub(crate) fn find(
    trees: &[&sled::Tree],
    query: &TraceQuery,
    limit: usize,
) -> Result<TracePage, Error> {
    let prefixes = query.prefixes();
    let Some((driver, others)) = prefixes.split_first() else { return Ok(TracePage::default()) };
    let (lower, upper) = query.places();
    let bound = |place: &[u8]| [driver.as_slice(), place].concat();
    let mut heads = Vec::with_capacity(trees.len());
    for tree in trees {
        let range = (Bound::Included(bound(&lower)), Bound::Excluded(bound(&upper)));
        let rest = tree.range::<Vec<u8>, _>(range).rev();
        let mut head = Source { tree, rest, prefix_len: driver.len(), place: None };
        head.advance()?;
        heads.push(head);
    }
    let mut page = TracePage::default();
    let limit = limit.min(LIST_MAX);
    while let Some(newest) =
        heads.iter_mut().filter(|head| head.place.is_some()).max_by(|a, b| a.place.cmp(&b.place))
    {
        if page.rows.len() == limit || page.scanned == TRACES_SCANNED_MAX {
            return Ok(page);
        }
        let tree = newest.tree;
        let Some((place, value)) = newest.place.take() else { continue };
        newest.advance()?;
        page.scanned += 1;
        page.next = place.as_slice().try_into().ok().map(TraceCursor);
        if !is_as_long(tree, query, driver, &place, value)? {
            continue;
        }
        if let Some(found) = read(tree, others, &place)? {
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
