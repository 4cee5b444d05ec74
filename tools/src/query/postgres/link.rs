//! One connection: how it performs a call, and what its errors mean.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, pin_mut};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Connection, Error, IsolationLevel, Portal, Statement, Transaction};
use tokio_util::sync::CancellationToken;

use super::super::database::{Fault, ResultSet, Results, Work};
use super::bound::Bound;
use super::bounded::{Excess, MESSAGE_BYTES_MAX};
use super::read::{Raw, Unread};
use super::server::{Server, cause};
use super::statement::{Numbering, Parsed};

/// Prepared statements that a connection keeps; a team has hardly more on one database.
const STATEMENTS_KEPT: usize = 64;

/// How long a connection is kept that nobody uses; below the minutes after which firewalls forget
/// it without a word.
const IDLE: Duration = Duration::from_secs(120);

/// Rows that are asked for at once, so that a result that is cut is not read to its end.
const ROWS_AT_ONCE: i32 = 256;

/// How long a server may take to stop a statement, or to undo what it did. A connection on which
/// it takes longer is closed, which undoes it too.
const UNDO_TIME: Duration = Duration::from_secs(2);

/// How long a server may take to make durable what was done; afterwards it is not known.
const COMMIT_TIME: Duration = Duration::from_secs(10);

pub(super) struct Link {
    client: Client,
    driver: JoinHandle<Result<(), Error>>,
    excess: Excess,
    kept: HashMap<String, Arc<Prepared>>,
    used: Instant,
}

impl Drop for Link {
    fn drop(&mut self) {
        // Closes the socket at once, also if the server does not answer any more.
        self.driver.abort();
    }
}

struct Prepared {
    statement: Statement,
    parsed: Parsed,
}

/// What came of a call, and whether the connection serves another.
pub(super) struct Done {
    pub(super) result: Result<Value, Fault>,
    pub(super) is_sound: bool,
}

/// Whether an error took the connection with it.
pub(super) enum Lost {
    Yes,
    No(Fault),
}

impl Link {
    /// Takes a connection, whose excess is noted in `excess`.
    pub(super) fn new<S, T>(
        (client, connection): (Client, Connection<S, T>),
        excess: Excess,
    ) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let driver = tokio::spawn(connection);
        Self { client, driver, excess, kept: HashMap::new(), used: Instant::now() }
    }

    /// Tells whether a call may be tried on it.
    pub(super) fn is_usable(&self) -> bool {
        !self.client.is_closed() && self.used.elapsed() < IDLE
    }

    /// Notes that it is not used from here on.
    pub(super) fn rested(mut self) -> Self {
        self.used = Instant::now();
        self
    }

    /// Performs a call in one transaction; nothing if the connection turns out to be lost before
    /// the transaction began.
    pub(super) async fn perform(
        &mut self,
        work: &Work,
        end: Instant,
        stop: &CancellationToken,
        server: &Server,
    ) -> Option<Done> {
        let writes = work.query.writes;
        // Several statements of a reader see one state of the database.
        let isolation =
            if writes { IsolationLevel::ReadCommitted } else { IsolationLevel::RepeatableRead };
        let token = self.client.cancel_token();
        let begin =
            self.client.build_transaction().isolation_level(isolation).read_only(!writes).start();
        let transaction = match timeout_at(end, begin).await {
            Err(_) => return Some(Done { result: Err(Fault::Stopped), is_sound: false }),
            Ok(Ok(transaction)) => transaction,
            Ok(Err(error)) => match fault(&error) {
                Lost::Yes => return None,
                Lost::No(fault) => return Some(Done { result: Err(fault), is_sound: false }),
            },
        };
        let worked = {
            let work = run_all(&transaction, &mut self.kept, work, end);
            tokio::select! {
                biased;
                () = stop.cancelled() => None,
                () = sleep_until(end) => None,
                worked = work => Some(worked),
            }
        };
        let result = match worked {
            None => {
                // The request to stop may come late and meet the next call, so that the connection
                // is given up with it.
                if timeout(UNDO_TIME, server.cancel(&token)).await.is_ok() {
                    drop(timeout(UNDO_TIME, transaction.rollback()).await);
                }
                return Some(Done { result: Err(Fault::Stopped), is_sound: false });
            }
            // The server undoes what it did for a connection that is closed.
            Some(Err(_)) if self.excess.is_there() => {
                let text =
                    format!("a row has more than {MESSAGE_BYTES_MAX} bytes; ask for less of it");
                return Some(Done { result: Err(Fault::Statement(text)), is_sound: false });
            }
            Some(Err(fault)) => {
                let undone = timeout(UNDO_TIME, transaction.rollback()).await;
                return Some(Done { result: Err(fault), is_sound: matches!(undone, Ok(Ok(()))) });
            }
            Some(Ok(value)) if writes => match timeout(COMMIT_TIME, transaction.commit()).await {
                Ok(Ok(())) => Ok(value),
                Ok(Err(error)) => Err(refused_commit(&error)),
                Err(_) => Err(Fault::Unsure("commit: the server did not answer".to_owned())),
            },
            // Settings that a statement made are gone with it.
            Some(Ok(value)) => {
                let undone = timeout(UNDO_TIME, transaction.rollback()).await;
                return Some(Done { result: Ok(value), is_sound: matches!(undone, Ok(Ok(()))) });
            }
        };
        let is_sound = result.is_ok() && !self.client.is_closed();
        Some(Done { result, is_sound })
    }
}

async fn run_all(
    transaction: &Transaction<'_>,
    kept: &mut HashMap<String, Arc<Prepared>>,
    work: &Work,
    end: Instant,
) -> Result<Value, Fault> {
    let left = end.saturating_duration_since(Instant::now()).as_millis().max(1);
    // The server stops by itself, also if we are gone or cut off.
    let limits = format!(
        "set local statement_timeout = {left}; set local idle_in_transaction_session_timeout = {left}"
    );
    batch(transaction, &limits).await?;
    let mut results = Results::default();
    for statement in &work.query.statements {
        let prepared = if let Some(prepared) = kept.get(statement) {
            prepared.clone()
        } else {
            let prepared = Arc::new(prepare(transaction, statement).await?);
            if kept.len() >= STATEMENTS_KEPT {
                kept.clear();
            }
            kept.insert(statement.clone(), prepared.clone());
            prepared
        };
        let set = run_one(transaction, &prepared, work, &mut results).await;
        if set.is_err() {
            // Its tables may have been changed since it was prepared.
            kept.remove(statement);
        }
        results.sets.push(set?);
    }
    work.written(results).await
}

/// Prepares a statement. Parameters get the type that the server expects where they stand, and
/// text where it does not tell.
async fn prepare(transaction: &Transaction<'_>, text: &str) -> Result<Prepared, Fault> {
    let mut parsed = Parsed::new(text, Numbering::Shared).map_err(Fault::Statement)?;
    let mut types = vec![Type::UNKNOWN; parsed.names.len()];
    let mut numbering = Numbering::Shared;
    let statement = loop {
        // A failed attempt spoils the transaction, but for what stands before a savepoint.
        batch(transaction, "savepoint prepare").await?;
        let error = match transaction.prepare_typed(&parsed.sql, &types).await {
            Ok(statement) => break statement,
            Err(error) => error,
        };
        let Some(number) = untyped(&error) else { return Err(settled(&error)) };
        match numbering {
            // `:x is null or year = :x` tells no type in its first place.
            Numbering::Shared => {
                numbering = Numbering::Apart;
                parsed = Parsed::new(text, numbering).map_err(Fault::Statement)?;
                types = vec![Type::UNKNOWN; parsed.names.len()];
            }
            Numbering::Apart => match types.get_mut(number - 1) {
                Some(place) if *place == Type::UNKNOWN => *place = Type::TEXT,
                _ => return Err(settled(&error)),
            },
        }
        batch(transaction, "rollback to savepoint prepare").await?;
    };
    let mut names = std::collections::BTreeSet::new();
    if let Some(column) = statement.columns().iter().find(|column| !names.insert(column.name())) {
        let name = column.name();
        let message = format!(
            "two columns of the statement are called {name:?}; name one of them otherwise, with `as`"
        );
        return Err(Fault::Statement(message));
    }
    Ok(Prepared { statement, parsed })
}

async fn batch(transaction: &Transaction<'_>, statements: &str) -> Result<(), Fault> {
    transaction.batch_execute(statements).await.map_err(|error| settled(&error))
}

/// Returns the number of the parameter for which the server finds no type, or several.
fn untyped(error: &Error) -> Option<usize> {
    let error = error.as_db_error()?;
    let codes = [SqlState::INDETERMINATE_DATATYPE, SqlState::AMBIGUOUS_PARAMETER];
    codes.contains(error.code()).then(|| number_of(error.message()))?
}

/// Finds the first `$n` of a message.
fn number_of(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once('$')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..end)?.parse().ok().filter(|number| *number > 0)
}

async fn run_one(
    transaction: &Transaction<'_>,
    prepared: &Prepared,
    work: &Work,
    results: &mut Results,
) -> Result<ResultSet, Fault> {
    let Prepared { statement, parsed } = prepared;
    let mut values = Vec::new();
    for (name, expected) in parsed.names.iter().zip(statement.params()) {
        let given = work.values.get(name).unwrap_or(&Value::Null);
        let bound = Bound::new(given, expected)
            .map_err(|fault| Fault::Argument(format!("argument {name:?}: {fault}")))?;
        values.push(bound);
    }
    let portal = transaction
        .bind_raw(statement, values)
        .await
        .map_err(|error| argument(&error, parsed).unwrap_or_else(|| settled(&error)))?;
    let mut set = ResultSet { has_columns: !statement.columns().is_empty(), rows: Vec::new() };
    // What writes is read to its end, which says how much it changed.
    let (mut has_room, mut returned) = (true, 0);
    loop {
        let page = page(transaction, &portal, statement, work, results, (&mut set, &mut has_room));
        let (rows, end) = page.await?;
        returned += rows;
        if let Some(told) = end.filter(|_| parsed.counts) {
            // Of rows that it returned the server tells only how many there were since last asked.
            results.changed += if set.has_columns { returned } else { told };
        }
        if end.is_some() || !has_room && parsed.is_read() {
            return Ok(set);
        }
    }
}

/// Reads a few rows and counts them; at the end of all, says what the server tells of their number.
async fn page(
    transaction: &Transaction<'_>,
    portal: &Portal,
    statement: &Statement,
    work: &Work,
    results: &mut Results,
    (set, has_room): (&mut ResultSet, &mut bool),
) -> Result<(u64, Option<u64>), Fault> {
    let rows = transaction.query_portal_raw(portal, ROWS_AT_ONCE).await;
    let rows = rows.map_err(|error| settled(&error))?;
    pin_mut!(rows);
    let mut count = 0;
    while let Some(row) = rows.next().await {
        let row = row.map_err(|error| settled(&error))?;
        count += 1;
        if !*has_room {
            continue;
        }
        let mut read = Map::new();
        for (index, column) in statement.columns().iter().enumerate() {
            let name = column.name();
            let raw: Raw<'_> = row.try_get(index).map_err(|error| settled(&error))?;
            let value = raw.read(column.type_()).map_err(|fault| {
                Fault::Statement(match fault {
                    Unread::Type(of) => {
                        format!("column {name:?} is of type {of}, which has no form in JSON; cast it with `::text`")
                    }
                    Unread::Broken => format!("column {name:?} cannot be read; cast it with `::text`"),
                })
            })?;
            read.insert(name.to_owned(), value);
        }
        *has_room = results.add(set, read, &work.query);
    }
    Ok((count, rows.rows_affected()))
}

/// Says that an argument is nothing that its parameter takes, if that is what an error means.
fn argument(error: &Error, parsed: &Parsed) -> Option<Fault> {
    let error = error.as_db_error()?;
    if !error.code().code().starts_with("22") {
        return None;
    }
    // While values are read, the server tells at which of them it is.
    let index = number_of(error.where_()?)?.checked_sub(1)?;
    let name = parsed.names.get(index)?;
    Some(Fault::Argument(format!("argument {name:?}: {}", error.message())))
}

/// Says what an error means before anything was made durable.
fn settled(error: &Error) -> Fault {
    match fault(error) {
        Lost::No(fault) => fault,
        Lost::Yes => Fault::Away(format!("the connection broke: {}", cause(error))),
    }
}

/// Says what an error means, unless the connection is gone with it.
pub(super) fn fault(error: &Error) -> Lost {
    let Some(told) = error.as_db_error() else {
        let source = std::error::Error::source(error);
        let is_lost =
            error.is_closed() || source.is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
        return if is_lost { Lost::Yes } else { Lost::No(Fault::Statement(cause(error))) };
    };
    let text = match told.detail() {
        Some(detail) => format!("{}: {detail}", told.message()),
        None => told.message().to_owned(),
    };
    Lost::No(match told.code().code() {
        "57014" => Fault::Stopped,
        "40001" | "40P01" | "55P03" => Fault::Busy(text),
        "53300" => Fault::Full,
        // Shut down, starting, or terminated by somebody.
        code if code.starts_with("57P") || code.starts_with("08") => return Lost::Yes,
        // The user or the password.
        code if code.starts_with("28") => Fault::Away(text),
        _ => Fault::Statement(text),
    })
}

/// Says what an error of a commit means: what the server refuses did not happen, and what it did
/// not answer may have.
fn refused_commit(error: &Error) -> Fault {
    match fault(error) {
        Lost::No(Fault::Statement(text)) if is_refusal(error) => Fault::Statement(text),
        Lost::No(fault @ Fault::Busy(_)) => fault,
        Lost::No(_) | Lost::Yes => Fault::Unsure(format!("commit: {}", cause(error))),
    }
}

/// Tells whether the server says of a transaction that it did not take place: a constraint that is
/// checked at the end, or another transaction that came first.
fn is_refusal(error: &Error) -> bool {
    let code = error.code().map(SqlState::code).unwrap_or_default();
    ["22", "23", "25", "40", "42", "44", "P0"].iter().any(|class| code.starts_with(class))
        && code != "40003"
}
