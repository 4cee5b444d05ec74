//! What databases and tools of the kind `query` mean: where files are, and what is the default.

use std::path::Path;

use config::Team;
use tools::ToolKind;
use tools::builtin::Builtin;
use tools::query::{DatabaseSpec, Databases, InitScript, QuerySpec, SqliteSpec};
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
    Databases::open(&team.databases, Path::new("unused")).unwrap();
    let tool = "[tools.find]\nkind = 'query'\ndescription = 'd'\ndatabase = 'd'\n\
                statement = 'select title from film'";
    for database in [
        "file = 'made.db'\nread_only = true".to_owned(),
        format!("file = '{made}'\nread_only = true"),
        format!("file = '{made}'"),
    ] {
        let added = format!("[databases.d]\nkind = 'sqlite'\n{database}\n{tool}");
        let team = loaded(folder.path(), &added);
        let databases = Databases::open(&team.databases, Path::new("unused")).unwrap();
        let ToolKind::Query(spec) = &team.tools["find"].kind else { panic!() };
        databases.check(&Name::new("find").unwrap(), spec).unwrap();
    }
}
