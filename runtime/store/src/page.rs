//! Reads lists out of the database, in the order of time.

use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::key::{self, Space};
use crate::pending::get;
use crate::record;

/// The longest list that is returned; a longer one serves no reader and would hold up writers.
pub const LIST_MAX: usize = 10_000;

/// Reads one row.
pub(crate) fn row<T: DeserializeOwned>(tree: &sled::Tree, key: &[u8]) -> Result<Option<T>, Error> {
    get(tree, key)?.map(|bytes| record::from_json(&bytes)).transpose()
}

/// Reads rows along a space that is ordered by time, oldest first, leaving out what is not wanted.
pub(crate) fn oldest<T>(
    tree: &sled::Tree,
    by_time: Space,
    limit: usize,
    read: impl Fn(&[u8]) -> Result<Option<T>, Error>,
    wanted: impl Fn(&T) -> bool,
) -> Result<Vec<T>, Error> {
    let mut rows = Vec::new();
    for entry in tree.scan_prefix(by_time.key(&[])) {
        if rows.len() == limit.min(LIST_MAX) {
            break;
        }
        let (key, _) = entry.map_err(|error| Error::engine("read a list", error))?;
        let row = read(key::id_of(&key))?
            .ok_or_else(|| Error::damaged("read a list", "it names a record that is missing"))?;
        if wanted(&row) {
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Reads rows along a space that is ordered by time, newest first.
pub(crate) fn newest<T>(
    tree: &sled::Tree,
    by_time: Space,
    limit: usize,
    read: impl Fn(&[u8]) -> Result<Option<T>, Error>,
) -> Result<Vec<T>, Error> {
    let mut rows = Vec::new();
    for entry in tree.scan_prefix(by_time.key(&[])).rev().take(limit.min(LIST_MAX)) {
        let (key, _) = entry.map_err(|error| Error::engine("read a list", error))?;
        let row = read(key::id_of(&key))?
            .ok_or_else(|| Error::damaged("read a list", "it names a record that is missing"))?;
        rows.push(row);
    }
    Ok(rows)
}
