//! One guarded connection: how it is set up, filled, and how it performs a call.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::limits::Limit;
use rusqlite::{Batch, Connection, ErrorCode, OpenFlags};
use serde_json::{Map, Value};

use super::super::database::{
    Columns, Described, Fault, Parameter, ResultSet, Results, TrialFault, Work,
};
use super::guard::Guard;
use super::{told, value};

/// Bytes of one value or one row: many times what a model reads, and little enough that a few
/// careless calls at once do not fill the memory.
const VALUE_BYTES_MAX: i32 = 16 << 20;

/// Compiled statements that a connection keeps; a team has hardly more on one database.
const STATEMENTS_KEPT: usize = 64;

/// How long a call waits for another process that holds the database. Longer holds are told, since
/// a call that waits for a lock cannot be stopped.
const BUSY_TIME: Duration = Duration::from_secs(2);

/// Steps of the database's machine between two looks at whether to stop: some 10 µs of work.
const STEPS_BETWEEN_LOOKS: i32 = 1000;

/// Looks after which a script that fills a database is stopped: a minute or two of work, so that
/// one without end is told and does not hold up a check of the team file for ever.
const SCRIPT_LOOKS_MAX: u64 = 5_000_000;

/// Pages of 4 KiB of a database in memory, 256 MiB: many times what a script of a few MiB makes, and
/// little enough that a script without end does not take all memory.
const MEMORY_PAGES_MAX: u32 = 65_536;

/// Marks a file that a script of a team has filled, in the place that files of `SQLite` have for
/// the program to which they belong: `Cbrd`.
const FILLED: i64 = 0x4362_7264;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

pub(super) struct Link {
    connection: Connection,
    guard: Guard,
    access: Access,
}

impl Link {
    /// Opens a file that is there.
    pub(super) fn open(file: &Path, access: Access) -> rusqlite::Result<Self> {
        let flags = match access {
            Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        // A relative path that begins with `file:` would be taken for an address with options.
        let file =
            std::path::absolute(file).map_err(|_| rusqlite::Error::InvalidPath(file.to_owned()))?;
        let connection =
            Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        Self::set_up(connection, access)
    }

    /// Makes an empty database that is gone with the connection.
    pub(super) fn in_memory() -> rusqlite::Result<Self> {
        let connection = Connection::open_in_memory()?;
        connection.pragma_update(None, "max_page_count", MEMORY_PAGES_MAX)?;
        Self::set_up(connection, Access::Write)
    }

    fn set_up(mut connection: Connection, access: Access) -> rusqlite::Result<Self> {
        for (setting, on) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            // A file may come from anywhere; its views and triggers call no dangerous function.
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            // A misspelt column in double quotes is an error and not a text.
            (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        ] {
            connection.set_db_config(setting, on)?;
        }
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.busy_timeout(BUSY_TIME)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        match access {
            Access::Read => connection.pragma_update(None, "query_only", true)?,
            Access::Write => {
                // A call that was answered has taken effect, also after a loss of power.
                connection.pragma_update(None, "journal_mode", "wal")?;
                connection.pragma_update(None, "synchronous", "full")?;
            }
        }
        let guard = Guard::new(&mut connection)?;
        Ok(Self { connection, guard, access })
    }

    /// Reads something, so that a file that is no database is found out.
    pub(super) fn touch(&self) -> rusqlite::Result<()> {
        self.connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))
    }

    /// Runs the script of a database that is empty, as a whole or not at all.
    pub(super) fn fill(&mut self, script: Option<&str>) -> Result<(), TrialFault> {
        let Some(script) = script else { return Ok(()) };
        let mut looks = 0;
        let watch = move || {
            looks += 1;
            looks > SCRIPT_LOOKS_MAX
        };
        self.connection
            .progress_handler(STEPS_BETWEEN_LOOKS, Some(watch))
            .map_err(|error| TrialFault::File { message: told(&error) })?;
        let number = |sql: &str| {
            let found = self.connection.query_row(sql, [], |row| row.get::<_, i64>(0));
            found.map_err(|error| TrialFault::File { message: told(&error) })
        };
        self.own("begin immediate")?;
        // Asked within the transaction, so that of two processes only one fills the database.
        let done = (|| {
            if self.guard.lift(|| number("pragma application_id"))? == FILLED {
                return Ok(());
            }
            if number("select count(*) from sqlite_schema")? > 0 {
                let message = "it has tables and was not made by `init`; remove `init`, or name \
                               another file";
                return Err(TrialFault::File { message: message.to_owned() });
            }
            self.run_script(script)?;
            self.own(&format!("pragma application_id = {FILLED}"))
        })();
        match done {
            Ok(()) => self.own("commit"),
            Err(fault) => {
                self.own("rollback")?;
                Err(fault)
            }
        }
    }

    fn run_script(&self, script: &str) -> Result<(), TrialFault> {
        let mut batch = Batch::new(&self.connection, script);
        let mut number = 0_usize;
        loop {
            number += 1;
            let failed = |error: &rusqlite::Error| {
                // What was not yet compiled comes back with the error.
                let offset = match error {
                    rusqlite::Error::SqlInputError { sql, offset, .. } => {
                        let begin = script.len().saturating_sub(sql.len());
                        usize::try_from(*offset).ok().map(|offset| begin + offset)
                    }
                    _ => None,
                };
                let said = match error {
                    rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
                    other => told(other),
                };
                TrialFault::Script { offset, message: format!("statement {number}: {said}") }
            };
            let Some(mut statement) = batch.next().map_err(|error| failed(&error))? else {
                return Ok(());
            };
            let mut rows = statement.raw_query();
            while rows.next().map_err(|error| failed(&error))?.is_some() {}
        }
    }

    /// Runs a statement of ours.
    fn own(&self, statement: &str) -> Result<(), TrialFault> {
        let done = self.guard.lift(|| self.connection.execute_batch(statement));
        done.map_err(|error| TrialFault::File { message: told(&error) })
    }

    pub(super) fn describe(&self, statement: &str) -> Result<Described, String> {
        let prepared = self.connection.prepare(statement).map_err(|error| match error {
            rusqlite::Error::MultipleStatement => {
                "there is more than one statement; write them as `statements = [..]`".to_owned()
            }
            error => told(&error),
        })?;
        if prepared.column_count() == 0 && prepared.readonly() {
            return Err("there is no statement".to_owned());
        }
        let parameters = 1..=prepared.parameter_count();
        Ok(Described {
            parameters: parameters
                .map(|index| Parameter::colon(prepared.parameter_name(index).unwrap_or_default()))
                .collect(),
            columns: Columns::Known(prepared.column_names().map(str::to_owned).collect()),
            is_read: prepared.readonly(),
        })
    }

    /// Performs a call, and tells whether the connection can be used again.
    pub(super) fn perform(
        &mut self,
        work: &Work,
        stop: &Arc<AtomicBool>,
    ) -> (Result<Value, Fault>, bool) {
        let watched = stop.clone();
        let watch = move || watched.load(Ordering::Relaxed);
        if let Err(error) = self.connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(watch)) {
            return (Err(fault(&error)), false);
        }
        let done = self.transaction(work, stop);
        let is_sound = self.connection.is_autocommit() && !matches!(done, Err(Fault::Unsure(_)));
        (done, is_sound)
    }

    fn transaction(&self, work: &Work, stop: &AtomicBool) -> Result<Value, Fault> {
        let begin = match self.access {
            Access::Read => "begin",
            Access::Write => "begin immediate",
        };
        self.guard.lift(|| self.connection.execute_batch(begin)).map_err(|error| fault(&error))?;
        let done = self.run_all(work).and_then(|results| {
            let written = work.query.form.write(&results, &work.arguments).map_err(Fault::Form)?;
            if stop.load(Ordering::Relaxed) { Err(Fault::Stopped) } else { Ok(written) }
        });
        match done {
            Ok(written) => match self.guard.lift(|| self.connection.execute_batch("commit")) {
                Ok(()) => Ok(written),
                Err(error) => {
                    let is_refused = self.refused_commit(&error);
                    self.undo();
                    // A reader has nothing to lose, and one that could not begin to commit did not.
                    Err(match (self.access, fault(&error)) {
                        (Access::Write, Fault::Statement(message)) if !is_refused => {
                            Fault::Unsure(format!("commit: {message}"))
                        }
                        (_, fault) => fault,
                    })
                }
            },
            Err(fault) => {
                self.undo();
                Err(fault)
            }
        }
    }

    /// Tells whether a constraint that is checked at the end refused a transaction, which is open
    /// still: one of which nothing is durable.
    fn refused_commit(&self, error: &rusqlite::Error) -> bool {
        error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
            && !self.connection.is_autocommit()
    }

    /// Ends a transaction as if it had not been; one that stays open closes the connection.
    fn undo(&self) {
        if !self.connection.is_autocommit() {
            drop(self.guard.lift(|| self.connection.execute_batch("rollback")));
        }
    }

    fn run_all(&self, work: &Work) -> Result<Results, Fault> {
        let mut results = Results::default();
        for statement in &work.query.statements {
            let set = self.run_one(statement, work, &mut results)?;
            results.sets.push(set);
        }
        Ok(results)
    }

    fn run_one(
        &self,
        statement: &str,
        work: &Work,
        results: &mut Results,
    ) -> Result<ResultSet, Fault> {
        let failed = |error: rusqlite::Error| fault(&error);
        let mut statement = self.connection.prepare_cached(statement).map_err(failed)?;
        for index in 1..=statement.parameter_count() {
            let name = statement.parameter_name(index).unwrap_or_default();
            let name = name.trim_start_matches(':').to_owned();
            let given = work.values.get(&name).unwrap_or(&Value::Null);
            let bound = value::bound(given)
                .map_err(|fault| Fault::Argument(format!("argument {name:?}: {fault}")))?;
            statement
                .raw_bind_parameter(index, bound)
                .map_err(|error| Fault::Argument(format!("argument {name:?}: {}", told(&error))))?;
        }
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut set = ResultSet { has_columns: !columns.is_empty(), rows: Vec::new() };
        let changes_before = self.connection.total_changes();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(failed)? {
            let mut read = Map::new();
            for (index, column) in columns.iter().enumerate() {
                read.insert(column.clone(), value::read(row.get_ref(index).map_err(failed)?));
            }
            if !results.add(&mut set, read, &work.query) {
                break;
            }
        }
        drop(rows);
        // The count of a statement stays until the next one that changes rows.
        if self.connection.total_changes() != changes_before {
            results.changed += self.connection.changes();
        }
        Ok(set)
    }
}

/// Says what an error means for a call.
pub(super) fn fault(error: &rusqlite::Error) -> Fault {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => Fault::Stopped,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Fault::Busy("another process holds it".to_owned())
        }
        _ => Fault::Statement(told(error)),
    }
}
