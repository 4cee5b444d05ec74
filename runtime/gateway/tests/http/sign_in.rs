//! Who may come in: by a token, by a cookie, and not too often by guessing.

use std::net::SocketAddr;

use gateway::view::{Readiness, SignInView};
use gateway::{
    Gateway, HostName, Options, SIGN_IN_BYTES_MAX, SIGNED_IN_FOR, SIGNED_IN_MAX, TOKEN_CHARS_MAX,
    TRIES_MAX, TRY_REGAINED, Token,
};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::events::Events;
use crate::house::{House, read};

const TOKEN: &str = "a-token-of-thirty-two-characters";

pub(crate) fn token() -> Token {
    Token::new(&SecretString::from(TOKEN)).unwrap()
}

/// A door that asks for the token, beside the one of the house.
struct Door {
    house: House,
    gateway: Gateway,
}

impl Door {
    async fn open() -> Self {
        let house = House::open().await;
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let host_names = vec![HostName::new("agents.example").unwrap()];
        let options = Options { token: Some(token()), host_names, ..Options::new(loopback) };
        let gateway = Gateway::start(house.node.clone(), options).await.unwrap();
        Self { house, gateway }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.house.client.request(method, format!("http://{}{path}", self.gateway.addr()))
    }

    async fn sign_in(&self, token: &str) -> Response {
        let body = json!({"token": token}).to_string();
        self.request(Method::POST, "/v1/sign-in").body(body).send().await.unwrap()
    }

    /// Signs in and returns the cookie as a browser sends it.
    async fn cookie(&self) -> String {
        let response = self.sign_in(TOKEN).await;
        assert_eq!(response.status(), 200);
        pair(&set_cookie(&response))
    }

    async fn status(&self, headers: &[(&str, &str)]) -> (StatusCode, Value) {
        let request = headers
            .iter()
            .fold(self.request(Method::GET, "/v1/teams"), |request, (name, value)| {
                request.header(*name, *value)
            });
        read(request).await
    }
}

fn set_cookie(response: &Response) -> String {
    response.headers()["set-cookie"].to_str().unwrap().to_owned()
}

fn pair(cookie: &str) -> String {
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_token_is_told_to_nobody_else() {
    let door = Door::open().await;
    let closed = [
        (Method::GET, "/v1/teams"),
        (Method::GET, "/v1/events"),
        (Method::GET, "/v1/teams/crew/runs"),
        (Method::GET, "/v1/teams/none/runs"),
        (Method::POST, "/v1/teams/crew/agents/lead/runs"),
        (Method::POST, "/v1/teams/crew/calls/0/approve"),
        (Method::GET, "/v1/teams/crew/memory"),
        (Method::GET, "/v2/nothing"),
        (Method::GET, "/consoles"),
        (Method::GET, "/v1/sign-in/more"),
        (Method::DELETE, "/v1/teams"),
    ];
    for (method, path) in closed {
        let response = door.request(method, path).send().await.unwrap();
        assert_eq!(response.status(), 401, "{path}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer realm=\"callboard\"");
        let error: Value = response.json().await.unwrap();
        assert_eq!(error["error"]["code"], "E1014", "{path}");
    }
    for path in ["/", "/health", "/ready", "/v1/sign-in"] {
        let response = door.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
    }
    let ready: Readiness =
        serde_json::from_value(read(door.request(Method::GET, "/ready")).await.1).unwrap();
    assert_eq!((ready.ready, ready.teams.len()), (true, 0), "no names for strangers");
    let request = door.request(Method::GET, "/ready").bearer_auth(TOKEN);
    let ready: Readiness = serde_json::from_value(read(request).await.1).unwrap();
    assert_eq!(ready.teams.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_sends_the_token_in_a_header() {
    let door = Door::open().await;
    let right = format!("Bearer {TOKEN}");
    let lower = format!("bearer {TOKEN}");
    let (basic, bare) = (format!("Basic {TOKEN}"), TOKEN.to_owned());
    let longer = format!("{right}x");
    let cases = [
        (right.as_str(), 200),
        (&lower, 200),
        (&basic, 401),
        (&bare, 401),
        (&longer, 401),
        ("Bearer ", 401),
        ("Bearer", 401),
        ("", 401),
    ];
    for (header, status) in cases {
        let (found, body) = door.status(&[("authorization", header)]).await;
        assert_eq!(found.as_u16(), status, "{header:?}: {body}");
    }
    let named = [("host", "agents.example"), ("authorization", right.as_str())];
    assert_eq!(door.status(&named).await.0, 200, "through a proxy");
    let foreign = [("host", "evil.example"), ("authorization", right.as_str())];
    assert_eq!(door.status(&foreign).await.0, 421);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_signs_in_once_and_out_again() {
    let door = Door::open().await;
    let response = door.sign_in(TOKEN).await;
    let cookie = set_cookie(&response);
    let view: SignInView = response.json().await.unwrap();
    assert_eq!(view, SignInView { required: true, signed_in: true });
    let port = door.gateway.addr().port();
    assert!(cookie.starts_with(&format!("callboard_{port}=")), "{cookie}");
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.split("; ").any(|part| part == attribute), "{cookie} lacks {attribute}");
    }
    assert!(!cookie.contains("Secure") && !cookie.contains("Domain"), "{cookie}");
    assert!(!cookie.contains(TOKEN), "the cookie is not the token");

    let pair = pair(&cookie);
    let other = door.cookie().await;
    assert_ne!(pair, other, "every browser has a value of its own");
    let (name, value) = pair.split_once('=').unwrap();
    let (among, cut) = (format!("a=b; {pair}; c=d"), format!("{name}={}", value.split_at(1).1));
    let (renamed, token) = (format!("x{name}={value}"), format!("{name}={TOKEN}"));
    let cases = [
        (pair.as_str(), 200),
        (&among, 200),
        (&cut, 401),
        (&renamed, 401),
        (&token, 401),
        (&format!("{name}="), 401),
        ("", 401),
    ];
    for (cookie, status) in cases {
        assert_eq!(door.status(&[("cookie", cookie)]).await.0, status, "{cookie}");
    }
    let out = door.request(Method::POST, "/v1/sign-out").header("cookie", &pair);
    let out = out.header("content-type", "application/json").send().await.unwrap();
    assert!(set_cookie(&out).starts_with(&format!("{name}=; ")), "{}", set_cookie(&out));
    assert!(set_cookie(&out).contains("Max-Age=0"));
    assert_eq!(door.status(&[("cookie", &pair)]).await.0, 401, "signed out");
    assert_eq!(door.status(&[("cookie", &other)]).await.0, 200, "the other is still in");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_the_cookie_belongs_to_the_host_alone() {
    let door = Door::open().await;
    let body = json!({"token": TOKEN}).to_string();
    let headers = |origin: &'static str| {
        let request = door.request(Method::POST, "/v1/sign-in").body(body.clone());
        let request = request.header("host", "agents.example").header("origin", origin);
        request.header("content-type", "application/json").send()
    };
    let response = headers("https://agents.example").await.unwrap();
    let cookie = set_cookie(&response);
    assert!(cookie.starts_with("__Host-callboard_") && cookie.ends_with("; Secure"), "{cookie}");
    assert_eq!(door.status(&[("cookie", &pair(&cookie))]).await.0, 200);
    assert_eq!(headers("https://evil.example").await.unwrap().status(), 403);
}

#[tokio::test]
async fn a_cookie_ends_with_its_time() {
    let door = Door::open().await;
    let cookie = door.cookie().await;
    assert_eq!(door.status(&[("cookie", &cookie)]).await.0, 200);
    tokio::time::pause();
    tokio::time::advance(SIGNED_IN_FOR).await;
    tokio::time::resume();
    assert_eq!(door.status(&[("cookie", &cookie)]).await.0, 401);
}

/// Opens both kinds of streams, of a run that waits for an answer.
async fn streams(door: &Door, header: &str, value: &str) -> Vec<Events> {
    let mut open = Vec::new();
    for path in ["/v1/events", "/v1/teams/crew/runs/r-1/events"] {
        open.push(Events::open(door.request(Method::GET, path).header(header, value)).await);
    }
    open
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_signed_out_is_told_nothing_more() {
    let door = Door::open().await;
    door.house.submit("r-1", "ask me").await;
    door.house.wait_for("r-1", "call_suspended").await;
    let (out, oldest, stays) = (door.cookie().await, door.cookie().await, door.cookie().await);
    let right = format!("Bearer {TOKEN}");
    let ended = [streams(&door, "cookie", &out).await, streams(&door, "cookie", &oldest).await];
    let on =
        [streams(&door, "cookie", &stays).await, streams(&door, "authorization", &right).await];
    let request = door.request(Method::POST, "/v1/sign-out").header("cookie", &out);
    let request = request.header("content-type", "application/json");
    assert_eq!(request.send().await.unwrap().status(), 200);
    // The oldest makes room for the last of so many.
    for _ in 0..SIGNED_IN_MAX - 1 {
        door.cookie().await;
    }
    for events in ended.into_iter().flatten() {
        assert!(events.rest().await.iter().all(|event| event.kind != "run_ended"));
    }
    let answer = json!({"text": "blue"});
    assert_eq!(door.house.post("/v1/teams/crew/runs/r-1/answer", &answer).await.0, 200);
    for mut events in on.into_iter().flatten() {
        while events.next().await.expect("who is in is told on").kind != "run_ended" {}
    }
}

#[tokio::test]
async fn what_a_cookie_opened_ends_with_its_time() {
    let door = Door::open().await;
    door.house.submit("r-1", "ask me").await;
    door.house.wait_for("r-1", "call_suspended").await;
    let open = streams(&door, "cookie", &door.cookie().await).await;
    tokio::time::pause();
    tokio::time::advance(SIGNED_IN_FOR).await;
    tokio::time::resume();
    for events in open {
        assert!(events.rest().await.iter().all(|event| event.kind != "run_ended"));
    }
}

#[tokio::test]
async fn guesses_are_few() {
    let door = Door::open().await;
    let cookie = door.cookie().await;
    for at in 0..TRIES_MAX {
        // By either way in, so that one is not a way around the other.
        let status = if at % 2 == 0 {
            door.sign_in("a-guess").await.status()
        } else {
            door.status(&[("authorization", "Bearer a-guess")]).await.0
        };
        assert_eq!(status, 401, "guess {at}");
    }
    let refused = door.sign_in(TOKEN).await;
    assert_eq!(refused.status(), 429, "not even the right one is looked at");
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(door.status(&[("authorization", &format!("Bearer {TOKEN}"))]).await.0, 429);
    assert_eq!(door.status(&[("cookie", &cookie)]).await.0, 200, "who is in stays in");
    tokio::time::pause();
    tokio::time::advance(TRY_REGAINED).await;
    tokio::time::resume();
    assert_eq!(door.sign_in(TOKEN).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_strangers_little_is_read_and_nothing_of_those_who_have_to_wait() {
    let door = Door::open().await;
    let sized = |bytes: usize| " ".repeat(bytes - r#"{"token":""}"#.len() - 7);
    for (bytes, status) in [(SIGN_IN_BYTES_MAX, 401), (SIGN_IN_BYTES_MAX + 1, 413)] {
        let response = door.sign_in(&format!("a-guess{}", sized(bytes))).await;
        assert_eq!(response.status(), status, "{bytes} bytes");
    }
    assert_eq!(door.sign_in(&"x".repeat(TOKEN_CHARS_MAX)).await.status(), 401);
    while door.sign_in("a-guess").await.status() != 429 {}
    let mut client = TcpStream::connect(door.gateway.addr()).await.unwrap();
    let head = "POST /v1/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    let read = client.read_exact(&mut answer);
    timeout(gateway::BODY_TIMEOUT / 2, read).await.expect("no body is waited for").unwrap();
    assert_eq!(&answer, b"HTTP/1.1 429");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_of_another_scheme_is_no_token() {
    let door = Door::open().await;
    let (cookie, right) = (door.cookie().await, format!("Bearer {TOKEN}"));
    let (basic, cookie) = (("authorization", "Basic dTpw"), ("cookie", cookie.as_str()));
    let cases: [(&[(&str, &str)], u16); 5] = [
        (&[basic, cookie], 200),
        (&[basic], 401),
        (&[("authorization", TOKEN)], 401),
        (&[basic, ("authorization", &right)], 200),
        (&[("authorization", &right)], 200),
    ];
    for (headers, status) in cases {
        for at in 0..2 * TRIES_MAX {
            assert_eq!(door.status(headers).await.0, status, "{headers:?}, time {at}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_body_is_not_told_of() {
    let door = Door::open().await;
    for body in ["", "{}", "[]", TOKEN, r#"{"token":7}"#, r#"{"token":"x","more":1}"#] {
        let request = door.request(Method::POST, "/v1/sign-in").body(body);
        let (status, error) = read(request).await;
        assert_eq!(status, 400, "{body}");
        assert!(!error.to_string().contains(TOKEN), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_everybody_is_in() {
    let house = House::open().await;
    let (_, view) = house.get("/v1/sign-in").await;
    assert_eq!(view, json!({"required": false, "signed_in": true}));
    let (status, view) = house.post("/v1/sign-in", &json!({"token": "any"})).await;
    assert_eq!((status.as_u16(), &view["signed_in"]), (200, &json!(true)));
    let request = house.request(Method::GET, "/v1/teams").bearer_auth("any");
    assert_eq!(read(request).await.0, 200);
}
