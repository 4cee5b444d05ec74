//! The outline of a segment: what is known of its traces while it is closed.

use std::ops::RangeInclusive;

use wire::Timestamp;

use crate::error::Error;
use crate::key::{self, Space};
use crate::trace::beside::Beside;
use crate::trace::{self, Ended, TraceId};

/// What a segment holds, in sixteen bytes for each trace.
#[derive(Debug)]
pub(crate) struct Outline {
    /// The ids of all traces, in order.
    ids: Box<[TraceId]>,
    /// The first and the last begin of a trace.
    begins: Option<RangeInclusive<Timestamp>>,
    /// The first and the last end of a trace.
    ends: Option<RangeInclusive<Timestamp>>,
    /// Whether a run of any is in work.
    is_running: bool,
}

impl Outline {
    /// Reads the places of all traces of a database.
    pub(crate) fn of(tree: &sled::Tree) -> Result<Self, Error> {
        let failed = |error| Error::engine("close a segment of traces", error);
        let (mut ids, mut begins, mut ends) = (Vec::new(), None, None);
        for entry in tree.scan_prefix(Space::TraceAt.key(&[])) {
            let (key, value) = entry.map_err(failed)?;
            ids.extend(TraceId::try_from(key::id_of(&key)));
            begins = key::time_of(&key).map(|begin| widened(begins, begin)).or(begins);
            ends = Some(widened(ends, Beside::read(&value)?.end));
        }
        ids.sort_unstable();
        let is_running = trace::any_running(tree).map_err(failed)?;
        let range = |ends: Option<(Timestamp, Timestamp)>| ends.map(|(first, last)| first..=last);
        Ok(Self { ids: ids.into(), begins: range(begins), ends: range(ends), is_running })
    }

    /// Tells how many traces ended at a time or before.
    pub(crate) fn ended(&self, cutoff: Timestamp) -> Ended {
        match &self.ends {
            Some(ends) if *ends.start() > cutoff => Ended::None,
            Some(ends) if self.is_running || *ends.end() > cutoff => Ended::Some,
            _ => Ended::All,
        }
    }

    /// Tells whether any trace is in work.
    pub(crate) const fn is_running(&self) -> bool {
        self.is_running
    }

    /// Returns a place that none of its traces between two places is later than; nothing if none
    /// can be between them.
    pub(crate) fn latest(&self, lower: &[u8], upper: &[u8]) -> Option<Vec<u8>> {
        let begins = self.begins.as_ref()?;
        let first = key::place(*begins.start(), &[0; 16]);
        let last = key::place(*begins.end(), &[u8::MAX; 16]);
        let is_between = first.as_slice() < upper && last.as_slice() >= lower;
        is_between.then(|| last.min(upper.to_vec()))
    }

    /// Tells whether any trace of some ids is there.
    pub(crate) fn has(&self, ids: &RangeInclusive<TraceId>) -> bool {
        let from = self.ids.partition_point(|id| id < ids.start());
        self.ids.get(from).is_some_and(|id| id <= ids.end())
    }
}

fn widened(ends: Option<(Timestamp, Timestamp)>, at: Timestamp) -> (Timestamp, Timestamp) {
    ends.map_or((at, at), |(first, last)| (first.min(at), last.max(at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Digits;

    fn outline(ids: &[u128]) -> Outline {
        let ids = ids.iter().map(|id| id.to_be_bytes()).collect();
        Outline { ids, begins: None, ends: None, is_running: false }
    }

    #[test]
    fn what_begins_otherwise_than_all_traces_is_not_there() {
        let outline = outline(&[0x00ab << 112, 0xfedc << 112 | 0xa]);
        for (digits, expected) in [
            ("00ab", true),
            ("00ab0", true),
            ("00aa", false),
            ("00ac", false),
            ("fedc", true),
            ("FEDC", true),
            ("ffff", false),
            ("0000", false),
            ("fedc000000000000", true),
            ("fedc000000000001", false),
            ("fedc000000000000000000000000000a", true),
            ("fedc000000000000000000000000000b", false),
            ("00ab0000000000000000000000000000", true),
            ("00ab0000000000000000000000000001", false),
        ] {
            let ids = Digits::read(digits).unwrap().ids();
            assert_eq!(outline.has(&ids), expected, "{digits:?}");
        }
    }

    #[test]
    fn what_ended_is_told_by_the_first_and_the_last_end() {
        let at = Timestamp::from_micros;
        let of = |first, last, is_running| Outline {
            ends: Some(at(first)..=at(last)),
            is_running,
            ..outline(&[1, 2])
        };
        for (outline, cutoff, expected) in [
            (outline(&[]), 5, Ended::All),
            (of(6, 9, false), 5, Ended::None),
            (of(5, 9, false), 5, Ended::Some),
            (of(1, 6, false), 5, Ended::Some),
            (of(1, 5, false), 5, Ended::All),
            (of(1, 5, true), 5, Ended::Some),
            (of(6, 9, true), 5, Ended::None),
        ] {
            assert_eq!(outline.ended(at(cutoff)), expected, "{outline:?} {cutoff}");
        }
    }
}
