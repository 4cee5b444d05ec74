//! Values that look like statements, quotes, parameters or templates stay values.

use serde_json::{Value, json};
use tools::query::QuerySpec;
use wire::{CallOutcome, ErrorCode};

use crate::house::{House, reading, writing};

const SCRIPT: &str = "
    create table film (title varchar(80) primary key);
    insert into film values ('Alien'), ('Jaws'), ('Heat');
    create table kept (plain text, short varchar(4000), whole integer)";

/// Values that somebody might hope to be read as something else.
fn values() -> Vec<Value> {
    let long = "'x".repeat(1900);
    let texts = [
        "' or 1=1 --",
        "' or '1'='1",
        "'; drop table film; --",
        "\"; drop table film; --",
        "'); delete from film; select ('",
        "x' union select title from film --",
        "$$; drop table film; $$",
        "$1",
        "$2::text",
        "E'\\'; drop table film; --'",
        "U&'\\0027; drop table film'",
        "\\' ; drop table film; --",
        "\\\\' or 1=1",
        "%27%20or%201=1",
        "%' or title like '%",
        "/* */ drop table film /* */",
        "-- nothing\n; drop table film",
        "\r\n; commit; drop table film",
        ":x ?1 $x @x %s {x} {{ x }} #{x}",
        "{{ rows }}{% for r in rows %}{{ r }}{% endfor %}",
        "${jndi:ldap://localhost/a}",
        "`drop table film`",
        "[title] from film",
        "0x27206f7220313d31",
        "null",
        "NULL",
        "default",
        "current_user",
        "true",
        "1; select 2",
        "{\"a\": [1, \"'\"]}",
        "{a,b,\"c\"}",
        "{\"'; drop table film; --\"}",
        "\u{2019} or 1=1 --",
        "\u{ff07} or 1=1 --",
        "\u{202e}éß漢字🎬",
        "e\u{301}\u{200b}\u{feff}",
        "\t \u{b} ",
        "\u{1}\u{7f}",
        "",
        " ",
        &long,
    ];
    let mut values: Vec<Value> = texts.map(Value::from).to_vec();
    values.extend([
        json!(0),
        json!(-1),
        json!(2_147_483_648_i64),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1.5),
        json!(1e300),
        json!(true),
        json!([]),
        json!(["'; drop table film; --", null, 1]),
        json!({"'": "'; drop table film; --"}),
        json!({"a": {"b": ["\"", "\\"]}}),
        json!(null),
    ]);
    values
}

/// Puts a value where `:x` stands, and tells what is then there; none if it was refused.
async fn kept(house: &House, column: &str, value: &Value) -> Option<Value> {
    house.output(&writing(&["delete from kept"]), json!({})).await;
    let put = writing(&[&format!("insert into kept ({column}) values (:x)")]);
    match house.outcome(&put, json!({"x": value})).await {
        CallOutcome::Error { error } => {
            assert_eq!(error.code, ErrorCode::InvalidArguments, "{}: {error}", house.kind);
            assert!(error.message.contains("argument \"x\": "), "{}: {error}", house.kind);
            return None;
        }
        CallOutcome::Ok { output } => assert_eq!(output, json!({"changed": 1})),
        other => panic!("{other:?}"),
    }
    let got = QuerySpec {
        response_bytes_max: 1 << 20,
        ..reading(&[&format!("select {column} as got from kept")])
    };
    Some(house.output(&got, json!({})).await[0]["got"].clone())
}

/// Tells what a column of texts makes of a value.
fn as_text(value: &Value) -> Value {
    match value {
        Value::Null | Value::String(_) => value.clone(),
        other => json!(other.to_string()),
    }
}

#[tokio::test]
async fn hostile_values_stay_values() {
    let values = values();
    assert!(values.len() >= 50, "{}", values.len());
    for house in House::of_each_kind(SCRIPT).await {
        for value in &values {
            for column in ["plain", "short"] {
                let found = kept(&house, column, value).await;
                let is_bool = value.is_boolean() && house.kind == "sqlite";
                let is_huge = *value == json!(u64::MAX) && house.kind == "sqlite";
                let is_wide = *value == json!(1e300);
                match found {
                    None => assert!(is_huge, "{}: {column}: {value}", house.kind),
                    Some(found) if is_bool => assert_eq!(found, "1"),
                    Some(found) if is_wide => assert!(found.is_string()),
                    Some(found) => {
                        assert_eq!(found, as_text(value), "{}: {column}", house.kind);
                    }
                }
            }
            let whole = kept(&house, "whole", value).await;
            if house.kind == "postgres" {
                let fits = value.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
                let expected = match value {
                    Value::Bool(_) => Some(json!(1)),
                    value if fits || value.is_null() => Some(value.clone()),
                    _ => None,
                };
                assert_eq!(whole, expected, "{value}");
            }
            // As a condition it finds nothing that is not equal to it, and as a template nothing.
            let found = reading(&["select title from film where title = :x"]);
            let found = match house.outcome(&found, json!({"x": value})).await {
                CallOutcome::Ok { output } => output,
                CallOutcome::Error { error } => {
                    assert_eq!(error.code, ErrorCode::InvalidArguments, "{error}");
                    json!([])
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(found, json!([]), "{}: {value}", house.kind);
        }
        let count = reading(&["select count(*) as n from film"]);
        assert_eq!(house.output(&count, json!({})).await, json!([{"n": 3}]), "{}", house.kind);
    }
}

#[tokio::test]
async fn each_type_of_postgres_takes_what_it_knows_and_refuses_the_rest() {
    let house =
        House::postgres("create table film (title text); insert into film values ('Alien')").await;
    let types = [
        "text",
        "varchar(5000)",
        "json",
        "jsonb",
        "text[]",
        "jsonb[]",
        "integer[]",
        "boolean",
        "smallint",
        "integer",
        "bigint",
        "numeric",
        "real",
        "double precision",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "interval",
        "uuid",
        "bytea",
        "inet",
    ];
    for of in types {
        for value in values() {
            let statement = format!("select :x::{of} as x, 1 as one");
            let spec = QuerySpec { response_bytes_max: 1 << 20, ..reading(&[&statement]) };
            match house.outcome(&spec, json!({"x": value})).await {
                CallOutcome::Ok { output } => {
                    assert_eq!(output[0]["one"], 1, "{of}: {value}");
                    if ["json", "jsonb"].contains(&of) {
                        // Of which `jsonb` keeps all digits, and no exponent.
                        let digits = (of == "jsonb" && value == json!(1e300))
                            .then(|| json!(format!("1{}", "0".repeat(300))));
                        assert_eq!(output[0]["x"], digits.unwrap_or(value), "{of}");
                    }
                }
                CallOutcome::Error { error } => {
                    assert_eq!(error.code, ErrorCode::InvalidArguments, "{of}: {value}: {error}");
                    assert!(error.message.contains("argument \"x\": "), "{of}: {value}: {error}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let nul = json!({"x": "a\0b"});
    let (code, message) = house.error(&reading(&["select :x::text as x"]), nul).await;
    assert_eq!(code, ErrorCode::InvalidArguments, "{message}");
    let count = reading(&["select count(*) as n from film"]);
    assert_eq!(house.output(&count, json!({})).await, json!([{"n": 1}]));
}
