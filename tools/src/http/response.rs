//! Reads a response and says what it means for the call.

use std::time::Duration;

use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION};
use reqwest::{StatusCode, Url};
use serde_json::Value;
use tokio::time::timeout;
use wire::{CallOutcome, ErrorCode, ToolReply, WireError};

use super::failure::{Failure, Meaning, meaning, retry_after_ms};
use crate::client::{Answered, SendError};
use crate::json;
use crate::output::{Body, cut_mark, excerpt, is_json};
use crate::secret::clean;

/// The longest silence amid a body; what comes more slowly is as good as broken.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A response that is there, up to the bound of its body.
pub(crate) struct Received {
    head: Head,
    body: Vec<u8>,
}

/// What is known of a response besides its body.
pub(crate) struct Head {
    pub(super) status: StatusCode,
    /// The address that answered, after all redirects.
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// How many bytes the body has, as far as it was read.
    pub(super) bytes: usize,
    /// The body goes on behind the bound.
    cut: bool,
    /// A server took the request and told to get this elsewhere, see [`Answered::is_taken`].
    is_taken: bool,
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
    pub(crate) async fn read(answered: Answered, bytes_max: usize) -> Result<Self, SendError> {
        let Answered { mut response, is_taken } = answered;
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
        let bytes = body.len();
        Ok(Self { head: Head { status, url, headers, bytes, cut, is_taken }, body })
    }

    /// Returns the body beside what else is known, for whoever wants to take it.
    pub(crate) fn parts(&mut self) -> (&Head, &mut Vec<u8>) {
        (&self.head, &mut self.body)
    }

    /// Drops what goes beyond a bound.
    pub(crate) fn cut_to(mut self, bytes_max: usize) -> Self {
        self.head.cut |= self.body.len() > bytes_max;
        self.body.truncate(bytes_max);
        self.head.bytes = self.body.len();
        self
    }

    /// Returns the response if what was asked for was done.
    pub(crate) fn done(self) -> Result<Self, Failure> {
        let Self { head, body } = self;
        let failure = match meaning(head.status) {
            Meaning::Done => return Ok(Self { head, body }),
            Meaning::Failed => Failure::Settled(head.failure(body, ErrorCode::ToolFailed)),
            Meaning::Unknown(code) => Failure::Lost(head.failure(body, code)),
        };
        Err(if head.is_taken { failure.after_taken() } else { failure })
    }

    /// Says how the call ended.
    pub(crate) fn reply(self) -> ToolReply {
        match self.said() {
            Ok((Said::Json(output), _)) => ToolReply::settled(CallOutcome::Ok { output }),
            Ok((Said::Text(text), _)) => ToolReply::settled(CallOutcome::text(text)),
            Err(failure) => failure.into_reply(),
        }
    }

    /// Returns what it says without secrets and what else is known of it, or why the call has no
    /// result.
    pub(super) fn said(self) -> Result<(Said, Head), Failure> {
        let Self { head, body } = self.done()?;
        let said = head.said(body).map_err(|error| {
            Failure::Settled(error).told(|message| format!("the call was made, but {message}"))
        })?;
        Ok((said, head))
    }
}

impl Head {
    /// Returns the headers whose values are texts.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
    }

    /// Tells whether the body goes on behind what was read.
    pub(crate) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Reads what came with a status of success.
    fn said(&self, body: Vec<u8>) -> Result<Said, WireError> {
        Ok(match self.unpacked(body)? {
            Body::Text(text) => self.content(text),
            Body::NotShown(told) => Said::Text(told),
        })
    }

    /// Says what came with a status of another kind.
    fn failure(&self, body: Vec<u8>, code: ErrorCode) -> WireError {
        let mut error = match self.unpacked(body) {
            Ok(body) => WireError::new(code, self.refusal(&body.into_text())),
            Err(error) => WireError { code, ..error },
        };
        let header = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        error.retry_after_ms = retry_after_ms(header);
        error
    }

    fn unpacked(&self, body: Vec<u8>) -> Result<Body, WireError> {
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
        Ok(Body::read(body, self.header(&CONTENT_TYPE), self.cut))
    }

    fn refusal(&self, text: &str) -> String {
        let status = self.status;
        if status.is_redirection() {
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
        }
    }

    fn content(&self, text: String) -> Said {
        if self.cut {
            return Said::Text(text + &cut_mark(self.bytes));
        }
        if text.is_empty() {
            return Said::Text(format!("the server answered {} without a body", self.status));
        }
        if self.header(&CONTENT_TYPE).is_some_and(is_json)
            && let Ok(value) = json::read(&text)
        {
            return Said::Json(value);
        }
        Said::Text(text)
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_response_says_is_its_body_and_no_copy() {
        let body = vec![b'x'; 1 << 20];
        let (at, bytes) = (body.as_ptr(), body.len());
        let url = Url::parse("http://a.example/").unwrap();
        let headers = HeaderMap::new();
        let head =
            Head { status: StatusCode::OK, url, headers, bytes, cut: false, is_taken: false };
        let Ok((Said::Text(text), head)) = (Received { head, body }).said() else {
            panic!("a text is read as a text");
        };
        assert_eq!((text.as_ptr(), text.len(), head.bytes), (at, bytes, bytes));
    }
}
