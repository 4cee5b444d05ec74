//! What is followed, what travels along, and what becomes of answers that are too much.

use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use wire::{CallOutcome, ErrorCode};

use crate::site::{Answer, Seen, Site, Trap, answer, ok};
use crate::world::{FETCH, call, client, error, tool};

/// Redirects `/STATUS/rest` to `rest`, and counts down from `/hops/N`.
fn redirects(seen: &Seen) -> Answer {
    let mut parts = seen.target.splitn(3, '/').skip(1);
    let (first, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match (first, rest) {
        ("hops", "0") => ok("arrived"),
        ("hops", left) => {
            let left = left.parse::<u32>().unwrap() - 1;
            answer("302 Found", &format!("location: /hops/{left}\r\n"), "")
        }
        ("301" | "302" | "303" | "307" | "308", rest) => {
            answer(&format!("{first} Moved"), &format!("location: {rest}\r\n"), "moved")
        }
        _ => ok("arrived"),
    }
}

#[tokio::test]
async fn five_redirects_are_followed_and_not_six() {
    let public = Site::start(redirects).await;
    let fetch = tool(FETCH, &client(public.address));
    let outcome = call(&fetch, &json!({"url": "http://site.test/hops/5"})).await;
    assert_eq!(outcome, CallOutcome::text("arrived"));
    assert_eq!(public.take().len(), 6);
    let error = error(call(&fetch, &json!({"url": "http://site.test/hops/6"})).await);
    assert_eq!(error.code, ErrorCode::ToolFailed);
    assert!(error.message.contains("more than 5 times"), "{error}");
    assert_eq!(public.take().len(), 6);
}

#[tokio::test]
async fn secrets_do_not_go_to_another_origin() {
    let public = Site::start(redirects).await;
    let own = Site::start(redirects).await;
    let mut key = tempfile::NamedTempFile::new().unwrap();
    write!(key, "hunter2-hunter2").unwrap();
    let fields = |method: &str, url: &str| {
        format!(
            "method = '{method}'\nurl = '{url}'\nbody = 'arguments'\nparameters = {{ n = 'integer' }}\n\
             headers = {{ Authorization = {{ file = '{path}', prefix = 'Bearer ' }}, \
             X-Key = {{ file = '{path}' }}, Cookie = 'c=1', X-Plain = 'plain' }}",
            path = key.path().display()
        )
    };
    let client = client(public.address);
    for (status, there, method, body) in [
        (307, "/end", "POST", r#"{"n":1}"#),
        (308, "http://site.test/end", "POST", r#"{"n":1}"#),
        (303, "/end", "GET", ""),
        (302, "//other.test/end", "GET", ""),
    ] {
        let url = format!("{}/{status}/{there}", own.base());
        let tool = tool(&fields("POST", &url), &client);
        assert_eq!(call(&tool, &json!({"n": 1})).await, CallOutcome::text("arrived"), "{url}");
        let (mut here, mut away) = (own.take(), public.take());
        let is_same = there == "/end";
        assert_eq!((here.len(), away.len()), if is_same { (2, 0) } else { (1, 1) }, "{url}");
        assert_eq!(here[0].headers["authorization"], "Bearer hunter2-hunter2");
        let last = if is_same { here.pop() } else { away.pop() }.unwrap();
        assert_eq!((last.method.as_str(), last.body.as_str()), (method, body), "{url}");
        for name in ["authorization", "x-key", "cookie"] {
            assert_eq!(last.headers.contains_key(name), is_same, "{url} {name}");
        }
        assert_eq!(last.headers["x-plain"], "plain", "{url}");
        assert_eq!(last.headers.contains_key("content-type"), method == "POST", "{url}");
    }
}

#[tokio::test]
async fn what_the_team_file_writes_is_reached_and_nothing_beside_it() {
    let trap = Trap::start().await;
    let own = Site::start(redirects).await;
    let client = client(own.address);
    let fixed = |path: &str, more: &str| {
        tool(&format!("url = '{}/{path}'\nmethod = 'GET'\n{more}", own.base()), &client)
    };
    assert_eq!(call(&fixed("x", ""), &json!({})).await, CallOutcome::text("arrived"));
    let away = format!("302/http://127.0.0.1:{}/", trap.port);
    let refused = error(call(&fixed(&away, ""), &json!({})).await);
    assert_eq!(refused.code, ErrorCode::AddressForbidden);
    assert!(refused.message.contains("`allow_hosts`"), "{refused}");
    assert_eq!(trap.caught(), 0);

    let site = own.address.port();
    let url = format!("http://127.0.0.1:{site}/x");
    let by_name = format!("http://loop.test:{site}/x");
    for (allow, url, reached) in [
        ("['127.0.0.1']", &url, true),
        ("['127.0.0.0/8']", &url, true),
        ("['127.0.0.0/8']", &by_name, true),
        ("['loop.test']", &by_name, true),
        (&*format!("['loop.test:{site}']"), &by_name, true),
        ("['loop.test:1']", &by_name, false),
        ("['loop.test']", &url, false),
        ("['10.0.0.0/8', '::1']", &url, false),
    ] {
        let fetch = tool(&format!("{FETCH}\nallow_hosts = {allow}"), &client);
        let outcome = call(&fetch, &json!({"url": url})).await;
        if reached {
            assert_eq!(outcome, CallOutcome::text("arrived"), "{allow} {url}");
        } else {
            assert_eq!(error(outcome).code, ErrorCode::AddressForbidden, "{allow} {url}");
        }
    }
    // What one tool may reach, another does not by a connection that is still open.
    let fetch = tool(FETCH, &client);
    let outcome = call(&fetch, &json!({"url": by_name})).await;
    assert_eq!(error(outcome).code, ErrorCode::AddressForbidden);
}

#[tokio::test]
async fn a_page_is_not_unpacked() {
    let script = "import gzip,sys; sys.stdout.buffer.write(gzip.compress(bytes(256 << 20)))";
    let packed = Command::new("python3").args(["-c", script]).output().unwrap();
    assert!(packed.status.success());
    let bomb = packed.stdout;
    let bytes = bomb.len();
    let public = Site::start(move |_| {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-encoding: gzip\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            bomb.len()
        );
        [head.as_bytes(), &bomb].concat()
    })
    .await;
    let fetch = tool(FETCH, &client(public.address));
    let began = Instant::now();
    let error = error(call(&fetch, &json!({"url": "http://site.test/"})).await);
    assert_eq!(error.code, ErrorCode::ToolFailed);
    assert!(error.message.contains("packed as \"gzip\""), "{error}");
    assert!(error.message.len() < 200, "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "{bytes} bytes");
    assert_eq!(public.take()[0].headers["accept-encoding"], "identity");
}
