//! Reads a response and says what it means for the call.

use std::time::Duration;

use reqwest::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER,
};
use reqwest::{Response, StatusCode, Url};
use serde_json::Value;
use tokio::time::timeout;
use wire::{CallOutcome, ErrorCode, WireError};

use crate::client::SendError;
use crate::output::{Body, cut_mark, excerpt, is_json};
use crate::secret::clean;

/// The longest silence amid a body; what comes more slowly is as good as broken.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The most seconds of a `Retry-After` that are passed on, an hour; no call waits longer.
const RETRY_AFTER_S_MAX: u64 = 3600;

/// A response that is there, up to the bound of its body.
pub(crate) struct Received {
    status: StatusCode,
    /// The address that answered, after all redirects.
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    body: Vec<u8>,
    /// The body goes on behind the bound.
    cut: bool,
}

/// What a successful response says.
pub(super) enum Said {
    /// Whole JSON.
    Json(Value),
    /// A text; what is no whole JSON is one too.
    Text(String),
}

impl Received {
    /// Reads the body until it ends or `bytes_max` are read.
    pub(crate) async fn read(mut response: Response, bytes_max: usize) -> Result<Self, SendError> {
        let (status, url) = (response.status(), response.url().clone());
        let headers = std::mem::take(response.headers_mut());
        let announced = response.content_length().and_then(|bytes| usize::try_from(bytes).ok());
        let mut body = Vec::with_capacity(announced.unwrap_or_default().min(bytes_max));
        let mut cut = false;
        loop {
            let chunk = timeout(IDLE_MAX, response.chunk()).await;
            let Some(chunk) = chunk.map_err(|_| SendError::Idle(IDLE_MAX))?? else { break };
            let room = bytes_max.saturating_sub(body.len());
            body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
            if chunk.len() > room {
                cut = true;
                break;
            }
        }
        Ok(Self { status, url, headers, body, cut })
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the headers whose values are texts.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Tells whether the body goes on behind what was read.
    pub(crate) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Drops what goes beyond a bound.
    pub(crate) fn cut_to(mut self, bytes_max: usize) -> Self {
        self.cut |= self.body.len() > bytes_max;
        self.body.truncate(bytes_max);
        self
    }

    /// Says how the call ended.
    pub(crate) fn outcome(&self) -> CallOutcome {
        match self.said() {
            Ok(Said::Json(output)) => CallOutcome::Ok { output },
            Ok(Said::Text(text)) => CallOutcome::text(text),
            Err(error) => CallOutcome::Error { error },
        }
    }

    /// Returns how many bytes the body has, as far as it was read.
    pub(super) fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Returns what it says without secrets, or the error that it is.
    pub(super) fn said(&self) -> Result<Said, WireError> {
        if let Some(encoding) = self.header(&CONTENT_ENCODING)
            && !encoding.trim().eq_ignore_ascii_case("identity")
        {
            let text = format!(
                "the server answered {} packed as {:?}, which was not asked for and is not unpacked",
                self.status,
                excerpt(&clean(encoding.to_owned())),
            );
            return Err(WireError::new(ErrorCode::ToolFailed, text));
        }
        let body = Body::read(&self.body, self.header(&CONTENT_TYPE), self.cut);
        if !self.status.is_success() {
            return Err(self.failure(&body.into_text()));
        }
        Ok(match body {
            Body::Text(text) => self.content(text),
            Body::NotShown(told) => Said::Text(told),
        })
    }

    fn failure(&self, text: &str) -> WireError {
        let status = self.status;
        let message = if status.is_redirection() {
            let target = clean(self.header(&LOCATION).unwrap_or("nowhere").to_owned());
            format!(
                "the server answered {status} and points to {}, which is not followed; ask there if \
                 that is meant",
                excerpt(&target)
            )
        } else if text.trim().is_empty() {
            format!("the server answered {status} without a body")
        } else {
            format!("the server answered {status}: {}", excerpt(text))
        };
        let mut error = WireError::new(ErrorCode::ToolFailed, message);
        error.retry_after_ms = self
            .header(&RETRY_AFTER)
            .and_then(|seconds| seconds.trim().parse::<u64>().ok())
            .map(|seconds| seconds.min(RETRY_AFTER_S_MAX) * 1000);
        error
    }

    fn content(&self, text: String) -> Said {
        if self.cut {
            return Said::Text(format!("{text}{}", cut_mark(self.body.len())));
        }
        if text.is_empty() {
            return Said::Text(format!("the server answered {} without a body", self.status));
        }
        if self.header(&CONTENT_TYPE).is_some_and(is_json)
            && let Ok(value) = serde_json::from_str(&text)
        {
            return Said::Json(value);
        }
        Said::Text(text)
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
