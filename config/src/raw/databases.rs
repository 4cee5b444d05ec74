//! The tables of databases.

use schemars::JsonSchema;
use serde::Deserialize;

use super::RawSecret;
use crate::bound as b;

/// One database.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawDatabase {
    /// What it is.
    pub(crate) kind: RawDatabaseKind,
    /// Kind `sqlite`: the file. One that is written is made if it is not there, below the data directory of the team unless it is absolute; one that is only read is relative to the team file.
    pub(crate) file: Option<String>,
    /// Whether no tool may write; of kind `sqlite`, whether the file is there already and is never written.
    #[schemars(extend("default" = false))]
    pub(crate) read_only: Option<bool>,
    /// Kind `sqlite`: the file of SQL statements that are run, all or none, when the database is made.
    pub(crate) init: Option<String>,
    /// Not for `sqlite`: the server's name or address, of kind `postgres` also the directory of its socket; 127.0.0.1 if absent.
    pub(crate) host: Option<String>,
    /// Not for `sqlite`: the server's port; 5432 of kind `postgres`, 7474 of kind `neo4j` and 7473 with `tls` if absent.
    #[schemars(range(min = b::PORT.min, max = b::PORT.max))]
    pub(crate) port: Option<u16>,
    /// Not for `sqlite`: the name that the database has on the server; `neo4j` of kind `neo4j` if absent.
    pub(crate) database: Option<String>,
    /// Not for `sqlite`: the user; what it may do is for the server to say.
    pub(crate) user: Option<String>,
    /// Not for `sqlite`: the user's password, a secret.
    pub(crate) password: Option<RawSecret>,
    /// Kind `neo4j`: a token in place of user and password, a secret.
    pub(crate) token: Option<RawSecret>,
    /// Not for `sqlite`: whether the connection is encrypted, to a server that shows a certificate for its name; false for a server on the same machine, else true.
    pub(crate) tls: Option<bool>,
    /// Kind `postgres`: the file of certificates, in PEM form, that the server's is checked by; those that the system knows if absent.
    pub(crate) tls_ca: Option<String>,
    /// Not for `sqlite`: connections at once; calls beyond them wait.
    #[schemars(range(min = b::DATABASE_CONNECTIONS.min, max = b::DATABASE_CONNECTIONS.max), extend("default" = b::DATABASE_CONNECTIONS.default))]
    pub(crate) connections: Option<u32>,
}

/// What a database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawDatabaseKind {
    /// A file of `SQLite`.
    Sqlite,
    /// A database on a server of PostgreSQL.
    Postgres,
    /// A graph on a server that takes Cypher over HTTP as Neo4j does.
    Neo4j,
}
