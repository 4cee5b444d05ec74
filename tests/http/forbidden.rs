//! Addresses that a model may ask for and that are never connected to.

use std::process::{Command, Stdio};

use serde_json::json;
use tests::results::{self, Row};
use wire::{CallOutcome, ErrorCode};

use crate::site::{Seen, Site, Trap, answer, ok};
use crate::world::{FETCH, call, client, error, tool};

/// Set for the process that does the work; its proxies are a trap.
const CHILD: &str = "CALLBOARD_TEST_BEHIND_PROXIES";

/// The variables by which common clients find a proxy.
const PROXIES: [&str; 6] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// What is asked for, with `PORT` for the trap's, and a part of the reason why it is refused.
const URLS: &[(&str, &str)] = &[
    // Loopback, in all its spellings.
    ("http://127.0.0.1:PORT/", "loopback"),
    ("http://127.0.0.1:PORT/?x=1#y", "loopback"),
    ("http://127.1:PORT/", "loopback"),
    ("http://127.0.1:PORT/", "loopback"),
    ("http://2130706433:PORT/", "loopback"),
    ("http://017700000001:PORT/", "loopback"),
    ("http://0177.0.0.1:PORT/", "loopback"),
    ("http://0x7f000001:PORT/", "loopback"),
    ("http://0x7f.0x0.0x0.0x1:PORT/", "loopback"),
    ("http://127.0.0.1.:PORT/", "loopback"),
    ("http://%31%32%37.0.0.1:PORT/", "loopback"),
    ("http://\u{ff11}\u{ff12}\u{ff17}.0.0.1:PORT/", "loopback"),
    ("http://127.0.0.2:PORT/", "loopback"),
    ("http://127.255.255.254:PORT/", "loopback"),
    ("http:127.0.0.1:PORT/", "loopback"),
    ("http:\\\\127.0.0.1:PORT\\", "loopback"),
    ("HTTP://127.0.0.1:PORT/", "loopback"),
    ("https://127.0.0.1:PORT/", "loopback"),
    // This machine by addresses that name no machine.
    ("http://0.0.0.0:PORT/", "this machine"),
    ("http://0:PORT/", "this machine"),
    ("http://0.1.2.3:PORT/", "this machine"),
    ("http://[::]:PORT/", "this machine"),
    ("http://[::1]:PORT/", "loopback"),
    ("http://[0:0:0:0:0:0:0:1]:PORT/", "loopback"),
    // IPv4 within IPv6.
    ("http://[::ffff:127.0.0.1]:PORT/", "loopback"),
    ("http://[::ffff:7f00:1]:PORT/", "loopback"),
    ("http://[::127.0.0.1]:PORT/", "not handed out"),
    ("http://[2002:7f00:1::]:PORT/", "loopback"),
    ("http://[64:ff9b::127.0.0.1]:PORT/", "loopback"),
    ("http://[64:ff9b:1::7f00:1]:PORT/", "translation"),
    ("http://[2001:0:7f00:1::]:PORT/", "Teredo"),
    // The metadata of clouds.
    ("http://169.254.169.254/latest/meta-data/", "link-local"),
    ("http://2852039166/latest/meta-data/", "link-local"),
    ("http://0xa9.0xfe.0xa9.0xfe/", "link-local"),
    ("http://[::ffff:169.254.169.254]/", "link-local"),
    ("http://[64:ff9b::a9fe:a9fe]/", "link-local"),
    ("http://[fd00:ec2::254]/", "private"),
    ("http://192.0.0.192/", "protocols"),
    // Networks of other people's machines.
    ("http://10.0.0.1/", "private"),
    ("http://172.16.0.1/", "private"),
    ("http://172.31.255.255/", "private"),
    ("http://192.168.1.1/", "private"),
    ("http://100.64.0.1/", "provider"),
    ("http://198.18.0.1/", "benchmarks"),
    ("http://203.0.113.9/", "documentation"),
    ("http://224.0.0.1/", "multicast"),
    ("http://255.255.255.255/", "broadcast"),
    ("http://[fe80::1]/", "link-local"),
    ("http://[fec0::1]/", "site-local"),
    ("http://[ff02::1]/", "multicast"),
    ("http://[2001:db8::1]/", "documentation"),
    // Names that stand for such addresses.
    ("http://localhost:PORT/", "loopback"),
    ("http://loop.test:PORT/", "loopback"),
    ("http://LOOP.test.:PORT/", "loopback"),
    ("http://loop6.test:PORT/", "loopback"),
    ("http://mapped.test:PORT/", "loopback"),
    ("http://nat64.test:PORT/", "loopback"),
    ("http://sixtofour.test:PORT/", "loopback"),
    ("http://zero.test:PORT/", "this machine"),
    ("http://metadata.test/", "link-local"),
    ("http://ula.test/", "private"),
    ("http://private.test/", "private"),
    ("http://cgnat.test/", "provider"),
    ("http://mixed.test:PORT/", "loopback"),
    ("http://mixed2.test:PORT/", "loopback"),
    ("http://mixed6.test:PORT/", "loopback"),
    // Addresses that look like others.
    ("http://site.test@127.0.0.1:PORT/", "credentials"),
    ("http://site.test:80@127.0.0.1:PORT/", "credentials"),
    ("http://127.0.0.1:PORT@site.test/", "credentials"),
    ("http://user:word@site.test/", "credentials"),
    ("http://127.0.0.1:PORT\\@site.test/", "loopback"),
    ("http://127.0.0.1:PORT#@site.test/", "loopback"),
    ("http://127.0.0.1:PORT?@site.test/", "loopback"),
    (" http://127.0.0.1:PORT/ ", "loopback"),
    ("ht\ttp://127.0.0.1:PO\nRT/", "loopback"),
    // What is not HTTP.
    ("file:///etc/passwd", "file:"),
    ("gopher://127.0.0.1:PORT/_x", "gopher:"),
    ("ftp://127.0.0.1:PORT/", "ftp:"),
    ("data:text/plain,x", "data:"),
    ("ws://127.0.0.1:PORT/", "ws:"),
    ("http://site.test:22/", "port 22"),
    ("http://site.test:25/", "port 25"),
    ("http://site.test:6379/", "port 6379"),
    ("http://site.test:2375/", "port 2375"),
    ("http://1.1.1.1:53/", "port 53"),
];

/// Places to which the server redirects, and a part of the reason why that is not followed.
const TARGETS: &[(&str, &str)] = &[
    ("http://127.0.0.1:PORT/", "loopback"),
    ("//loop.test:PORT/", "loopback"),
    ("http://169.254.169.254/latest/", "link-local"),
    ("http://[::ffff:127.0.0.1]:PORT/", "loopback"),
    ("http://mixed.test:PORT/", "loopback"),
    ("http://site.test:22/", "port 22"),
    ("http://u:p@site.test/", "credentials"),
    ("file:///etc/passwd", "file:"),
    ("gopher://loop.test:PORT/_x", "gopher:"),
    ("http://site.test/to/http://127.0.0.1:PORT/", "loopback"),
    ("//other.test/to///loop6.test:PORT/", "loopback"),
];

/// The answer of the public server: what is behind `/to/` is where it redirects to.
fn redirects(seen: &Seen) -> Vec<u8> {
    if let Some(target) = seen.target.strip_prefix("/to/") {
        return answer("302 Found", &format!("location: {target}\r\n"), "");
    }
    ok("public")
}

#[test]
fn t26_no_forbidden_address_is_connected_to() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if std::env::var_os(CHILD).is_some() {
        return runtime.block_on(try_all());
    }
    // The environment of a process cannot be changed once it runs, so another one has the proxies.
    let proxy = runtime.block_on(Trap::start());
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "forbidden::t26_no_forbidden_address_is_connected_to", "--nocapture"])
        .envs(PROXIES.map(|name| (name, address.as_str())))
        .env(CHILD, "yes")
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(proxy.caught(), 0, "the proxy was asked");
    results::record(&Row {
        id: "T26",
        what: "forbidden addresses",
        held: &format!(
            "{} URLs, {} redirects, 1 rebinding name: 0 connections, each a typed error",
            URLS.len(),
            TARGETS.len()
        ),
        passes: "60 or more URLs, 0 connections",
        command: "cargo test -p tests --test http t26 -- --nocapture",
    });
}

async fn try_all() {
    let trap = Trap::start().await;
    let public = Site::start(redirects).await;
    let fetch = tool(FETCH, &client(public.address));
    let with_port = |text: &str| {
        text.replace("PORT", &trap.port.to_string()).replace("PO\nRT", &format!("{}\n", trap.port))
    };
    let refused = async |url: &str, reason: &str| {
        let error = error(call(&fetch, &json!({"url": url})).await);
        assert_eq!(error.code, ErrorCode::AddressForbidden, "{url}: {error}");
        assert!(error.message.contains(reason), "{url}: {error}");
    };
    for (url, reason) in URLS {
        refused(&with_port(url), reason).await;
        assert_eq!((trap.caught(), public.take().len()), (0, 0), "{url}");
    }
    for (target, reason) in TARGETS {
        refused(&format!("http://site.test/to/{}", with_port(target)), reason).await;
        assert_eq!(trap.caught(), 0, "{target}");
        assert!(!public.take().is_empty(), "{target}: the redirect was not asked for");
    }
    // What is allowed is reached, or all of the above would be true of a client that does nothing.
    let public_page = CallOutcome::text("public");
    for url in ["http://site.test/", "http://SITE.test./a", "http://site.test/to///other.test/b"] {
        assert_eq!(call(&fetch, &json!({"url": url})).await, public_page, "{url}");
    }
    // A name is asked for anew for each connection, and judged anew.
    let url = "http://rebind.test/";
    assert_eq!(call(&fetch, &json!({"url": url})).await, public_page);
    refused(&with_port("http://rebind.test:PORT/"), "loopback").await;
    refused(url, "loopback").await;
    assert_eq!(trap.caught(), 0);
    // Not an address at all, and a name without one.
    for (url, code) in [
        ("site.test/x", ErrorCode::InvalidArguments),
        ("http://[::1", ErrorCode::InvalidArguments),
        ("http://999.1.1.1/", ErrorCode::InvalidArguments),
        ("http://nothing.test/", ErrorCode::ToolUnavailable),
    ] {
        assert_eq!(error(call(&fetch, &json!({"url": url})).await).code, code, "{url}");
    }
}
