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
        ("[databases.d]\nkind = 'sql'", 8, "\"sqlite\", this is \"sql\"", ""),
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
