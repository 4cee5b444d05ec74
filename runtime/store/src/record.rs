//! The stored form of a record: a version, a checksum, a length, then the bytes in small parts.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::Timestamp;

use crate::error::Error;
use crate::key;

/// The largest record, in bytes. A reply carries the outputs of its calls, each of them limited,
/// so nothing that the runtime makes comes near; the limit keeps one batch within memory.
pub const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The bytes of a record that stand under one key. sled rewrites a node with all its values, and
/// leaks a file for each rewrite of a node above 128 KiB, so values stay well below.
const PART_BYTES: usize = 32 * 1024;

/// The version of the form described here.
const VERSION: u8 = 1;

/// Version, checksum and length.
const HEAD_BYTES: usize = 9;

/// A record ready to be written: the value under its own key, and the values of its parts.
pub(crate) struct Encoded<'a> {
    pub(crate) head: Vec<u8>,
    pub(crate) parts: Vec<&'a [u8]>,
    pub(crate) checksum: u32,
}

/// Puts a record into its stored form.
pub(crate) fn encode<'a>(key: &[u8], bytes: &'a [u8]) -> Result<Encoded<'a>, Error> {
    let length = u32::try_from(bytes.len())
        .ok()
        .filter(|_| bytes.len() <= RECORD_BYTES_MAX)
        .ok_or(Error::TooLarge { bytes: bytes.len(), max: RECORD_BYTES_MAX })?;
    let checksum = checksum(key, bytes);
    let (first, rest) = bytes.split_at(bytes.len().min(PART_BYTES));
    let mut head = Vec::with_capacity(HEAD_BYTES + first.len());
    head.push(VERSION);
    head.extend_from_slice(&checksum.to_be_bytes());
    head.extend_from_slice(&length.to_be_bytes());
    head.extend_from_slice(first);
    Ok(Encoded { head, parts: rest.chunks(PART_BYTES).collect(), checksum })
}

/// The head of a stored record.
pub(crate) struct Head<'a> {
    pub(crate) checksum: u32,
    pub(crate) parts: u32,
    pub(crate) length: usize,
    first: &'a [u8],
}

impl<'a> Head<'a> {
    /// Reads the value under a record's own key.
    pub(crate) fn read(value: &'a [u8]) -> Result<Self, Error> {
        let whole = || {
            let (head, first) = value.split_first_chunk::<HEAD_BYTES>()?;
            let [version, c0, c1, c2, c3, l0, l1, l2, l3] = *head;
            let length = usize::try_from(u32::from_be_bytes([l0, l1, l2, l3])).ok()?;
            let rest = length.checked_sub(first.len())?;
            let fits = version == VERSION
                && length <= RECORD_BYTES_MAX
                && (first.len() == PART_BYTES || rest == 0);
            fits.then_some(Self {
                checksum: u32::from_be_bytes([c0, c1, c2, c3]),
                parts: u32::try_from(rest.div_ceil(PART_BYTES)).ok()?,
                length,
                first,
            })
        };
        whole().ok_or_else(|| Error::damaged("read a record", "its head is not whole"))
    }

    /// Reads the end of a trace out of its place in the order of time.
    pub(crate) fn end(&self) -> Result<Timestamp, Error> {
        let micros = self.first.try_into().map(u64::from_be_bytes);
        micros
            .map(Timestamp::from_micros)
            .map_err(|_| Error::damaged("read a record", "it is no time"))
    }

    /// Puts the parts together and checks them against the checksum.
    pub(crate) fn join<V: AsRef<[u8]>>(
        &self,
        key: &[u8],
        mut part: impl FnMut(&[u8]) -> Result<Option<V>, Error>,
    ) -> Result<Cow<'a, [u8]>, Error> {
        let mut bytes = Cow::Borrowed(self.first);
        for number in 0..self.parts {
            let value = part(&key::part(key, number))?
                .ok_or_else(|| Error::damaged("read a record", "a part is missing"))?;
            bytes.to_mut().extend_from_slice(value.as_ref());
        }
        if bytes.len() != self.length || checksum(key, &bytes) != self.checksum {
            return Err(Error::damaged("read a record", "its checksum does not fit"));
        }
        Ok(bytes)
    }
}

/// Covers the key too, so that a value under a wrong key is found out.
fn checksum(key: &[u8], bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), bytes)
}

pub(crate) fn to_json<T: Serialize>(row: &T) -> Result<Vec<u8>, Error> {
    wire::json::to_vec(row).map_err(Error::Encode)
}

pub(crate) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        Error::damaged("read a record", format!("its checksum fits and its form does not: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: &[u8], head: &[u8], parts: &[&[u8]]) -> Result<Vec<u8>, Error> {
        let stored = |wanted: &[u8]| {
            let numbered = (0..).zip(parts).find(|(n, _)| key::part(key, *n) == wanted);
            Ok(numbered.map(|(_, part)| *part))
        };
        Head::read(head)?.join(key, stored).map(Cow::into_owned)
    }

    #[test]
    fn records_of_every_size_are_read_again_in_small_values() {
        for length in [0, 1, 32_767, 32_768, 32_769, 65_536, 65_537, 300_000] {
            let bytes: Vec<u8> = (0..length).map(|n: u32| (n % 251) as u8).collect();
            let encoded = encode(b"Yx", &bytes).unwrap();
            assert!(encoded.head.len() < 64 * 1024, "{length}");
            assert!(encoded.parts.iter().all(|part| part.len() <= 32 * 1024), "{length}");
            assert_eq!(read(b"Yx", &encoded.head, &encoded.parts).unwrap(), bytes, "{length}");
        }
    }

    #[test]
    fn damage_is_found() {
        let bytes = vec![7; 40_000];
        let encoded = encode(b"Yx", &bytes).unwrap();
        let parts = encoded.parts.clone();
        assert!(read(b"Yy", &encoded.head, &parts).is_err(), "wrong key");
        assert!(read(b"Yx", &encoded.head, &[]).is_err(), "missing part");
        assert!(read(b"Yx", &encoded.head, &[&parts[0][1..]]).is_err(), "short part");
        assert!(read(b"Yx", &[], &parts).is_err(), "empty head");
        for at in 0..encoded.head.len() {
            let mut head = encoded.head.clone();
            head[at] ^= 0x10;
            assert!(read(b"Yx", &head, &parts).is_err(), "bit at {at}");
        }
    }
}
