//! Lets in only requests that were meant for this door.
//!
//! A page in a browser can make its own name resolve to a loopback address and then talk to this
//! server as if it were its own. Such a request carries that name as its host; one that goes to
//! the address directly carries the page's origin. Neither is served. Nor can another site make a
//! browser that is signed in here ask for something: its request says where it comes from, and it
//! cannot send JSON without asking first.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::host_name::HostName;
use crate::refusal::Refusal;
use crate::state::shown;

/// The names under which the doors may be asked for.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    listen: IpAddr,
    names: Arc<[HostName]>,
}

impl Guard {
    /// Allows the loopback names, the address that is listened on, and some names more.
    pub(crate) fn new(listen: SocketAddr, names: &[HostName]) -> Self {
        Self { listen: listen.ip(), names: names.into() }
    }

    fn admits(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else { return false };
        if let Ok(ip) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            // Nobody can make a page of theirs come from a bare address that is not theirs.
            return ip.is_loopback()
                || ip == self.listen
                || self.listen.is_unspecified()
                || self.names.contains(&HostName::Address(ip));
        }
        let fits = |name: &HostName| match name {
            HostName::Name(name) => name.eq_ignore_ascii_case(host),
            HostName::Address(_) => false,
        };
        host.eq_ignore_ascii_case("localhost") || self.names.iter().any(fits)
    }

    fn check(&self, request: &Request) -> Result<(), Refusal> {
        let text = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or(""));
        let host = text(header::HOST);
        let target = request.uri().authority().map(axum::http::uri::Authority::as_str);
        let several = request.headers().get_all(header::HOST).iter().nth(1).is_some();
        let foreign =
            [host, target].into_iter().flatten().find(|authority| !self.admits(authority));
        if let Some(foreign) = foreign {
            let text = format!("{} is not served here; ask for the address itself", shown(foreign));
            return Err(Refusal::with_status(StatusCode::MISDIRECTED_REQUEST, text));
        }
        let (Some(host), false) = (host.or(target), several) else {
            let text = "the request has not exactly one host header";
            return Err(Refusal::with_status(StatusCode::BAD_REQUEST, text));
        };
        if let Some(origin) = text(header::ORIGIN)
            && !is_same_origin(origin, host)
        {
            let text = format!("pages of {} may not ask here", shown(origin));
            return Err(Refusal::with_status(StatusCode::FORBIDDEN, text));
        }
        check_browser(request)
    }
}

/// The header by which a browser says where a request of a page comes from.
const FETCH_SITE: &str = "sec-fetch-site";

/// Refuses what a browser sends for a page that is not ours.
fn check_browser(request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    let text = |value: &HeaderValue| value.to_str().unwrap_or("").to_ascii_lowercase();
    let site = headers.get(FETCH_SITE).map(text);
    let path = request.uri().path();
    // Other sites may lead people to the page, which tells nothing by itself.
    let is_page = path == "/" && matches!(*request.method(), Method::GET | Method::HEAD);
    if let Some(site) = &site
        && !is_page
        && !["same-origin", "none"].contains(&site.as_str())
    {
        let text = format!("a page of another site may not ask here ({FETCH_SITE}: {site})");
        return Err(Refusal::with_status(StatusCode::FORBIDDEN, text));
    }
    let by_browser = site.is_some()
        || headers.contains_key(header::ORIGIN)
        || headers.contains_key(header::COOKIE);
    if !by_browser || matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let kind = headers.get(header::CONTENT_TYPE).map(text).unwrap_or_default();
    if kind.split(';').next().is_some_and(|kind| kind.trim() == "application/json") {
        return Ok(());
    }
    let text = "what a browser asks for has to be `content-type: application/json`";
    Err(Refusal::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, text))
}

/// Serves a request if it was meant for this door.
pub(crate) async fn check(
    State(guard): State<Guard>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    guard.check(&request)?;
    Ok(next.run(request).await)
}

/// Cuts the port off an authority; `None` if it is not of the form `host` or `host:port`.
fn host_of(authority: &str) -> Option<&str> {
    let end = match authority.strip_prefix('[') {
        Some(_) => authority.find(']')? + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at_checked(end)?;
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    let port_fits = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    (port_fits && !host.is_empty()).then_some(host)
}

fn is_same_origin(origin: &str, host: &str) -> bool {
    let scheme = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    scheme.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_served() {
        let loopback: SocketAddr = "127.0.0.1:8787".parse().unwrap();
        let everywhere: SocketAddr = "0.0.0.0:8787".parse().unwrap();
        let cases = [
            (loopback, "127.0.0.1:8787", true),
            (loopback, "127.0.0.1", true),
            (loopback, "127.9.9.9:1", true),
            (loopback, "localhost:8787", true),
            (loopback, "LOCALHOST", true),
            (loopback, "[::1]:8787", true),
            (loopback, "callboard.internal", true),
            (loopback, "10.0.0.7:8787", false),
            (loopback, "10.0.0.9:8787", true),
            (loopback, "[2001:db8::9]", true),
            (loopback, "[2001:db8::7]", false),
            (everywhere, "10.0.0.7:8787", true),
            (everywhere, "evil.example", false),
            (loopback, "evil.example:8787", false),
            (loopback, "localhost.evil.example", false),
            (loopback, "127.0.0.1.evil.example", false),
            (loopback, "localhost:8787@evil.example", false),
            (loopback, "user@localhost", false),
            (loopback, "[::1", false),
            (loopback, "[::1]x", false),
            (loopback, "", false),
            (loopback, ":8787", false),
        ];
        let names = ["callboard.internal", "10.0.0.9", "2001:db8::9"];
        let names = names.map(|name| HostName::new(name).unwrap());
        for (listen, host, expected) in cases {
            let guard = Guard::new(listen, &names);
            assert_eq!(guard.admits(host), expected, "{host:?} at {listen}");
        }
    }

    #[test]
    fn origins_are_compared_whole() {
        let cases = [
            ("http://127.0.0.1:8787", true),
            ("http://127.0.0.1:8788", false),
            ("http://127.0.0.1", false),
            ("http://evil.example", false),
            ("null", false),
            ("", false),
        ];
        for (origin, expected) in cases {
            assert_eq!(is_same_origin(origin, "127.0.0.1:8787"), expected, "{origin:?}");
        }
    }
}
