//! Opens what the directory of a store holds.

use std::sync::Arc;

use crate::database::{self, Holding, abandon, guard};
use crate::error::Error;
use crate::home::{Home, wait_until_free};
use crate::pending::State;
use crate::replies::Replies;
use crate::shelf::Shelf;

/// How the database of all but the traces is held. Its cache, which takes some times as much memory
/// as it has bytes, is for what is written next; what is looked up comes from the kernel's. Every
/// second it is written out: the most that a crash takes from it.
const HOLDING: Holding = Holding { cache_bytes: 4 << 20, flush_every_ms: Some(1000) };
/// The most records that are read and counted when a store is opened, half a second's work; in a
/// larger store damage is found where it is read.
pub const VERIFIED_RECORDS_MAX: u64 = 200_000;
/// The most bytes that are read and counted when a store is opened.
pub const VERIFIED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A store that was left sound, opened.
pub(crate) struct Loaded {
    pub(crate) database: sled::Db,
    pub(crate) state: State,
    pub(crate) segments: Shelf,
    pub(crate) replies: Arc<Replies>,
}

/// Opens the database of all but the traces, or makes one.
pub(crate) fn start(home: &Home) -> Result<sled::Db, Error> {
    wait_until_free(&home.database())?;
    database::start(&home.database(), HOLDING)
}

/// Opens databases that were left sound, and checks that they are.
pub(crate) fn load(home: &Home, replies: Arc<Replies>) -> Result<Loaded, Error> {
    let doing = "open the store";
    let database = guard(doing, || start(home))?;
    let checked = guard(doing, || {
        let state = database::state(&database, doing)?;
        replies.sweep(&database)?;
        let segments = Shelf::open(home.traces(), &database)?;
        Ok((state, segments))
    });
    let counted = checked.and_then(|(state, mut segments)| {
        let (records, bytes) = segments.records();
        let is_small = state.records + records <= VERIFIED_RECORDS_MAX
            && state.bytes + bytes <= VERIFIED_BYTES_MAX;
        let counted = guard(doing, || {
            if is_small {
                match database::count(&database, Some(&replies), &state) {
                    // A file that cannot be read at present must not keep the store from opening.
                    Err(error @ Error::Directory { .. }) => {
                        tracing::warn!(%error, "the store is not counted");
                    }
                    counted => counted?,
                }
                segments.count()?;
            }
            segments.rest()
        });
        if counted.as_ref().is_err_and(Error::is_damage) {
            segments.abandon();
        }
        counted.map(|()| (state, segments))
    });
    match counted {
        Ok((state, segments)) => Ok(Loaded { database, state, segments, replies }),
        Err(error) => {
            // Of another error, such as a full disk, nothing stays behind that would hold the files
            // when they are opened once more.
            if error.is_damage() {
                abandon(database);
            }
            Err(error)
        }
    }
}
