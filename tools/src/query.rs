//! Tools that are statements of a database: the semantic layer of an agent.
//!
//! A statement is written once, in the team file. A model gives values for its parameters, which
//! are bound and never become part of the text.

mod database;
mod form;
mod neo4j;
mod pool;
mod postgres;
mod scan;
mod sqlite;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use wire::{CallOutcome, EffectClass, ErrorCode, Name, ToolReply, WireError};

use crate::argument;
use crate::tool::{Tool, ToolContext};
use database::{Database, Fault, Query, Work};
use form::Form;

pub use database::{Columns, DatabaseSpec, Databases, Described, Parameter, Trial, TrialFault};
pub use neo4j::{Login, Neo4jSpec};
pub use postgres::{PostgresSpec, Tls};
pub use sqlite::{InitScript, READERS_MAX, SqliteSpec};

/// What every statement may name besides the tool's parameters: the key of the call, the same on
/// every attempt, and who calls.
pub const CONTEXT: [&str; 3] = ["call_key", "session", "agent"];

/// The time before the end of a call in which the statements are stopped and undone, so that it is
/// known how the call ended. At most a tenth of the call's time.
const ANSWER_MARGIN: Duration = Duration::from_millis(200);

/// How long to wait before asking again a database that another process holds, in milliseconds.
const BUSY_RETRY_MS: u64 = 1000;

/// Statements on a database, and how what they return becomes the result of the call.
#[derive(Clone, Debug, PartialEq)]
pub struct QuerySpec {
    /// The database of the team.
    pub database: Name,
    /// The statements, performed in order in one transaction. `:name` stands for the argument of
    /// that name, or for one of [`CONTEXT`]; an argument that is absent is NULL.
    pub statements: Vec<String>,
    /// The names of the tool's parameters.
    pub parameters: Vec<String>,
    /// A template of the result; absent means rows as JSON.
    pub result: Option<String>,
    /// What may be repeated; the statements of a `read` tool write nothing.
    pub effect: EffectClass,
    /// The most rows of each statement; further ones are left out, and the result says so.
    pub rows_max: usize,
    /// The most bytes of rows and of the text made of them; the rest is left out, and the result
    /// says so.
    pub response_bytes_max: usize,
}

/// The part of a [`QuerySpec`] that is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryPart {
    /// A statement, by its index.
    Statement(usize),
    /// The template of the result.
    Result,
    /// The parameters.
    Parameters,
}

/// What is wrong with a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryFault {
    /// Where.
    pub part: QueryPart,
    /// What.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl QuerySpec {
    /// Returns the faults of the statements and of the result against the database.
    pub fn check(&self, trial: &dyn Trial) -> Vec<QueryFault> {
        let known: Vec<&str> = self.parameters.iter().map(String::as_str).collect();
        let mut faults = Vec::new();
        let mut told = |part, message, help: &str| {
            faults.push(QueryFault { part, message, help: help.to_owned() });
        };
        for name in known.iter().filter(|name| CONTEXT.contains(name)) {
            let message = format!("parameter {name:?} has the name of a value of the runtime");
            told(QueryPart::Parameters, message, "rename the parameter");
        }
        let mut used = BTreeSet::new();
        let mut described = Vec::new();
        for (index, statement) in self.statements.iter().enumerate() {
            let part = QueryPart::Statement(index);
            match trial.describe(statement) {
                Ok(found) => {
                    for (message, help) in self.faults_of(&found, &known, trial) {
                        told(part, message, &help);
                    }
                    used.extend(found.parameters.iter().filter_map(|parameter| match parameter {
                        Parameter::Named(name) => Some(name.clone()),
                        Parameter::Strange(_) => None,
                    }));
                    described.push(found);
                }
                Err(message) => told(part, message, "change the statement, or the database"),
            }
        }
        let is_whole = described.len() == self.statements.len();
        let mut uses_all = false;
        match Form::new(self.result.as_deref(), self.response_bytes_max) {
            Ok(form) => {
                uses_all = form.uses_arguments();
                for message in form.check(&described, &known).into_iter().filter(|_| is_whole) {
                    told(QueryPart::Result, message, "change the template of the result");
                }
            }
            Err(message) => {
                told(QueryPart::Result, message, "change the template of the result");
            }
        }
        for name in known.iter().filter(|name| is_whole && !uses_all && !used.contains(**name)) {
            let message = format!("parameter {name:?} appears in no statement");
            told(QueryPart::Parameters, message, "name it in a statement, or remove it");
        }
        faults
    }

    fn faults_of(
        &self,
        statement: &Described,
        known: &[&str],
        trial: &dyn Trial,
    ) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        for parameter in &statement.parameters {
            match parameter {
                Parameter::Strange(written) => faults.push((
                    format!("a parameter is written as `{written}`"),
                    format!("write `{}`", trial.parameter("name")),
                )),
                Parameter::Named(name)
                    if known.contains(&name.as_str()) || CONTEXT.contains(&name.as_str()) => {}
                Parameter::Named(name) => {
                    let always =
                        CONTEXT.map(|name| format!("`{}`", trial.parameter(name))).join(", ");
                    let written = trial.parameter(name);
                    faults.push((
                        format!("`{written}` stands for a parameter that is not declared"),
                        format!("add it to `parameters`; {always} are always there"),
                    ));
                }
            }
        }
        if !statement.is_read && trial.is_read_only() {
            faults.push((
                "the statement writes, and the database is read-only".to_owned(),
                "take `read_only` from the database, or the statement from the tool".to_owned(),
            ));
        } else if !statement.is_read && self.effect == EffectClass::Read {
            faults.push((
                "the statement writes, and the tool does not say so".to_owned(),
                "add `effect = \"idempotent\"` if the same call may run twice, else \"once\""
                    .to_owned(),
            ));
        }
        let mut columns = BTreeSet::new();
        for column in statement.columns.known().iter().filter(|column| !columns.insert(*column)) {
            faults.push((
                format!("two columns of the statement are called {column:?}"),
                "name one of them otherwise, with `as`".to_owned(),
            ));
        }
        faults
    }
}

/// A tool that performs statements on a database of the team.
pub struct QueryTool {
    query: Result<Arc<Query>, String>,
    name: Name,
    parameters: Vec<String>,
    database: Option<Arc<dyn Database>>,
}

impl QueryTool {
    /// Makes the tool; one whose database is not open, or whose template does not compile, answers
    /// every call with that.
    pub fn new(spec: QuerySpec, databases: &Databases) -> Self {
        let bytes_max = spec.response_bytes_max;
        let form = Form::new(spec.result.as_deref(), bytes_max);
        let query = form.map(|form| {
            let writes = spec.effect != EffectClass::Read;
            let (statements, rows_max) = (spec.statements, spec.rows_max);
            Arc::new(Query { statements, writes, rows_max, bytes_max, form })
        });
        Self {
            query,
            database: databases.find(&spec.database),
            name: spec.database,
            parameters: spec.parameters,
        }
    }

    async fn perform(&self, context: &ToolContext, arguments: &Value) -> ToolReply {
        let unavailable = |why: &str| {
            let message = format!("database {}: {why}", self.name);
            ToolReply::settled(CallOutcome::error(ErrorCode::ToolUnavailable, message))
        };
        let query = match &self.query {
            Ok(query) => query.clone(),
            Err(fault) => return unavailable(&format!("the template of the result: {fault}")),
        };
        let Some(database) = &self.database else { return unavailable("it is not open") };
        let Some(arguments) = arguments.as_object() else {
            let fault = argument::invalid("the arguments have to be an object");
            return ToolReply::settled(fault);
        };
        // What is absent is null in the template as well, which may then ask whether it is there.
        let given = |name: &String| arguments.get(name).cloned().unwrap_or_default();
        let arguments: Map<String, Value> =
            self.parameters.iter().map(|name| (name.clone(), given(name))).collect();
        let mut values = arguments.clone();
        let caller = [context.call.as_str(), context.session.as_str(), context.agent.as_str()];
        values.extend(CONTEXT.map(str::to_owned).into_iter().zip(caller.map(Value::from)));
        let margin = ANSWER_MARGIN.min(context.remaining / 10);
        let remaining = context.remaining.saturating_sub(margin);
        let work = Work { query, values, arguments, remaining };
        match database.run(work).await {
            Ok(output) => ToolReply::settled(CallOutcome::Ok { output }),
            Err(fault) => self.reply(fault, remaining),
        }
    }

    fn reply(&self, fault: Fault, limit: Duration) -> ToolReply {
        let name = &self.name;
        let failed = |text: String| {
            WireError::new(ErrorCode::ToolFailed, format!("database {name}: {text}"))
        };
        let error = match fault {
            Fault::Argument(fault) => return ToolReply::settled(argument::invalid(fault)),
            Fault::Statement(fault) => failed(fault),
            Fault::Form(fault) => failed(format!("the result cannot be written: {fault}")),
            Fault::Busy(fault) => failed(fault).retry_after(BUSY_RETRY_MS),
            Fault::Away(fault) => {
                let text = format!("database {name}: {fault}; nothing was changed");
                WireError::new(ErrorCode::ToolUnavailable, text).retry_after(BUSY_RETRY_MS)
            }
            Fault::Full => {
                let text = format!("database {name}: all places stayed taken; nothing was done");
                WireError::new(ErrorCode::Overloaded, text).retry_after(BUSY_RETRY_MS)
            }
            Fault::Stopped => {
                let millis = limit.as_millis();
                let text = format!(
                    "database {name}: stopped after {millis} ms; nothing was changed; ask for less"
                );
                WireError::new(ErrorCode::ToolTimeout, text)
            }
            Fault::Unsure(fault) => {
                let error = failed(format!("{fault}; it may have taken effect"));
                return ToolReply::unanswered(error);
            }
        };
        ToolReply::settled(CallOutcome::Error { error })
    }
}

impl Tool for QueryTool {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(self.perform(context, arguments))
    }
}
