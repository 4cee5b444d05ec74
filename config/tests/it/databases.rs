//! What databases and tools of the kind `query` mean: where files are, and what is the default.

use std::path::Path;

use config::Team;
use tools::builtin::Builtin;
use tools::query::{
    DatabaseSpec, Databases, InitScript, Login, Neo4jSpec, PostgresSpec, QuerySpec, SqliteSpec, Tls,
};
use tools::{SecretRef, ToolKind};
use wire::{EffectClass, Name};

use super::broken::{FINE, files};

fn text(text: &str) -> String {
    text.to_owned()
}

fn loaded(folder: &Path, added: &str) -> Team {
    let read = |path: &Path| match path.strip_prefix(folder) {
        Ok(inner) => files(&Path::new("teams").join(inner)),
        Err(_) => files(path),
    };
    config::parse(&folder.join("t.toml"), &format!("{FINE}{added}"), &read)
        .unwrap_or_else(|report| panic!("{}", report.render(false)))
}

#[test]
fn queries_have_defaults() {
    let team = loaded(
        Path::new("teams"),
        "[databases.films]
         kind = 'sqlite'
         init = 'films.sql'
         [tools.find]
         kind = 'query'
         description = 'Finds.'
         database = 'films'
         statement = 'select title from film where title = :title or :year is null'
         parameters = { title = 'string', year = 'integer?' }
         [tools.add]
         kind = 'query'
         description = 'Adds.'
         database = 'films'
         effect = 'once'
         statements = ['insert into film values (:title)', 'select count(*) as n from film']
         parameters = { type = 'object', properties = { title = { type = ['string', 'null'] } } }
         result = '{{ rows[0].n }}'
         rows_max = 1
         response_bytes_max = 64
         timeout_ms = 9
         [tools.chat]
         kind = 'builtin'
         builtin = 'say'
         description = 'Takes small talk.'
         text = 'Go on.'",
    );
    let init = InitScript {
        file: "teams/films.sql".into(),
        text: text("create table film (title text);"),
    };
    let films = SqliteSpec { file: "films.db".into(), read_only: false, init: Some(init) };
    assert_eq!(team.databases["films"], DatabaseSpec::Sqlite(films));
    let find = QuerySpec {
        database: Name::new("films").unwrap(),
        statements: vec![text("select title from film where title = :title or :year is null")],
        parameters: vec![text("title"), text("year")],
        result: None,
        effect: EffectClass::Read,
        rows_max: 100,
        response_bytes_max: 65_536,
    };
    let add = QuerySpec {
        statements: ["insert into film values (:title)", "select count(*) as n from film"]
            .map(text)
            .to_vec(),
        parameters: vec![text("title")],
        result: Some(text("{{ rows[0].n }}")),
        effect: EffectClass::Once,
        rows_max: 1,
        response_bytes_max: 64,
        ..find.clone()
    };
    for (name, spec, timeout_ms) in [("find", find, 30_000), ("add", add, 9)] {
        let tool = &team.tools[name];
        assert_eq!((tool.offer.effect, tool.offer.timeout_ms), (spec.effect, timeout_ms), "{name}");
        assert_eq!(tool.kind, ToolKind::Query(spec), "{name}");
    }
    let ToolKind::Builtin(Builtin::Say(saying)) = &team.tools["chat"].kind else { panic!() };
    assert_eq!(saying.text, "Go on.");
    assert_eq!(saying.parameters["additionalProperties"], false);
}

#[test]
fn files_that_are_there_are_compiled_against() {
    let folder = tempfile::tempdir().unwrap();
    let made = format!("{}/made.db", folder.path().display());
    // The databases of a team without tools, opened once, so that a file is there.
    let script = format!("[databases.made]\nkind = 'sqlite'\nfile = '{made}'\ninit = 'films.sql'");
    let team = loaded(folder.path(), &script);
    assert!(!Path::new(&made).exists(), "loading a team makes no file");
    let http = tools::client::http_client().unwrap();
    Databases::open(&team.databases, Path::new("unused"), &http).unwrap();
    let tool = "[tools.find]\nkind = 'query'\ndescription = 'd'\ndatabase = 'd'\n\
                statement = 'select title from film'";
    for database in [
        "file = 'made.db'\nread_only = true".to_owned(),
        format!("file = '{made}'\nread_only = true"),
        format!("file = '{made}'"),
    ] {
        let added = format!("[databases.d]\nkind = 'sqlite'\n{database}\n{tool}");
        let team = loaded(folder.path(), &added);
        let databases = Databases::open(&team.databases, Path::new("unused"), &http).unwrap();
        let ToolKind::Query(spec) = &team.tools["find"].kind else { panic!() };
        databases.check(&Name::new("find").unwrap(), spec).unwrap();
    }
}

#[test]
fn servers_have_defaults() {
    let plain = PostgresSpec {
        host: text("127.0.0.1"),
        port: 5432,
        database: text("b"),
        user: text("u"),
        password: None,
        tls: Tls::Off,
        read_only: false,
        connections: 4,
    };
    let verified = |file: Option<&str>| Tls::Verify { authorities: file.map(Into::into) };
    for (added, expected) in [
        ("", plain.clone()),
        (
            "port = 1\npassword = { env = 'P' }\nread_only = true\nconnections = 9",
            PostgresSpec {
                port: 1,
                password: Some(SecretRef::Env(text("P"))),
                read_only: true,
                connections: 9,
                ..plain.clone()
            },
        ),
        ("host = '::1'", PostgresSpec { host: text("::1"), ..plain.clone() }),
        ("host = '/run/pg'", PostgresSpec { host: text("/run/pg"), ..plain.clone() }),
        (
            "host = 'db.example.com'",
            PostgresSpec { host: text("db.example.com"), tls: verified(None), ..plain.clone() },
        ),
        (
            "host = '10.0.0.1'\ntls_ca = 'ca.pem'",
            PostgresSpec {
                host: text("10.0.0.1"),
                tls: verified(Some("teams/ca.pem")),
                ..plain.clone()
            },
        ),
        ("tls = true", PostgresSpec { tls: verified(None), ..plain.clone() }),
        ("host = 'h'\ntls = false", PostgresSpec { host: text("h"), ..plain }),
    ] {
        let added =
            format!("[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\n{added}");
        let team = loaded(Path::new("teams"), &added);
        assert_eq!(team.databases["d"], DatabaseSpec::Postgres(expected), "{added}");
    }
}

#[test]
fn graphs_have_defaults() {
    let secret = |name: &str| SecretRef::Env(text(name));
    let plain = Neo4jSpec {
        url: text("http://127.0.0.1:7474"),
        database: text("neo4j"),
        login: Login::Anonymous,
        read_only: false,
        connections: 4,
    };
    for (added, expected) in [
        ("", plain.clone()),
        (
            "host = 'g.example.com'\nuser = 'u'\npassword = { env = 'P' }\ndatabase = 'films'",
            Neo4jSpec {
                url: text("https://g.example.com:7473"),
                database: text("films"),
                login: Login::User { user: text("u"), password: secret("P") },
                ..plain.clone()
            },
        ),
        (
            "host = '::1'\nport = 1\ntoken = { env = 'T' }\nread_only = true",
            Neo4jSpec {
                url: text("http://[::1]:1"),
                login: Login::Token(secret("T")),
                read_only: true,
                ..plain.clone()
            },
        ),
        (
            "host = 'h'\ntls = false\nconnections = 2",
            Neo4jSpec { url: text("http://h:7474"), connections: 2, ..plain },
        ),
    ] {
        let team = loaded(Path::new("teams"), &format!("[databases.d]\nkind = 'neo4j'\n{added}"));
        assert_eq!(team.databases["d"], DatabaseSpec::Neo4j(expected), "{added}");
    }
}
