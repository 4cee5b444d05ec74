//! Broken databases and tools of the kind `query`, each with what is said about it, where, and what
//! to do.

use std::path::Path;

use wire::ErrorCode;

use super::broken::{FINE, check, files};

const DATABASE: &str = "[databases.d]\nkind = 'sqlite'\ninit = 'films.sql'\n";
const TOOL: &str = "[tools.t]\nkind = 'query'\ndescription = 'd'\ndatabase = 'd'\n";

#[test]
fn one_fault_in_a_database() {
    for (added, line, message, help) in [
        ("[databases.d]", 7, "`databases.d` lacks `kind`", "What it is"),
        ("[databases.d]\nkind = 'sql'", 8, "this is \"sql\"", ""),
        (
            "[databases.d]\nkind = 'postgres'\nuser = 'u'",
            7,
            "`databases.d` lacks `database`",
            "its name",
        ),
        (
            "[databases.d]\nkind = 'postgres'\ndatabase = 'b'",
            7,
            "`databases.d` lacks `user`",
            "on the server",
        ),
        (
            "[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\nhost = 'h:5432'",
            11,
            "\"h:5432\" is no name of a machine",
            "the name or the address alone",
        ),
        (
            "[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\nhost = 'postgres://h/b'",
            11,
            "is no name of a machine",
            "db.example.com",
        ),
        (
            "[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\nport = 0",
            11,
            "must be from 1 to 65535, this is 0",
            "",
        ),
        (
            "[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\nconnections = 65",
            11,
            "must be from 1 to 64, this is 65",
            "",
        ),
        (
            "[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\npassword = {}",
            11,
            "`password` does not say where its secret is",
            "env",
        ),
        (
            "[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\npassword = { env = 'p w' }",
            11,
            "is not the name of an environment variable",
            "never the secret itself",
        ),
        (
            "[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\ntls = false\ntls_ca = 'c.pem'",
            12,
            "`tls_ca` goes with `tls = true` only",
            "remove `tls_ca`",
        ),
        (
            "[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\ninit = 'films.sql'",
            11,
            "`init` goes with `kind = \"sqlite\"` only",
            "remove `init`",
        ),
        (
            "[databases.d]\nkind = 'neo4j'\nuser = 'u'",
            7,
            "database `d` does not say clearly who logs in",
            "`token` alone",
        ),
        (
            "[databases.d]\nkind = 'neo4j'\nuser = 'u'\npassword = { env = 'P' }\ntoken = { env = 'T' }",
            7,
            "does not say clearly who logs in",
            "`user` and `password`",
        ),
        (
            "[databases.d]\nkind = 'neo4j'\nhost = '/db.example.com'",
            9,
            "\"/db.example.com\" is no name of a machine",
            "such as `db.example.com`",
        ),
        ("[databases.d]\nkind = 'neo4j'\nhost = 'db#x'", 9, "is no name of a machine", ""),
        (
            "[databases.d]\nkind = 'neo4j'\ntoken = { env = 'T', prefix = 'X' }",
            9,
            "nothing stands before a token",
            "remove `prefix`",
        ),
        (
            "[databases.d]\nkind = 'neo4j'\ndatabase = 'a/b'",
            9,
            "\"a/b\" is no name of a database",
            "letters",
        ),
        (
            "[databases.d]\nkind = 'neo4j'\ntls_ca = 'c.pem'",
            9,
            "`tls_ca` goes with `kind = \"postgres\"` only",
            "remove `tls_ca`",
        ),
        (
            "[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\ntoken = { env = 'T' }",
            11,
            "`token` goes with `kind = \"neo4j\"` only",
            "remove `token`",
        ),
        (
            "[databases.d]\nkind = 'sqlite'\nuser = 'u'",
            9,
            "`user` goes with `kind = \"postgres\"` or \"neo4j\" only",
            "remove `user`",
        ),
        (
            "[databases.d]\nkind = 'sqlite'\nfile = '../d.db'",
            9,
            "file `../d.db` leaves the directory",
            "`films.db`",
        ),
        ("[databases.d]\nkind = 'sqlite'\nfile = ' '", 9, "`file` is empty", "write"),
        (
            "[databases.d]\nkind = 'sqlite'\nread_only = true",
            7,
            "`databases.d` lacks `file`",
            "relative to the team file",
        ),
        (
            "[databases.d]\nkind = 'sqlite'\nfile = 'd.db'\nread_only = true\ninit = 'films.sql'",
            11,
            "only read cannot be filled",
            "remove `init` or `read_only`",
        ),
        (
            "[databases.d]\nkind = 'sqlite'\nfile = 'gone.db'\nread_only = true",
            9,
            "database `d` cannot be read: teams/gone.db: unable to open",
            "relative to the team file",
        ),
        (
            "[databases.d]\nkind = 'sqlite'\ninit = 'gone.sql'",
            9,
            "file `gone.sql` cannot be read",
            "tried teams/gone.sql",
        ),
        (
            "[databases.d]\nkind = 'sqlite'\n[databases.e]\nkind = 'sqlite'\nfile = 'd.db'",
            11,
            "the file of database `e` is that of another one",
            "name another file",
        ),
    ] {
        check(&format!("{FINE}{added}\n"), line, message, help);
    }
}

#[test]
fn a_fault_in_a_script_points_into_the_script() {
    for (script, line, column, message) in [
        (
            "syntax.sql",
            Some(2),
            Some(1),
            "fill database `d`: statement 2: near \"crate\": syntax error",
        ),
        ("twice.sql", None, None, "fill database `d`: statement 3: UNIQUE constraint failed: a.b"),
        ("commit.sql", None, None, "fill database `d`: statement 1: not authorized"),
    ] {
        let text = format!("{FINE}[databases.d]\nkind = 'sqlite'\ninit = '{script}'\n");
        let report = config::parse(Path::new("teams/t.toml"), &text, &files).unwrap_err();
        let [fault] = report.faults() else { panic!("{report}") };
        assert_eq!((fault.line, fault.column), (line, column), "{fault}");
        assert!(fault.message.starts_with(message), "{fault}");
        assert_eq!(
            (fault.code, fault.file.as_path()),
            (ErrorCode::ConfigInvalid, Path::new("teams").join(script).as_path())
        );
    }
}

#[test]
fn one_fault_in_a_query() {
    for (added, line, message, help) in [
        ("", 10, "`tools.t` lacks `statement`", "several in `statements`"),
        ("statement = ' '", 14, "`statement` is empty", "`:name` for arguments"),
        (
            "statement = 'select 1 as n'\nstatements = ['select 1 as n']",
            14,
            "tool `t` has `statement` and `statements`",
            "put it into the list",
        ),
        (
            "statements = [\n'select 1 as n',\n'select title from films']",
            16,
            "tool `t`: no such table: films",
            "change the statement",
        ),
        (
            "statement = 'select title from film where title = :title'",
            14,
            "tool `t`: `:title` stands for a parameter that is not declared",
            "add it to `parameters`",
        ),
        (
            "statement = 'select title from film'\nparameters = { title = 'string' }",
            15,
            "tool `t`: parameter \"title\" appears in no statement",
            "remove it",
        ),
        (
            "statement = 'delete from film'",
            14,
            "tool `t`: the statement writes, and the tool does not say so",
            "effect = \"idempotent\"",
        ),
        (
            "statement = 'delete from film'\neffect = 'read'",
            14,
            "tool `t`: the statement writes",
            "else \"once\"",
        ),
        (
            "statement = 'select title from film'\nresult = '{{ rows[0].name }}'",
            15,
            "tool `t`: `name` is not in the rows of statement 1",
            "template",
        ),
        (
            "statement = 'select title from film'\nresult = '{% if %}'",
            15,
            "tool `t`: syntax error",
            "template",
        ),
        (
            "statement = 'select title from film'\nrows_max = 0",
            15,
            "`tools.t.rows_max` must be from 1 to 10000, this is 0",
            "rows",
        ),
        (
            "statement = 'select title from film'\nprompt = 'p'",
            15,
            "`prompt` goes with `kind = \"model\"` only",
            "remove `prompt`",
        ),
        (
            "statement = 'select title from film'\nparameters = { title = 'text' }",
            15,
            "`title` of `parameters` has no type",
            "one of string",
        ),
    ] {
        check(&format!("{FINE}{DATABASE}{TOOL}{added}\n"), line, message, help);
    }
    let other = TOOL.replace("database = 'd'", "database = 'e'\nstatement = 'select 1 as n'");
    check(
        &format!("{FINE}{DATABASE}{other}"),
        13,
        "there is no database `e`",
        "known databases: d",
    );
    let without = TOOL.replace("database = 'd'", "statement = 'select 1 as n'");
    check(&format!("{FINE}{without}"), 7, "`tools.t` lacks `database`", "the database of the team");
}

#[test]
fn one_fault_in_a_query_for_a_server() {
    let database = "[databases.d]\nkind = 'postgres'\ndatabase = 'b'\nuser = 'u'\n";
    for (added, line, message, help) in [
        (
            "statement = 'select $1'",
            15,
            "tool `t`: a parameter is written as `$1`",
            "write `:name`",
        ),
        (
            "statement = 'select :title'",
            15,
            "tool `t`: `:title` stands for a parameter that is not declared",
            "`:call_key`, `:session`, `:agent` are always there",
        ),
        (
            "statement = 'delete from film'",
            15,
            "tool `t`: the statement writes, and the tool does not say so",
            "else \"once\"",
        ),
        ("statement = 'select 1; select 2'", 15, "more than one statement", "change the statement"),
        ("statement = 'set role x'", 15, "tool `t`: `set` is not for statements", "change"),
        ("statement = \"select 'a\"", 15, "is not closed (line 1)", "change"),
        (
            "statement = 'select 1 as n'\nparameters = { title = 'string' }",
            16,
            "tool `t`: parameter \"title\" appears in no statement",
            "remove it",
        ),
    ] {
        check(&format!("{FINE}{database}{TOOL}{added}\n"), line, message, help);
    }
    // What the rows are called is for the server to say.
    let text = format!(
        "{FINE}{database}{TOOL}statement = 'select 1 as n'\nresult = '{{{{ rows[0].x }}}}'\n"
    );
    config::parse(Path::new("teams/t.toml"), &text, &files).unwrap();
}

#[test]
fn one_fault_in_a_query_for_a_graph() {
    let database = "[databases.d]\nkind = 'neo4j'\n";
    for (added, line, message, help) in [
        (
            "statement = 'MATCH (n {title: $title}) RETURN n.title AS title'",
            13,
            "tool `t`: `$title` stands for a parameter that is not declared",
            "`$call_key`, `$session`, `$agent` are always there",
        ),
        ("statement = 'RETURN $1'", 13, "a parameter is written as `$1`", "write `$name`"),
        (
            "statement = 'MATCH (n) DETACH DELETE n'",
            13,
            "tool `t`: the statement writes, and the tool does not say so",
            "else \"once\"",
        ),
        ("statement = 'RETURN 1; RETURN 2'", 13, "more than one statement", "change"),
        (
            "statement = 'MATCH (n) RETURN n'\nparameters = { title = 'string' }",
            14,
            "tool `t`: parameter \"title\" appears in no statement",
            "remove it",
        ),
    ] {
        check(&format!("{FINE}{database}{TOOL}{added}\n"), line, message, help);
    }
}

#[test]
fn one_fault_in_a_saying() {
    for (added, line, message, help) in [
        (
            "[tools.say]\nkind = 'builtin'",
            7,
            "`tools.say` lacks `text`",
            "the answer to every call",
        ),
        (
            "[tools.now]\nkind = 'builtin'\ntext = 'x'",
            9,
            "`text` is not for \"now\"",
            "builtin = \"say\"",
        ),
        (
            "[tools.now]\nkind = 'builtin'\nparameters = { x = 'string' }",
            9,
            "`parameters` is not for \"now\"",
            "remove `parameters`",
        ),
        (
            "[tools.calculate]\nkind = 'builtin'\nparameters = { a = 'string', b = 'string' }",
            9,
            "`calculate` takes one text, which is needed, and nothing else",
            "remove it",
        ),
        (
            "[tools.calculate]\nkind = 'builtin'\nparameters = { a = 'string?' }",
            9,
            "`calculate` takes one text, which is needed, and nothing else",
            "remove it",
        ),
        (
            "[tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h'\ntext = 'x'",
            11,
            "`text` goes with `kind = \"builtin\"` only",
            "remove `text`",
        ),
    ] {
        check(&format!("{FINE}{added}\n"), line, message, help);
    }
}
