//! Changes on their way into the database: gathered, read through, then written at once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wire::Timestamp;

use crate::change::Telling;
use crate::error::Error;
use crate::key;
use crate::record::{self, Encoded, FILE_BYTES_MIN, HEAD_ROOM, Head, PART_BYTES};
use crate::replies::{self, Replies};

/// What the store knows of itself; written in the same batch as the records that it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The journal position up to which all changes survive the end of the process.
    pub(crate) durable: u64,
    /// The journal position up to which changes are applied.
    #[serde(skip)]
    pub(crate) position: u64,
    /// The number of records, and the sum of their checksums. The database can lose its newest
    /// part without noticing; a walk that does not come to these numbers shows it.
    pub(crate) records: u64,
    pub(crate) checksums: u64,
    /// The bytes of all records, keys left out.
    pub(crate) bytes: u64,
    /// The number of facts, and of words in them.
    pub(crate) facts: u64,
    pub(crate) words: u64,
    /// The number of traces.
    pub(crate) traces: u64,
    /// The latest end of a run that was dropped. The journal may tell of such runs again, and the
    /// records by which they would be known are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) runs_dropped_until: Option<Timestamp>,
}

impl State {
    pub(crate) fn count(&mut self, checksum: u32, bytes: usize) {
        self.bytes = self.bytes.wrapping_add(bytes as u64);
        self.records = self.records.wrapping_add(1);
        self.checksums = self.checksums.wrapping_add(u64::from(checksum));
    }

    fn discount(&mut self, checksum: u32, bytes: usize) {
        self.bytes = self.bytes.wrapping_sub(bytes as u64);
        self.records = self.records.wrapping_sub(1);
        self.checksums = self.checksums.wrapping_sub(u64::from(checksum));
    }

    /// Reads the state of a database, if it has one.
    pub(crate) fn load(tree: &sled::Tree) -> Result<Option<Self>, Error> {
        match get(tree, key::STATE)? {
            Some(bytes) => {
                let state: Self = record::from_json(&bytes)?;
                Ok(Some(Self { position: state.durable, ..state }))
            }
            None => Ok(None),
        }
    }
}

/// Reads one record, whole and checked.
pub(crate) fn get(tree: &sled::Tree, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let value = |key: &[u8]| tree.get(key).map_err(|error| Error::engine("read a record", error));
    let Some(head) = value(key)? else { return Ok(None) };
    Head::read(&head)?.join(key, value).map(|bytes| Some(bytes.into_owned()))
}

/// Reads one reply, whole and checked, from wherever it stands.
pub(crate) fn get_reply(
    tree: &sled::Tree,
    replies: &Replies,
    key: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    let value = |key: &[u8]| tree.get(key).map_err(|error| Error::engine("read a record", error));
    let Some(stored) = value(key)? else { return Ok(None) };
    let head = Head::read(&stored)?;
    if head.is_in_file {
        return replies.read(key, &head).map(Some);
    }
    head.join(key, value).map(|bytes| Some(bytes.into_owned()))
}

/// Checks the record that a value begins, and returns its checksum and length.
pub(crate) fn check(
    tree: &sled::Tree,
    replies: Option<&Replies>,
    key: &[u8],
    value: &[u8],
) -> Result<(u32, usize), Error> {
    let head = Head::read(value)?;
    if let Some(replies) = replies.filter(|_| head.is_in_file) {
        replies.read(key, &head)?;
    } else {
        let part =
            |key: &[u8]| tree.get(key).map_err(|error| Error::engine("read a record", error));
        head.join(key, part)?;
    }
    Ok((head.checksum, head.length))
}

/// What stands under a key.
struct Value {
    /// What will stand there when this is written.
    bytes: Option<sled::IVec>,
    /// Whether that is another than the database has.
    is_changed: bool,
    /// Whether the database has anything there, so that it is to be removed if it goes.
    is_stored: bool,
}

/// A set of writes that becomes visible as a whole or not at all.
///
/// Nobody else may write to the database for as long as there is one.
pub(crate) struct Pending {
    tree: sled::Tree,
    pub(crate) state: State,
    /// What was read or is to be written, by key, so that nothing is read twice.
    values: HashMap<Vec<u8>, Value, RandomState>,
    /// Where large replies go, if there are any in this database.
    replies: Option<Arc<Replies>>,
    /// The files that no record names any more when this is written.
    unnamed: BTreeSet<String>,
    bytes: usize,
    telling: Telling,
    /// Where values are put together, one after another.
    buffer: Vec<u8>,
}

impl Pending {
    pub(crate) fn new(tree: &sled::Tree, state: State) -> Self {
        Self {
            tree: tree.clone(),
            state,
            values: HashMap::default(),
            replies: None,
            unnamed: BTreeSet::new(),
            bytes: 0,
            telling: Telling::Again,
            buffer: Vec::new(),
        }
    }

    /// Says whether what it is for may have been told before.
    pub(crate) fn telling(self, telling: Telling) -> Self {
        Self { telling, ..self }
    }

    /// Has large replies stand in files.
    pub(crate) fn with_replies(self, replies: &Arc<Replies>) -> Self {
        Self { replies: Some(replies.clone()), ..self }
    }

    /// Returns the database as it is before this is written.
    pub(crate) const fn tree(&self) -> &sled::Tree {
        &self.tree
    }

    /// Tells whether what it is for may have been told before.
    pub(crate) fn is_again(&self) -> bool {
        self.telling == Telling::Again
    }

    /// Returns the time until which runs that are told may be among those that were dropped.
    pub(crate) fn runs_dropped_until(&self) -> Option<Timestamp> {
        self.state.runs_dropped_until.filter(|_| self.is_again())
    }

    /// Returns how many bytes were put, also those that were put again or removed since.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tells whether there will be a record when this is written.
    pub(crate) fn has(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.value(key).map(|value| value.is_some())
    }

    fn value(&mut self, key: &[u8]) -> Result<Option<sled::IVec>, Error> {
        if let Some(known) = self.values.get(key) {
            return Ok(known.bytes.clone());
        }
        let read = self.tree.get(key).map_err(|error| Error::engine("read a record", error))?;
        let (bytes, is_stored) = (read.clone(), read.is_some());
        self.values.insert(key.to_vec(), Value { bytes, is_changed: false, is_stored });
        Ok(read)
    }

    /// Sets what will stand under a key, where there is nothing unless more is known.
    fn set(&mut self, key: Vec<u8>, value: sled::IVec) {
        let absent = Value { bytes: None, is_changed: false, is_stored: false };
        let known = self.values.entry(key).or_insert(absent);
        (known.bytes, known.is_changed) = (Some(value), true);
    }

    /// Sets that nothing will stand under a key, where there is something unless more is known.
    fn unset(&mut self, key: Vec<u8>) {
        let stored = Value { bytes: None, is_changed: true, is_stored: true };
        let known = self.values.entry(key).or_insert(stored);
        (known.bytes, known.is_changed) = (None, true);
    }

    /// Reads a row as it will be when this is written.
    pub(crate) fn row<T: DeserializeOwned>(&mut self, key: &[u8]) -> Result<Option<T>, Error> {
        let Some(value) = self.value(key)? else { return Ok(None) };
        let bytes = Head::read(&value)?.join(key, |part| self.value(part))?;
        record::from_json(&bytes).map(Some)
    }

    /// Writes a row.
    pub(crate) fn put_row<T: Serialize>(&mut self, key: Vec<u8>, row: &T) -> Result<(), Error> {
        self.remove(&key)?;
        self.put_new_row(key, row)
    }

    /// Writes a row where there is no record.
    pub(crate) fn put_new_row<T: Serialize>(&mut self, key: Vec<u8>, row: &T) -> Result<(), Error> {
        self.write(key, |buffer| serde_json::to_writer(buffer, row).map_err(Error::Encode))
    }

    /// Writes bytes.
    pub(crate) fn put(&mut self, key: Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
        self.remove(&key)?;
        self.put_new(key, bytes)
    }

    /// Writes bytes where there is no record.
    pub(crate) fn put_new(&mut self, key: Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > PART_BYTES {
            return self.put_parts(key, bytes);
        }
        self.write(key, |buffer| {
            buffer.extend_from_slice(bytes);
            Ok(())
        })
    }

    /// Writes what something puts into a buffer, where there is no record.
    fn write(
        &mut self,
        key: Vec<u8>,
        put: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.extend_from_slice(&HEAD_ROOM);
        put(&mut buffer)?;
        if let Some((checksum, length)) = record::encode_behind(&key, &mut buffer)? {
            self.bytes = self.bytes.saturating_add(length);
            self.state.count(checksum, length);
            self.set(key, buffer.as_slice().into());
            self.buffer = buffer;
            return Ok(());
        }
        // One so large is hardly followed by another, and the buffer goes.
        self.put_parts(key, buffer.get(HEAD_ROOM.len()..).unwrap_or_default())
    }

    fn put_parts(&mut self, key: Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
        let encoded = record::encode(&key, bytes)?;
        self.bytes = self.bytes.saturating_add(bytes.len());
        self.insert(key, encoded, bytes.len());
        Ok(())
    }

    /// Writes a reply: a large one into a file at once, which nothing names before the rest is
    /// written.
    pub(crate) fn put_reply(&mut self, key: Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
        self.remove(&key)?;
        self.put_new_reply(key, bytes)
    }

    /// Writes a reply as [`put_reply`](Self::put_reply) does, where there is no record.
    pub(crate) fn put_new_reply(&mut self, key: Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
        let Some(replies) = self.replies.clone().filter(|_| bytes.len() >= FILE_BYTES_MIN) else {
            return self.put_new(key, bytes);
        };
        let encoded = record::encode_in_file(&key, bytes)?;
        let Some(name) = replies::name(&key, encoded.checksum) else {
            return self.put_new(key, bytes);
        };
        replies.write(&name, bytes)?;
        self.unnamed.remove(&name);
        self.insert(key, encoded, bytes.len());
        Ok(())
    }

    fn insert(&mut self, key: Vec<u8>, encoded: Encoded<'_>, length: usize) {
        self.state.count(encoded.checksum, length);
        for (number, part) in (0..).zip(encoded.parts) {
            self.set(key::part(&key, number), part.into());
        }
        self.set(key, encoded.head.into());
    }

    /// Drops a record, if there is one.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<(), Error> {
        let Some(value) = self.value(key)? else { return Ok(()) };
        let head = Head::read(&value)?;
        self.state.discount(head.checksum, head.length);
        if head.is_in_file {
            self.unnamed.extend(replies::name(key, head.checksum));
        }
        for number in 0..head.parts {
            self.unset(key::part(key, number));
        }
        self.unset(key.to_vec());
        Ok(())
    }

    /// Writes everything in one batch and returns the state after it.
    pub(crate) fn commit(mut self) -> Result<State, Error> {
        let state = record::to_json(&self.state)?;
        let state = record::encode(key::STATE, &state)?;
        self.set(key::STATE.to_vec(), state.head.into());
        let mut batch = sled::Batch::default();
        for (key, Value { bytes, is_stored, .. }) in
            self.values.into_iter().filter(|(_, value)| value.is_changed)
        {
            match bytes {
                Some(bytes) => batch.insert(key, bytes),
                // What came and went meanwhile was never there.
                None if is_stored => batch.remove(key),
                None => {}
            }
        }
        self.tree.apply_batch(batch).map_err(|error| Error::engine("write a batch", error))?;
        if let Some(replies) = self.replies {
            replies.leave(self.unnamed);
        }
        Ok(self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database;

    #[test]
    fn whatever_is_put_and_removed_the_last_stands_and_the_records_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let tree = sled::open(dir.path()).unwrap();
        let (small, large) = (vec![1; 5], vec![2; 70_000]);
        let ops = [Some(&small), Some(&large), None];
        let mut state = State::default();
        // Each three things that are done to a key, in one batch or in several.
        for number in 0..ops.len().pow(3) {
            for split in 0..4 {
                let key = format!("Y{number}-{split}").into_bytes();
                let steps = [1, 3, 9].map(|unit| ops[number / unit % ops.len()]);
                let mut pending = Pending::new(&tree, state);
                for (at, step) in (0..).zip(steps) {
                    if at == split {
                        pending = Pending::new(&tree, pending.commit().unwrap());
                    }
                    match step {
                        Some(bytes) => pending.put(key.clone(), bytes).unwrap(),
                        None => pending.remove(&key).unwrap(),
                    }
                    assert_eq!(pending.has(&key).unwrap(), step.is_some());
                }
                state = pending.commit().unwrap();
                let expected = steps[2].cloned();
                assert_eq!(get(&tree, &key).unwrap(), expected, "{number} {split}");
            }
        }
        database::count(&tree, None, &state).unwrap();
        let parts = tree.scan_prefix(b"+").count();
        // A third of the keys have a large record, whose later parts are two.
        assert_eq!(parts, 9 * 4 * 2);
    }
}
