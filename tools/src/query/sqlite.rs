//! Databases of `SQLite`: files, opened once and used by a few threads at a time.

mod guard;
mod link;
mod value;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::database::{Database, Described, Fault, Trial, TrialFault, Work};
use super::pool::Pool;
use link::{Access, Link};

/// Statements that read one database at once: disk and processor of one machine serve no more
/// without each getting slower.
pub const READERS_MAX: usize = 4;

/// A database of `SQLite` as a team file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteSpec {
    /// The file: of a database that is written, below the directory of the team's databases unless
    /// it is absolute; of one that is only read, as it is.
    pub file: PathBuf,
    /// Whether the file is there already and is never written.
    pub read_only: bool,
    /// What fills the database when it is made.
    pub init: Option<InitScript>,
}

/// Statements that are run, all or none, when a database is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitScript {
    /// The file from which they come.
    pub file: PathBuf,
    /// The statements.
    pub text: String,
}

impl SqliteSpec {
    fn script(&self) -> Option<&str> {
        self.init.as_ref().map(|script| script.text.as_str())
    }
}

/// An open database.
pub(crate) struct Sqlite {
    file: PathBuf,
    readers: Arc<Links>,
    /// Absent if the database is only read.
    writer: Option<Arc<Links>>,
}

/// The connections of one kind.
struct Links {
    file: PathBuf,
    access: Access,
    pool: Pool<Link>,
}

impl Links {
    fn new(file: &Path, access: Access, places: usize) -> Arc<Self> {
        Arc::new(Self { file: file.to_owned(), access, pool: Pool::new(places) })
    }

    /// Takes a connection, or opens one.
    fn take(&self) -> rusqlite::Result<Link> {
        self.pool.take().map_or_else(|| Link::open(&self.file, self.access), Ok)
    }
}

impl Sqlite {
    /// Opens a database, and makes it if it is not there. Blocks on the disk.
    pub(super) fn open(spec: &SqliteSpec, dir: &Path) -> Result<Self, String> {
        let file = if spec.read_only { spec.file.clone() } else { dir.join(&spec.file) };
        let file = std::path::absolute(&file).map_err(|error| error.to_string())?;
        let at = |fault: String| format!("{}: {fault}", file.display());
        let writer = if spec.read_only {
            None
        } else {
            make_file(&file).map_err(|error| at(error.to_string()))?;
            let mut link = Link::open(&file, Access::Write).map_err(|fault| at(told(&fault)))?;
            link.fill(spec.script()).map_err(|fault| at(fault.to_string()))?;
            Some(Links::new(&file, Access::Write, 1))
        };
        let readers = Links::new(&file, Access::Read, READERS_MAX);
        // Held from here on, so that a file that is no database is told at the start.
        for links in writer.iter().chain([&readers]) {
            let link = links.take().map_err(|fault| at(told(&fault)))?;
            link.touch().map_err(|fault| at(told(&fault)))?;
            links.pool.give(link);
        }
        Ok(Self { file, readers, writer })
    }

    /// Opens another connection, to compile statements against. Blocks on the disk.
    pub(super) fn trial(&self) -> Result<SqliteTrial, String> {
        let link = Link::open(&self.file, Access::Read).map_err(|error| told(&error))?;
        Ok(SqliteTrial { link, is_read_only: self.writer.is_none() })
    }

    async fn work(&self, work: Work) -> Result<Value, Fault> {
        let end = Instant::now() + work.remaining;
        let links = if work.query.writes { self.writer.as_ref() } else { Some(&self.readers) };
        let Some(links) = links.cloned() else {
            return Err(Fault::Statement("the database is read-only".to_owned()));
        };
        let Ok(place) = timeout_at(end, links.pool.place()).await else { return Err(Fault::Full) };
        let stop = Stop::default();
        let mut job = {
            let stop = stop.0.clone();
            spawn_blocking(move || {
                let mut link = links.take().map_err(|error| link::fault(&error))?;
                let (done, is_sound) = link.perform(&work, &stop);
                if is_sound {
                    links.pool.give(link);
                }
                drop(place);
                done
            })
        };
        let joined = if let Ok(joined) = timeout_at(end, &mut job).await {
            joined
        } else {
            stop.0.store(true, Ordering::Relaxed);
            job.await
        };
        joined.unwrap_or_else(|error| Err(Fault::Unsure(format!("its thread ended: {error}"))))
    }
}

impl Database for Sqlite {
    fn run(&self, work: Work) -> BoxFuture<'_, Result<Value, Fault>> {
        Box::pin(self.work(work))
    }
}

/// Stops the statements of a call that nobody waits for any more.
#[derive(Default)]
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection on which statements are compiled only.
pub(super) struct SqliteTrial {
    link: Link,
    is_read_only: bool,
}

impl SqliteTrial {
    pub(super) fn new(spec: &SqliteSpec) -> Result<Self, TrialFault> {
        let of_file = |error: rusqlite::Error| TrialFault::File {
            message: format!("{}: {}", spec.file.display(), told(&error)),
        };
        let is_there = (spec.read_only || spec.file.is_absolute()) && spec.file.exists();
        let link = if spec.read_only || is_there && spec.init.is_none() {
            let link = Link::open(&spec.file, Access::Read).map_err(of_file)?;
            link.touch().map_err(of_file)?;
            link
        } else {
            let mut link = Link::in_memory().map_err(of_file)?;
            link.fill(spec.script())?;
            link
        };
        Ok(Self { link, is_read_only: spec.read_only })
    }
}

impl Trial for SqliteTrial {
    fn describe(&self, statement: &str) -> Result<Described, String> {
        self.link.describe(statement)
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }
}

/// Makes an empty file that only its owner can read, and the directory above it, so that both are
/// still there after a loss of power.
fn make_file(file: &Path) -> io::Result<()> {
    let dir = file.parent().unwrap_or(Path::new("/"));
    if !dir.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        if let Some(above) = dir.parent() {
            File::open(above)?.sync_all()?;
        }
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(_) => File::open(dir)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::metadata(file).and_then(|found| {
                let fault = io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
                if found.is_file() { Ok(()) } else { Err(fault) }
            })
        }
        Err(error) => Err(error),
    }
}

/// Says what went wrong, without the statement itself.
fn told(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, sql, offset, .. } => {
            let before = usize::try_from(*offset).ok().and_then(|offset| sql.get(..offset));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            format!("{msg} (line {line})")
        }
        rusqlite::Error::SqliteFailure(code, None) => code.to_string(),
        rusqlite::Error::SqliteFailure(_, Some(message)) if message == "not authorized" => {
            "not authorized: transactions, other files, temporary tables, pragmas and extensions \
             are not for statements"
                .to_owned()
        }
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    }
}
