//! The databases of a team.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

use tools::SecretRef;
use tools::query::{
    DatabaseSpec, InitScript, Login, Neo4jSpec, PostgresSpec, SqliteSpec, Tls, Trial, TrialFault,
};
use wire::{ErrorCode, Name};

use super::Compiler;
use crate::bound::{DATABASE_CONNECTIONS, INIT_BYTES_MAX};
use crate::raw::{RawDatabase, RawDatabaseKind, RawSecret};
use crate::secrecy::may_hold_login;

/// Where a server is looked for if the file says nothing.
const LOOPBACK: &str = "127.0.0.1";

/// The port on which servers of PostgreSQL listen.
const POSTGRES_PORT: u16 = 5432;

/// Fields of a database that is a file.
const FILE_FIELDS: [&str; 2] = ["file", "init"];

/// Fields of a database that is on a server.
const SERVER_FIELDS: [&str; 7] =
    ["host", "port", "database", "user", "password", "tls", "connections"];

/// The ports on which Neo4j is reached over HTTP, without and with encryption.
const NEO4J_PORTS: [u16; 2] = [7474, 7473];

/// The database that every server of Neo4j has.
const NEO4J_DATABASE: &str = "neo4j";

/// How the kinds are written, to say where a field belongs.
const SQLITE: &str = "`kind = \"sqlite\"`";
const POSTGRES: &str = "`kind = \"postgres\"`";
const NEO4J: &str = "`kind = \"neo4j\"`";

/// The databases that have no faults of their own, with what statements are compiled against.
pub(super) type Databases = BTreeMap<Name, (DatabaseSpec, Box<dyn Trial>)>;

impl Compiler<'_> {
    pub(super) fn databases(&mut self, raw: BTreeMap<String, RawDatabase>) -> Databases {
        let mut files = BTreeSet::new();
        let mut databases = Databases::new();
        for (name, raw) in self.named("databases", raw) {
            let path = ["databases", name.as_str()];
            let Some(spec) = self.database(&path, raw) else { continue };
            if let DatabaseSpec::Sqlite(sqlite) = &spec
                && !sqlite.read_only
                && !files.insert(sqlite.file.clone())
            {
                let message = format!("the file of database `{name}` is that of another one");
                self.fault(&["databases", name.as_str(), "file"], message, "name another file");
                continue;
            }
            match spec.trial() {
                Ok(trial) => drop(databases.insert(name, (spec, trial))),
                Err(fault) => self.trial_fault(&path, &spec, fault),
            }
        }
        databases
    }

    fn database(&mut self, path: &[&str; 2], raw: RawDatabase) -> Option<DatabaseSpec> {
        match raw.kind {
            RawDatabaseKind::Sqlite => {
                self.foreign_fields(path, &SERVER_FIELDS, "`kind = \"postgres\"` or \"neo4j\"");
                self.foreign_fields(path, &["tls_ca"], POSTGRES);
                self.foreign_fields(path, &["token"], NEO4J);
                self.sqlite(path, raw).map(DatabaseSpec::Sqlite)
            }
            RawDatabaseKind::Postgres => {
                self.foreign_fields(path, &FILE_FIELDS, SQLITE);
                self.foreign_fields(path, &["token"], NEO4J);
                self.postgres(path, raw).map(DatabaseSpec::Postgres)
            }
            RawDatabaseKind::Neo4j => {
                self.foreign_fields(path, &FILE_FIELDS, SQLITE);
                self.foreign_fields(path, &["tls_ca"], POSTGRES);
                self.neo4j(path, raw).map(DatabaseSpec::Neo4j)
            }
        }
    }

    fn sqlite(&mut self, path: &[&str; 2], raw: RawDatabase) -> Option<SqliteSpec> {
        let [table, own] = *path;
        let read_only = raw.read_only.unwrap_or(false);
        let file = match (raw.file, read_only) {
            (Some(file), _) if file.trim().is_empty() => {
                self.fault(&[table, own, "file"], "`file` is empty", "write the database's file");
                return None;
            }
            (Some(file), true) => self.path_of(&file),
            (Some(file), false) => self.own_file(&[table, own, "file"], &file)?,
            (None, true) => {
                self.needed(
                    path,
                    "file",
                    None,
                    "the file that is there, relative to the team file",
                );
                return None;
            }
            (None, false) => PathBuf::from(format!("{own}.db")),
        };
        if read_only && raw.init.is_some() {
            self.fault_at_key(
                &[table, own, "init"],
                "a database that is only read cannot be filled",
                "remove `init` or `read_only`",
            );
            return None;
        }
        let init = match &raw.init {
            None => None,
            Some(file) => {
                let text = self.read(&[table, own, "init"], file, INIT_BYTES_MAX)?;
                Some(InitScript { file: self.path_of(file), text })
            }
        };
        Some(SqliteSpec { file, read_only, init })
    }

    fn postgres(&mut self, path: &[&str; 2], raw: RawDatabase) -> Option<PostgresSpec> {
        let host = self.host(path, raw.host, true)?;
        let database = self.needed(path, "database", raw.database, "its name on the server");
        let user = self.needed(path, "user", raw.user, "the user on the server");
        let password = self.password(path, raw.password);
        let tls = self.tls(&host, raw.tls, raw.tls_ca);
        if tls == Tls::Off {
            self.foreign_fields(path, &["tls_ca"], "`tls = true`");
        }
        Some(PostgresSpec {
            host,
            port: raw.port.unwrap_or(POSTGRES_PORT),
            database: database?,
            user: user?,
            password,
            tls,
            read_only: raw.read_only.unwrap_or(false),
            connections: connections(raw.connections),
        })
    }

    fn neo4j(&mut self, path: &[&str; 2], raw: RawDatabase) -> Option<Neo4jSpec> {
        let [table, own] = *path;
        let host = self.host(path, raw.host, false)?;
        let tls = self.tls(&host, raw.tls, None) != Tls::Off;
        let [open_port, port] = NEO4J_PORTS;
        let port = raw.port.unwrap_or(if tls { port } else { open_port });
        let scheme = if tls { "https" } else { "http" };
        let is_v6 = host.contains(':');
        let host = if is_v6 { format!("[{host}]") } else { host };
        let database = raw.database.unwrap_or_else(|| NEO4J_DATABASE.to_owned());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if database.is_empty() || !database.chars().all(is_plain) {
            let message = format!("{database:?} is no name of a database");
            let help = "use letters, digits, dots and dashes";
            self.fault(&[table, own, "database"], message, help);
            return None;
        }
        let token = self.bare_secret(path, ["token", "`token`", "a token"], raw.token);
        let password = self.password(path, raw.password);
        let login = match (raw.user, password, token) {
            (None, None, None) => Login::Anonymous,
            (Some(user), Some(password), None) => Login::User { user, password },
            (None, None, Some(token)) => Login::Token(token),
            _ => {
                let message = format!("database `{own}` does not say clearly who logs in");
                self.fault(path, message, "write `user` and `password`, or `token` alone");
                return None;
            }
        };
        Some(Neo4jSpec {
            url: format!("{scheme}://{host}:{port}"),
            database,
            login,
            read_only: raw.read_only.unwrap_or(false),
            connections: connections(raw.connections),
        })
    }

    /// Takes the name or address of a server, without anything around it, or where it may be, the
    /// directory of a socket.
    fn host(
        &mut self,
        path: &[&str; 2],
        host: Option<String>,
        takes_socket: bool,
    ) -> Option<String> {
        let [table, own] = *path;
        let host = host.unwrap_or_else(|| LOOPBACK.to_owned());
        let is_odd = |c: char| {
            c.is_whitespace() || c.is_control() || matches!(c, '@' | '?' | '#' | '\\' | ',')
        };
        let is_socket = takes_socket && host.starts_with('/');
        let has_port = host.parse::<IpAddr>().is_err() && host.contains(':');
        if host.is_empty()
            || host.contains(is_odd)
            || !is_socket && (has_port || host.contains('/'))
        {
            let what = if may_hold_login(&host) {
                self.report.hide(self.document.value_span(&[table, own, "host"]));
                "this".to_owned()
            } else {
                format!("{host:?}")
            };
            let message = format!("{what} is no name of a machine");
            let help = "write the name or the address alone, such as `db.example.com`";
            self.fault(&[table, own, "host"], message, help);
            return None;
        }
        Some(host)
    }

    fn password(&mut self, path: &[&str; 2], raw: Option<RawSecret>) -> Option<SecretRef> {
        self.bare_secret(path, ["password", "`password`", "a password"], raw)
    }

    /// Takes a secret that is sent as it is: its field, how that is quoted, and what it is.
    fn bare_secret(
        &mut self,
        path: &[&str; 2],
        [field, quoted, what]: [&str; 3],
        raw: Option<RawSecret>,
    ) -> Option<SecretRef> {
        let [table, own] = *path;
        let raw = raw?;
        if raw.prefix.is_some() {
            let at = [table, own, field, "prefix"];
            self.fault_at_key(&at, format!("nothing stands before {what}"), "remove `prefix`");
        }
        self.secret_value(&[table, own, field], quoted, raw).map(|(_, secret)| secret)
    }

    /// Says how a connection is protected: always, unless it stays on the machine or the file says
    /// otherwise.
    fn tls(&self, host: &str, tls: Option<bool>, authorities: Option<String>) -> Tls {
        let stays = host == "localhost"
            || host.starts_with('/')
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if tls.unwrap_or(!stays || authorities.is_some()) {
            return Tls::Verify { authorities: authorities.map(|file| self.path_of(&file)) };
        }
        Tls::Off
    }

    /// Takes the file of a database that is written: one with a name of its own in the directory
    /// of the team's databases, or an absolute path.
    fn own_file(&mut self, path: &[&str], file: &str) -> Option<PathBuf> {
        let written = Path::new(file);
        let is_plain = written.components().all(|part| matches!(part, Component::Normal(_)));
        if is_plain || written.is_absolute() {
            return Some(written.to_owned());
        }
        let help = "write a name such as `films.db`, an absolute path, or `read_only = true`";
        self.fault(
            path,
            format!("file `{file}` leaves the directory of the team's databases"),
            help,
        );
        None
    }

    fn trial_fault(&mut self, path: &[&str; 2], spec: &DatabaseSpec, fault: TrialFault) {
        let [table, own] = *path;
        match fault {
            TrialFault::Script { offset, message } => {
                let DatabaseSpec::Sqlite(SqliteSpec { init: Some(init), .. }) = spec else {
                    return;
                };
                let InitScript { file, text } = init;
                let source = self.report.add_source(file, text);
                let end = |at: usize| text.get(at..).map_or(at, |rest| at + first_word(rest));
                let span = offset.map(|at| at..end(at));
                let message = format!("fill database `{own}`: {message}");
                let help = "change the script; it is run as a whole when the database is made";
                let code = ErrorCode::ConfigInvalid;
                self.report.add_in(source, code, span, message, help.to_owned());
            }
            TrialFault::File { message } => {
                let span = self.span(&[table, own, "file"]);
                let message = format!("database `{own}` cannot be read: {message}");
                let help = "check the file; paths are relative to the team file".to_owned();
                self.report.add_in(0, ErrorCode::FileUnreadable, span, message, help);
            }
        }
    }
}

fn connections(written: Option<u32>) -> usize {
    let connections = written.map_or(DATABASE_CONNECTIONS.default, u64::from);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

/// Counts the bytes of the word at the beginning of a text, at least one character.
fn first_word(text: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let word = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    word.max(text.chars().next().map_or(0, char::len_utf8))
}
