use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use wire::{CallOutcome, EffectClass, ErrorCode, ToolReply};

use super::{BodyTemplate, FieldSource, HttpSpec, HttpTool, OutputSchema, QueryField, QueryStyle};
use crate::client::{Allowed, HttpClient};
use crate::secret::SecretRef;
use crate::testing::context;
use crate::tool::Tool;

/// What the server does once it has read a request.
pub(crate) enum Answer {
    /// Sends these bytes and closes.
    Bytes(String),
    /// Keeps the connection and sends nothing more than these bytes.
    Hang(String),
}

/// A request as the server read it.
pub(crate) struct Seen {
    line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// Serves one request; the task ends with what was read.
pub(crate) async fn server(answer: Answer) -> (String, JoinHandle<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let seen = read_request(&mut stream).await;
        match answer {
            Answer::Bytes(bytes) => {
                stream.write_all(bytes.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
                seen
            }
            Answer::Hang(bytes) => {
                stream.write_all(bytes.as_bytes()).await.unwrap();
                std::future::pending().await
            }
        }
    });
    (base, task)
}

pub(crate) async fn read_request(stream: &mut TcpStream) -> Seen {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).await.unwrap();
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).await.unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.insert(name.to_owned(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.unwrap();
    Seen { line: line.trim_end().to_owned(), headers, body: String::from_utf8(body).unwrap() }
}

pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Bytes(format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}"))
}

fn spec(method: &str, url: String) -> HttpSpec {
    HttpSpec::new(method, url, 8 * 1024)
}

fn query(name: &str, text: &str) -> QueryField {
    let source = FieldSource::Template(text.to_owned());
    QueryField { name: name.to_owned(), source, style: QueryStyle::Repeated }
}

fn template(name: &str, text: &str) -> (String, FieldSource) {
    (name.to_owned(), FieldSource::Template(text.to_owned()))
}

fn tool(spec: HttpSpec) -> HttpTool {
    // Every test may come first; that another one did is no fault.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    HttpTool::new(spec, HttpClient::new().unwrap())
}

async fn reply_within(tool: &HttpTool, arguments: Value, time: Duration) -> ToolReply {
    tool.call(&context(time), &arguments).await
}

async fn call_within(tool: &HttpTool, arguments: Value, time: Duration) -> CallOutcome {
    match reply_within(tool, arguments, time).await {
        ToolReply::Settled { outcome, .. } => outcome,
        other @ (ToolReply::Lost { .. } | ToolReply::Asks { .. } | ToolReply::Suspended { .. }) => {
            panic!("{other:?}")
        }
    }
}

async fn call(spec: HttpSpec, arguments: Value) -> CallOutcome {
    call_within(&tool(spec), arguments, Duration::from_secs(20)).await
}

fn error(outcome: CallOutcome) -> wire::WireError {
    match outcome {
        CallOutcome::Error { error } => error,
        other => panic!("no error: {other:?}"),
    }
}

#[tokio::test]
async fn a_request_carries_what_the_template_says() {
    let (base, server) = server(answer("200 OK", "", "done")).await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "s3cret-key").unwrap();
    let secret = FieldSource::Secret {
        prefix: "Bearer ".to_owned(),
        secret: SecretRef::File(file.path().to_owned()),
    };
    let mut spec = spec("POST", format!("{base}/v1/{{city}}/now?fixed=1"));
    spec.query = [("q", "{words}"), ("tag", "{tags}"), ("left", "{absent}"), ("n", "no. {n}")]
        .map(|(name, text)| query(name, text))
        .to_vec();
    spec.headers = vec![
        template("Accept", "text/plain"),
        template("X-City", "in {city}"),
        template("X-Absent", "{absent}"),
        ("Authorization".to_owned(), secret),
    ];
    spec.body = Some(BodyTemplate::Arguments);
    let arguments = json!({
        "city": "St. Pölten/..", "words": "a&b=c d", "tags": ["x", 1], "n": 2, "deep": {"k": null},
    });
    assert_eq!(call(spec, arguments).await, CallOutcome::text("done"));
    let seen = server.await.unwrap();
    assert_eq!(
        seen.line,
        "POST /v1/St.%20P%C3%B6lten%2F../now?fixed=1&q=a%26b%3Dc+d&tag=x&tag=1&n=no.+2 HTTP/1.1"
    );
    assert_eq!(seen.body, r#"{"deep":{"k":null}}"#);
    let trace = context(Duration::ZERO).trace.to_string();
    for (name, value) in [
        ("accept", Some("text/plain")),
        ("authorization", Some("Bearer s3cret-key")),
        ("content-type", Some("application/json")),
        ("idempotency-key", Some("0123abcd")),
        ("traceparent", Some(trace.as_str())),
        ("x-absent", None),
    ] {
        assert_eq!(seen.headers.get(name).map(String::as_str), value, "{name}");
    }
}

#[tokio::test]
async fn bodies_are_made_of_arguments() {
    let json_body = BodyTemplate::Json(json!({
        "exact": "{n}", "inside": "no. {n}", "absent": "{absent}", "null": "{null}",
        "list": ["{list}", "{absent}", true], "fixed": {"k": "{ n }"},
    }));
    let text_body = BodyTemplate::Text("{\"q\": \"{n}\"}{absent} {n}".to_owned());
    let cases = [
        (
            json_body,
            "application/json",
            r#"{"exact":1.5,"inside":"no. 1.5","null":null,"list":[["a"],true],"fixed":{"k":"{ n }"}}"#,
        ),
        (text_body, "text/plain; charset=utf-8", r#"{"q": "1.5"} 1.5"#),
        (BodyTemplate::Json(json!("{absent}")), "application/json", "null"),
    ];
    for (body, content_type, expected) in cases {
        let (base, server) = server(answer("204 No Content", "", "")).await;
        let spec = HttpSpec { body: Some(body), ..spec("PUT", base) };
        let outcome = call(spec, json!({"n": 1.5, "null": null, "list": ["a"]})).await;
        assert_eq!(outcome.to_text(), "the server answered 204 No Content without a body");
        let seen = server.await.unwrap();
        assert_eq!(seen.body, expected);
        assert_eq!(seen.headers["content-type"], content_type);
    }
}

#[tokio::test]
async fn a_content_type_of_the_template_stays() {
    let (base, server) = server(answer("200 OK", "", "x")).await;
    let mut spec = spec("POST", base);
    spec.headers = vec![template("content-type", "application/graphql")];
    spec.body = Some(BodyTemplate::Text("{ me }".to_owned()));
    call(spec, json!({})).await;
    let seen = server.await.unwrap();
    assert_eq!(
        (seen.body.as_str(), &*seen.headers["content-type"]),
        ("{ me }", "application/graphql")
    );
}

#[tokio::test]
async fn an_answer_is_held_to_what_is_promised_of_its_status() {
    let promised = [
        ("201", json!({"required": ["a"]})),
        ("202", json!(true)),
        ("2XX", json!({"required": ["b"]})),
        ("default", json!({"required": ["c"]})),
    ];
    for (status, known, missing) in [
        ("200 OK", &promised[..1], None),
        ("201 Created", &promised, Some("a")),
        ("202 Accepted", &promised, None),
        ("200 OK", &promised, Some("b")),
        ("200 OK", &promised[3..], Some("c")),
    ] {
        let (base, _server) =
            server(answer(status, "content-type: application/json\r\n", "{}")).await;
        let schemas = known.iter().map(|(status, schema)| ((*status).to_owned(), schema.clone()));
        let output = Some(OutputSchema::Promised(schemas.collect()));
        let outcome = call(HttpSpec { output, ..spec("GET", base) }, json!({})).await;
        let note = |name| {
            let fault = format!("\"{name}\" is a required property");
            json!(format!("{{}}\n[this is not of the form that the interface promises: {fault}]"))
        };
        let output = missing.map_or(json!({}), note);
        assert_eq!(outcome, CallOutcome::Ok { output }, "{status} {known:?}");
    }
}

#[tokio::test]
async fn answers_become_json_or_text() {
    let long = "ä".repeat(5000);
    let cut = format!("{}\n[cut after 8192 bytes]", "ä".repeat(4096));
    let json_type = "content-type: application/json; charset=utf-8\r\n";
    let cases = [
        (json_type, r#"{"a": [1]}"#, json!({"a": [1]})),
        ("content-type: application/problem+json\r\n", "7", json!(7)),
        (json_type, "{broken", json!("{broken")),
        ("content-type: text/plain\r\n", "7", json!("7")),
        ("", "7", json!("7")),
        (json_type, &long, json!(cut)),
        ("", "", json!("the server answered 200 OK without a body")),
    ];
    for (headers, body, output) in cases {
        let (base, _server) = server(answer("200 OK", headers, body)).await;
        assert_eq!(call(spec("GET", base), json!({})).await, CallOutcome::Ok { output });
    }
}

#[tokio::test]
async fn a_cut_goes_between_characters() {
    let (base, _server) = server(answer("200 OK", "", "aää")).await;
    let spec = HttpSpec { response_bytes_max: 4, ..spec("GET", base) };
    assert_eq!(call(spec, json!({})).await, CallOutcome::text("aä\n[cut after 4 bytes]"));
}

#[tokio::test]
async fn an_endless_answer_is_cut() {
    let head = "HTTP/1.1 200 OK\r\n\r\n".to_owned();
    let (base, _server) = server(Answer::Hang(head + &"x".repeat(9000))).await;
    let text = call(spec("GET", base), json!({})).await.to_text();
    assert!(text.ends_with("xx\n[cut after 8192 bytes]"), "{text}");
}

#[tokio::test]
async fn a_status_of_failure_is_an_error_that_says_why() {
    let page = "e".repeat(5000);
    let cases = [
        (
            "404 Not Found",
            "",
            "no such city",
            "the server answered 404 Not Found: no such city",
            None,
        ),
        ("500 Internal Server Error", "", " ", "without a body", None),
        ("400 Bad Request", "", &page, &"e".repeat(2048), None),
        ("429 Too Many Requests", "retry-after: 7\r\n", "slow", "429", Some(7000)),
        ("503 Service Unavailable", "retry-after: 99999999\r\n", "", "503", Some(3_600_000)),
        ("503 Service Unavailable", "retry-after: soon\r\n", "", "503", None),
        ("503 Service Unavailable", "retry-after-ms: 1500\r\n", "", "503", Some(1500)),
        (
            "503 Service Unavailable",
            "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:50:00 GMT\r\n",
            "",
            "503",
            Some(23_000),
        ),
        (
            "300 Multiple Choices",
            "location: http://elsewhere/x\r\n",
            "",
            "points to http://elsewhere/x,",
            None,
        ),
    ];
    for (status, headers, body, part, retry_after_ms) in cases {
        let (base, _server) = server(answer(status, headers, body)).await;
        let error = error(call(spec("POST", base), json!({})).await);
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::ToolFailed, retry_after_ms));
        assert!(error.message.contains(part), "{status}: {}", error.message);
        assert!(error.message.len() < 2200, "{}", error.message.len());
    }
}

#[tokio::test]
async fn a_status_by_which_nobody_knows_what_was_done_is_a_lost_call() {
    let packed = "content-encoding: gzip\r\nretry-after: 7\r\n";
    for (status, headers, code, retry_after_ms) in [
        ("504 Gateway Timeout", "", ErrorCode::ToolTimeout, None),
        ("504 Gateway Timeout", packed, ErrorCode::ToolTimeout, Some(7000)),
        ("502 Bad Gateway", "", ErrorCode::ToolUnavailable, None),
        ("408 Request Timeout", "", ErrorCode::ToolTimeout, None),
        ("524 A Timeout Occurred", "", ErrorCode::ToolTimeout, None),
    ] {
        for method in ["POST", "PUT", "GET"] {
            let (base, _server) = server(answer(status, headers, "upstream")).await;
            let tool = tool(spec(method, base));
            let reply = reply_within(&tool, json!({}), Duration::from_secs(20)).await;
            let ToolReply::Lost { error, .. } = &reply else { panic!("{status}: {reply:?}") };
            assert_eq!((error.code, error.retry_after_ms), (code, retry_after_ms), "{status}");
            let told = status.split(' ').next().unwrap();
            assert!(error.message.contains(told), "{status}: {}", error.message);
        }
    }
}

#[tokio::test]
async fn a_request_without_a_whole_answer_is_lost() {
    let short = Duration::from_millis(300);
    let long = Duration::from_secs(20);
    let partial = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc";
    for (sent, hangs, time, expected) in [
        ("", true, short, ErrorCode::ToolTimeout),
        (partial, true, short, ErrorCode::ToolTimeout),
        ("", false, long, ErrorCode::ToolUnavailable),
        (partial, false, long, ErrorCode::ToolUnavailable),
    ] {
        let bytes = sent.to_owned();
        let answer = if hangs { Answer::Hang(bytes) } else { Answer::Bytes(bytes) };
        let (base, _server) = server(answer).await;
        let reply = reply_within(&tool(spec("POST", base)), json!({}), time).await;
        let ToolReply::Lost { error, .. } = &reply else { panic!("{reply:?}") };
        assert_eq!(error.code, expected, "{sent:?} {hangs}: {reply:?}");
    }
}

/// Answers every request alike, over and over.
async fn answering(status: &'static str, headers: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            let head = format!("{headers}connection: close\r\n");
            let Answer::Bytes(bytes) = answer(status, &head, "") else { unreachable!() };
            stream.write_all(bytes.as_bytes()).await.unwrap();
        }
    });
    base
}

#[tokio::test]
async fn a_request_that_was_taken_is_lost_if_its_redirect_leads_nowhere() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dead = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let missing = answering("404 Not Found", String::new()).await;
    let closed = answering("401 Unauthorized", String::new()).await;
    let broken = answering("500 Internal Server Error", String::new()).await;
    let dead_ends = [
        ("http://10.0.0.5/", ErrorCode::AddressForbidden, "10.0.0.5 is not reached"),
        ("ftp://127.0.0.1/", ErrorCode::AddressForbidden, "ftp: addresses"),
        ("http://[", ErrorCode::ToolFailed, "no address"),
        ("/", ErrorCode::ToolFailed, "more than 5 times"),
        (&*dead, ErrorCode::ToolUnavailable, "connect to "),
        (&*missing, ErrorCode::ToolFailed, "the server answered 404 Not Found"),
        (&*closed, ErrorCode::ToolFailed, "the server answered 401 Unauthorized"),
        (&*broken, ErrorCode::ToolFailed, "the server answered 500 Internal Server Error"),
    ];
    // Whether the server did what the method asks for, and answers elsewhere.
    let ways = [
        ("303 See Other", "POST", true),
        ("303 See Other", "DELETE", true),
        ("302 Found", "POST", true),
        ("301 Moved Permanently", "POST", true),
        ("303 See Other", "GET", false),
        ("302 Found", "GET", false),
        ("307 Temporary Redirect", "POST", false),
        ("308 Permanent Redirect", "POST", false),
        ("302 Found", "PUT", false),
    ];
    for (place, code, part) in dead_ends {
        for (status, method, is_taken) in ways {
            let base = answering(status, format!("location: {place}\r\n")).await;
            let mut spec = spec(method, base);
            spec.allowed = Allowed::parse(&["127.0.0.1".to_owned()]).unwrap();
            let reply = reply_within(&tool(spec), json!({}), Duration::from_secs(20)).await;
            let case = format!("{status} {method} {place}: {reply:?}");
            let (error, is_lost) = match reply {
                ToolReply::Lost { error, .. } => (error, true),
                ToolReply::Settled { outcome, .. } => (error(outcome), false),
                ToolReply::Asks { .. } | ToolReply::Suspended { .. } => panic!("{case}"),
            };
            assert_eq!((error.code, is_lost), (code, is_taken), "{case}");
            assert!(error.message.contains(part), "{case}");
        }
    }
}

#[tokio::test]
async fn a_request_that_was_taken_is_lost_if_no_place_of_its_answer_is_told() {
    for (status, method, is_taken) in
        [("303 See Other", "POST", true), ("303 See Other", "GET", false)]
    {
        let (base, _server) = server(answer(status, "", "")).await;
        let reply =
            reply_within(&tool(spec(method, base)), json!({}), Duration::from_secs(20)).await;
        assert_eq!(matches!(reply, ToolReply::Lost { .. }), is_taken, "{method}: {reply:?}");
    }
}

#[tokio::test]
async fn a_request_that_was_not_sent_is_never_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut crlf = spec("POST", base.clone());
    crlf.headers = vec![template("X-A", "{x}")];
    let mut missing = spec("POST", base.clone());
    let secret = SecretRef::File("does-not-exist".into());
    missing.headers =
        vec![("X-A".to_owned(), FieldSource::Secret { prefix: String::new(), secret })];
    let mut wide = spec("POST", base.clone());
    wide.query = vec![query("x", "{wide}")];
    let cases = [
        (spec("POST", base.clone()), ErrorCode::ToolUnavailable, "connect to 127.0.0.1:"),
        (crlf, ErrorCode::InvalidArguments, "header x-a would contain a line break"),
        (missing, ErrorCode::SecretMissing, "does-not-exist"),
        (wide, ErrorCode::InvalidArguments, "more than 8192"),
        (spec("POST", format!("{base}/{{up}}")), ErrorCode::InvalidArguments, "\"..\""),
        (spec("BREW", base), ErrorCode::ToolUnavailable, "method \"BREW\" is none of"),
    ];
    for (spec, code, part) in cases {
        let arguments = json!({"x": "a\r\nX-B: c", "up": "..", "wide": "w".repeat(9000)});
        let error = error(call(spec, arguments).await);
        assert_eq!(error.code, code, "{}", error.message);
        assert!(error.message.contains(part), "{}", error.message);
    }
}

#[tokio::test]
async fn a_secret_that_comes_back_is_not_shown() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "hunter2-hunter2").unwrap();
    let echo = "you sent hunter2-hunter2";
    for (status, headers) in [
        ("200 OK", ""),
        ("200 OK", "content-type: application/json\r\n"),
        ("401 Unauthorized", ""),
        ("300 Multiple Choices", "location: /?key=hunter2-hunter2\r\n"),
    ] {
        let (base, _server) = server(answer(status, headers, &json!(echo).to_string())).await;
        let mut spec = spec("GET", base);
        let secret = SecretRef::File(file.path().to_owned());
        spec.headers =
            vec![("X-Key".to_owned(), FieldSource::Secret { prefix: String::new(), secret })];
        let text = call(spec, json!({})).await.to_text();
        assert!(text.contains("[secret]") && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn a_check_lists_every_fault() {
    let parameters = json!({"type": "object", "properties": {"city": {}, "unused": {}}});
    let mut bad = spec("FETCH", "gopher://h/{city}/{country}".to_owned());
    bad.query = vec![query("q", "{word}")];
    bad.headers = vec![
        template("no name", "x"),
        template("Host", "x"),
        template("X-A", "a\nb"),
        template("X-B", "{token}"),
    ];
    bad.response_bytes_max = 0;
    let faults = bad.check(&parameters);
    for part in [
        "method \"FETCH\" is none of GET, HEAD, POST, PUT, PATCH, DELETE",
        "begin with http:// or https://",
        "\"no name\" is no name of a header",
        "header \"Host\" is set by the runtime",
        "header \"X-A\" contains a line break",
        "response_bytes_max",
        "{country} stands for a parameter that is not declared",
        "{word} stands for",
        "{token} stands for",
        "parameter \"unused\" appears nowhere",
    ] {
        assert!(faults.iter().any(|fault| fault.contains(part)), "{part}: {faults:#?}");
    }
    assert_eq!(faults.len(), 10, "{faults:#?}");
}

#[test]
fn a_check_passes_what_can_be_sent() {
    let parameters = json!({"type": "object", "properties": {"city": {}, "more": {}}});
    let mut good = spec("POST", "https://h:8/{city}?u=1".to_owned());
    good.body = Some(BodyTemplate::Arguments);
    assert_eq!(good.check(&parameters), Vec::<String>::new());
    good.body = Some(BodyTemplate::Json(json!({"a": ["{more}"]})));
    assert_eq!(good.check(&parameters), Vec::<String>::new());
    good.method = "GET".to_owned();
    assert_eq!(good.check(&parameters), ["a GET request has no body"]);
}

#[test]
fn the_method_tells_what_may_be_repeated() {
    for (method, effect) in [
        ("GET", EffectClass::Read),
        ("HEAD", EffectClass::Read),
        ("PUT", EffectClass::Idempotent),
        ("DELETE", EffectClass::Idempotent),
        ("POST", EffectClass::Once),
        ("PATCH", EffectClass::Once),
    ] {
        assert_eq!(spec(method, String::new()).effect(), effect, "{method}");
    }
}
