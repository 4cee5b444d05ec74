//! Databases of PostgreSQL: a server that is reached over the network by a few connections.

mod bound;
mod bounded;
mod link;
mod read;
mod server;
mod statement;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::database::{Database, Described, Fault, Trial, Work, detached};
use super::pool::Pool;
use crate::secret::SecretRef;
use link::{Done, Link};
use server::Server;
use statement::{Numbering, Parsed};

/// A database of PostgreSQL as a team file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresSpec {
    /// The name or address of the server's machine, or the directory of its socket.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The database on the server.
    pub database: String,
    /// The user; what it may do is for the server to say.
    pub user: String,
    /// The user's password.
    pub password: Option<SecretRef>,
    /// How the connection is protected.
    pub tls: Tls,
    /// Whether no tool may write.
    pub read_only: bool,
    /// The most connections at once; further calls wait for their place.
    pub connections: usize,
}

/// How a connection to a server is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Not at all.
    Off,
    /// Encrypted, to a server that shows a certificate for its name, signed by an authority that
    /// the system knows or by one of a file.
    Verify {
        /// The file of authorities, in place of those that the system knows.
        authorities: Option<PathBuf>,
    },
}

/// A database on a server, to which nothing is connected before the first call.
pub(crate) struct Postgres {
    shared: Arc<Shared>,
}

struct Shared {
    server: Server,
    read_only: bool,
    pool: Pool<Link>,
}

impl Postgres {
    /// Prepares to connect; reads the file of authorities. Blocks on the disk.
    pub(super) fn open(spec: &PostgresSpec) -> Result<Self, String> {
        let server = Server::new(spec)?;
        let pool = Pool::new(spec.connections);
        Ok(Self { shared: Arc::new(Shared { server, read_only: spec.read_only, pool }) })
    }

    async fn work(&self, work: Work) -> Result<Value, Fault> {
        let end = Instant::now() + work.remaining;
        if work.query.writes && self.shared.read_only {
            return Err(Fault::Statement("the database is read-only".to_owned()));
        }
        let Ok(place) = timeout_at(end, self.shared.pool.place()).await else {
            return Err(Fault::Full);
        };
        let shared = self.shared.clone();
        // So that statements are stopped on the server also if nobody waits any more.
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
        // Kept connections may have been lost meanwhile, with a restart of the server for example.
        while let Some(mut link) = self.pool.take() {
            if let Some(done) = self.use_link(&mut link, work, end, stop).await {
                return self.put_back(link, done);
            }
        }
        let connect = async {
            tokio::select! {
                link = self.server.connect() => link,
                () = stop.cancelled() => Err(Fault::Stopped),
            }
        };
        let mut link = timeout_at(end, connect).await.unwrap_or_else(|_| {
            Err(Fault::Away(format!("{} did not answer in time", self.server.place())))
        })?;
        match self.use_link(&mut link, work, end, stop).await {
            Some(done) => self.put_back(link, done),
            None => Err(Fault::Away(format!("{} closed the connection", self.server.place()))),
        }
    }

    /// Performs the work, or nothing at all if the connection is lost already.
    async fn use_link(
        &self,
        link: &mut Link,
        work: &Work,
        end: Instant,
        stop: &CancellationToken,
    ) -> Option<Done> {
        if link.is_usable() { link.perform(work, end, stop, &self.server).await } else { None }
    }

    fn put_back(&self, link: Link, done: Done) -> Result<Value, Fault> {
        if done.is_sound {
            self.pool.give(link.rested());
        }
        done.result
    }
}

impl Database for Postgres {
    fn run(&self, work: Work) -> BoxFuture<'_, Result<Value, Fault>> {
        Box::pin(self.work(work))
    }
}

/// Reads statements without a server, which may be away while a team is checked.
pub(super) struct PostgresTrial {
    pub(super) is_read_only: bool,
}

impl Trial for PostgresTrial {
    fn describe(&self, statement: &str) -> Result<Described, String> {
        Parsed::new(statement, Numbering::Shared).map(Parsed::into_described)
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }
}
