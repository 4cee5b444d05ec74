//! A client of the OpenAI chat completions protocol, as many servers speak it.

mod calls;
mod request;
mod sse;
mod stream;
mod whole;

use std::time::Duration;

use bytes::Bytes;
use config::team::OpenAi;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Response, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;
use wire::{ErrorCode, WireError};

use crate::answer::Answer;
use crate::client::Conversation;
use crate::complaint::{Complaint, excerpt};
use crate::error::{Error, REPLY_BYTES_MAX};
use crate::retry::Advice;
use stream::StreamReader;

/// The most bytes read of an answer that reports an error; only its beginning is told.
const COMPLAINT_BYTES_MAX: usize = 64 << 10;

/// How long the end of a stream is awaited after the model has finished: token counts come in it,
/// which are good to have and not worth failing a whole reply.
const TAIL_WAIT: Duration = Duration::from_secs(2);

/// A client of one model at one server.
pub(crate) struct OpenAiClient {
    http: reqwest::Client,
    url: Url,
    options: OpenAi,
    key: Option<SecretString>,
    headers: HeaderMap,
    idle: Duration,
}

impl OpenAiClient {
    /// Reads the key and checks the address.
    pub(crate) fn new(
        options: &OpenAi,
        idle: Duration,
        http: reqwest::Client,
    ) -> Result<Self, WireError> {
        let key = match &options.api_key {
            Some(key) => Some(key.resolve()?),
            None => None,
        };
        Ok(Self {
            http,
            url: endpoint(&options.base_url)?,
            headers: headers(key.as_ref())?,
            options: options.clone(),
            key,
            idle,
        })
    }

    /// Returns the model's name at the provider.
    pub(crate) fn model(&self) -> &str {
        &self.options.model
    }

    /// Returns the server's address as it may be told: without user, password and query.
    pub(crate) fn address(&self) -> String {
        self.url.origin().ascii_serialization() + self.url.path()
    }

    /// Writes the request body of a turn, the same for all its attempts.
    pub(crate) fn body(&self, conversation: &Conversation) -> Result<Bytes, serde_json::Error> {
        request::body(&self.options, conversation).map(Bytes::from)
    }

    /// Makes one request and reads its answer.
    pub(crate) async fn attempt(
        &self,
        body: Bytes,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Answer, Error> {
        let request = self.http.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let response =
            self.in_time(self.idle, request.send()).await?.map_err(Error::unreachable)?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let mut answer = if is_stream(&response, self.options.stream) {
            self.read_stream(response, on_delta).await
        } else {
            self.read_whole(response, on_delta).await
        };
        if let (Err(Error::InBand(complaint)), Some(key)) = (&mut answer, &self.key) {
            complaint.redact(key.expose_secret());
        }
        answer
    }

    async fn read_stream(
        &self,
        mut response: Response,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Answer, Error> {
        let mut reader = StreamReader::default();
        while !reader.is_done() {
            let finished = reader.is_finished();
            let limit = if finished { TAIL_WAIT.min(self.idle) } else { self.idle };
            let piece = match self.in_time(limit, response.chunk()).await {
                Ok(piece) => piece.map_err(Error::cut),
                Err(error) => Err(error),
            };
            match piece {
                Ok(Some(bytes)) => reader.push(&bytes, on_delta)?,
                Ok(None) => break,
                Err(_) if finished => break,
                Err(error) => return Err(error),
            }
        }
        reader.end(on_delta)
    }

    async fn read_whole(
        &self,
        mut response: Response,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Answer, Error> {
        let mut body = Vec::new();
        while let Some(bytes) =
            self.in_time(self.idle, response.chunk()).await?.map_err(Error::cut)?
        {
            if body.len() + bytes.len() > REPLY_BYTES_MAX {
                return Err(Error::TooLarge);
            }
            body.extend_from_slice(&bytes);
        }
        let answer = whole::read(&body)?;
        if !answer.content.is_empty() {
            on_delta(&answer.content);
        }
        Ok(answer)
    }

    /// Makes the error of an answer that is no success; what cannot be read of it is left out.
    async fn refusal(&self, mut response: Response) -> Error {
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let advice = Advice::read(header);
        let request = header("x-request-id").or_else(|| header("request-id")).map(excerpt);
        let moved = header("location").map(excerpt);
        let status = response.status();
        let mut body = Vec::new();
        while let Ok(Ok(Some(bytes))) = self.in_time(self.idle, response.chunk()).await {
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
        if let Some(key) = &self.key {
            complaint.redact(key.expose_secret());
        }
        Error::Status { status: status.as_u16(), complaint: Box::new(complaint), advice, request }
    }

    async fn in_time<T>(
        &self,
        limit: Duration,
        future: impl Future<Output = T>,
    ) -> Result<T, Error> {
        timeout(limit, future).await.map_err(|_| Error::Idle { limit })
    }
}

fn endpoint(base_url: &str) -> Result<Url, WireError> {
    let invalid = |why: &str| {
        WireError::new(ErrorCode::ConfigInvalid, format!("read `base_url` {base_url:?}: {why}"))
    };
    let mut url = Url::parse(base_url).map_err(|error| invalid(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("it must begin with http:// or https://"));
    }
    url.path_segments_mut()
        .map_err(|()| invalid("it has no path"))?
        .pop_if_empty()
        .extend(["chat", "completions"]);
    Ok(url)
}

fn headers(key: Option<&SecretString>) -> Result<HeaderMap, WireError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    if let Some(key) = key {
        let mut value =
            HeaderValue::try_from(format!("Bearer {}", key.expose_secret())).map_err(|_| {
                WireError::new(
                    ErrorCode::SecretMissing,
                    "use `api_key`: the secret has characters that cannot stand in a header",
                )
            })?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// Tells by what the server says, and by what was asked for if it says nothing useful.
fn is_stream(response: &Response, asked: bool) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    match kind {
        Some(kind) if kind.contains("event-stream") => true,
        Some(kind) if kind.contains("json") => false,
        _ => asked,
    }
}
