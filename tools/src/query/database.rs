//! The databases of a team: as a team file describes them, open, and on trial.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use wire::{ErrorCode, Name, WireError};

use super::QuerySpec;
use super::form::Form;
use super::neo4j::{Neo4j, Neo4jSpec, Neo4jTrial};
use super::postgres::{Postgres, PostgresSpec, PostgresTrial};
use super::sqlite::{Sqlite, SqliteSpec, SqliteTrial};

/// A database as a team file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseSpec {
    /// A file of `SQLite`.
    Sqlite(SqliteSpec),
    /// A database on a server of PostgreSQL.
    Postgres(PostgresSpec),
    /// A graph on a server of Neo4j.
    Neo4j(Neo4jSpec),
}

/// Runs statements for tools.
pub(crate) trait Database: Send + Sync {
    /// Runs all statements of a query in one transaction, which stands only if its result could
    /// be written. Work whose future is dropped is stopped, and undone unless it had just ended.
    fn run(&self, work: Work) -> BoxFuture<'_, Result<Value, Fault>>;
}

/// Performs work in a task of its own, which is told to stop when this future is dropped, and then
/// has the time to put things in order.
pub(super) async fn detached<F>(
    perform: impl FnOnce(CancellationToken) -> F,
) -> Result<Value, Fault>
where
    F: Future<Output = Result<Value, Fault>> + Send + 'static,
{
    let stop = CancellationToken::new();
    let job = tokio::spawn(perform(stop.clone()));
    let _stop = stop.drop_guard();
    job.await.unwrap_or_else(|error| Err(Fault::Unsure(format!("its task ended: {error}"))))
}

/// One call of a query.
pub(crate) struct Work {
    pub(crate) query: Arc<Query>,
    /// What the statements name, without the colon; what is absent is NULL.
    pub(crate) values: Map<String, Value>,
    /// The arguments, for the text of the result.
    pub(crate) arguments: Map<String, Value>,
    /// The time for all of it.
    pub(crate) remaining: Duration,
}

impl Work {
    /// Writes what the statements returned; with a template on a thread that may compute for long.
    pub(super) async fn written(&self, results: Results) -> Result<Value, Fault> {
        if !self.query.form.has_template() {
            return self.query.form.write(&results, &self.arguments).map_err(Fault::Form);
        }
        let (query, arguments) = (self.query.clone(), self.arguments.clone());
        let written = spawn_blocking(move || query.form.write(&results, &arguments)).await;
        let ended = |error| Err(format!("its thread ended: {error}"));
        written.unwrap_or_else(ended).map_err(Fault::Form)
    }
}

/// What is the same in all calls of a tool.
pub(crate) struct Query {
    pub(crate) statements: Vec<String>,
    /// Whether the statements may write.
    pub(crate) writes: bool,
    /// The most rows of each result set.
    pub(crate) rows_max: usize,
    /// The most bytes of all rows as JSON.
    pub(crate) bytes_max: usize,
    pub(crate) form: Form,
}

/// Why a call has no result. Unless it is [`Fault::Unsure`], nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A value is none that the database knows.
    Argument(String),
    /// A statement failed.
    Statement(String),
    /// The result could not be written.
    Form(String),
    /// Another process or another call holds what was wanted.
    Busy(String),
    /// The database cannot be reached.
    Away(String),
    /// All places were taken until the time was over.
    Full,
    /// The time was over, and the statements were stopped.
    Stopped,
    /// It is not known whether the transaction stands.
    Unsure(String),
}

/// What the statements returned.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Results {
    /// One for each statement.
    pub(crate) sets: Vec<ResultSet>,
    /// Rows that were inserted, updated or deleted.
    pub(crate) changed: u64,
    /// What was left out.
    pub(crate) cut: Option<Cut>,
    /// The bytes of all rows as JSON.
    bytes: usize,
}

impl Results {
    /// Adds a row to a set that is not among the results yet, and tells whether there was room.
    pub(crate) fn add(
        &mut self,
        set: &mut ResultSet,
        row: Map<String, Value>,
        query: &Query,
    ) -> bool {
        if set.rows.len() == query.rows_max {
            self.cut.get_or_insert(Cut::Rows(query.rows_max));
            return false;
        }
        let row = Value::Object(row);
        let bytes = self.bytes + row.to_string().len();
        if bytes > query.bytes_max {
            self.cut.get_or_insert(Cut::Bytes(query.bytes_max));
            return false;
        }
        self.bytes = bytes;
        if let Value::Object(row) = row {
            set.rows.push(row);
        }
        true
    }
}

/// What one statement returned.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResultSet {
    /// Whether the statement returns rows at all.
    pub(crate) has_columns: bool,
    pub(crate) rows: Vec<Map<String, Value>>,
}

/// Why rows were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A result set has more rows than this.
    Rows(usize),
    /// The rows together have more bytes than this.
    Bytes(usize),
}

impl Cut {
    /// Tells a model what it does not see.
    pub(crate) fn to_text(self) -> String {
        match self {
            Self::Rows(rows) => format!("cut after {rows} rows; there are more, ask for less"),
            Self::Bytes(bytes) => {
                format!("cut after {bytes} bytes; there are more rows, ask for less")
            }
        }
    }
}

/// A database against which statements are compiled and not run.
pub trait Trial {
    /// Compiles one statement; the error says what is wrong, and where in it.
    fn describe(&self, statement: &str) -> Result<Described, String>;

    /// Tells whether the database takes no writes at all.
    fn is_read_only(&self) -> bool;

    /// Returns how a parameter is written in a statement.
    fn parameter(&self, name: &str) -> String {
        format!(":{name}")
    }
}

/// What a statement is, as its database sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The parameters, each as often as it is written.
    pub parameters: Vec<Parameter>,
    /// The columns that it returns.
    pub columns: Columns,
    /// Whether it changes nothing.
    pub is_read: bool,
}

/// A parameter in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// One with a name.
    Named(String),
    /// One that is written in another way, such as by number.
    Strange(String),
}

impl Parameter {
    /// Reads what is written; a name has a colon before it.
    pub(crate) fn colon(written: &str) -> Self {
        match written.strip_prefix(':').filter(|name| !name.is_empty()) {
            Some(name) => Self::Named(name.to_owned()),
            None => Self::Strange(if written.is_empty() { "?" } else { written }.to_owned()),
        }
    }
}

/// What a statement returns, as far as it is known before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Columns of these names; none if it returns no rows.
    Known(Vec<String>),
    /// Columns whose names only the database knows.
    Open,
}

impl Columns {
    /// Returns the names that are known.
    pub(crate) fn known(&self) -> &[String] {
        match self {
            Self::Known(names) => names,
            Self::Open => &[],
        }
    }

    /// Tells whether the statement returns rows.
    pub(crate) fn has_some(&self) -> bool {
        match self {
            Self::Known(names) => !names.is_empty(),
            Self::Open => true,
        }
    }
}

/// Why a database cannot be put on trial.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrialFault {
    /// The script that fills it is wrong.
    #[error("{message}")]
    Script {
        /// The byte of the script, if it is known.
        offset: Option<usize>,
        /// What is wrong.
        message: String,
    },
    /// The file cannot be read.
    #[error("{message}")]
    File {
        /// What is wrong.
        message: String,
    },
}

impl DatabaseSpec {
    /// Makes the database as it is before its first call, to compile statements against: a file in
    /// memory by its script, or the file itself if it is there and has no script. Writes nothing and
    /// calls nobody: of a server only the language is known.
    pub fn trial(&self) -> Result<Box<dyn Trial>, TrialFault> {
        match self {
            Self::Sqlite(spec) => Ok(Box::new(SqliteTrial::new(spec)?)),
            Self::Postgres(spec) => Ok(Box::new(PostgresTrial { is_read_only: spec.read_only })),
            Self::Neo4j(spec) => Ok(Box::new(Neo4jTrial { is_read_only: spec.read_only })),
        }
    }
}

/// The open databases of a team, by name.
#[derive(Clone, Default)]
pub struct Databases {
    open: BTreeMap<Name, Open>,
}

#[derive(Clone)]
enum Open {
    Sqlite(Arc<Sqlite>),
    Postgres(Arc<Postgres>),
    Neo4j(Arc<Neo4j>),
}

impl Databases {
    /// Opens the databases of a team, those of relative paths below `dir`, and runs the scripts
    /// of those that are made. Those on servers are reached by their first call. Blocks on the disk.
    pub fn open(
        specs: &BTreeMap<Name, DatabaseSpec>,
        dir: &Path,
        http: &reqwest::Client,
    ) -> Result<Self, WireError> {
        let mut open = BTreeMap::new();
        for (name, spec) in specs {
            let opened = match spec {
                DatabaseSpec::Sqlite(spec) => {
                    Sqlite::open(spec, dir).map(|opened| Open::Sqlite(Arc::new(opened)))
                }
                DatabaseSpec::Postgres(spec) => {
                    Postgres::open(spec).map(|opened| Open::Postgres(Arc::new(opened)))
                }
                DatabaseSpec::Neo4j(spec) => {
                    Ok(Open::Neo4j(Arc::new(Neo4j::new(spec, http.clone()))))
                }
            };
            let opened = opened.map_err(|fault| {
                WireError::new(ErrorCode::StorageFailed, format!("open database {name}: {fault}"))
            })?;
            open.insert(name.clone(), opened);
        }
        Ok(Self { open })
    }

    /// Checks that the statements of a tool still fit a database, which may be older than the team
    /// file. Blocks on the disk.
    pub fn check(&self, tool: &Name, spec: &QuerySpec) -> Result<(), WireError> {
        let failed = |code, fault: &str| {
            let database = &spec.database;
            WireError::new(code, format!("tool {tool}: database {database}: {fault}"))
        };
        let database = match self.open.get(&spec.database) {
            None => return Err(failed(ErrorCode::ConfigInvalid, "it is not there")),
            Some(Open::Sqlite(database)) => database,
            // Its statements were read with the team file, and nothing older is there.
            Some(Open::Postgres(_) | Open::Neo4j(_)) => return Ok(()),
        };
        let trial = database.trial().map_err(|fault| failed(ErrorCode::StorageFailed, &fault))?;
        match spec.check(&trial).first() {
            None => Ok(()),
            Some(fault) => {
                let advice = "the file was made by an earlier script or by other means; bring it \
                              up to the team file, or move it away so that it is made anew";
                let text = format!("{}; {advice}", fault.message);
                Err(failed(ErrorCode::ConfigInvalid, &text))
            }
        }
    }

    pub(crate) fn find(&self, name: &Name) -> Option<Arc<dyn Database>> {
        Some(match self.open.get(name)? {
            Open::Sqlite(database) => database.clone(),
            Open::Postgres(database) => database.clone(),
            Open::Neo4j(database) => database.clone(),
        })
    }
}
