//! Lets in those who have the token: programs by a header, browsers by a cookie.
//!
//! A browser gives the token once and gets a value of its own for it, which ends with the process,
//! with its time or when its user signs out. Scripts of the page cannot read that value, and other
//! sites cannot make the browser send it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use wire::ErrorCode;

use crate::body;
use crate::refusal::Refusal;
use crate::state::Doors;
use crate::token::Token;
use crate::tries::Tries;
use crate::view::SignInView;

/// How long a browser stays signed in: a working day.
pub const SIGNED_IN_FOR: Duration = Duration::from_secs(12 * 3_600);

/// Browsers that are signed in at once; for one more the one whose time is over first is signed out.
pub const SIGNED_IN_MAX: usize = 256;

/// Bytes of the body by which somebody signs in, who may be anybody: the longest token is half of it.
pub const SIGN_IN_BYTES_MAX: usize = 1024;

/// The address of the client, as its connection has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// That a request came from somebody who may come in, and for how long; absent means not.
#[derive(Clone, Debug)]
pub(crate) struct Known(pub(crate) Stay);

/// How long somebody may stay who was let in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stay {
    /// What ends it and when it ends by itself; absent for those who show the token each time.
    end: Option<(CancellationToken, Instant)>,
}

impl Stay {
    /// Does some work until it is done or the stay is over.
    pub(crate) async fn bound(self, work: impl Future<Output = ()>) {
        let Some((signed_out, until)) = self.end else { return work.await };
        tokio::select! {
            () = work => {}
            () = signed_out.cancelled() => {}
            () = sleep_until(until) => {}
        }
    }
}

/// A browser that is signed in; whatever forgets it ends what it was let in for.
#[derive(Debug)]
struct SignedIn {
    until: Instant,
    signed_out: CancellationToken,
}

impl Drop for SignedIn {
    fn drop(&mut self) {
        self.signed_out.cancel();
    }
}

/// Knows the token and who is signed in.
#[derive(Debug)]
pub(crate) struct Porter {
    /// Absent where everybody who reaches the doors may come in.
    token: Option<Token>,
    /// Cookies are shared by all ports of a host, so the name tells servers apart.
    cookie: String,
    signed_in: Mutex<HashMap<blake3::Hash, SignedIn>>,
    tries: Tries,
}

impl Porter {
    pub(crate) fn new(token: Option<Token>, port: u16) -> Self {
        Self {
            token,
            cookie: format!("callboard_{port}"),
            signed_in: Mutex::default(),
            tries: Tries::default(),
        }
    }

    /// Tells whether a request may come in, and for how long; a wrong token counts as a try.
    fn knows(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Option<Stay>, Refusal> {
        let Some(token) = &self.token else { return Ok(Some(Stay::default())) };
        match bearer(headers) {
            Some(given) => Ok(self.try_token(token, given, peer)?.then(Stay::default)),
            None => Ok(self.stay(headers)),
        }
    }

    /// Refuses an address that has to wait before a token of its is looked at.
    fn may_try(&self, peer: IpAddr) -> Result<(), Refusal> {
        let Some(wait) = self.tries.wait(peer) else { return Ok(()) };
        let text = "too many wrong tokens came from this address; wait and try again";
        let refusal = Refusal::new(ErrorCode::NotSignedIn, text);
        let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Err(refusal.of_status(StatusCode::TOO_MANY_REQUESTS).retry_after(ms))
    }

    fn try_token(&self, token: &Token, given: &str, peer: IpAddr) -> Result<bool, Refusal> {
        // Before the token is looked at: a pause in which the right one is taken bounds no guesses.
        self.may_try(peer)?;
        let fits = token.fits(given);
        if !fits {
            self.tries.fail(peer);
        }
        Ok(fits)
    }

    fn stay(&self, headers: &HeaderMap) -> Option<Stay> {
        let signed_in = self.signed_in.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        self.values(headers).find_map(|value| {
            let found = signed_in.get(&blake3::hash(value.as_bytes()))?;
            let end = (found.signed_out.clone(), found.until);
            (found.until > now).then_some(Stay { end: Some(end) })
        })
    }

    /// Returns the values of our cookie, whichever of its two names it has.
    fn values<'a>(&'a self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| name.strip_prefix(HOST_PREFIX).unwrap_or(name) == self.cookie)
            .map(|(_, value)| value)
    }

    /// Signs a browser in and returns the cookie for it.
    fn sign_in(&self, is_encrypted: bool) -> Result<HeaderValue, Refusal> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|error| {
            Refusal::new(ErrorCode::Internal, format!("get random bytes: {error}"))
        })?;
        let value = blake3::Hash::from_bytes(random).to_hex();
        let mut signed_in = self.signed_in.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        signed_in.retain(|_, browser| browser.until > now);
        if signed_in.len() >= SIGNED_IN_MAX {
            let first = signed_in.iter().min_by_key(|(_, browser)| browser.until);
            let first = first.map(|(hash, _)| *hash);
            first.map(|first| signed_in.remove(&first));
        }
        let browser = SignedIn { until: now + SIGNED_IN_FOR, signed_out: CancellationToken::new() };
        signed_in.insert(blake3::hash(value.as_bytes()), browser);
        self.cookie(&value, SIGNED_IN_FOR, is_encrypted)
    }

    /// Signs out whoever sends a request.
    fn sign_out(&self, headers: &HeaderMap) {
        let mut signed_in = self.signed_in.lock().unwrap_or_else(PoisonError::into_inner);
        for value in self.values(headers) {
            signed_in.remove(&blake3::hash(value.as_bytes()));
        }
    }

    fn cookie(
        &self,
        value: &str,
        life: Duration,
        is_encrypted: bool,
    ) -> Result<HeaderValue, Refusal> {
        // With this prefix no neighbour of the host can set the cookie; it needs encryption.
        let (prefix, secure) = if is_encrypted { (HOST_PREFIX, "; Secure") } else { ("", "") };
        let (name, seconds) = (&self.cookie, life.as_secs());
        let cookie = format!(
            "{prefix}{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        );
        HeaderValue::try_from(cookie)
            .map_err(|error| Refusal::new(ErrorCode::Internal, format!("write a cookie: {error}")))
    }
}

/// What the name of a cookie begins with that belongs to one host alone.
const HOST_PREFIX: &str = "__Host-";

/// Serves a request of somebody who may come in, or for what is there for everybody.
pub(crate) async fn check(
    State(porter): State<Arc<Porter>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let path = request.uri().path();
    // The page, which holds nothing of anybody, signs people in; supervisors ask for health.
    let needs_nobody = path == "/"
        || path.starts_with("/console/")
        || ["/health", SIGN_IN, SIGN_OUT].contains(&path);
    if needs_nobody && path != SIGN_IN {
        return Ok(next.run(request).await);
    }
    let is_open = needs_nobody || path == "/ready";
    let peer = peer_of(&request);
    if let Some(stay) = porter.knows(request.headers(), peer)? {
        request.extensions_mut().insert(Known(stay));
    } else if !is_open {
        let text = "this door asks for a token: send it as `Authorization: Bearer TOKEN`";
        return Err(Refusal::new(ErrorCode::NotSignedIn, text));
    }
    Ok(next.run(request).await)
}

/// The path on which a browser signs in.
const SIGN_IN: &str = "/v1/sign-in";
/// The path on which it signs out.
const SIGN_OUT: &str = "/v1/sign-out";

/// The body of a request to sign in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInRequest {
    token: String,
}

pub(crate) async fn show(State(doors): State<Doors>, request: Request) -> Json<SignInView> {
    let signed_in = request.extensions().get::<Known>().is_some();
    Json(SignInView { required: doors.porter.token.is_some(), signed_in })
}

pub(crate) async fn sign_in(
    State(doors): State<Doors>,
    request: Request,
) -> Result<Response, Refusal> {
    let peer = peer_of(&request);
    let (parts, sent) = request.into_parts();
    // Before the body is read: whoever may not try keeps nothing and nobody busy.
    doors.porter.may_try(peer)?;
    let body = body::read_at_most(SIGN_IN_BYTES_MAX, &parts.headers, sent).await?;
    let request: SignInRequest = serde_json::from_slice(&body).map_err(|_| {
        // The body is not told of: it may be a token in the wrong place.
        Refusal::new(ErrorCode::BadRequest, "the body is not of the form {\"token\":\"..\"}")
    })?;
    let porter = &doors.porter;
    let Some(token) = &porter.token else {
        return Ok(Json(SignInView { required: false, signed_in: true }).into_response());
    };
    if !porter.try_token(token, request.token.trim(), peer)? {
        return Err(Refusal::new(ErrorCode::NotSignedIn, "this is not the token of the daemon"));
    }
    let cookie = porter.sign_in(is_encrypted(&parts.headers))?;
    let view = Json(SignInView { required: true, signed_in: true });
    Ok(([(header::SET_COOKIE, cookie)], view).into_response())
}

pub(crate) async fn sign_out(
    State(doors): State<Doors>,
    headers: HeaderMap,
    _body: Body,
) -> Result<Response, Refusal> {
    let porter = &doors.porter;
    porter.sign_out(&headers);
    let cookie = porter.cookie("", Duration::ZERO, is_encrypted(&headers))?;
    let required = porter.token.is_some();
    let view = Json(SignInView { required, signed_in: !required });
    Ok(([(header::SET_COOKIE, cookie)], view).into_response())
}

/// Tells whether the page that asks came over TLS, as its browser says; the doors see what a proxy
/// makes of it.
fn is_encrypted(headers: &HeaderMap) -> bool {
    headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"))
}

/// Returns the token that a request carries. What has another scheme is none of ours: proxies that
/// ask for a password of their own pass theirs on.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(header::AUTHORIZATION).iter();
    let pairs = values.filter_map(|value| value.to_str().ok()?.split_once(' '));
    let mut tokens = pairs.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    tokens.next().map(|(_, token)| token.trim())
}

fn peer_of(request: &Request) -> IpAddr {
    let unknown = Peer(Ipv4Addr::UNSPECIFIED.into());
    request.extensions().get::<Peer>().copied().unwrap_or(unknown).0
}
