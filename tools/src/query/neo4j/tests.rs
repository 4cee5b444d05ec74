use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use wire::{CallOutcome, EffectClass, ErrorCode, Name, ToolReply};

use super::{Login, Neo4jSpec};
use crate::client::http_client;
use crate::http::tests::read_request;
use crate::query::{DatabaseSpec, Databases, QuerySpec, QueryTool};
use crate::testing::context;
use crate::tool::Tool as _;

/// Opens a transaction for the first request, and gives this answer to the second.
async fn server(status: &'static str, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let opened = json!({"transaction": {"id": "a1"}}).to_string();
    tokio::spawn(async move {
        for (status, body) in [("202 Accepted", opened), (status, body)] {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
            let answer = format!("{head}content-length: {length}\r\n\r\n{body}");
            // Who has read enough of an answer that is too long hangs up.
            drop(stream.write_all(answer.as_bytes()).await);
        }
    });
    url
}

async fn put(url: String) -> ToolReply {
    let (database, login) = ("neo4j".to_owned(), Login::Anonymous);
    let spec = Neo4jSpec { url, database, login, read_only: false, connections: 1 };
    let name = Name::new("d").unwrap();
    let specs = BTreeMap::from([(name.clone(), DatabaseSpec::Neo4j(spec))]);
    let databases = Databases::open(&specs, "unused".as_ref(), &http_client().unwrap()).unwrap();
    let spec = QuerySpec {
        database: name,
        statements: vec!["CREATE (:Film {title: 'Alien'})".to_owned()],
        parameters: Vec::new(),
        result: None,
        effect: EffectClass::Once,
        rows_max: 10,
        response_bytes_max: 1000,
    };
    let tool = QueryTool::new(spec, &databases);
    tool.call(&context(Duration::from_secs(20)), &json!({})).await
}

#[tokio::test]
async fn a_commit_is_lost_unless_the_server_itself_says_what_came_of_it() {
    let page = || "<html>Bad Gateway</html>".to_owned();
    let told = |code: &str| json!({"errors": [{"code": code, "message": "why"}]}).to_string();
    for (status, body) in [
        ("502 Bad Gateway", page()),
        ("504 Gateway Timeout", String::new()),
        // A gateway may write its errors as the server does.
        ("504 Gateway Timeout", told("504")),
        ("502 Bad Gateway", told("Neo.ClientError.Statement.SyntaxError")),
        ("503 Service Unavailable", json!({"message": "no upstream"}).to_string()),
        ("500 x", json!({"errors": ["upstream"]}).to_string()),
        ("401 Unauthorized", page()),
        ("404 Not Found", page()),
        ("302 Found", String::new()),
        ("200 OK", page()),
        ("200 OK", " ".repeat(17 << 20)),
    ] {
        let about = format!("{status} {body:.30}");
        let reply = put(server(status, body).await).await;
        let ToolReply::Lost { error, .. } = &reply else { panic!("{about}: {reply:?}") };
        let text = &error.message;
        assert!(text.contains("commit: ") && !text.contains("nothing was changed"), "{text}");
    }
    for (status, body, expected) in [
        ("200 OK", json!({"bookmarks": ["b"]}).to_string(), None),
        (
            "500 x",
            told("Neo.TransientError.Transaction.DeadlockDetected"),
            Some(ErrorCode::ToolUnavailable),
        ),
        ("400 x", told("Neo.ClientError.Schema.ConstraintViolation"), Some(ErrorCode::ToolFailed)),
    ] {
        let reply = put(server(status, body.clone()).await).await;
        let ToolReply::Settled { outcome, .. } = reply else { panic!("{body}: {reply:?}") };
        match (outcome, expected) {
            (CallOutcome::Ok { output }, None) => assert_ne!(output, Value::Null),
            (CallOutcome::Error { error }, Some(code)) => assert_eq!(error.code, code, "{error}"),
            (outcome, _) => panic!("{body}: {outcome:?}"),
        }
    }
}
