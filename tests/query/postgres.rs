//! What a server adds: it is killed, restarted, cut off, and asked for types that files do not have.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tools::SecretRef;
use tools::query::{PostgresSpec, QuerySpec, Tls};
use wire::{CallOutcome, ErrorCode, ToolReply};

use tests::postgres::Postgres;

use crate::house::{House, LONG, open, reading, spec_of, writing};
use crate::proxy::{self, Word};

const SCRIPT: &str = "create table note (key text primary key, said text)";

async fn notes(house: &House) -> Value {
    let count = reading(&["select count(*) as n from note"]);
    house.output(&count, json!({})).await[0]["n"].clone()
}

/// Tells how many other connections do something, such as to run a statement.
async fn active(house: &House, what: &str) -> Value {
    let others = "select count(*) as n from pg_stat_activity
        where pid <> pg_backend_pid() and query like :x and state = 'active'";
    house.output(&reading(&[others]), json!({"x": what})).await[0]["n"].clone()
}

#[tokio::test]
async fn types_come_as_json() {
    let house = House::postgres(
        "create type mood as enum ('calm', 'wild'); create domain stars as integer check (value < 6);
         create type pair as (a integer, b text)",
    )
    .await;
    for (shown, expected) in [
        ("1::smallint", json!(1)),
        ("9007199254740993", json!(9_007_199_254_740_993_i64)),
        ("0.1::real", json!(0.1)),
        ("'NaN'::float8", json!(null)),
        ("12.50::numeric(6, 2)", json!(12.5)),
        ("-0.0004::numeric", json!(-0.0004)),
        ("100000000::numeric", json!(100_000_000)),
        ("1234567890123456.75", json!("1234567890123456.75")),
        ("123456789012345678901234567890", json!("123456789012345678901234567890")),
        ("'NaN'::numeric", json!(null)),
        ("avg(x) from (values (1), (2)) t(x)", json!(1.5)),
        ("true", json!(true)),
        ("'\\x00ff'::bytea", json!("00ff")),
        ("'a'::char(3)", json!("a  ")),
        ("'{\"a\": [1]}'::json", json!({"a": [1]})),
        ("'{\"a\": [1]}'::jsonb", json!({"a": [1]})),
        (
            "'00112233-4455-6677-8899-AABBCCDDEEFF'::uuid",
            json!("00112233-4455-6677-8899-aabbccddeeff"),
        ),
        ("date '1969-07-20'", json!("1969-07-20")),
        ("date 'infinity'", json!("infinity")),
        ("time '20:17:40.5'", json!("20:17:40.500")),
        ("timestamp '1969-07-20 20:17:40'", json!("1969-07-20T20:17:40")),
        ("timestamptz '2026-11-21 12:00:00.25+02'", json!("2026-11-21T10:00:00.250Z")),
        ("interval '1 year 2 months 3 days 04:05:06.7'", json!("P1Y2M3DT4H5M6.7S")),
        ("interval '-90 seconds'", json!("PT-1M-30S")),
        ("interval '0'", json!("PT0S")),
        ("'10.0.0.1'::inet", json!("10.0.0.1")),
        ("'10.0.0.0/8'::cidr", json!("10.0.0.0/8")),
        ("'::1'::inet", json!("::1")),
        ("array[1, null, 3]", json!([1, null, 3])),
        ("array[['a'], ['b']]", json!([["a"], ["b"]])),
        ("'{}'::text[]", json!([])),
        ("'wild'::mood", json!("wild")),
        ("4::stars", json!(4)),
        ("row(1, 'x')::pair", json!({"a": 1, "b": "x"})),
        ("array[row(1, null)::pair]", json!([{"a": 1, "b": null}])),
        ("pg_sleep(0)", json!(null)),
        ("null", json!(null)),
    ] {
        let (value, rest) = shown.split_once(" from ").unwrap_or((shown, ""));
        let from = if rest.is_empty() { "" } else { " from " };
        let spec = reading(&[&format!("select {value} as v{from}{rest}")]);
        assert_eq!(house.output(&spec, json!({})).await, json!([{"v": expected}]), "{shown}");
    }
    for (statement, part) in [
        (
            "select int4range(1, 2) as r",
            "column \"r\" is of type int4range, which has no form in JSON",
        ),
        ("select 1 as a, 2 as a", "two columns of the statement are called \"a\""),
        ("select gone from note", "relation \"note\" does not exist"),
        ("select 1 / 0 as n", "division by zero"),
        ("select set_config('transaction_read_only', 'off', true) as s", "read-write mode"),
    ] {
        let (code, message) = house.error(&reading(&[statement]), json!({})).await;
        assert_eq!(code, ErrorCode::ToolFailed, "{message}");
        assert!(message.contains(part), "{statement}: {message}");
    }
}

#[tokio::test]
async fn a_stopped_call_is_stopped_on_the_server() {
    let house = House::postgres(SCRIPT).await;
    let slow = writing(&["insert into note values ('a', 'b')", "select pg_sleep(600) as slept"]);
    let mut call = Box::pin(house.reply(&slow, json!({}), LONG));
    // Until the server is seen to sleep, so that it is the sleep that is stopped.
    while active(&house, "%pg_sleep%").await == 0 {
        let wait = tokio::time::timeout(Duration::from_millis(20), &mut call).await;
        assert!(wait.is_err(), "{wait:?}");
    }
    drop(call);
    let end = Instant::now() + LONG;
    while active(&house, "%pg_sleep%").await != 0 {
        assert!(Instant::now() < end, "it sleeps on");
    }
    assert_eq!(notes(&house).await, 0);
}

#[tokio::test]
async fn a_server_that_is_killed_is_found_again() {
    let mut house = House::postgres(SCRIPT).await;
    let put = writing(&["insert into note values (:x, 'b')"]);
    for number in 0..4 {
        house.output(&put, json!({"x": number})).await;
    }
    for round in 1..=2 {
        house.server.as_mut().unwrap().kill().await;
        let (code, message) = house.error(&put, json!({"x": "away"})).await;
        assert_eq!(code, ErrorCode::ToolUnavailable, "{message}");
        assert!(message.contains("connect to 127.0.0.1:"), "{message}");
        house.server.as_mut().unwrap().run().await;
        // The first call after it comes through, though all kept connections are dead.
        assert_eq!(notes(&house).await, 3 + round);
        house.output(&put, json!({"x": 10 + round})).await;
    }
    // In the middle of a call: what it did is gone, and it says so.
    let slow = writing(&["insert into note values ('a', 'b')", "select pg_sleep(600) as slept"]);
    let databases = open(spec_of(house.server.as_ref().unwrap()));
    let call = tokio::spawn(async move {
        let tool = tools::query::QueryTool::new(slow, &databases);
        tools::Tool::call(&tool, &crate::house::context(LONG), &json!({})).await
    });
    while active(&house, "%pg_sleep%").await == 0 {
        tokio::task::yield_now().await;
    }
    house.server.as_mut().unwrap().kill().await;
    let ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } = call.await.unwrap()
    else {
        panic!("it was answered")
    };
    assert_eq!(error.code, ErrorCode::ToolUnavailable, "{error}");
    assert!(error.message.contains("nothing was changed"), "{error}");
    house.server.as_mut().unwrap().run().await;
    assert_eq!(notes(&house).await, 6);
}

#[tokio::test]
async fn a_commit_without_an_answer_is_lost() {
    let house = House::postgres(SCRIPT).await;
    let port = house.server.as_ref().unwrap().port;
    for (fate, stays) in [(Word::Heard, 1), (Word::Lost, 0)] {
        house.output(&writing(&["delete from note"]), json!({})).await;
        let through = proxy::start(port, b"COMMIT\0", fate).await;
        let spec = PostgresSpec { port: through, ..spec_of(house.server.as_ref().unwrap()) };
        let cut_off = House::at(spec);
        let put = writing(&["insert into note values ('a', 'b')"]);
        let reply = cut_off.reply(&put, json!({}), LONG).await;
        let ToolReply::Lost { error, .. } = reply else { panic!("{fate:?}: {reply:?}") };
        assert!(error.message.contains("it may have taken effect"), "{error}");
        // The server goes on with what it heard, and drops what it did not.
        let end = Instant::now() + LONG;
        while notes(&house).await != stays {
            assert!(Instant::now() < end, "{fate:?}");
        }
        // A reader has nothing to lose.
        let found = cut_off.output(&reading(&["select 1 as one"]), json!({})).await;
        assert_eq!(found, json!([{"one": 1}]));
    }
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_the_end_is_an_error() {
    let house = House::postgres(
        "create table a (key integer primary key);
         create table b (a integer references a deferrable initially deferred)",
    )
    .await;
    let put = writing(&["insert into b values (:x)"]);
    let (code, message) = house.error(&put, json!({"x": 1})).await;
    assert_eq!(code, ErrorCode::ToolFailed, "{message}");
    assert!(message.contains("violates foreign key constraint"), "{message}");
}

#[tokio::test]
async fn places_are_bounded_and_waited_for() {
    let server = Postgres::start(&[]).await;
    let spec = PostgresSpec { connections: 1, ..spec_of(&server) };
    let house = House::at(spec);
    let slow = reading(&["select pg_sleep(600) as slept"]);
    let quick = reading(&["select 1 as one"]);
    let holds = house.reply(&slow, json!({}), LONG);
    let waits = async {
        let reply = house.reply(&quick, json!({}), Duration::from_millis(300)).await;
        let ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(error.code, ErrorCode::Overloaded, "{error}");
    };
    tokio::select! {
        biased;
        reply = holds => panic!("{reply:?}"),
        () = waits => {}
    }
    assert_eq!(house.output(&quick, json!({})).await, json!([{"one": 1}]));
}

#[tokio::test]
async fn who_may_not_come_in_is_told() {
    let server = Postgres::start(&[]).await;
    let fine = spec_of(&server);
    let wrong = server.write("wrong", "guess");
    for (spec, part) in [
        (
            PostgresSpec { password: Some(SecretRef::File(wrong)), ..fine.clone() },
            "password authentication failed",
        ),
        (PostgresSpec { database: "gone".to_owned(), ..fine.clone() }, "\"gone\" does not exist"),
        (
            PostgresSpec {
                password: Some(SecretRef::File("/gone/password".into())),
                ..fine.clone()
            },
            "secret file /gone/password",
        ),
        (
            PostgresSpec { tls: Tls::Verify { authorities: None }, ..fine.clone() },
            "server does not support TLS",
        ),
    ] {
        let house = House::at(spec);
        let (code, message) = house.error(&reading(&["select 1 as one"]), json!({})).await;
        assert_eq!(code, ErrorCode::ToolUnavailable, "{message}");
        assert!(message.contains(part) && !message.contains("guess"), "{message}");
    }
    let spec = PostgresSpec { read_only: true, ..fine };
    let house = House::at(spec);
    let (_, message) = house.error(&writing(&["create table t (a int)"]), json!({})).await;
    assert!(message.contains("the database is read-only"), "{message}");
}

fn by_socket(server: &Postgres, spec: &PostgresSpec) -> PostgresSpec {
    let folder = server.socket_folder().to_str().unwrap().to_owned();
    PostgresSpec { host: folder, ..spec.clone() }
}

#[tokio::test]
async fn a_row_of_many_bytes_is_not_read_and_the_call_is_told_so() {
    let cert = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let mut server = Postgres::start(&[]).await;
    let certificate = server.write("cert.pem", &cert.cert.pem());
    let key = server.write("key.pem", &cert.signing_key.serialize_pem());
    for (name, file) in [("ssl_cert_file", &certificate), ("ssl_key_file", &key)] {
        server.set(format!("{name}={}", file.display()));
    }
    server.set("ssl=on".to_owned());
    server.run().await;
    let fine = spec_of(&server);
    let tls = Tls::Verify { authorities: Some(certificate) };
    House::at(fine.clone()).output(&writing(&[SCRIPT]), json!({})).await;
    for spec in [fine.clone(), by_socket(&server, &fine), PostgresSpec { tls, ..fine }] {
        let (house, way) = (House::at(spec.clone()), format!("{} {:?}", spec.host, spec.tls));
        // With what stands before it, the row has just as much as may come, and a byte more.
        let row = |bytes: usize| format!("select 'a' as a, repeat('b', {bytes}) as b");
        let longest = (16 << 20) - 2 - 2 * 4 - 1;
        let (code, message) = house.error(&reading(&[&row(longest + 1)]), json!({})).await;
        assert_eq!(code, ErrorCode::ToolFailed, "{way}: {message}");
        assert!(
            message.contains("16777216 bytes") && message.contains("ask for less"),
            "{message}"
        );
        let cut = QuerySpec { response_bytes_max: 32 << 20, ..reading(&[&row(longest)]) };
        let rows = house.output(&cut, json!({})).await;
        assert_eq!(rows[0]["b"].as_str().map(str::len), Some(longest), "{way}");
        // What was done before it is undone.
        let put = "insert into note values ('a', 'b')";
        let (code, message) = house.error(&writing(&[put, &row(1 << 28)]), json!({})).await;
        assert_eq!(code, ErrorCode::ToolFailed, "{way}: {message}");
        assert_eq!(notes(&house).await, 0, "{way}");
    }
}

#[tokio::test]
async fn a_connection_is_encrypted_to_who_it_is_meant_for() {
    let ours = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["db.example.com".to_owned()]).unwrap();
    let mut server = Postgres::start(&[]).await;
    let cert = server.write("cert.pem", &ours.cert.pem());
    let key = server.write("key.pem", &ours.signing_key.serialize_pem());
    let strange = server.write("other.pem", &other.cert.pem());
    for (name, file) in [("ssl_cert_file", &cert), ("ssl_key_file", &key)] {
        server.set(format!("{name}={}", file.display()));
    }
    server.set("ssl=on".to_owned());
    server.run().await;
    let fine = spec_of(&server);
    let by = |file: &std::path::Path, host: &str| PostgresSpec {
        tls: Tls::Verify { authorities: Some(file.to_owned()) },
        host: host.to_owned(),
        ..fine.clone()
    };
    let encrypted = reading(&["select ssl from pg_stat_ssl where pid = pg_backend_pid()"]);
    for (spec, expected) in [
        (by(&cert, "127.0.0.1"), Ok(json!([{"ssl": true}]))),
        (fine.clone(), Ok(json!([{"ssl": false}]))),
        (by_socket(&server, &fine), Ok(json!([{"ssl": false}]))),
        (by(&strange, "127.0.0.1"), Err("invalid peer certificate")),
        (by(&cert, "localhost"), Err("not valid for name")),
    ] {
        let house = House::at(spec);
        match expected {
            Ok(rows) => assert_eq!(house.output(&encrypted, json!({})).await, rows),
            Err(part) => {
                let (code, message) = house.error(&encrypted, json!({})).await;
                assert_eq!(code, ErrorCode::ToolUnavailable, "{message}");
                assert!(message.contains(part), "{message}");
            }
        }
    }
}
