//! Sends events.

use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;
use tokio::time::{Instant, timeout_at};
use wire::{CallOutcome, ErrorCode, Headers, WireError, header};

use super::event::CloudEvent;
use super::{EventTool, ReplyWay, late};
use crate::client::{Answered, is_taken};
use crate::http::failure::Failure;
use crate::http::response::Received;
use crate::http::unanswered;
use crate::mcp::Setting;
use crate::messenger::{Letter, Missed};
use crate::nats;
use crate::tool::ToolContext;

/// Bytes of a response that may stand around the data of an event.
const ENVELOPE_BYTES_MAX: usize = 64 << 10;

/// What came of sending an event.
pub(super) enum Sent {
    /// It was taken, and this came back at once.
    Taken(Box<Received>),
    /// It was taken, and this message answered it.
    Answered(Letter),
    /// It was handed over, and nothing comes back this way.
    Published,
    /// It was perhaps taken, and why that is not known.
    Perhaps(WireError),
}

impl EventTool {
    pub(super) async fn post(
        &self,
        url: &str,
        settings: &[(String, Setting)],
        event: &CloudEvent,
        context: &ToolContext,
        end: Instant,
    ) -> Result<Sent, CallOutcome> {
        let written = event.write(self.spec.source.mode);
        let mut headers = headers(settings).map_err(|error| CallOutcome::Error { error })?;
        let own = [
            (header::TRACEPARENT, context.trace.to_string()),
            (header::IDEMPOTENCY_KEY, context.call.to_string()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        for (name, value) in written.headers.into_iter().chain(own) {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
                headers.insert(name, value);
            }
        }
        let request = self.client.post(url).headers(headers).body(written.body);
        let exchange = async {
            let response = request.send().await?;
            context.hop.answered(&response);
            // No redirect is followed, and one that asks for nothing but the answer took the event.
            let is_taken = is_taken(&Method::POST, response.status());
            // Escapes and base64 make data longer, and attributes stand around it.
            let most = self.spec.response_bytes_max.saturating_mul(2);
            Received::read(Answered { response, is_taken }, most.saturating_add(ENVELOPE_BYTES_MAX))
                .await
        };
        let host = reqwest::Url::parse(url).ok();
        let host = host.as_ref().and_then(|url| url.host_str()).unwrap_or("the sink");
        let Ok(exchanged) = timeout_at(end, exchange).await else {
            return Ok(Sent::Perhaps(late(context)));
        };
        let taken = exchanged.map_err(|error| unanswered(host, error)).and_then(Received::done);
        match taken {
            Ok(received) => Ok(Sent::Taken(Box::new(received))),
            Err(Failure::Lost(error)) => Ok(Sent::Perhaps(error)),
            Err(Failure::Settled(error)) => Err(CallOutcome::Error { error }),
        }
    }

    pub(super) async fn send(
        &self,
        subject: &str,
        event: &CloudEvent,
        end: Instant,
    ) -> Result<Sent, CallOutcome> {
        if self.messenger.is_own(subject) {
            let text = format!("{subject} belongs to the runtime, and events do not go there");
            return Err(CallOutcome::error(ErrorCode::ToolUnavailable, text));
        }
        let written = event.write(self.spec.source.mode);
        let mut headers = Headers::new()
            .with(header::IDEMPOTENCY_KEY, event.id.as_str())
            .with(header::MESSAGE_ID, event.id.as_str());
        if let Some(trace) = event.attribute(header::TRACEPARENT) {
            headers.insert(header::TRACEPARENT, trace);
        }
        for (name, value) in written.headers {
            headers.insert(name, value);
        }
        let payload = written.body.into();
        let letter = Letter { subject: subject.to_owned(), reply: None, headers, payload };
        let sent = match self.spec.source.reply {
            ReplyWay::Response => nats::ask(self.messenger.as_ref(), letter, end).await,
            ReplyWay::Event => {
                return match self.messenger.publish(letter).await {
                    Ok(()) => Ok(Sent::Published),
                    Err(Missed::NotDelivered(error)) => Err(nats::not_made(&error)),
                    Err(Missed::Unanswered(error)) => Ok(Sent::Perhaps(error)),
                };
            }
        };
        match sent {
            Ok(letter) => Ok(Sent::Answered(letter)),
            Err(Missed::NotDelivered(error)) => Err(nats::not_made(&error)),
            Err(Missed::Unanswered(error)) if error.code == ErrorCode::DeadlineExceeded => {
                Ok(Sent::Published)
            }
            Err(Missed::Unanswered(error)) => {
                Ok(Sent::Perhaps(WireError::new(ErrorCode::ToolUnavailable, error.message)))
            }
        }
    }
}

fn headers(settings: &[(String, Setting)]) -> Result<HeaderMap, WireError> {
    let mut headers = HeaderMap::new();
    for (name, setting) in settings {
        let fault = || {
            let text = format!("header {name:?} of the sink cannot stand in a request");
            WireError::new(ErrorCode::SecretMissing, text)
        };
        let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| fault())?;
        let value = match setting {
            Setting::Text(text) => HeaderValue::try_from(text).map_err(|_| fault())?,
            Setting::Secret { prefix, secret } => {
                let secret = secret.resolve()?;
                let text = format!("{prefix}{}", secret.expose_secret());
                let mut value = HeaderValue::try_from(text).map_err(|_| fault())?;
                value.set_sensitive(true);
                value
            }
        };
        headers.insert(known, value);
    }
    Ok(headers)
}
