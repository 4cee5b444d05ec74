//! One database of sled: opened, checked, and left behind when it is damaged.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::error::Error;
use crate::home;
use crate::key;
use crate::pending::{self, Pending, State};
use crate::replies::Replies;

/// The number of the arrangement of keys and rows. Another number means that the store is replaced.
const SCHEMA: u32 = 11;

/// How a database is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    /// What sled may keep in memory, in bytes, instead of its default of 1 GiB.
    pub(crate) cache_bytes: u64,
    /// How often sled writes out by itself what it holds, in milliseconds, if it does.
    pub(crate) flush_every_ms: Option<u64>,
}

/// How sled's files begin and end that say where all stands, while they are written.
const UNFINISHED: (&str, &str) = ("snap.", ".generating");
/// How sled says that somebody else has the database.
const LOCKED: &str = "could not acquire lock";

/// Opens a database, or makes one.
pub(crate) fn start(dir: &Path, holding: Holding) -> Result<sled::Db, Error> {
    remove_unfinished(dir)?;
    let opened = sled::Config::new()
        .path(dir)
        .cache_capacity(holding.cache_bytes)
        .flush_every_ms(holding.flush_every_ms)
        .open();
    opened.map_err(|error| match error {
        sled::Error::Io(io) if io.to_string().starts_with(LOCKED) => {
            Error::InUse { dir: dir.to_owned() }
        }
        error => Error::engine("open the store", error),
    })
}

/// Removes what an opening left that did not come to its end, as on a full disk. sled takes it for
/// whole, and all else for damaged.
fn remove_unfinished(dir: &Path) -> Result<(), Error> {
    let Ok(files) = std::fs::read_dir(dir) else { return Ok(()) };
    for file in files.flatten() {
        let name = file.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1) {
            let path = file.path();
            std::fs::remove_file(&path).map_err(home::failed("delete", &path))?;
        }
    }
    Ok(())
}

/// Puts the beginnings into an empty database.
pub(crate) fn begin(database: &sled::Db, doing: &'static str) -> Result<(), Error> {
    database
        .insert(key::SCHEMA, &SCHEMA.to_be_bytes())
        .map_err(|error| Error::engine(doing, error))?;
    Pending::new(database, State::default()).commit().map(drop)
}

/// Reads what a database that was left sound knows of itself.
pub(crate) fn state(database: &sled::Db, doing: &'static str) -> Result<State, Error> {
    let schema = database.get(key::SCHEMA).map_err(|error| Error::engine(doing, error))?;
    match schema.as_deref() {
        Some(schema) if *schema == SCHEMA.to_be_bytes() => {}
        Some(_) => return Err(Error::damaged(doing, "it is of another version")),
        None => return Err(Error::damaged(doing, "its records are gone")),
    }
    State::load(database)?.ok_or_else(|| Error::damaged(doing, "its state is gone"))
}

/// Writes out what was applied, so that it survives the end of the process.
pub(crate) fn flush(database: &sled::Db) -> Result<(), Error> {
    database.flush().map(|_| ()).map_err(|error| Error::engine("flush the store", error))
}

/// Reads every record, also those in files, and compares their number and checksums with what was
/// counted.
pub(crate) fn count(
    tree: &sled::Tree,
    replies: Option<&Replies>,
    state: &State,
) -> Result<(), Error> {
    let doing = "verify the store";
    let mut counted = State::default();
    for entry in tree {
        let (key, value) = entry.map_err(|error| Error::engine(doing, error))?;
        if key::heads_record(&key) {
            let (checksum, bytes) = pending::check(tree, replies, &key, &value)?;
            counted.count(checksum, bytes);
        }
    }
    if (counted.records, counted.checksums) == (state.records, state.checksums) {
        Ok(())
    } else {
        let reason = format!("{} records where {} were written", counted.records, state.records);
        Err(Error::damaged(doing, reason))
    }
}

/// Leaves a damaged database as it is. Closing one waits for threads that may have died of the
/// damage; what stays behind is its cache and an idle thread.
pub(crate) fn abandon(database: sled::Db) {
    std::mem::forget(database);
}

/// Runs something on sled, which panics where it meets damage.
pub(crate) fn guard<T>(
    doing: &'static str,
    run: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Error::damaged(doing, text.unwrap_or("sled panicked")))
    })
}
