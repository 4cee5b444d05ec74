//! Changes on their way into the database: gathered, read through, then written at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wire::Timestamp;

use crate::error::Error;
use crate::key;
use crate::record::{self, Encoded, FILE_BYTES_MIN, Head};
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

/// A set of writes that becomes visible as a whole or not at all.
pub(crate) struct Pending {
    tree: sled::Tree,
    pub(crate) state: State,
    writes: BTreeMap<Vec<u8>, Option<sled::IVec>>,
    /// Where large replies go, if there are any in this database.
    replies: Option<Arc<Replies>>,
    /// The files that no record names any more when this is written.
    unnamed: BTreeSet<String>,
    bytes: usize,
}

impl Pending {
    pub(crate) fn new(tree: &sled::Tree, state: State) -> Self {
        Self {
            tree: tree.clone(),
            state,
            writes: BTreeMap::new(),
            replies: None,
            unnamed: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// Has large replies stand in files.
    pub(crate) fn with_replies(self, replies: &Arc<Replies>) -> Self {
        Self { replies: Some(replies.clone()), ..self }
    }

    /// Returns the database as it is before this is written.
    pub(crate) const fn tree(&self) -> &sled::Tree {
        &self.tree
    }

    /// Returns how many bytes were put, also those that were put again or removed since.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tells whether there will be a record when this is written.
    pub(crate) fn has(&self, key: &[u8]) -> Result<bool, Error> {
        self.value(key).map(|value| value.is_some())
    }

    fn value(&self, key: &[u8]) -> Result<Option<sled::IVec>, Error> {
        match self.writes.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.tree.get(key).map_err(|error| Error::engine("read a record", error)),
        }
    }

    /// Reads a row as it will be when this is written.
    pub(crate) fn row<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, Error> {
        let Some(value) = self.value(key)? else { return Ok(None) };
        let bytes = Head::read(&value)?.join(key, |part| self.value(part))?;
        record::from_json(&bytes).map(Some)
    }

    /// Writes a row.
    pub(crate) fn put_row<T: Serialize>(&mut self, key: Vec<u8>, row: &T) -> Result<(), Error> {
        self.put(key, &record::to_json(row)?)
    }

    /// Writes a row where there is no record.
    pub(crate) fn put_new_row<T: Serialize>(&mut self, key: Vec<u8>, row: &T) -> Result<(), Error> {
        self.put_new(key, &record::to_json(row)?)
    }

    /// Writes bytes.
    pub(crate) fn put(&mut self, key: Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
        self.remove(&key)?;
        self.put_new(key, bytes)
    }

    /// Writes bytes where there is no record.
    pub(crate) fn put_new(&mut self, key: Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
        let encoded = record::encode(&key, bytes)?;
        self.bytes = self.bytes.saturating_add(bytes.len());
        self.insert(key, encoded, bytes.len());
        Ok(())
    }

    /// Writes a reply: a large one into a file at once, which nothing names before the rest is
    /// written.
    pub(crate) fn put_reply(&mut self, key: Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
        let Some(replies) = self.replies.clone().filter(|_| bytes.len() >= FILE_BYTES_MIN) else {
            return self.put(key, bytes);
        };
        self.remove(&key)?;
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
            self.writes.insert(key::part(&key, number), Some(part.into()));
        }
        self.writes.insert(key, Some(encoded.head.into()));
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
            self.writes.insert(key::part(key, number), None);
        }
        self.writes.insert(key.to_vec(), None);
        Ok(())
    }

    /// Writes everything in one batch and returns the state after it.
    pub(crate) fn commit(mut self) -> Result<State, Error> {
        let state = record::to_json(&self.state)?;
        let state = record::encode(key::STATE, &state)?;
        self.writes.insert(key::STATE.to_vec(), Some(state.head.into()));
        let mut batch = sled::Batch::default();
        for (key, value) in self.writes {
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        self.tree.apply_batch(batch).map_err(|error| Error::engine("write a batch", error))?;
        if let Some(replies) = self.replies {
            replies.leave(self.unnamed);
        }
        Ok(self.state)
    }
}
