//! The stored form of a record: a version, a checksum, a length, then the bytes in small parts, or
//! in a file.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::key;

/// The largest record, in bytes. A reply carries the outputs of its calls, each of them limited,
/// so nothing that the runtime makes comes near; the limit keeps one batch within memory.
pub const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The bytes of a record that stand under one key. sled rewrites a node with all its values, and
/// leaks a file for each rewrite of a node above 128 KiB, so values stay well below.
pub(crate) const PART_BYTES: usize = 32 * 1024;

/// The bytes of a reply from which on it stands in a file: more would take more than two parts.
pub(crate) const FILE_BYTES_MIN: usize = 64 * 1024;

/// The version of a record that stands in the database with all its bytes.
const VERSION: u8 = 1;

/// The version of a record whose bytes stand in a file.
const VERSION_IN_FILE: u8 = 2;

/// Version, checksum and length.
const HEAD_BYTES: usize = 9;

/// Room for a head, to be filled by [`encode_behind`].
pub(crate) const HEAD_ROOM: [u8; HEAD_BYTES] = [0; HEAD_BYTES];

/// A record ready to be written: the value under its own key, and the values of its parts.
pub(crate) struct Encoded<'a> {
    pub(crate) head: Vec<u8>,
    pub(crate) parts: Vec<&'a [u8]>,
    pub(crate) checksum: u32,
}

/// Puts a record into its stored form.
pub(crate) fn encode<'a>(key: &[u8], bytes: &'a [u8]) -> Result<Encoded<'a>, Error> {
    let (first, rest) = bytes.split_at(bytes.len().min(PART_BYTES));
    let (head, checksum) = head(VERSION, key, bytes)?;
    Ok(Encoded {
        head: [&head, first].concat(),
        parts: rest.chunks(PART_BYTES).collect(),
        checksum,
    })
}

/// Puts bytes that stand behind [`HEAD_ROOM`] into the stored form of a record where they are,
/// unless it has several parts; returns its checksum and length.
pub(crate) fn encode_behind(key: &[u8], value: &mut [u8]) -> Result<Option<(u32, usize)>, Error> {
    let Some((room, bytes)) = value.split_first_chunk_mut::<HEAD_BYTES>() else { return Ok(None) };
    if bytes.len() > PART_BYTES {
        return Ok(None);
    }
    let (head, checksum) = head(VERSION, key, bytes)?;
    *room = head;
    Ok(Some((checksum, bytes.len())))
}

/// Puts a record into the form of one whose bytes stand in a file.
pub(crate) fn encode_in_file(key: &[u8], bytes: &[u8]) -> Result<Encoded<'static>, Error> {
    let (head, checksum) = head(VERSION_IN_FILE, key, bytes)?;
    Ok(Encoded { head: head.to_vec(), parts: Vec::new(), checksum })
}

/// Makes a head, and returns it with the checksum in it.
fn head(version: u8, key: &[u8], bytes: &[u8]) -> Result<([u8; HEAD_BYTES], u32), Error> {
    let length = u32::try_from(bytes.len())
        .ok()
        .filter(|_| bytes.len() <= RECORD_BYTES_MAX)
        .ok_or(Error::TooLarge { bytes: bytes.len(), max: RECORD_BYTES_MAX })?;
    let checksum = checksum(key, bytes);
    let ([c0, c1, c2, c3], [l0, l1, l2, l3]) = (checksum.to_be_bytes(), length.to_be_bytes());
    Ok(([version, c0, c1, c2, c3, l0, l1, l2, l3], checksum))
}

/// The head of a stored record.
pub(crate) struct Head<'a> {
    pub(crate) checksum: u32,
    pub(crate) parts: u32,
    pub(crate) length: usize,
    pub(crate) is_in_file: bool,
    /// What stands in the database of it, or its first part.
    pub(crate) first: &'a [u8],
}

impl<'a> Head<'a> {
    /// Reads the value under a record's own key.
    pub(crate) fn read(value: &'a [u8]) -> Result<Self, Error> {
        let whole = || {
            let (head, first) = value.split_first_chunk::<HEAD_BYTES>()?;
            let [version, c0, c1, c2, c3, l0, l1, l2, l3] = *head;
            let length = usize::try_from(u32::from_be_bytes([l0, l1, l2, l3])).ok()?;
            let rest = length.checked_sub(first.len())?;
            let is_in_file = version == VERSION_IN_FILE;
            let fits = match version {
                VERSION => first.len() == PART_BYTES || rest == 0,
                VERSION_IN_FILE => first.is_empty() && length >= FILE_BYTES_MIN,
                _ => false,
            };
            let parts = if is_in_file { 0 } else { rest.div_ceil(PART_BYTES) };
            (fits && length <= RECORD_BYTES_MAX).then_some(Self {
                checksum: u32::from_be_bytes([c0, c1, c2, c3]),
                parts: u32::try_from(parts).ok()?,
                length,
                is_in_file,
                first,
            })
        };
        whole().ok_or_else(|| Error::damaged("read a record", "its head is not whole"))
    }

    /// Puts the parts together and checks them against the checksum. A record in a file has none.
    pub(crate) fn join<V: AsRef<[u8]>>(
        &self,
        key: &[u8],
        mut part: impl FnMut(&[u8]) -> Result<Option<V>, Error>,
    ) -> Result<Cow<'a, [u8]>, Error> {
        let bytes = if self.parts == 0 {
            Cow::Borrowed(self.first)
        } else {
            let mut whole = Vec::with_capacity(self.length);
            whole.extend_from_slice(self.first);
            for number in 0..self.parts {
                let value = part(&key::part(key, number))?
                    .ok_or_else(|| Error::damaged("read a record", "a part is missing"))?;
                whole.extend_from_slice(value.as_ref());
            }
            Cow::Owned(whole)
        };
        self.check(key, &bytes)?;
        Ok(bytes)
    }

    /// Checks the bytes of the record against its length and checksum.
    pub(crate) fn check(&self, key: &[u8], bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() != self.length || checksum(key, bytes) != self.checksum {
            return Err(Error::damaged("read a record", "its checksum does not fit"));
        }
        Ok(())
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
            let mut value = [&HEAD_ROOM, bytes.as_slice()].concat();
            let in_place = encode_behind(b"Yx", &mut value).unwrap();
            let is_whole = bytes.len() <= PART_BYTES;
            assert_eq!(in_place, is_whole.then_some((encoded.checksum, bytes.len())), "{length}");
            assert_eq!(value == encoded.head, is_whole, "{length}");
        }
    }

    #[test]
    fn a_record_of_many_parts_takes_no_more_room_than_it_has_bytes() {
        let bytes = vec![7; 40 * 32 * 1024 + 1];
        let encoded = encode(b"Yx", &bytes).unwrap();
        let joined = read(b"Yx", &encoded.head, &encoded.parts).unwrap();
        assert_eq!((joined.len(), joined.capacity()), (bytes.len(), bytes.len()));
    }

    #[test]
    fn the_head_of_a_record_in_a_file_is_no_record_by_itself() {
        let encoded = encode_in_file(b"Yx", &vec![7; FILE_BYTES_MIN]).unwrap();
        let head = Head::read(&encoded.head).unwrap();
        assert_eq!((head.is_in_file, head.parts, head.length), (true, 0, FILE_BYTES_MIN));
        assert!(read(b"Yx", &encoded.head, &[]).is_err());
        let small = encode_in_file(b"Yx", &[7; 9]).unwrap();
        assert!(Head::read(&small.head).is_err(), "so small a record stands in the database");
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
