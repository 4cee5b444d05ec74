//! One server: requests to it, and the reading of its answers within limits of time and size.

use std::time::Duration;

use bytes::Bytes;
use config::team::Server;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout};
use wire::{ErrorCode, WireError};

use crate::answer::{Answer, Received};
use crate::complaint::{Complaint, excerpt};
use crate::draft::{self, Draft};
use crate::error::{COMPLAINT_BYTES_MAX, Error, REPLY_BYTES_MAX};
use crate::provider::{Heard, Protocol};
use crate::retry::Advice;
use crate::stream::{Framing, StreamReader};

/// How long the end of a stream is awaited after the model has finished: token counts come in it,
/// which are good to have and not worth failing a whole reply. Where it finished beside a piece of the
/// reply, the end is awaited as long as another piece, which may come.
const TAIL_WAIT: Duration = Duration::from_secs(2);

/// A server that speaks one protocol.
pub(crate) struct Endpoint {
    http: reqwest::Client,
    url: Url,
    /// What every request begins as, which has no user and password in its address.
    request: Request,
    key: Option<SecretString>,
    /// Whether a stream is asked for.
    stream: bool,
    /// The longest silence between two bytes of an answer's body.
    idle: Duration,
}

impl Endpoint {
    /// Reads the key and checks the address.
    pub(crate) fn new(
        server: &Server,
        protocol: &dyn Protocol,
        idle: Duration,
        http: reqwest::Client,
    ) -> Result<Self, WireError> {
        let key = match &server.api_key {
            Some(key) => Some(key.resolve()?),
            None => None,
        };
        let url = url(&server.base_url, protocol.path())?;
        let request = http.post(url.clone()).headers(headers(protocol, key.as_ref())?).build();
        let request = request.map_err(|error| invalid(&server.base_url, &error.to_string()))?;
        Ok(Self { http, url, request, key, stream: server.stream, idle })
    }

    /// Returns the server's address as it may be told: without user, password and query.
    pub(crate) fn address(&self) -> String {
        self.url.origin().ascii_serialization() + self.url.path()
    }

    /// Returns what must not be told: the key, and a password in the address.
    pub(crate) fn secrets(&self) -> Vec<SecretString> {
        let password = self.url.password().map(SecretString::from);
        self.key.iter().cloned().chain(password).collect()
    }

    /// Makes one request and reads its answer.
    ///
    /// How long the first byte of the body is awaited is left to the caller: a model that thinks
    /// sends nothing while it does, and a server that loads a model gives that up with the request.
    pub(crate) async fn attempt(
        &self,
        protocol: &dyn Protocol,
        body: Bytes,
        on_heard: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Answer, Error> {
        let began = Instant::now();
        let mut request = Request::new(Method::POST, self.request.url().clone());
        *request.headers_mut() = self.request.headers().clone();
        *request.body_mut() = Some(body.into());
        let response = self.http.execute(request).await.map_err(Error::unanswered)?;
        let mut answer = match framing(&response, protocol, self.stream) {
            _ if !response.status().is_success() => Err(self.refusal(response).await),
            Some(framing) => self.read_stream(protocol, (framing, began), response, on_heard).await,
            None => self.read_whole(protocol, response, on_heard).await,
        };
        if let Err(Error::Status { complaint, .. } | Error::InBand(complaint)) = &mut answer {
            if let Some(content) = complaint.unread.take() {
                return Ok(Answer { content, ..Answer::default() });
            }
            if let Some(key) = &self.key {
                complaint.redact(key.expose_secret());
            }
        }
        answer
    }

    async fn read_stream(
        &self,
        protocol: &dyn Protocol,
        (framing, began): (Framing, Instant),
        mut response: Response,
        on_heard: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Answer, Error> {
        let mut reader = StreamReader::new(protocol, framing);
        let mut first = None;
        let mut tail = None;
        while !reader.is_done() {
            let limit = if reader.is_finished() {
                let tail_wait =
                    if reader.is_ending() { TAIL_WAIT.min(self.idle) } else { self.idle };
                let until = *tail.get_or_insert_with(|| Instant::now() + tail_wait);
                until.saturating_duration_since(Instant::now())
            } else {
                self.idle
            };
            if limit.is_zero() && reader.is_finished() {
                break;
            }
            let read = match piece(&mut response, first.map(|_| limit)).await {
                Ok(Some(bytes)) => {
                    if first.is_none() {
                        first = Some(began.elapsed());
                        on_heard(Heard::Byte);
                    }
                    let read = reader.push(&bytes, &mut |text| on_heard(Heard::Piece(text)));
                    on_heard(Heard::Part(reader.received()));
                    read
                }
                Ok(None) => break,
                Err(error) => Err(error),
            };
            match read {
                // The reply is whole, whatever its tail is.
                Err(Error::Form { .. } | Error::Cut { .. } | Error::Idle { .. })
                    if reader.is_finished() =>
                {
                    break;
                }
                read => read?,
            }
        }
        let mut answer = reader.end(&mut |text| on_heard(Heard::Piece(text)))?;
        let micros = first.and_then(|time| u64::try_from(time.as_micros()).ok());
        answer.detail.first_chunk_us = micros;
        Ok(answer)
    }

    async fn read_whole(
        &self,
        protocol: &dyn Protocol,
        response: Response,
        on_heard: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Answer, Error> {
        let mut body = Vec::new();
        if let Err(error) = self.fill(&mut body, response, on_heard).await {
            on_heard(Heard::Part(Received { bytes: body.len() as u64, ..Received::default() }));
            return Err(error);
        }
        let answer = read(protocol, &body)?;
        drop(body);
        if !answer.content.is_empty() {
            on_heard(Heard::Piece(&answer.content));
        }
        Ok(answer)
    }

    /// Takes the body of an answer that comes in one piece.
    async fn fill(
        &self,
        body: &mut Vec<u8>,
        mut response: Response,
        on_heard: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<(), Error> {
        let mut limit = None;
        while let Some(bytes) = piece(&mut response, limit).await? {
            if limit.replace(self.idle).is_none() {
                on_heard(Heard::Byte);
            }
            if body.len() + bytes.len() > REPLY_BYTES_MAX {
                return Err(Error::TooLarge);
            }
            if let Some(room) = draft::room(body.len(), body.capacity(), bytes.len()) {
                body.reserve_exact(room);
            }
            body.extend_from_slice(&bytes);
        }
        Ok(())
    }

    /// Makes the error of an answer that is no success; what cannot be read of it is left out.
    async fn refusal(&self, mut response: Response) -> Error {
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let advice = Advice::read(header);
        let request = header("x-request-id").or_else(|| header("request-id")).map(excerpt);
        let moved = header("location").map(excerpt);
        let status = response.status();
        let mut body = Vec::new();
        while let Ok(Some(bytes)) = piece(&mut response, Some(self.idle)).await {
            body.extend_from_slice(&bytes);
            if body.len() > COMPLAINT_BYTES_MAX {
                body.truncate(COMPLAINT_BYTES_MAX);
                break;
            }
        }
        let mut complaint = Complaint::from_body(&body);
        if let Some(place) = moved.filter(|_| status.is_redirection()) {
            complaint.message = format!("the server points to {place}; set `base_url` to it");
        }
        Error::Status { status: status.as_u16(), complaint: Box::new(complaint), advice, request }
    }
}

/// Awaits a piece of an answer's body, as long as the limit says if there is one.
async fn piece(response: &mut Response, limit: Option<Duration>) -> Result<Option<Bytes>, Error> {
    let piece = match limit {
        Some(limit) => timeout(limit, response.chunk()).await.map_err(|_| Error::Idle { limit })?,
        None => response.chunk().await,
    };
    piece.map_err(Error::cut)
}

/// Reads an answer that came in one piece.
pub(crate) fn read(protocol: &dyn Protocol, body: &[u8]) -> Result<Answer, Error> {
    // That it is UTF-8 is checked once for the whole, which is less work than for each text in it.
    let json = str::from_utf8(body).ok().and_then(|text| serde_json::from_str(text).ok());
    let value =
        json.ok_or_else(|| Error::form("the answer is no JSON", &String::from_utf8_lossy(body)))?;
    if let Some(complaint) = Complaint::from_answer(&value) {
        return Err(Error::InBand(complaint.into()));
    }
    let mut draft = Draft::default();
    protocol.read_whole(&value, &mut draft)?;
    Ok(draft.into_answer())
}

fn invalid(base_url: &str, why: &str) -> WireError {
    WireError::new(ErrorCode::ConfigInvalid, format!("read `base_url` {base_url:?}: {why}"))
}

fn url(base_url: &str, path: &[&str]) -> Result<Url, WireError> {
    let invalid = |why: &str| invalid(base_url, why);
    let mut url = Url::parse(base_url).map_err(|error| invalid(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("it must begin with http:// or https://"));
    }
    url.path_segments_mut().map_err(|()| invalid("it has no path"))?.pop_if_empty().extend(path);
    Ok(url)
}

fn headers(protocol: &dyn Protocol, key: Option<&SecretString>) -> Result<HeaderMap, WireError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(protocol.framing().accept()));
    for &(name, value) in protocol.headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some(key) = key {
        let (name, prefix) = protocol.key_header();
        let value = HeaderValue::try_from(format!("{prefix}{}", key.expose_secret()));
        let mut value = value.map_err(|_| {
            WireError::new(
                ErrorCode::SecretMissing,
                "use `api_key`: the secret has characters that cannot stand in a header",
            )
        })?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

/// Tells how an answer is streamed, if it is: by what the server says, and by what was asked for
/// if it says nothing useful.
fn framing(response: &Response, protocol: &dyn Protocol, asked: bool) -> Option<Framing> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    match kind {
        // What servers say most often, which is not searched.
        Some("application/json") => None,
        Some(kind) if kind.contains("event-stream") => Some(Framing::Events),
        Some(kind) if kind.contains("ndjson") || kind.contains("jsonl") => Some(Framing::Lines),
        Some(kind) if kind.contains("json") => None,
        _ => asked.then(|| protocol.framing()),
    }
}
