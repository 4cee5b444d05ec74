//! Open databases of each kind, and calls on them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tests::postgres::{Postgres, USER};
use tools::SecretRef;
use tools::client::http_client;
use tools::query::{
    DatabaseSpec, Databases, InitScript, PostgresSpec, QuerySpec, QueryTool, SqliteSpec, Tls,
};
use tools::{Tool, ToolContext};
use wire::{CallKey, CallOutcome, EffectClass, ErrorCode, Name, SessionId, ToolReply};

/// How long a call may take on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A database that is called `d`, and what it stands on.
pub(crate) struct House {
    pub(crate) kind: &'static str,
    pub(crate) databases: Databases,
    pub(crate) server: Option<Postgres>,
    _folder: Option<TempDir>,
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn context(remaining: Duration) -> ToolContext {
    let (call, agent) = (CallKey::new("k1").unwrap(), name("critic"));
    ToolContext {
        call,
        agent,
        session: SessionId::new("s1").unwrap(),
        ..tools::testing::context(remaining)
    }
}

/// Describes the database of a server.
pub(crate) fn spec_of(server: &Postgres) -> PostgresSpec {
    PostgresSpec {
        host: "127.0.0.1".to_owned(),
        port: server.port,
        database: "postgres".to_owned(),
        user: USER.to_owned(),
        password: Some(SecretRef::File(server.password_file())),
        tls: Tls::Off,
        read_only: false,
        connections: 4,
    }
}

pub(crate) fn open(spec: PostgresSpec) -> Databases {
    let specs = BTreeMap::from([(name("d"), DatabaseSpec::Postgres(spec))]);
    Databases::open(&specs, "unused".as_ref(), &http_client().unwrap()).unwrap()
}

impl House {
    /// Makes a database of each kind with the same tables.
    pub(crate) async fn of_each_kind(script: &str) -> [Self; 2] {
        [Self::sqlite(script), Self::postgres(script).await]
    }

    fn sqlite(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let init = InitScript { file: "d.sql".into(), text: script.to_owned() };
        let spec = SqliteSpec { file: "d.db".into(), read_only: false, init: Some(init) };
        let specs = BTreeMap::from([(name("d"), DatabaseSpec::Sqlite(spec))]);
        let databases = Databases::open(&specs, folder.path(), &http_client().unwrap()).unwrap();
        Self { kind: "sqlite", databases, server: None, _folder: Some(folder) }
    }

    /// Takes databases that stand on a server of somebody else.
    pub(crate) fn of(databases: Databases) -> Self {
        Self { kind: "graph", databases, server: None, _folder: None }
    }

    /// Opens a database of a server that somebody else keeps.
    pub(crate) fn at(spec: PostgresSpec) -> Self {
        Self { kind: "postgres", databases: open(spec), server: None, _folder: None }
    }

    pub(crate) async fn postgres(script: &str) -> Self {
        let server = Postgres::start(&[]).await;
        let spec = spec_of(&server);
        let house = Self { server: Some(server), ..Self::at(spec) };
        let parts: Vec<&str> = script.split(';').filter(|part| !part.trim().is_empty()).collect();
        if !parts.is_empty() {
            house.output(&writing(&parts), Value::Object(serde_json::Map::new())).await;
        }
        house
    }

    pub(crate) async fn reply(
        &self,
        spec: &QuerySpec,
        arguments: Value,
        time: Duration,
    ) -> ToolReply {
        QueryTool::new(spec.clone(), &self.databases).call(&context(time), &arguments).await
    }

    pub(crate) async fn outcome(&self, spec: &QuerySpec, arguments: Value) -> CallOutcome {
        match self.reply(spec, arguments, LONG).await {
            ToolReply::Settled { outcome, .. } => outcome,
            other @ (ToolReply::Lost { .. }
            | ToolReply::Asks { .. }
            | ToolReply::Suspended { .. }) => panic!("{other:?}"),
        }
    }

    pub(crate) async fn output(&self, spec: &QuerySpec, arguments: Value) -> Value {
        match self.outcome(spec, arguments).await {
            CallOutcome::Ok { output } => output,
            other => panic!("{}: {:?}: {other:?}", self.kind, spec.statements),
        }
    }

    pub(crate) async fn error(&self, spec: &QuerySpec, arguments: Value) -> (ErrorCode, String) {
        match self.outcome(spec, arguments).await {
            CallOutcome::Error { error } => (error.code, error.message),
            other => panic!("{}: {:?}: {other:?}", self.kind, spec.statements),
        }
    }
}

/// A tool with the parameters `x` and `y` that reads.
pub(crate) fn reading(statements: &[&str]) -> QuerySpec {
    QuerySpec {
        database: name("d"),
        statements: statements.iter().map(|&statement| statement.to_owned()).collect(),
        parameters: ["x", "y"].map(str::to_owned).to_vec(),
        result: None,
        effect: EffectClass::Read,
        rows_max: 10,
        response_bytes_max: 1000,
    }
}

/// The same for one that writes.
pub(crate) fn writing(statements: &[&str]) -> QuerySpec {
    QuerySpec { effect: EffectClass::Once, ..reading(statements) }
}
