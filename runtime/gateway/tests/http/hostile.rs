//! What comes from those who mean no good, or do not know better.

use std::net::SocketAddr;
use std::time::Duration;

use gateway::{BODY_BYTES_MAX, BODY_TIMEOUT, Error, Gateway, HEADER_TIMEOUT, HostName, Options};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use wire::subject::RunVerb;
use wire::{Headers, RunId};

use crate::events::Events;
use crate::house::{House, PATIENCE, read};

#[tokio::test(flavor = "multi_thread")]
async fn bad_bodies_are_refused_by_kind() {
    let house = House::open().await;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_input = format!(r#"{{"input":{deep}}}"#);
    let long = json!({"input": "x".repeat(wire::run::INPUT_BYTES_MAX + 1)}).to_string();
    let huge = " ".repeat(BODY_BYTES_MAX + 1);
    let cases: [(&str, &[u8], u16, &str); 11] = [
        ("empty", b"", 400, "E1001"),
        ("no JSON", b"hello", 400, "E1001"),
        ("no UTF-8", b"{\"input\":\"\xff\"}", 400, "E1001"),
        ("wrong type", br#"{"input":7}"#, 400, "E1001"),
        ("unknown key", br#"{"input":"x","inptu":1}"#, 400, "E1001"),
        ("bad name", br#"{"input":"x","run":"a.b"}"#, 400, "E1001"),
        ("empty input", br#"{"input":" "}"#, 400, "E1001"),
        ("deep", deep.as_bytes(), 400, "E1001"),
        ("deep input", deep_input.as_bytes(), 400, "E1001"),
        ("long input", long.as_bytes(), 413, "E1002"),
        ("huge", huge.as_bytes(), 413, "E1002"),
    ];
    for (what, body, status, code) in cases {
        let path = "/v1/teams/crew/agents/lead/runs";
        let request = house.request(Method::POST, path).body(body.to_vec());
        let (found, error) = read(request).await;
        assert_eq!((found.as_u16(), &error["error"]["code"]), (status, &json!(code)), "{what}");
    }
    assert_eq!(house.ask("r-1", "hello").await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_others_are_refused() {
    let house = House::open().await;
    let here = house.gateway.addr().to_string();
    let same = format!("http://{here}");
    let cases = [
        (here.as_str(), None, 200),
        ("localhost", None, 200),
        (here.as_str(), Some(same.as_str()), 200),
        ("evil.example", None, 421),
        ("evil.example", Some("http://evil.example"), 421),
        (here.as_str(), Some("http://evil.example"), 403),
        (here.as_str(), Some("http://localhost:3000"), 403),
        (here.as_str(), Some("null"), 403),
    ];
    for (host, origin, status) in cases {
        let mut request = house.request(Method::GET, "/v1/teams").header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{host} {origin:?}");
        assert!(response.headers().get("access-control-allow-origin").is_none());
    }
    let raw = [
        ("GET http://evil.example/v1/teams HTTP/1.1\r\nHost: localhost\r\n\r\n", "421"),
        ("GET /v1/teams HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", "4"),
        ("GET /v1/teams HTTP/1.0\r\n\r\n", "400"),
        ("nonsense\r\n\r\n", "400"),
    ];
    for (request, status) in raw {
        let mut stream = TcpStream::connect(house.gateway.addr()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut line = [0; 10];
        stream.read_exact(&mut line).await.unwrap();
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(line.get(9..).is_some_and(|rest| status.starts_with(rest)), "{request:?}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_route_passes_over_a_parameter() {
    let house = House::open().await;
    let routes = include_str!("../../../HTTP.md")
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')?.split_once(' '));
    let mut tried = 0;
    for (method, path) in routes {
        tried += 1;
        let path = path.replace("{team}", "crew").replace(['{', '}'], "");
        let expected = if path == "/" { 200 } else { 400 };
        if path.starts_with("/console/") {
            continue;
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let (status, error) = read(house.request(method, &format!("{path}?nonsense=1"))).await;
        assert_eq!(status, expected, "{path}: {error}");
        if status == 400 {
            assert_eq!(error["error"]["code"], "E1001", "{path}");
            assert!(error["error"]["message"].as_str().unwrap().contains("nonsense"), "{error}");
        }
    }
    assert!(tried > 20, "{tried} routes stand in HTTP.md");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_out_of_bounds_is_answered_without_a_body() {
    let house = House::open().await;
    let head = |headers: &str| format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    let more = |count: usize| "x: y\r\n".repeat(count);
    let cases = [
        ("64 headers", head(&(more(62) + "Connection: close\r\n")), "200 OK", "ok\n"),
        ("65 headers", head(&more(64)), "431 Request Header Fields Too Large", ""),
        ("no header", head("no colon\r\n"), "400 Bad Request", ""),
    ];
    for (what, request, status, body) in cases {
        let (_, answer) = waited(&house, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{what}: {answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{what}: {answer}");
        let is_ours = answer.contains("x-content-type-options");
        assert_eq!(is_ours, status == "200 OK", "{what}: {answer}");
    }
}

/// Sends the begin of a request and returns how long the server waited for the rest.
async fn waited(house: &House, begin: &str) -> (Duration, String) {
    let mut stream = TcpStream::connect(house.gateway.addr()).await.unwrap();
    stream.write_all(begin.as_bytes()).await.unwrap();
    let start = Instant::now();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    (start.elapsed(), String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn slow_clients_are_cut_off_in_time() {
    let house = House::open().await;
    tokio::time::pause();
    let post = "POST /v1/teams/crew/agents/lead/runs HTTP/1.1\r\nHost: localhost\r\n\
                Content-Length: 20\r\n\r\n{";
    let cases = [
        ("idle", "", HEADER_TIMEOUT, ""),
        ("half a head", "GET /health HTTP/1.1\r\nHost: loc", HEADER_TIMEOUT, ""),
        ("between", "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", HEADER_TIMEOUT, "200 OK"),
        ("half a body", post, BODY_TIMEOUT, "504 Gateway Timeout"),
    ];
    for (what, begin, limit, answer) in cases {
        let (waited, answered) = waited(&house, begin).await;
        assert!(waited <= limit + Duration::from_secs(1), "{what}: {waited:?}");
        assert!(waited >= limit / 2, "{what}: {waited:?}");
        assert!(answered.contains(answer), "{what}: {answered}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_machines_are_let_in_only_when_told_so() {
    let house = House::open().await;
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = Gateway::start(house.node.clone(), Options::new(everywhere)).await;
    assert!(matches!(refused, Err(Error::Unprotected(_))));
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let named =
        Options { host_names: vec![HostName::new("a.example").unwrap()], ..Options::new(loopback) };
    let refused = Gateway::start(house.node.clone(), named).await;
    assert!(matches!(refused, Err(Error::Unprotected(name)) if name == "a.example"));
    let options = Options { token: Some(crate::sign_in::token()), ..Options::new(everywhere) };
    let gateway = Gateway::start(house.node.clone(), options).await.unwrap();
    let taken = Gateway::start(house.node.clone(), Options::new(house.gateway.addr())).await;
    assert!(matches!(taken, Err(Error::Listen { .. })));
    gateway.stop(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_work_are_answered_when_the_doors_close() {
    let house = House::open().await;
    house.submit("r-1", "ask me").await;
    house.wait_for("r-1", "call_suspended").await;
    let team = house.node.team("crew").unwrap();
    let (name, run) = (team.team().name.clone(), RunId::new("r-1").unwrap());
    let subject = |verb| team.subjects().run(&name, &run, verb);
    let mut asked = house.node.bus().subscribe(&subject(RunVerb::Result), None).await.unwrap();
    let waiting = tokio::spawn(house.request(Method::GET, "/v1/teams/crew/runs/r-1/result").send());
    timeout(PATIENCE, asked.next()).await.unwrap().unwrap();

    let addr = house.gateway.addr();
    let mut stopping = std::pin::pin!(house.gateway.stop(PATIENCE));
    tokio::select! {
        biased;
        () = &mut stopping => panic!("a request is in work"),
        () = tokio::task::yield_now() => {}
    }
    let cancel = subject(RunVerb::Cancel);
    house.node.bus().publish(&cancel, Headers::new(), "".into()).await.unwrap();
    stopping.await;
    let response = waiting.await.unwrap().unwrap();
    let reply: serde_json::Value = response.json().await.unwrap();
    assert_eq!(reply["status"], "cancelled");
    assert!(TcpStream::connect(addr).await.is_err(), "nobody listens any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_keep_nobody_out() {
    let house = House::open().await;
    let options =
        Options { connections_max: 8, ..Options::new(SocketAddr::from(([127, 0, 0, 1], 0))) };
    let gateway = Gateway::start(house.node.clone(), options).await.unwrap();
    house.submit("r-1", "ask me").await;
    house.wait_for("r-1", "call_suspended").await;
    let path = format!("http://{}/v1/teams/crew/runs/r-1/events", gateway.addr());
    let watching = Events::open(house.client.get(path)).await;
    let mut idle = Vec::new();
    for begin in ["", "GET /health HTTP/1.1\r\nHost: loc"].iter().cycle().take(40) {
        let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
        stream.write_all(begin.as_bytes()).await.unwrap();
        idle.push(stream);
    }
    let start = Instant::now();
    let (status, _) = read(house.client.get(format!("http://{}/health", gateway.addr()))).await;
    assert_eq!(status, 200);
    assert!(start.elapsed() < HEADER_TIMEOUT / 2, "{:?}", start.elapsed());
    for oldest in idle.iter_mut().take(30) {
        // Closed with something unread is a reset.
        assert!(!matches!(oldest.read(&mut [0]).await, Ok(1..)), "the oldest are closed");
    }
    assert!(start.elapsed() < HEADER_TIMEOUT / 2, "{:?}", start.elapsed());
    house.post("/v1/teams/crew/runs/r-1/answer", &json!({"text": "blue"})).await;
    assert_eq!(watching.rest().await.last().unwrap().kind, "run_ended", "who was served stays");
}
