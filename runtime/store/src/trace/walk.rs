//! Goes through the traces of a segment from the newest on, all or those of a value.

use std::iter::Rev;
use std::ops::Bound;

use crate::error::Error;
use crate::key::{self, Facet, Space};
use crate::trace::row::TraceStatus;

/// Under what a trace stands by which a value is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    /// The trace's own place: few traces have the value, or are to be found at once.
    Place,
    /// The second in which it began, once for all that began then: many have the value. It says
    /// that there may be some, since it stays when a trace goes.
    Second,
    /// Nothing: nearly all have the value.
    Time,
}

impl Index {
    /// Returns how a value is found.
    pub(crate) fn of(facet: Facet, value: &str) -> Self {
        match facet {
            Facet::Status if value == TraceStatus::Ok.as_str() => Self::Time,
            Facet::Session | Facet::Status => Self::Place,
            Facet::Agent | Facet::Tool => Self::Second,
        }
    }
}

/// By which keys traces are gone through.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Driver {
    pub(crate) index: Index,
    /// What stands before the places, or the seconds.
    prefix: Vec<u8>,
}

impl Driver {
    /// Returns the one that passes by the most of what lacks any of some values.
    pub(crate) fn of(wanted: &[(Facet, &str)]) -> Self {
        let by = |index: Index| {
            let found = wanted.iter().find(|(facet, value)| Index::of(*facet, value) == index)?;
            Some(Self { index, prefix: key::traces_by(found.0, found.1) })
        };
        by(Index::Place).or_else(|| by(Index::Second)).unwrap_or_else(Self::by_time)
    }

    fn by_time() -> Self {
        Self { index: Index::Time, prefix: Space::TraceAt.key(&[]) }
    }

    /// Goes through the traces of a database between two places, the upper one left out.
    pub(crate) fn walk(&self, database: sled::Db, between: (&[u8], &[u8])) -> Walk {
        let (lower, upper) = between;
        let mut walk = Walk {
            between: (lower.to_vec(), upper.to_vec()),
            skip: self.prefix.len(),
            seconds: None,
            places: None,
            database,
        };
        if self.index == Index::Second {
            let second = |place: &[u8]| {
                let start = key::time_of(&Space::TraceAt.key(&[place])).unwrap_or_default();
                key::second(start).to_be_bytes()
            };
            let bound = |place: &[u8]| Bound::Included([&self.prefix[..], &second(place)].concat());
            let range: (Bound<Vec<u8>>, _) = (bound(lower), bound(upper));
            walk.seconds = Some(walk.database.range(range).rev());
        } else {
            walk.places = Some(walk.range(&self.prefix, lower, upper));
        }
        walk
    }
}

/// A walk through the traces of one database.
pub(crate) struct Walk {
    pub(crate) database: sled::Db,
    between: (Vec<u8>, Vec<u8>),
    /// How much stands before what it goes through.
    skip: usize,
    seconds: Option<Rev<sled::Iter>>,
    /// The places, or those of one second.
    places: Option<Rev<sled::Iter>>,
}

/// A place, and what stands there; nothing where a second begins in which there is no trace any
/// more.
pub(crate) type Placed = (Vec<u8>, Option<sled::IVec>);

impl Walk {
    fn range(&self, prefix: &[u8], lower: &[u8], upper: &[u8]) -> Rev<sled::Iter> {
        let bound = |place: &[u8]| [prefix, place].concat();
        let range = (Bound::Included(bound(lower)), Bound::Excluded(bound(upper)));
        self.database.range::<Vec<u8>, _>(range).rev()
    }

    /// Returns the next trace, or the next second without one: whoever goes on counts both.
    pub(crate) fn next(&mut self) -> Result<Option<Placed>, Error> {
        let Some(seconds) = &mut self.seconds else {
            return next_of(&mut self.places, self.skip);
        };
        if let Some(placed) = next_of(&mut self.places, 1)? {
            return Ok(Some(placed));
        }
        let Some((key, _)) = seconds.next().transpose().map_err(failed)? else { return Ok(None) };
        let second = key.get(self.skip..).and_then(|second| second.try_into().ok());
        let second = u64::from_be_bytes(second.unwrap_or_default());
        self.places = Some(self.within(second));
        let begin = key::place(key::begin_of(second).unwrap_or_default(), &[0; 16]);
        Ok(next_of(&mut self.places, 1)?.or(Some((begin, None))))
    }

    /// Returns the places within a second that are gone through.
    fn within(&self, second: u64) -> Rev<sled::Iter> {
        let (lower, upper) = &self.between;
        let begin = |second: Option<u64>| Some(key::place(key::begin_of(second?)?, &[]));
        let lower = begin(Some(second)).map_or(lower.clone(), |begin| begin.max(lower.clone()));
        let next = begin(second.checked_add(1));
        let upper = next.map_or(upper.clone(), |next| next.min(upper.clone()));
        self.range(&Space::TraceAt.key(&[]), &lower.min(upper.clone()), &upper)
    }
}

fn next_of(places: &mut Option<Rev<sled::Iter>>, skip: usize) -> Result<Option<Placed>, Error> {
    let next = places.as_mut().and_then(Iterator::next).transpose().map_err(failed)?;
    Ok(next.map(|(key, value)| (key.get(skip..).unwrap_or_default().to_vec(), Some(value))))
}

fn failed(error: sled::Error) -> Error {
    Error::engine("read a list", error)
}

#[cfg(test)]
mod tests {
    use wire::Timestamp;

    use super::*;

    #[test]
    fn the_rarest_value_is_gone_by() {
        let session = (Facet::Session, "s");
        let (tool, agent) = ((Facet::Tool, "add"), (Facet::Agent, "lead"));
        let (ok, error) = ((Facet::Status, "ok"), (Facet::Status, "error"));
        let by = |index, (facet, value): (Facet, &str)| Driver {
            index,
            prefix: key::traces_by(facet, value),
        };
        for (wanted, expected) in [
            (vec![], Driver::by_time()),
            (vec![ok], Driver::by_time()),
            (vec![ok, agent], by(Index::Second, agent)),
            (vec![tool, agent], by(Index::Second, tool)),
            (vec![error, tool], by(Index::Place, error)),
            (vec![session, error, tool, agent], by(Index::Place, session)),
        ] {
            assert_eq!(Driver::of(&wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn a_second_is_found_by_any_time_in_it() {
        for (micros, second) in
            [(0, 0), (999_999, 0), (1_000_000, 1), (u64::MAX, 18_446_744_073_709)]
        {
            let start = Timestamp::from_micros(micros);
            assert_eq!(key::second(start), second);
            assert!(key::begin_of(second).unwrap() <= start);
            let next = key::begin_of(second + 1);
            assert!(next.is_none_or(|next| next > start));
        }
    }
}
