//! A segment: a database with the traces of some time, removed as a whole, and closed while nobody
//! uses it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::Timestamp;

use crate::database::{self, Holding};
use crate::error::Error;
use crate::home;
use crate::key::{self, Space};
use crate::pending::{Pending, State};
use crate::shelf::outline::Outline;
use crate::trace::{Recent, TraceId};

/// How segments are held. They are written out only when the shelf says so or closes them: what they
/// hold has to be on the disk before the store's position moves. Traces go anywhere among those that
/// there are, so that a cache four times as large saves a seventh of the reads, and no time.
const HOLDING: Holding = Holding { cache_bytes: 1 << 20, flush_every_ms: None };

const OPENING: &str = "open a segment of traces";

/// One segment.
pub(crate) struct Segment {
    /// Names its directory; never used twice.
    pub(crate) number: u64,
    /// Traces that begin then or later go here, up to where the next segment begins.
    pub(crate) from: Timestamp,
    state: State,
    /// Open since somebody used it, until it [rests](Self::rest). An open one takes megabytes.
    open: Mutex<Option<sled::Db>>,
    /// Whether it was used since it was last asked to rest.
    is_used: AtomicBool,
    /// Known from when it was closed until it is changed.
    outline: Option<Outline>,
    /// The traces to which spans were added lately; to be [written](Self::write_recent) and forgotten
    /// before anything else changes.
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
        let dir = dir(shelf, number);
        let (database, state) = start(&dir)?;
        Ok(Self::hold(dir, number, from, database, state))
    }

    fn hold(dir: PathBuf, number: u64, from: Timestamp, database: sled::Db, state: State) -> Self {
        Self {
            number,
            from,
            state,
            open: Mutex::new(Some(database)),
            is_used: AtomicBool::new(false),
            outline: None,
            recent: Recent::default(),
            bytes: home::bytes_below(&dir),
            unflushed: 0,
            dir,
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<sled::Db>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the database to somebody who uses it, so that it stays open for a while. Nobody keeps
    /// it beyond the lock on the shelf, since it is to be closed one day.
    pub(crate) fn database(&self) -> Result<sled::Db, Error> {
        self.is_used.store(true, Ordering::Relaxed);
        self.opened()
    }

    /// Returns the database, which is opened if it is not open.
    pub(crate) fn opened(&self) -> Result<sled::Db, Error> {
        let mut held = self.held();
        if let Some(database) = &*held {
            return Ok(database.clone());
        }
        let (database, state) = start(&self.dir)?;
        if (state.records, state.checksums) != (self.state.records, self.state.checksums) {
            database::abandon(database);
            return Err(Error::damaged(OPENING, "it is not as it was closed"));
        }
        *held = Some(database.clone());
        Ok(database)
    }

    /// Returns what the database knows of itself.
    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    /// Notes what was changed in the database, so many things.
    pub(crate) fn change(&mut self, state: State, changes: usize) {
        (self.state, self.outline) = (state, None);
        self.unflushed += changes;
    }

    /// Returns how many traces there are, with those that only memory has.
    pub(crate) fn traces(&self) -> u64 {
        self.state.traces + self.recent.new_traces()
    }

    /// Writes the spans of traces in work that only memory has.
    pub(crate) fn write_recent(&mut self) -> Result<(), Error> {
        if self.recent.ahead().next().is_none() {
            return Ok(());
        }
        let mut pending = Pending::new(&*self.opened()?, self.state);
        self.recent.write(&mut pending)?;
        self.change(pending.commit()?, 0);
        self.recent.caught_up();
        Ok(())
    }

    /// Returns what is known without opening it.
    pub(crate) const fn outline(&self) -> Option<&Outline> {
        self.outline.as_ref()
    }

    /// Tells whether a trace is there, which is no use of it.
    pub(crate) fn has(&self, trace: &TraceId) -> Result<bool, Error> {
        if let Some(outline) = &self.outline {
            return Ok(outline.has(&(*trace..=*trace)));
        }
        let has = self.opened()?.contains_key(key::trace(trace));
        has.map_err(|error| Error::engine("look for a trace", error))
    }

    /// Closes it, unless it was used since it was asked before.
    pub(crate) fn rest(&mut self) -> Result<(), Error> {
        let open = self.held().clone();
        let Some(database) = open.filter(|_| !self.is_used.swap(false, Ordering::Relaxed)) else {
            return Ok(());
        };
        self.flush()?;
        if self.outline.is_none() {
            self.outline = Some(Outline::of(&database)?);
        }
        self.recent = Recent::default();
        drop(database);
        *self.held() = None;
        // What was written since it was measured, and what sled wrote when it was opened.
        self.measure();
        Ok(())
    }

    /// Leaves it as it is, because something is damaged.
    pub(crate) fn abandon(self) {
        if let Some(database) = self.held().take() {
            database::abandon(database);
        }
    }

    /// Looks again what it takes on the disk.
    pub(crate) fn measure(&mut self) {
        self.bytes = home::bytes_below(&self.dir);
    }

    /// Writes out what was added.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.write_recent()?;
        // What is open no more was written out when it was closed.
        let open = self.held().clone().filter(|_| self.unflushed > 0);
        if let Some(database) = open {
            database::flush(&database)?;
            self.unflushed = 0;
            self.measure();
        }
        Ok(())
    }

    /// Returns when the trace at some place in the order of time began.
    pub(crate) fn begin_of(&self, end: End) -> Result<Option<Timestamp>, Error> {
        let mut keys = self.database()?.scan_prefix(Space::TraceAt.key(&[])).keys();
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
        drop(self.held().take());
        home::remove(&self.dir)
    }
}

/// Opens the database of a segment that there is.
fn start(dir: &Path) -> Result<(sled::Db, State), Error> {
    if !dir.is_dir() {
        return Err(Error::damaged(OPENING, "it is gone"));
    }
    home::wait_until_free(dir)?;
    let database = database::start(dir, HOLDING)?;
    match database::state(&database, OPENING) {
        Ok(state) => Ok((database, state)),
        Err(error) => {
            if error.is_damage() {
                database::abandon(database);
            }
            Err(error)
        }
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
