//! What stands beside a trace in the order of time: enough of it that thousands can be passed by
//! without a look at their rows.

use wire::Timestamp;

use crate::error::Error;
use crate::key::Facet;
use crate::record::Head;

/// When a trace ended, and by what it may be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    pub(crate) end: Timestamp,
    pub(crate) marks: Marks,
}

/// A mark for each value of a facet. Some values have the same one: a trace without it lacks the
/// value, and one with it is to be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(u64);

impl Marks {
    /// Returns the marks of some values.
    pub(crate) fn of<'v>(values: impl Iterator<Item = (Facet, &'v str)>) -> Self {
        // Stored, so it has to come to the same in every program.
        let mark = |(facet, value): (Facet, &str)| {
            1 << (crc32c::crc32c_append(crc32c::crc32c(&[facet as u8]), value.as_bytes()) % 64)
        };
        Self(values.map(mark).fold(0, |marks, mark: u64| marks | mark))
    }

    /// Tells whether these are all that are wanted, and maybe more.
    pub(crate) const fn have(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

impl Beside {
    /// Reads what is stored.
    pub(crate) fn read(value: &[u8]) -> Result<Self, Error> {
        let read = || {
            let (end, marks) = Head::read(value).ok()?.first.split_first_chunk()?;
            let end = Timestamp::from_micros(u64::from_be_bytes(*end));
            Some(Self { end, marks: Marks(u64::from_be_bytes(marks.try_into().ok()?)) })
        };
        read().ok_or_else(|| Error::damaged("read a record", "it is no place of a trace"))
    }

    /// Returns what is to be stored.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.end.as_micros().to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.marks.0.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record;

    #[test]
    fn what_stands_beside_a_trace_is_read_as_it_is_written() {
        let marks = Marks::of([(Facet::Agent, "lead"), (Facet::Tool, "add")].into_iter());
        let beside = Beside { end: Timestamp::from_micros(7), marks };
        let stored = record::encode(b"t", &beside.to_bytes()).unwrap().head;
        assert_eq!(Beside::read(&stored).unwrap(), beside);
        for bad in [&stored[..stored.len() - 1], &[], &record::encode(b"t", b"").unwrap().head] {
            assert!(Beside::read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_trace_has_the_marks_of_all_its_values() {
        let lead = (Facet::Agent, "lead");
        let of = |values: &[(Facet, &'static str)]| Marks::of(values.iter().copied());
        for (has, wanted, expected) in [
            (of(&[]), of(&[]), true),
            (of(&[]), of(&[lead]), false),
            (of(&[lead]), of(&[]), true),
            (of(&[lead]), of(&[lead]), true),
            (of(&[lead, (Facet::Tool, "add")]), of(&[lead]), true),
            (of(&[lead, (Facet::Tool, "add")]), of(&[(Facet::Tool, "add"), lead]), true),
            (of(&[lead]), of(&[(Facet::Tool, "lead")]), false),
            (of(&[lead]), of(&[lead, (Facet::Tool, "add")]), false),
        ] {
            assert_eq!(has.have(wanted), expected, "{has:?} {wanted:?}");
        }
    }
}
