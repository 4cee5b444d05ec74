//! Statements of Cypher: what they return, what they refuse, and what stays after them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tools::SecretRef;
use tools::client::http_client;
use tools::query::{DatabaseSpec, Databases, Login, Neo4jSpec, QuerySpec};
use wire::{CallOutcome, ErrorCode, ToolReply};

use crate::house::{House, LONG, name, reading, writing};
use crate::proxy::{self, Word};
use tests::graph::{Graph, PASSWORD, TOKEN};

struct Place {
    graph: Graph,
    folder: TempDir,
}

impl Place {
    async fn new() -> Self {
        let place = Self { graph: Graph::start().await, folder: tempfile::tempdir().unwrap() };
        let house = place.house();
        let made = writing(&["CREATE NODE TABLE Film (title STRING PRIMARY KEY, year INT64)"]);
        house.output(&made, json!({})).await;
        let film = writing(&["CREATE (:Film {title: $x, year: $y})"]);
        for (title, year) in [("Alien", 1979), ("Jaws", 1975), ("Heat", 1995)] {
            let made = house.output(&film, json!({"x": title, "y": year})).await;
            assert_eq!(made, json!({"changed": 1}));
        }
        place
    }

    fn file(&self, text: &str) -> PathBuf {
        let file = self.folder.path().join(text.len().to_string());
        std::fs::write(&file, text).unwrap();
        file
    }

    fn spec(&self) -> Neo4jSpec {
        let password = SecretRef::File(self.file(PASSWORD));
        Neo4jSpec {
            url: format!("http://127.0.0.1:{}", self.graph.port),
            database: "neo4j".to_owned(),
            login: Login::User { user: "neo4j".to_owned(), password },
            read_only: false,
            connections: 4,
        }
    }

    fn house(&self) -> House {
        at(self.spec())
    }
}

fn at(spec: Neo4jSpec) -> House {
    let specs = BTreeMap::from([(name("d"), DatabaseSpec::Neo4j(spec))]);
    House::of(Databases::open(&specs, "unused".as_ref(), &http_client().unwrap()).unwrap())
}

async fn films(house: &House) -> Value {
    let count = reading(&["MATCH (f:Film) RETURN count(f) AS n"]);
    house.output(&count, json!({})).await[0]["n"].clone()
}

#[tokio::test]
async fn rows_come_as_of_other_databases() {
    let place = Place::new().await;
    let house = place.house();
    let old =
        "MATCH (f:Film) WHERE f.year < $x RETURN f.title AS title, f.year AS year ORDER BY year";
    let two = QuerySpec { rows_max: 2, ..reading(&["UNWIND range(1, $x) AS i RETURN i"]) };
    let cut = "cut after 2 rows; there are more, ask for less";
    let told = QuerySpec {
        result: Some("{% for row in rows %}{{ row.title }} {% endfor %}".to_owned()),
        ..reading(&[old])
    };
    for (spec, arguments, expected) in [
        (
            reading(&[old]),
            json!({"x": 1980}),
            json!([{"title": "Jaws", "year": 1975}, {"title": "Alien", "year": 1979}]),
        ),
        (reading(&[old]), json!({"x": 1900}), json!([])),
        (two.clone(), json!({"x": 2}), json!([{"i": 1}, {"i": 2}])),
        (two, json!({"x": 3}), json!({"rows": [{"i": 1}, {"i": 2}], "cut": cut})),
        (told, json!({"x": 1980}), json!("Jaws Alien")),
        (
            reading(&["MATCH (f:Film {title: 'Heat'}) RETURN f"]),
            json!({}),
            json!([{"f": {"elementId": "0:2", "labels": ["Film"], "properties": {"title": "Heat", "year": 1995}}}]),
        ),
        (
            reading(&["RETURN $call_key AS k, $session AS s, $agent AS a"]),
            json!({"call_key": "mine"}),
            json!([{"k": "k1", "s": "s1", "a": "critic"}]),
        ),
        (
            reading(&[
                "RETURN 1 AS one",
                "MATCH (f:Film) WHERE f.year > 3000 RETURN f.title AS two",
            ]),
            json!({}),
            json!([[{"one": 1}], []]),
        ),
    ] {
        assert_eq!(house.output(&spec, arguments).await, expected, "{:?}", spec.statements);
    }
}

#[tokio::test]
async fn values_stay_values_and_readers_do_not_write() {
    let place = Place::new().await;
    let house = place.house();
    for value in [
        "' OR 1 = 1 //",
        "'}) DETACH DELETE f //",
        "\"}) MATCH (n) DETACH DELETE n //",
        "$y",
        "`Film`",
        "\\' RETURN 1 //",
        "{{ rows }}",
        "é漢🎬\u{202e}",
        "",
    ] {
        let found = reading(&["MATCH (f:Film {title: $x}) RETURN f.title AS title"]);
        assert_eq!(house.output(&found, json!({"x": value})).await, json!([]), "{value}");
        let put = writing(&[
            "CREATE (f:Film {title: $x, year: 1}) RETURN f.title AS title",
            "MATCH (f:Film {title: $x, year: 1}) DELETE f",
        ]);
        let put = QuerySpec { result: Some("{{ rows[0].title }}|".to_owned()), ..put };
        let kept = house.output(&put, json!({"x": value})).await;
        assert_eq!(kept, json!(format!("{value}|")));
        assert_eq!(films(&house).await, 3, "{value}");
    }
    for statement in [
        "CREATE (:Film {title: 'b', year: 1})",
        "MATCH (f:Film) DELETE f",
        "MATCH (f:Film) SET f.year = 1",
    ] {
        let (code, message) = house.error(&reading(&[statement]), json!({})).await;
        assert_eq!(code, ErrorCode::ToolFailed, "{message}");
        assert!(message.contains("Neo.ClientError.Statement.AccessMode"), "{message}");
        // Also among others, in a transaction.
        let (code, _) = house.error(&reading(&["RETURN 1 AS one", statement]), json!({})).await;
        assert_eq!(code, ErrorCode::ToolFailed);
    }
    let house = at(Neo4jSpec { read_only: true, ..place.spec() });
    let (_, message) = house.error(&writing(&["MATCH (f:Film) DELETE f"]), json!({})).await;
    assert!(message.contains("the database is read-only"), "{message}");
    assert_eq!(films(&house).await, 3);
}

#[tokio::test]
async fn all_statements_stand_or_none() {
    let place = Place::new().await;
    let house = place.house();
    let put = "CREATE (:Film {title: $x, year: 1})";
    let (code, message) = house.error(&writing(&[put, put]), json!({"x": "a"})).await;
    assert_eq!(code, ErrorCode::ToolFailed, "{message}");
    assert_eq!(films(&house).await, 3);
    let broken = QuerySpec { result: Some("{{ 1 / 0 }}".to_owned()), ..writing(&[put]) };
    let (_, message) = house.error(&broken, json!({"x": "b"})).await;
    assert!(message.contains("the result cannot be written"), "{message}");
    assert_eq!(films(&house).await, 3);
    // The next writer is not held up by what was undone.
    assert_eq!(house.output(&writing(&[put]), json!({"x": "c"})).await, json!({"changed": 1}));
    // The product keeps the server from counting without looking.
    let slow = "UNWIND range(1, 100000) AS i UNWIND range(1, 100000) AS j
        WITH i, j WHERE (i * j) % 7 = 3 RETURN count(*) AS n";
    let spec = writing(&["CREATE (:Film {title: 'slow', year: 1})", slow]);
    let reply = house.reply(&spec, json!({}), Duration::from_millis(400)).await;
    let ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(error.code, ErrorCode::ToolTimeout, "{error}");
    assert_eq!(films(&house).await, 4);
}

#[tokio::test]
async fn who_cannot_be_reached_is_told() {
    let mut place = Place::new().await;
    let fine = place.spec();
    let wrong = SecretRef::File(place.file("guess"));
    let token = SecretRef::File(place.file(TOKEN));
    let login = Login::User { user: "neo4j".to_owned(), password: wrong };
    let one = reading(&["RETURN 1 AS one"]);
    let by_token = at(Neo4jSpec { login: Login::Token(token), ..fine.clone() });
    assert_eq!(by_token.output(&one, json!({})).await, json!([{"one": 1}]));
    for (spec, code, part) in [
        (
            Neo4jSpec { login, ..fine.clone() },
            ErrorCode::ToolUnavailable,
            "Neo.ClientError.Security.Unauthorized",
        ),
        (
            Neo4jSpec { database: "gone".to_owned(), ..fine.clone() },
            ErrorCode::ToolFailed,
            "DatabaseNotFound",
        ),
        (
            Neo4jSpec { url: format!("{}/other", fine.url), ..fine.clone() },
            ErrorCode::ToolUnavailable,
            "there is no Query API",
        ),
    ] {
        let (found, message) = at(spec).error(&one, json!({})).await;
        assert_eq!(found, code, "{message}");
        assert!(message.contains(part) && !message.contains("guess"), "{message}");
    }
    place.graph.kill().await;
    let (code, message) = at(fine).error(&one, json!({})).await;
    assert_eq!(code, ErrorCode::ToolUnavailable, "{message}");
    assert!(message.contains("nothing was changed"), "{message}");
}

#[tokio::test]
async fn a_commit_without_an_answer_is_lost() {
    let place = Place::new().await;
    for (word, is_lost) in [(&b"/commit "[..], true), (b"/query/v2/tx ", false)] {
        let port = proxy::start(place.graph.port, word, Word::Lost).await;
        let house = at(Neo4jSpec { url: format!("http://127.0.0.1:{port}"), ..place.spec() });
        let put = writing(&["CREATE (:Film {title: 'lost', year: 1})"]);
        match (house.reply(&put, json!({}), LONG).await, is_lost) {
            (ToolReply::Lost { error, .. }, true) => {
                assert!(error.message.contains("it may have taken effect"), "{error}");
            }
            (ToolReply::Settled { outcome: CallOutcome::Error { error }, .. }, false) => {
                assert_eq!(error.code, ErrorCode::ToolUnavailable, "{error}");
            }
            (other, _) => panic!("{other:?}"),
        }
        assert_eq!(films(&place.house()).await, 3);
    }
}

/// Answers one request as a server of another kind or state would.
async fn canned(status: &str, body: &str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 64 << 10];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    port
}

#[tokio::test]
async fn answers_of_trouble_are_understood() {
    let error = |code: &str| json!({"errors": [{"code": code, "message": "why"}]}).to_string();
    let wide = json!({"data": {"fields": ["a"], "values": [[1, 2]]}}).to_string();
    for (status, body, code) in [
        (
            "503 x",
            error("Neo.TransientError.General.DatabaseUnavailable"),
            ErrorCode::ToolUnavailable,
        ),
        ("400 x", error("Neo.ClientError.Statement.ParameterMissing"), ErrorCode::ToolFailed),
        ("403 x", error("Neo.ClientError.Security.Forbidden"), ErrorCode::ToolFailed),
        ("400 x", error("Neo.ClientError.Transaction.TransactionTimedOut"), ErrorCode::ToolTimeout),
        ("202 x", wide, ErrorCode::ToolFailed),
        ("200 x", "<html>".to_owned(), ErrorCode::ToolUnavailable),
        ("502 x", "{}".to_owned(), ErrorCode::ToolUnavailable),
        ("302 x", String::new(), ErrorCode::ToolUnavailable),
    ] {
        let port = canned(status, &body).await;
        let house = at(Neo4jSpec {
            url: format!("http://127.0.0.1:{port}"),
            database: "neo4j".to_owned(),
            login: Login::Anonymous,
            read_only: false,
            connections: 1,
        });
        let (found, message) = house.error(&reading(&["RETURN 1 AS a"]), json!({})).await;
        assert_eq!(found, code, "{status} {body}: {message}");
    }
}
