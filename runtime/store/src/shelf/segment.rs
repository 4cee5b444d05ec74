//! A segment: a database with the traces of some time, removed as a whole.

use std::path::{Path, PathBuf};

use wire::Timestamp;

use crate::database::{self, Holding};
use crate::error::Error;
use crate::home;
use crate::key::{self, Space};
use crate::pending::State;
use crate::trace::Recent;

/// How segments are held. There are some twenty of them, and only the newest ones are much used.
/// They are written out only when the shelf says so: what they hold has to be on the disk before
/// the store's position moves.
const HOLDING: Holding = Holding { cache_bytes: 4 << 20, flush_every_ms: None };

/// One segment.
pub(crate) struct Segment {
    /// Names its directory; never used twice.
    pub(crate) number: u64,
    /// Traces that begin then or later go here, up to where the next segment begins.
    pub(crate) from: Timestamp,
    pub(crate) database: sled::Db,
    pub(crate) state: State,
    /// The traces to which spans were added lately; to be forgotten with whatever else changes.
    pub(crate) recent: Recent,
    /// What its files take on the disk.
    pub(crate) bytes: u64,
    /// Spans that were added since it was written out.
    pub(crate) unflushed: usize,
    dir: PathBuf,
}

/// Returns the directory of a segment.
pub(crate) fn dir(shelf: &Path, number: u64) -> PathBuf {
    shelf.join(number.to_string())
}

impl Segment {
    /// Makes an empty segment.
    pub(crate) fn create(shelf: &Path, number: u64, from: Timestamp) -> Result<Self, Error> {
        let doing = "create a segment of traces";
        let dir = dir(shelf, number);
        home::remove(&dir)?;
        let database = database::start(&dir, HOLDING)?;
        database::begin(&database, doing)?;
        database::flush(&database)?;
        let state = database::state(&database, doing)?;
        Ok(Self::hold(dir, number, from, database, state))
    }

    /// Opens a segment that was left sound.
    pub(crate) fn open(shelf: &Path, number: u64, from: Timestamp) -> Result<Self, Error> {
        let doing = "open a segment of traces";
        let dir = dir(shelf, number);
        if !dir.is_dir() {
            return Err(Error::damaged(doing, "it is gone"));
        }
        let database = database::start(&dir, HOLDING)?;
        let found = database::state(&database, doing);
        match found {
            Ok(state) => Ok(Self::hold(dir, number, from, database, state)),
            Err(error) => {
                database::abandon(database);
                Err(error)
            }
        }
    }

    fn hold(dir: PathBuf, number: u64, from: Timestamp, database: sled::Db, state: State) -> Self {
        let (bytes, recent) = (home::bytes_below(&dir), Recent::default());
        Self { number, from, database, state, recent, bytes, unflushed: 0, dir }
    }

    /// Looks again what it takes on the disk.
    pub(crate) fn measure(&mut self) {
        self.bytes = home::bytes_below(&self.dir);
    }

    /// Writes out what was added.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if self.unflushed > 0 {
            database::flush(&self.database)?;
            self.unflushed = 0;
        }
        Ok(())
    }

    /// Returns when the trace at some place in the order of time began.
    pub(crate) fn begin_of(&self, end: End) -> Result<Option<Timestamp>, Error> {
        let mut keys = self.database.scan_prefix(Space::TraceAt.key(&[])).keys();
        let found = match end {
            End::First => keys.next(),
            End::Middle => keys.nth(usize::try_from(self.state.traces / 2).unwrap_or(usize::MAX)),
            End::Last => keys.next_back(),
        };
        let key = found.transpose().map_err(|error| Error::engine("look for a trace", error))?;
        Ok(key.as_deref().and_then(key::time_of))
    }

    /// Removes it from the disk.
    pub(crate) fn remove(self) -> Result<(), Error> {
        drop(self.database);
        home::remove(&self.dir)
    }
}

/// A place among the traces of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The oldest trace.
    First,
    /// The one in the middle.
    Middle,
    /// The newest trace.
    Last,
}
