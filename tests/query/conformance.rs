//! What a tool returns and what stays after it, whatever its database is.

use std::time::Duration;

use serde_json::{Value, json};
use tools::query::QuerySpec;
use wire::{CallOutcome, ErrorCode, ToolReply};

use crate::house::{House, LONG, reading, writing};

const SCRIPT: &str = "
    create table film (title varchar(80) primary key, year integer);
    insert into film values ('Alien', 1979), ('Jaws', 1975), ('Heat', 1995);
    create table note (key varchar(80) primary key, said text)";

/// Counts to `:x`, or for ever if that is more than anybody waits for.
const COUNT: &str =
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < cast(:x as integer))
    select i from n";
const ENDLESS: &str = "with recursive n(i) as (select 1 union all select 1 from n)
    select count(*) as n from n";

async fn notes(house: &House) -> Value {
    let count = reading(&["select count(*) as n from note"]);
    house.output(&count, json!({})).await[0]["n"].clone()
}

#[tokio::test]
async fn results_are_the_same_everywhere() {
    let by_year = "select title, year from film where year < :x order by year";
    let rows = json!([{"i": 1}, {"i": 2}, {"i": 3}]);
    let many = "cut after 3 rows; there are more, ask for less";
    let wide = "cut after 20 bytes; there are more rows, ask for less";
    let three = QuerySpec { rows_max: 3, ..reading(&[COUNT]) };
    let small = QuerySpec { response_bytes_max: 20, ..reading(&[COUNT]) };
    let with =
        |spec: &QuerySpec, text: &str| QuerySpec { result: Some(text.to_owned()), ..spec.clone() };
    let cases = [
        (
            reading(&[by_year]),
            json!({"x": 1980}),
            json!([{"title": "Jaws", "year": 1975}, {"title": "Alien", "year": 1979}]),
        ),
        (reading(&[by_year]), json!({"x": 1900}), json!([])),
        (reading(&[by_year]), json!({}), json!([])),
        (
            reading(&[
                "select title from film where :x is null or title = :x order by title limit 1",
            ]),
            json!({"x": null}),
            json!([{"title": "Alien"}]),
        ),
        (
            reading(&["select title from film where (:x is null or year < :x) and title <> :y"]),
            json!({"x": 1978, "y": "Heat"}),
            json!([{"title": "Jaws"}]),
        ),
        (
            reading(&["select :call_key as k, :session as s, :agent as a"]),
            json!({"call_key": "mine", "session": "mine"}),
            json!([{"k": "k1", "s": "s1", "a": "critic"}]),
        ),
        (
            reading(&["select 1 as one", "select 2 as two where :x = 1"]),
            json!({"x": 0}),
            json!([[{"one": 1}], []]),
        ),
        (three.clone(), json!({"x": 3}), rows.clone()),
        (three.clone(), json!({"x": 4}), json!({"rows": rows, "cut": many})),
        (with(&three, "{{ rows | length }}"), json!({"x": 400}), json!(format!("3\n[{many}]"))),
        (small, json!({"x": 9}), json!({"rows": [{"i": 1}, {"i": 2}], "cut": wide})),
        (
            with(
                &reading(&[by_year]),
                "{% for row in rows %}{{ row.title }} {% endfor %}{{ arguments.x }}",
            ),
            json!({"x": 1980}),
            json!("Jaws Alien 1980"),
        ),
    ];
    for house in House::of_each_kind(SCRIPT).await {
        for (spec, arguments, expected) in &cases {
            let found = house.output(spec, arguments.clone()).await;
            assert_eq!(found, *expected, "{}: {:?}", house.kind, spec.statements);
        }
    }
}

#[tokio::test]
async fn all_statements_of_a_call_stand_or_none() {
    let put = "insert into note values (:x, 'said')";
    for house in House::of_each_kind(SCRIPT).await {
        let kind = house.kind;
        let (code, message) = house.error(&writing(&[put, put]), json!({"x": "a"})).await;
        assert_eq!(code, ErrorCode::ToolFailed, "{kind}: {message}");
        let unique = message.to_lowercase().contains("unique");
        assert!(message.starts_with("database d: ") && unique, "{kind}: {message}");
        let broken = QuerySpec { result: Some("{{ 1 / 0 }}".to_owned()), ..writing(&[put]) };
        let (code, message) = house.error(&broken, json!({"x": "b"})).await;
        assert_eq!(code, ErrorCode::ToolFailed, "{kind}: {message}");
        assert!(message.contains("the result cannot be written"), "{kind}: {message}");
        assert_eq!(notes(&house).await, 0, "{kind}");

        // A result that is cut changes no less.
        let returning = "insert into note select title, :x from film returning key";
        let cut = QuerySpec { rows_max: 1, ..writing(&[returning]) };
        let found = house.output(&cut, json!({"x": "c"})).await;
        assert_eq!(found["rows"].as_array().map(Vec::len), Some(1), "{kind}");
        assert_eq!(notes(&house).await, 3, "{kind}");
        let told = QuerySpec { result: Some("{{ changed }}".to_owned()), ..cut };
        house.output(&writing(&["delete from note"]), json!({})).await;
        let found = house.output(&told, json!({"x": "c"})).await;
        assert!(found.as_str().unwrap().starts_with("3\n[cut"), "{kind}: {found}");
        let found = house.output(&writing(&["update note set said = :y"]), json!({"y": "z"})).await;
        assert_eq!(found, json!({"changed": 3}), "{kind}");
        // However many rows it returns.
        for rows in [256, 257, 512, 600] {
            let many = format!(
                "insert into note with recursive n(i) as (select 1 union all select i + 1 from n
                    where i < {rows}) select '{rows}-' || i, 'many' from n returning key"
            );
            let told = QuerySpec { statements: vec![many], ..told.clone() };
            let found = house.output(&told, json!({})).await;
            let start = format!("{rows}\n[cut");
            assert!(found.as_str().unwrap().starts_with(&start), "{kind}: {found}");
        }
    }
}

#[tokio::test]
async fn writing_needs_leave() {
    for house in House::of_each_kind(SCRIPT).await {
        for statement in [
            "delete from film",
            "insert into film values ('Speed', 1994)",
            "update film set year = 1",
            "drop table film",
        ] {
            let (code, message) = house.error(&reading(&[statement]), json!({})).await;
            assert_eq!(code, ErrorCode::ToolFailed, "{statement}");
            let refused = message.contains("readonly") || message.contains("read-only");
            assert!(refused, "{}: {statement}: {message}", house.kind);
        }
        for statement in ["begin", "commit", "rollback", "savepoint a"] {
            let spec = writing(&["delete from film", statement]);
            let (code, message) = house.error(&spec, json!({})).await;
            assert_eq!(code, ErrorCode::ToolFailed, "{}: {statement}: {message}", house.kind);
        }
        let count = reading(&["select count(*) as n from film"]);
        assert_eq!(house.output(&count, json!({})).await, json!([{"n": 3}]), "{}", house.kind);
    }
}

#[tokio::test]
async fn what_takes_too_long_is_stopped_and_undone() {
    for house in House::of_each_kind(SCRIPT).await {
        let spec = writing(&["insert into note values ('a', 'b')", ENDLESS]);
        let reply = house.reply(&spec, json!({}), Duration::from_millis(400)).await;
        let ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } = reply else {
            panic!("{}: {reply:?}", house.kind)
        };
        assert_eq!(error.code, ErrorCode::ToolTimeout, "{}: {error}", house.kind);
        assert!(error.message.contains("nothing was changed"), "{}: {error}", house.kind);
        assert_eq!(notes(&house).await, 0, "{}", house.kind);

        // Nobody waits for this one any more, so what it holds is free for the next.
        let call = house.reply(&spec, json!({}), LONG);
        assert!(tokio::time::timeout(Duration::from_millis(400), call).await.is_err());
        let put = writing(&["insert into note values ('a', 'b')"]);
        assert_eq!(house.output(&put, json!({})).await, json!({"changed": 1}), "{}", house.kind);
    }
}

#[tokio::test]
async fn many_calls_at_once_lose_nothing() {
    for house in House::of_each_kind(SCRIPT).await {
        let put = writing(&["insert into note values (:x, :y)"]);
        let calls = (0..40).map(|number| {
            let number = number.to_string();
            house.output(&put, json!({"x": number, "y": number}))
        });
        for changed in futures_util::future::join_all(calls).await {
            assert_eq!(changed, json!({"changed": 1}), "{}", house.kind);
        }
        assert_eq!(notes(&house).await, 40, "{}", house.kind);
    }
}
