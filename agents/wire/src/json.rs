//! Values written as JSON.

use std::io::{self, Write};

use serde::Serialize;

mod bound;
mod kept;

pub use bound::bound;
pub use kept::{LEVELS_MAX, is_kept};

/// The most bytes that are written into a buffer that grows. For more of them the size is found out
/// first: a buffer that is moved whenever it is full takes some three times as much memory.
const GROWN_BYTES_MAX: usize = 64 * 1024;

/// What an ordinary value takes, in bytes.
const ORDINARY_BYTES: usize = 512;

/// Writes a value as JSON, into no more memory than it takes.
///
/// # Errors
///
/// Those of `serde_json::to_vec`: a map whose keys are no texts, or a value that refuses.
pub fn to_vec(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let Measure { begins, bytes, .. } = Measure::of(value, GROWN_BYTES_MAX)?;
    if bytes <= GROWN_BYTES_MAX {
        return Ok(begins);
    }
    drop(begins);
    let mut whole = Vec::with_capacity(bytes);
    serde_json::to_writer(&mut whole, value)?;
    Ok(whole)
}

/// Writes a value as JSON, unless it takes more than so many bytes.
///
/// # Errors
///
/// Those of [`to_vec`].
pub fn to_vec_within(
    value: &impl Serialize,
    bytes_max: usize,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let measure = Measure::of(value, bytes_max)?;
    Ok((measure.bytes <= bytes_max).then_some(measure.begins))
}

/// Returns how many bytes a value has as JSON.
///
/// # Errors
///
/// Those of [`to_vec`].
pub fn measure(value: &impl Serialize) -> Result<usize, serde_json::Error> {
    Measure::of(value, 0).map(|measure| measure.bytes)
}

/// Keeps what is written as long as it is little, and counts it.
struct Measure {
    begins: Vec<u8>,
    begins_max: usize,
    bytes: usize,
}

impl Measure {
    fn of(value: &impl Serialize, begins_max: usize) -> Result<Self, serde_json::Error> {
        let begins = Vec::with_capacity(ORDINARY_BYTES.min(begins_max));
        let mut measure = Self { begins, begins_max, bytes: 0 };
        serde_json::to_writer(&mut measure, value)?;
        Ok(measure)
    }
}

impl Write for Measure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len();
        if self.bytes <= self.begins_max {
            self.begins.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_serde_json_writes_in_no_more_memory_than_that() {
        for chars in [0, 1, 100, GROWN_BYTES_MAX - 3, GROWN_BYTES_MAX - 2, GROWN_BYTES_MAX, 300_000]
        {
            let value = ("\n", "a".repeat(chars));
            let written = to_vec(&value).unwrap();
            assert_eq!(written, serde_json::to_vec(&value).unwrap(), "{chars}");
            assert_eq!(measure(&value).unwrap(), written.len());
            assert!(written.len() <= GROWN_BYTES_MAX || written.len() == written.capacity());
        }
    }

    #[test]
    fn what_is_too_long_is_not_written() {
        for (most, is_written) in [(0, false), (4, false), (5, true), (6, true)] {
            let written = to_vec_within(&[1, 2], most).unwrap();
            assert_eq!(written.as_deref(), is_written.then_some(b"[1,2]".as_slice()), "{most}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        assert!(to_vec(&std::collections::BTreeMap::from([((1, 2), 3)])).is_err());
    }
}
