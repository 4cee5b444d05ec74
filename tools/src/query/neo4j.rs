//! Graphs: servers that take Cypher over HTTP, as Neo4j's Query API has it.

mod exchange;
mod statement;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::database::{Database, Described, Fault, Results, Trial, Work, detached};
use crate::secret::SecretRef;
use exchange::{Ending, Exchange};

/// A graph as a team file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neo4jSpec {
    /// The address of the server, such as `http://127.0.0.1:7474`.
    pub url: String,
    /// The database on the server.
    pub database: String,
    /// Who we are.
    pub login: Login,
    /// Whether no tool may write.
    pub read_only: bool,
    /// The most calls at once; further ones wait for their place.
    pub connections: usize,
}

/// Says to a server who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// Nobody in particular.
    Anonymous,
    /// A user with a password.
    User {
        /// The user.
        user: String,
        /// The password.
        password: SecretRef,
    },
    /// Whoever knows the token.
    Token(SecretRef),
}

/// A graph on a server, which is asked by the first call.
pub(crate) struct Neo4j {
    shared: Arc<Shared>,
}

struct Shared {
    exchange: Exchange,
    read_only: bool,
    places: Arc<Semaphore>,
}

impl Neo4j {
    pub(super) fn new(spec: &Neo4jSpec, client: reqwest::Client) -> Self {
        let shared = Shared {
            exchange: Exchange::new(spec, client),
            read_only: spec.read_only,
            places: Arc::new(Semaphore::new(spec.connections)),
        };
        Self { shared: Arc::new(shared) }
    }

    async fn work(&self, work: Work) -> Result<Value, Fault> {
        let end = Instant::now() + work.remaining;
        if work.query.writes && self.shared.read_only {
            return Err(Fault::Statement("the database is read-only".to_owned()));
        }
        let Ok(Ok(place)) = timeout_at(end, self.shared.places.clone().acquire_owned()).await
        else {
            return Err(Fault::Full);
        };
        let shared = self.shared.clone();
        // So that a transaction is undone also if nobody waits any more.
        detached(|stop| async move {
            let done = shared.perform(&work, end, &stop).await;
            drop(place);
            done
        })
        .await
    }
}

impl Shared {
    async fn perform(
        &self,
        work: &Work,
        end: Instant,
        stop: &CancellationToken,
    ) -> Result<Value, Fault> {
        let mut open = None;
        let worked = tokio::select! {
            biased;
            () = stop.cancelled() => Err(Fault::Stopped),
            () = tokio::time::sleep_until(end) => Err(Fault::Stopped),
            worked = self.run_all(work, end, &mut open) => worked,
        };
        let Some(transaction) = open else { return worked };
        match worked {
            Ok(value) => {
                self.exchange.end(&transaction, Ending::Commit).await?;
                Ok(value)
            }
            Err(fault) => {
                // What stays open is undone by the server after a while.
                drop(self.exchange.end(&transaction, Ending::Rollback).await);
                Err(fault)
            }
        }
    }

    /// Runs the statements: one that only reads by itself, others in a transaction, which is left
    /// open for its end to be decided.
    async fn run_all(
        &self,
        work: &Work,
        end: Instant,
        open: &mut Option<exchange::Transaction>,
    ) -> Result<Value, Fault> {
        let is_alone = !work.query.writes && work.query.statements.len() == 1;
        let mut results = Results::default();
        for statement in &work.query.statements {
            let parsed = statement::parsed(statement).map_err(Fault::Statement)?;
            let seconds = end.saturating_duration_since(Instant::now()).as_secs() + 1;
            let told = if is_alone {
                self.exchange.ask(work, statement, seconds).await?
            } else {
                self.exchange.ask_within(work, statement, seconds, open).await?
            };
            let set = told.into_set(work, &mut results, parsed.columns.has_some())?;
            results.sets.push(set);
        }
        work.written(results).await
    }
}

impl Database for Neo4j {
    fn run(&self, work: Work) -> BoxFuture<'_, Result<Value, Fault>> {
        Box::pin(self.work(work))
    }
}

/// Reads statements without a server, which may be away while a team is checked.
pub(super) struct Neo4jTrial {
    pub(super) is_read_only: bool,
}

impl Trial for Neo4jTrial {
    fn describe(&self, statement: &str) -> Result<Described, String> {
        statement::parsed(statement)
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn parameter(&self, name: &str) -> String {
        format!("${name}")
    }
}
