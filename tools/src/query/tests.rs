//! Statements as tools: what they return, what they refuse, and what stays after them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wire::{CallKey, CallOutcome, EffectClass, ErrorCode, Name, SessionId, ToolReply};

use super::{
    DatabaseSpec, Databases, InitScript, QueryPart, QuerySpec, QueryTool, SqliteSpec, TrialFault,
};
use crate::testing;
use crate::tool::{Tool, ToolContext};

const SCRIPT: &str = "
    create table film (title text primary key, year integer, poster blob) strict;
    insert into film values ('Alien', 1979, x'00ff'), ('Jaws', 1975, null), ('Heat', 1995, null);
    create table note (key text primary key, said text);
    create virtual table words using fts5 (title);
    insert into words select title from film;
";

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn context(key: &str, remaining: Duration) -> ToolContext {
    let (call, agent) = (CallKey::new(key).unwrap(), name("critic"));
    ToolContext {
        call,
        agent,
        session: SessionId::new("s1").unwrap(),
        ..testing::context(remaining)
    }
}

fn films(script: &str) -> BTreeMap<Name, DatabaseSpec> {
    let init = InitScript { file: "films.sql".into(), text: script.to_owned() };
    let spec = SqliteSpec { file: "films.db".into(), read_only: false, init: Some(init) };
    BTreeMap::from([(name("films"), DatabaseSpec::Sqlite(spec))])
}

/// No database here is reached over HTTP.
fn http() -> reqwest::Client {
    crate::client::http_client().unwrap()
}

fn open(dir: &Path) -> Databases {
    Databases::open(&films(SCRIPT), dir, &http()).unwrap()
}

fn spec(statements: &[&str]) -> QuerySpec {
    QuerySpec {
        database: name("films"),
        statements: statements.iter().map(|&statement| statement.to_owned()).collect(),
        parameters: ["x", "y"].map(str::to_owned).to_vec(),
        result: None,
        effect: EffectClass::Read,
        rows_max: 10,
        response_bytes_max: 1000,
    }
}

fn writing(statements: &[&str]) -> QuerySpec {
    QuerySpec { effect: EffectClass::Idempotent, ..spec(statements) }
}

async fn call(databases: &Databases, spec: QuerySpec, arguments: Value) -> CallOutcome {
    let context = context("k1", Duration::from_secs(20));
    match QueryTool::new(spec, databases).call(&context, &arguments).await {
        ToolReply::Settled { outcome, .. } => outcome,
        other @ (ToolReply::Lost { .. } | ToolReply::Asks { .. } | ToolReply::Suspended { .. }) => {
            panic!("{other:?}")
        }
    }
}

async fn output(databases: &Databases, spec: QuerySpec, arguments: Value) -> Value {
    match call(databases, spec, arguments).await {
        CallOutcome::Ok { output } => output,
        other => panic!("{other:?}"),
    }
}

async fn error(databases: &Databases, spec: QuerySpec, arguments: Value) -> (ErrorCode, String) {
    match call(databases, spec, arguments).await {
        CallOutcome::Error { error } => (error.code, error.message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn rows_come_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let databases = open(dir.path());
    let by_year = "select title, year from film where year < :x order by year";
    for (statements, arguments, expected) in [
        (
            &[by_year][..],
            json!({"x": 1980}),
            json!([{"title": "Jaws", "year": 1975}, {"title": "Alien", "year": 1979}]),
        ),
        (&[by_year], json!({"x": 1900}), json!([])),
        (&["select :x is null as absent"], json!({}), json!([{"absent": 1}])),
        (&["select :x is null as absent"], json!({"x": null}), json!([{"absent": 1}])),
        (
            &["select typeof(:x) as x, typeof(:y) as y"],
            json!({"x": true, "y": 1.5}),
            json!([{"x": "integer", "y": "real"}]),
        ),
        (
            &["select value from json_each(:x)"],
            json!({"x": ["a", "b"]}),
            json!([{"value": "a"}, {"value": "b"}]),
        ),
        (
            &["select poster, null as n, 1.5 as r, 1e999 as huge from film where title = 'Alien'"],
            json!({}),
            json!([{"poster": "00ff", "n": null, "r": 1.5, "huge": null}]),
        ),
        (
            &["select :call_key as k, :session as s, :agent as a"],
            json!({"call_key": "mine", "session": "mine"}),
            json!([{"k": "k1", "s": "s1", "a": "critic"}]),
        ),
        (
            &["select 1 as one", "select 2 as two where :x = 1"],
            json!({"x": 0}),
            json!([[{"one": 1}], []]),
        ),
        (
            &["select title from words where words match :x"],
            json!({"x": "alien"}),
            json!([{"title": "Alien"}]),
        ),
        (
            &["select name from pragma_table_info('note')"],
            json!({}),
            json!([{"name": "key"}, {"name": "said"}]),
        ),
    ] {
        let found = output(&databases, spec(statements), arguments).await;
        assert_eq!(found, expected, "{statements:?}");
    }
}

#[tokio::test]
async fn hostile_values_stay_values() {
    let dir = tempfile::tempdir().unwrap();
    let databases = open(dir.path());
    let huge = "'x".repeat(1 << 20);
    let values = [
        "' or 1=1 --",
        "'; drop table film; --",
        "a\0b",
        "\u{202e}éß漢字🎬",
        "{\"a\": [1, \"'\"]}",
        ":x ?1 $x @x %s {x} {{ x }}",
        "\\' \\\" \r\n",
        "",
        &huge,
    ];
    for value in values {
        let put = "insert into note values (:call_key, :x)
            on conflict (key) do update set said = excluded.said";
        let written = output(&databases, writing(&[put]), json!({"x": value})).await;
        assert_eq!(written, json!({"changed": 1}));
        let same = "select count(*) as n from note where said = :x and length(said) >= 0";
        let found = output(&databases, spec(&[same]), json!({"x": value})).await;
        assert_eq!(found, json!([{"n": 1}]), "{}", value.escape_debug());
        let template = Some("{{ arguments.x }}|{{ rows[0].said }}".to_owned());
        let shown = QuerySpec { result: template, ..spec(&["select said from note"]) };
        let shown = QuerySpec { response_bytes_max: 8 << 20, ..shown };
        let shown = output(&databases, shown, json!({"x": value})).await;
        assert_eq!(shown, json!(format!("{value}|{value}").trim_end()));
    }
    let count = output(&databases, spec(&["select count(*) as n from film"]), json!({})).await;
    assert_eq!(count, json!([{"n": 3}]));
    for (value, part) in
        [(json!(u64::MAX), "more than a database"), (json!("x".repeat(17 << 20)), "too big")]
    {
        let (code, message) =
            error(&databases, spec(&["select :x as x"]), json!({"x": value})).await;
        assert_eq!(code, ErrorCode::InvalidArguments, "{message}");
        assert!(message.contains("argument \"x\": ") && message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn a_result_that_is_cut_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let databases = open(dir.path());
    let count = "with recursive n(i) as (select 1 union all select i + 1 from n where i < :x)
        select i from n";
    let three = QuerySpec { rows_max: 3, ..spec(&[count]) };
    let cut = "cut after 3 rows; there are more, ask for less";
    let rows = json!([{"i": 1}, {"i": 2}, {"i": 3}]);
    assert_eq!(output(&databases, three.clone(), json!({"x": 3})).await, rows);
    let found = output(&databases, three.clone(), json!({"x": 4})).await;
    assert_eq!(found, json!({"rows": rows, "cut": cut}));
    let told = QuerySpec { result: Some("{{ rows | length }}\n".to_owned()), ..three.clone() };
    assert_eq!(output(&databases, told, json!({"x": 4})).await, json!(format!("3\n[{cut}]")));
    let small = QuerySpec { response_bytes_max: 20, ..spec(&[count]) };
    let found = output(&databases, small, json!({"x": 9})).await;
    let cut = "cut after 20 bytes; there are more rows, ask for less";
    assert_eq!(found, json!({"rows": [{"i": 1}, {"i": 2}], "cut": cut}));
    let wide = Some("{{ rows[0].i }}é{% for n in range(99) %}é{% endfor %}".to_owned());
    let wide = QuerySpec { response_bytes_max: 10, result: wide, ..spec(&[count]) };
    let found = output(&databases, wide, json!({"x": 1})).await;
    assert_eq!(found, json!("1éééé\n[cut after 10 bytes]"));
}

#[tokio::test]
async fn all_statements_of_a_call_stand_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let databases = open(dir.path());
    let put = "insert into note values (:x, 'said')";
    let twice = writing(&[put, put]);
    let (code, message) = error(&databases, twice, json!({"x": "a"})).await;
    assert_eq!(code, ErrorCode::ToolFailed);
    assert!(message.contains("database films: UNIQUE constraint failed"), "{message}");
    let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
    for (template, fault) in
        [("{{ 1 / 0 }}", "calculate 1 / 0"), (endless, "takes more than 2000000 instr")]
    {
        let broken = QuerySpec { result: Some(template.to_owned()), ..writing(&[put]) };
        let (code, message) = error(&databases, broken, json!({"x": "b"})).await;
        assert_eq!(code, ErrorCode::ToolFailed);
        let parts = ["the result cannot be written", fault];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    let kept = spec(&["select count(*) as n from note"]);
    assert_eq!(output(&databases, kept.clone(), json!({})).await, json!([{"n": 0}]));
    let returning = "insert into note select title, :x from film returning key";
    let returning = QuerySpec { rows_max: 1, ..writing(&[returning]) };
    let found = output(&databases, returning, json!({"x": "c"})).await;
    assert_eq!(found["rows"], json!([{"key": "Alien"}]));
    assert_eq!(output(&databases, kept, json!({})).await, json!([{"n": 3}]));
}

#[tokio::test]
async fn what_a_constraint_refuses_at_the_end_did_not_happen() {
    let dir = tempfile::tempdir().unwrap();
    let script = "create table film (title text primary key);
        create table role (film text references film deferrable initially deferred);";
    let databases = Databases::open(&films(script), dir.path(), &http()).unwrap();
    let put = || writing(&["insert into role values (:x)"]);
    let once = QuerySpec { effect: EffectClass::Once, ..put() };
    for spec in [put(), once] {
        let (code, message) = error(&databases, spec, json!({"x": "Gone"})).await;
        assert_eq!(code, ErrorCode::ToolFailed);
        assert!(message.contains("FOREIGN KEY constraint failed"), "{message}");
    }
    let count = spec(&["select count(*) as n from role"]);
    assert_eq!(output(&databases, count, json!({})).await, json!([{"n": 0}]));
    let both = writing(&["insert into role values (:x)", "insert into film values (:x)"]);
    assert_eq!(output(&databases, both, json!({"x": "Alien"})).await, json!({"changed": 2}));
}

#[tokio::test]
async fn what_changes_no_rows_counts_none() {
    let dir = tempfile::tempdir().unwrap();
    let databases = open(dir.path());
    for (statements, changed) in [
        (&["insert into note values ('a', 'b'), ('c', 'd')", "create table one (x)"][..], 2),
        (&["create table two (x)"], 0),
        (&["delete from note where 1 = 0"], 0),
        (&["delete from note", "drop table two", "drop table one"], 2),
    ] {
        let found = output(&databases, writing(statements), json!({})).await;
        assert_eq!(found, json!({"changed": changed}), "{statements:?}");
    }
}

/// Counts further than anybody waits.
const ENDLESS: &str = "with recursive n(i) as (select 1 union all select i + 1 from n)
    select count(*) as n from n";

#[tokio::test]
async fn a_call_without_end_is_stopped_and_undone() {
    let dir = tempfile::tempdir().unwrap();
    let databases = open(dir.path());
    let put = "insert into note values ('a', 'b')";
    for effect in [EffectClass::Idempotent, EffectClass::Once] {
        let spec = QuerySpec { effect, ..spec(&[put, ENDLESS]) };
        let tool = QueryTool::new(spec, &databases);
        let context = context("k1", Duration::from_millis(200));
        let reply = tool.call(&context, &json!({})).await;
        let ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(error.code, ErrorCode::ToolTimeout);
        assert!(error.message.contains("nothing was changed"), "{error}");
    }
    let kept = spec(&["select count(*) as n from note"]);
    assert_eq!(output(&databases, kept, json!({})).await, json!([{"n": 0}]));
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_gives_its_place_back() {
    let dir = tempfile::tempdir().unwrap();
    let databases = open(dir.path());
    let endless = QueryTool::new(writing(&[ENDLESS]), &databases);
    let context = context("k1", Duration::from_secs(600));
    let arguments = json!({});
    let call = endless.call(&context, &arguments);
    assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
    // There is one place to write, which the call above would hold for ten minutes.
    let put = writing(&["insert into note values ('a', 'b')"]);
    assert_eq!(output(&databases, put, json!({})).await, json!({"changed": 1}));
}

#[tokio::test]
async fn many_calls_at_once_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let databases = open(dir.path());
    let put = "insert into note values (:x, :call_key)";
    let put = Arc::new(QueryTool::new(writing(&[put]), &databases));
    let count = Arc::new(QueryTool::new(spec(&["select count(*) as n from note"]), &databases));
    let calls = (0..40).map(|number| {
        let (put, count) = (put.clone(), count.clone());
        tokio::spawn(async move {
            let context = context(&format!("k{number}"), Duration::from_secs(60));
            for tool in [put, count] {
                let reply = tool.call(&context, &json!({"x": number})).await;
                let ToolReply::Settled { outcome: CallOutcome::Ok { .. }, .. } = reply else {
                    panic!("{reply:?}")
                };
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    let kept = spec(&["select count(distinct said) as n from note"]);
    assert_eq!(output(&databases, kept, json!({})).await, json!([{"n": 40}]));
}

#[test]
fn a_query_that_cannot_work_is_told_before_it_runs() {
    use QueryPart::{Parameters, Result, Statement};
    let trial = films(SCRIPT)[&name("films")].trial().unwrap();
    let both = "select :x as x, :y as y";
    let with = |result: &str| QuerySpec { result: Some(result.to_owned()), ..spec(&[both]) };
    let taking = |parameters: &[&str], statement: &str| QuerySpec {
        parameters: parameters.iter().map(|&name| name.to_owned()).collect(),
        ..spec(&[statement])
    };
    let fine = [
        spec(&[both]),
        writing(&["delete from note where key = :x and said = :y"]),
        with("{% for row in rows %}{{ row.x }}{% else %}none{% endfor %}{{ changed }}{{ cut }}"),
        with("{% set n = namespace(i=0) %}{{ n.i }}{{ rows[0].x + 1 }}{{ range(2) }}{{ results }}"),
        QuerySpec { result: Some("{{ arguments.x }}".to_owned()), ..spec(&["select :y as y"]) },
        taking(&[], "select :call_key as k; -- a remark"),
    ];
    for spec in fine {
        assert_eq!(spec.check(&*trial), [], "{spec:?}");
    }
    for (spec, part, message) in [
        (spec(&[both, "selec 1"]), Statement(1), "near \"selec\": syntax error (line 1)"),
        (spec(&["select :x,\n:y,\nnone"]), Statement(0), "no such column: none (line 3)"),
        (spec(&["select :x, :y, \"none\""]), Statement(0), "no such column: \"none\""),
        (spec(&["select :x, :y from gone"]), Statement(0), "no such table: gone"),
        (taking(&[], "select 1; select 2"), Statement(0), "more than one statement"),
        (taking(&[], " -- nothing"), Statement(0), "there is no statement"),
        (
            taking(&[], "select :z"),
            Statement(0),
            "`:z` stands for a parameter that is not declared",
        ),
        (taking(&[], "select ?"), Statement(0), "a parameter is written as `?`"),
        (taking(&[], "select $a"), Statement(0), "a parameter is written as `$a`"),
        (
            taking(&[], "select 1 as a, 2 as a"),
            Statement(0),
            "two columns of the statement are called \"a\"",
        ),
        (
            taking(&[], "delete from film"),
            Statement(0),
            "the statement writes, and the tool does not say so",
        ),
        (taking(&[], "attach ':memory:' as other"), Statement(0), "not authorized"),
        (taking(&[], "pragma journal_mode = delete"), Statement(0), "not authorized"),
        (taking(&[], "begin"), Statement(0), "not authorized"),
        (taking(&[], "savepoint a"), Statement(0), "not authorized"),
        (taking(&[], "create temp table t (a)"), Statement(0), "not authorized"),
        (taking(&[], "select load_extension('x')"), Statement(0), "not authorized"),
        (taking(&["a"], "select 1 as one"), Parameters, "parameter \"a\" appears in no statement"),
        (
            taking(&["agent"], "select :agent as a"),
            Parameters,
            "parameter \"agent\" has the name of a value",
        ),
        (with("{{ rows }"), Result, "syntax error"),
        (with("\n{{ row }}"), Result, "`row` is none of rows, results"),
        (
            with("{% for row in rows %}{{ row.z }}{% endfor %}"),
            Result,
            "`z` is not in the rows of statement 1",
        ),
        (with("{{ results[0][0].z }}"), Result, "`z` is not in the rows of statement 1"),
        (with("{{ arguments.z }}"), Result, "`z` is not in the arguments"),
        (with("{{ changed | upprcase }}"), Result, "unknown filter"),
    ] {
        let faults = spec.check(&*trial);
        let [fault] = faults.as_slice() else { panic!("{spec:?}\n{faults:?}") };
        assert_eq!(fault.part, part, "{fault:?}");
        assert!(fault.message.contains(message), "{message}\n{fault:?}");
    }
}

#[tokio::test]
async fn what_slips_through_the_check_is_refused_when_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let databases = open(dir.path());
    let file = dir.path().join("other.db");
    let attach = format!("attach '{}' as other", file.display());
    let into = format!("vacuum into '{}'", file.display());
    for (spec, part) in [
        (spec(&["delete from film"]), "readonly"),
        (writing(&[&attach]), "not authorized"),
        (writing(&[&into]), "cannot VACUUM from within a transaction"),
        (writing(&["delete from film", "commit"]), "not authorized"),
        (writing(&["pragma query_only = 0"]), "not authorized"),
        (writing(&["pragma writable_schema = 1"]), "not authorized"),
        (writing(&["delete from words_data"]), "may not be modified"),
        (writing(&["delete from sqlite_schema"]), "may not be modified"),
    ] {
        let (code, message) = error(&databases, spec.clone(), json!({})).await;
        assert_eq!(code, ErrorCode::ToolFailed, "{message}");
        assert!(message.contains(part), "{spec:?}: {message}");
    }
    let count = output(&databases, spec(&["select count(*) as n from film"]), json!({})).await;
    assert_eq!(count, json!([{"n": 3}]));
    assert!(!file.exists());
}

#[tokio::test]
async fn a_database_is_filled_once_and_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let count = || spec(&["select count(*) as n from film"]);
    // The second half is wrong, so that nothing of the first may stay.
    let half = format!("{SCRIPT}; insert into film values ('Alien', 1979, null)");
    for (script, part) in [
        (half.as_str(), "statement 6: UNIQUE constraint failed: film.title"),
        ("create table a (b);\ncrate table c (d)", "statement 2: near \"crate\": syntax error"),
        ("create table a (b); commit; crate", "statement 2: not authorized"),
    ] {
        let fault = Databases::open(&films(script), dir.path(), &http()).err().unwrap();
        assert_eq!(fault.code, ErrorCode::StorageFailed);
        assert!(fault.message.contains(part) && fault.message.contains("films.db"), "{fault}");
    }
    let databases = open(dir.path());
    let put = writing(&["insert into film values ('Speed', 1994, null)"]);
    output(&databases, put, json!({})).await;
    // A second process, and the next start, find it filled.
    for _start in 0..2 {
        let again = open(dir.path());
        assert_eq!(output(&again, count(), json!({})).await, json!([{"n": 4}]));
    }
    let mode = |file: &str| {
        let found = std::fs::metadata(dir.path().join(file)).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::mode(&found) & 0o777
    };
    assert_eq!((mode("films.db"), mode("films.db-wal")), (0o600, 0o600));
}

#[test]
fn a_script_without_end_does_not_take_all_memory() {
    let script = "create table t (a);
        insert into t with recursive n(i) as (select 1 union all select i + 1 from n)
        select zeroblob(8000000) from n";
    let fault = films(script)[&name("films")].trial().err().unwrap();
    let message = "statement 2: database or disk is full".to_owned();
    assert_eq!(fault, TrialFault::Script { offset: None, message });
}

#[tokio::test]
async fn a_file_that_does_not_fit_is_told_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let databases = open(dir.path());
    let tool = name("t");
    databases.check(&tool, &spec(&["select :x, :y"])).unwrap();
    let fault = databases.check(&tool, &spec(&["select :x, :y, studio from film"])).unwrap_err();
    assert_eq!(fault.code, ErrorCode::ConfigInvalid);
    for part in ["tool t: database films: ", "no such column: studio", "move it away"] {
        assert!(fault.message.contains(part), "{fault}");
    }
    std::fs::write(dir.path().join("text.db"), "no database".repeat(100)).unwrap();
    let other = |file: &str, read_only, text: Option<&str>| {
        let init = text.map(|text| InitScript { file: "i.sql".into(), text: text.to_owned() });
        let file = dir.path().join(file);
        let spec = DatabaseSpec::Sqlite(SqliteSpec { file, read_only, init });
        Databases::open(&BTreeMap::from([(name("other"), spec)]), dir.path(), &http()).map(drop)
    };
    for (file, read_only, script, part) in [
        ("text.db", false, None, "file is not a database"),
        ("text.db", true, None, "file is not a database"),
        ("gone.db", true, None, "unable to open database file"),
        ("", false, None, "directory"),
    ] {
        let fault = other(file, read_only, script).unwrap_err();
        assert!(fault.message.contains(part), "{file}: {fault}");
    }
    // One that is there and only read is neither filled nor written.
    other("films.db", true, None).unwrap();
    let plain = dir.path().join("plain.db");
    let made = rusqlite::Connection::open(&plain).unwrap();
    made.execute_batch("create table t (a)").unwrap();
    let fault = other("plain.db", false, Some("create table u (b)")).unwrap_err();
    assert!(fault.message.contains("was not made by `init`"), "{fault}");
    other("plain.db", false, None).unwrap();
}

#[tokio::test]
async fn another_process_that_writes_is_waited_for_and_then_told() {
    let dir = tempfile::tempdir().unwrap();
    let databases = open(dir.path());
    let other = rusqlite::Connection::open(dir.path().join("films.db")).unwrap();
    other.execute_batch("begin immediate; insert into note values ('o', 'o')").unwrap();
    let put = writing(&["insert into note values ('a', 'b')"]);
    let CallOutcome::Error { error } = call(&databases, put.clone(), json!({})).await else {
        panic!("written while another process writes")
    };
    assert_eq!(error.code, ErrorCode::ToolFailed);
    assert!(error.message.contains("another process holds it"), "{error}");
    assert!(error.retry_after_ms.is_some());
    // Who reads is not held up.
    let count = spec(&["select count(*) as n from note"]);
    assert_eq!(output(&databases, count.clone(), json!({})).await, json!([{"n": 0}]));
    other.execute_batch("commit").unwrap();
    output(&databases, put, json!({})).await;
    assert_eq!(output(&databases, count, json!({})).await, json!([{"n": 2}]));
}
