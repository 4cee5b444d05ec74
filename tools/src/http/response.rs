//! Reads a response and says what it means for the call.

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use secrecy::SecretString;
use serde_json::Value;
use wire::{CallOutcome, ErrorCode, WireError};

use crate::output::{cut_mark, excerpt, text};
use crate::secret::redacted;

/// The most seconds of a `Retry-After` that are passed on, an hour; no call waits longer.
const RETRY_AFTER_S_MAX: u64 = 3600;

/// A response that is there, up to the bound of its body.
pub(crate) struct Received {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    /// The body goes on behind the bound.
    cut: bool,
}

impl Received {
    /// Reads the body until it ends or `bytes_max` are read.
    pub(crate) async fn read(
        mut response: Response,
        bytes_max: usize,
    ) -> Result<Self, reqwest::Error> {
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let mut body = Vec::new();
        let mut cut = false;
        while let Some(chunk) = response.chunk().await? {
            let room = bytes_max.saturating_sub(body.len());
            body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
            if chunk.len() > room {
                cut = true;
                break;
            }
        }
        Ok(Self { status, headers, body, cut })
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
    pub(crate) fn outcome(&self, secrets: &[SecretString]) -> CallOutcome {
        let text = redacted(text(&self.body, self.cut), secrets);
        if self.status.is_success() {
            return CallOutcome::Ok { output: self.output(text) };
        }
        let status = self.status;
        let message = if status.is_redirection() {
            let target = redacted(self.header(&LOCATION).unwrap_or("nowhere").to_owned(), secrets);
            format!(
                "the server answered {status} and points to {}; redirects are not followed, so put \
                 the final address into the tool's url",
                excerpt(&target)
            )
        } else if text.trim().is_empty() {
            format!("the server answered {status} without a body")
        } else {
            format!("the server answered {status}: {}", excerpt(&text))
        };
        let mut error = WireError::new(ErrorCode::ToolFailed, message);
        error.retry_after_ms = self
            .header(&RETRY_AFTER)
            .and_then(|seconds| seconds.trim().parse::<u64>().ok())
            .map(|seconds| seconds.min(RETRY_AFTER_S_MAX) * 1000);
        CallOutcome::Error { error }
    }

    fn output(&self, text: String) -> Value {
        if self.cut {
            return Value::String(format!("{text}{}", cut_mark(self.body.len())));
        }
        if text.is_empty() {
            return Value::String(format!("the server answered {} without a body", self.status));
        }
        if self.is_json()
            && let Ok(value) = serde_json::from_str(&text)
        {
            return value;
        }
        Value::String(text)
    }

    fn is_json(&self) -> bool {
        let essence = self.header(&CONTENT_TYPE).and_then(|value| value.split(';').next());
        let essence = essence.unwrap_or_default().trim().to_ascii_lowercase();
        essence == "application/json" || essence.ends_with("+json")
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
