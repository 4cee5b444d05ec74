//! Rows that many changes of one batch touch: each is read once, and written once with the places at
//! which it is found.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use foldhash::fast::RandomState;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::pending::Pending;

/// A row, by its id.
pub(crate) trait Row: Serialize + DeserializeOwned {
    type Id: Eq + Hash;

    /// Returns the key under which it stands.
    fn key(id: &Self::Id) -> Vec<u8>;

    /// Returns the places at which it is found besides: each a key, and what stands there.
    fn places(&self, id: &Self::Id) -> Result<Vec<Place>, Error>;
}

pub(crate) type Place = (Vec<u8>, Vec<u8>);

/// Rows on their way into the database. They are changed here alone until they are written.
pub(crate) struct Rows<'s, R: Row> {
    rows: HashMap<&'s R::Id, Held<R>, RandomState>,
}

/// A row as the changes so far leave it.
pub(crate) struct Held<R> {
    row: Option<R>,
    /// Whether the database has it, and where it is found there.
    is_stored: bool,
    places: Vec<Place>,
    is_changed: bool,
}

impl<R: Row> Default for Rows<'_, R> {
    fn default() -> Self {
        Self { rows: HashMap::default() }
    }
}

impl<R> Held<R> {
    pub(crate) const fn row(&self) -> Option<&R> {
        self.row.as_ref()
    }

    /// Returns the row to be changed, set or taken away.
    pub(crate) const fn change(&mut self) -> &mut Option<R> {
        self.is_changed = true;
        &mut self.row
    }
}

impl<'s, R: Row> Rows<'s, R> {
    /// Returns a row, which is read unless it is held.
    pub(crate) fn get(
        &mut self,
        pending: &mut Pending,
        id: &'s R::Id,
    ) -> Result<&mut Held<R>, Error> {
        Ok(match self.rows.entry(id) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(vacant) => {
                let row = pending.row::<R>(&R::key(id))?;
                let places = row.as_ref().map(|row| row.places(id)).transpose()?;
                vacant.insert(Held {
                    is_stored: row.is_some(),
                    row,
                    places: places.unwrap_or_default(),
                    is_changed: false,
                })
            }
        })
    }

    /// Looks at a row that is not to be changed.
    pub(crate) fn look<T>(
        &self,
        pending: &mut Pending,
        id: &R::Id,
        look: impl FnOnce(Option<&R>) -> T,
    ) -> Result<T, Error> {
        if let Some(held) = self.rows.get(id) {
            return Ok(look(held.row()));
        }
        let row = pending.row::<R>(&R::key(id))?;
        Ok(look(row.as_ref()))
    }

    /// Writes what was changed.
    pub(crate) fn put(self, pending: &mut Pending) -> Result<(), Error> {
        for (id, held) in self.rows.into_iter().filter(|(_, held)| held.is_changed) {
            let places = held.row.as_ref().map(|row| row.places(id)).transpose()?;
            let places = places.unwrap_or_default();
            for (key, _) in held.places.iter().filter(|place| !places.contains(place)) {
                pending.remove(key)?;
            }
            for (key, bytes) in places.into_iter().filter(|place| !held.places.contains(place)) {
                pending.put_new(key, &bytes)?;
            }
            match (held.row, held.is_stored) {
                (Some(row), true) => pending.put_row(R::key(id), &row)?,
                (Some(row), false) => pending.put_new_row(R::key(id), &row)?,
                (None, true) => pending.remove(&R::key(id))?,
                (None, false) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wire::{Name, SessionId, Timestamp};

    use super::*;
    use crate::database;
    use crate::key::{self, Space};
    use crate::pending::State;
    use crate::session::SessionRow;

    #[test]
    fn the_last_of_all_changes_stands_with_its_place_alone_and_records_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let tree = sled::open(dir.path()).unwrap();
        let seen = |session: &SessionId, at: u64| SessionRow {
            session: session.clone(),
            agent: Name::new("a").unwrap(),
            begun: Timestamp::from_micros(1),
            at: Timestamp::from_micros(at),
            slots: at,
        };
        // What is done to a row: nothing, it is set at a time, or taken away.
        let ops = [None, Some(Some(1)), Some(Some(2)), Some(None)];
        let mut state = State::default();
        for number in 0..ops.len().pow(3) {
            // Each three things that are done, in one batch or in several.
            for split in 0..4 {
                let session = SessionId::new(&format!("s{number}-{split}")).unwrap();
                let steps = [1, 4, 16].map(|unit| ops[number / unit % ops.len()]);
                let mut expected = None;
                let (mut pending, mut rows) = (Pending::new(&tree, state), Rows::default());
                for (at, step) in (0..).zip(steps) {
                    if at == split {
                        std::mem::take::<Rows<'_, SessionRow>>(&mut rows)
                            .put(&mut pending)
                            .unwrap();
                        pending = Pending::new(&tree, pending.commit().unwrap());
                    }
                    let held = rows.get(&mut pending, &session).unwrap();
                    assert_eq!(held.row(), expected.as_ref());
                    if let Some(to) = step {
                        expected = to.map(|at| seen(&session, at));
                        held.change().clone_from(&expected);
                    }
                    let is_there = rows.look(&mut pending, &session, |row| row.is_some()).unwrap();
                    assert_eq!(is_there, expected.is_some());
                }
                rows.put(&mut pending).unwrap();
                state = pending.commit().unwrap();
                let stored = Pending::new(&tree, state).row(&key::session(&session)).unwrap();
                assert_eq!(stored, expected, "{steps:?} {split}");
                let places = tree.scan_prefix(Space::SessionAt.key(&[])).keys();
                let places = places.map(Result::unwrap);
                let places = places.filter(|key| key::id_of(key) == session.as_str().as_bytes());
                let times: Vec<_> = places.map(|key| key::time_of(&key)).collect();
                let time = expected.map(|row| Some(row.at));
                assert_eq!(times, Vec::from_iter(time), "{steps:?} {split}");
            }
        }
        database::count(&tree, None, &state).unwrap();
    }

    #[test]
    fn a_row_that_nobody_changed_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let tree = sled::open(dir.path()).unwrap();
        let mut pending = Pending::new(&tree, State::default());
        let session = SessionId::new("s").unwrap();
        let mut rows = Rows::<SessionRow>::default();
        assert!(rows.get(&mut pending, &session).unwrap().row().is_none());
        rows.put(&mut pending).unwrap();
        assert_eq!(pending.bytes(), 0);
    }
}
