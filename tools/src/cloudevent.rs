//! Tools whose calls are events: an event type says what goes out, and an event that names it comes
//! back.

pub mod event;
pub mod replies;
pub mod schema;
mod send;
#[cfg(test)]
mod tests;
pub mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};
use wire::{CallOutcome, EffectClass, ErrorCode, Name, ToolReply, WireError, header};

use crate::http::response::Received;
use crate::json;
use crate::mcp::Setting;
use crate::messenger::{Letter, Messenger};
use crate::output::{Body, cut_mark, excerpt, text};
use crate::tool::{Tool, ToolContext};
use event::{CloudEvent, Mode};
use replies::Replies;
use send::Sent;
use types::EventType;

/// The attribute by which a reply names the event that it answers, unless the team says another.
pub const REPLY_ATTRIBUTE: &str = "responseid";

/// Where the events of a source of event types go, and how their replies come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSource {
    /// The source's name in the team.
    pub name: Name,
    /// Where events go.
    pub sink: Sink,
    /// Where the attributes of an event stand.
    pub mode: Mode,
    /// The attribute `source` of all events.
    pub origin: String,
    /// How replies come.
    pub reply: ReplyWay,
    /// The attribute by which a reply names the event that it answers.
    pub reply_attribute: String,
}

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// To an HTTP address, by POST.
    Http {
        /// The address.
        url: String,
        /// Further headers.
        headers: Vec<(String, Setting)>,
    },
    /// To the address of each event type's own reference, by POST.
    Reference {
        /// Further headers.
        headers: Vec<(String, Setting)>,
    },
    /// To a subject of NATS.
    Subject(String),
}

/// How replies come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyWay {
    /// As the answer to the request that carried the event.
    Response,
    /// As an event of their own, which is brought to [`Replies`].
    Event,
}

/// One event type as a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSpec {
    /// Where its events go.
    pub source: Arc<EventSource>,
    /// What they are.
    pub event_type: Arc<EventType>,
    /// What may be repeated.
    pub effect: EffectClass,
    /// Bytes of a reply that are passed on; the rest is cut and marked as cut.
    pub response_bytes_max: usize,
}

/// A tool that sends an event and waits for the one that answers it.
///
/// The id of the event is the call's key, so an event that is sent again is the same event.
pub struct EventTool {
    spec: EventSpec,
    client: reqwest::Client,
    messenger: Arc<dyn Messenger>,
    replies: Replies,
}

impl EventTool {
    /// Makes the tool of an event type.
    pub fn new(
        spec: EventSpec,
        client: reqwest::Client,
        messenger: Arc<dyn Messenger>,
        replies: Replies,
    ) -> Self {
        Self { spec, client, messenger, replies }
    }

    async fn exchange(&self, context: &ToolContext, arguments: &Value) -> ToolReply {
        let source = &self.spec.source;
        let end = Instant::now() + context.answer_time();
        let event = self.event(context, arguments);
        // It waits before the event is there, which may be answered at once.
        let waiting = match source.reply {
            ReplyWay::Response => None,
            ReplyWay::Event => Some(self.replies.wait(&source.name, &event.id)),
        };
        let sent = match &source.sink {
            Sink::Http { url, headers } => self.post(url, headers, &event, context, end).await,
            Sink::Reference { headers } => match &self.spec.event_type.address {
                Some(url) => self.post(url, headers, &event, context, end).await,
                None => Err(CallOutcome::error(
                    ErrorCode::ToolUnavailable,
                    "the event type names no reference that takes events",
                )),
            },
            Sink::Subject(subject) => self.send(subject, &event, end).await,
        };
        match (sent, waiting) {
            (Err(outcome), _) => ToolReply::settled(outcome),
            (Ok(Sent::Perhaps(error)), None) => ToolReply::unanswered(error),
            (Ok(Sent::Published), None) => ToolReply::unanswered(late(context)),
            (Ok(Sent::Answered(letter)), None) => self.answer(context, &event.id, &letter),
            (Ok(Sent::Published | Sent::Answered(_) | Sent::Taken(_)), Some(waiting)) => {
                self.await_reply(context, waiting, end, None).await
            }
            (Ok(Sent::Taken(received)), None) => self.response(context, &event.id, *received),
            // What was perhaps sent is perhaps answered.
            (Ok(Sent::Perhaps(error)), Some(waiting)) => {
                self.await_reply(context, waiting, end, Some(error)).await
            }
        }
    }

    /// Makes the event of a call.
    fn event(&self, context: &ToolContext, arguments: &Value) -> CloudEvent {
        let mut attributes: BTreeMap<String, String> = self.spec.event_type.attributes.clone();
        attributes.insert("time".to_owned(), rfc3339(context.now.as_micros()));
        attributes.insert(header::TRACEPARENT.to_owned(), context.trace.to_string());
        CloudEvent {
            id: context.call.to_string(),
            source: self.spec.source.origin.clone(),
            kind: self.spec.event_type.kind.clone(),
            data_content_type: Some("application/json".to_owned()),
            attributes,
            data: declared(&self.spec.event_type.parameters, arguments).to_string().into_bytes(),
        }
    }

    /// Says what the answer to a message means.
    fn answer(&self, context: &ToolContext, id: &str, letter: &Letter) -> ToolReply {
        if letter.headers.get(header::SERVICE_ERROR_CODE).is_some()
            || letter.headers.get(header::SERVICE_ERROR).is_some()
        {
            let told = letter.headers.get(header::SERVICE_ERROR).unwrap_or_default();
            let body = text(letter.payload.as_ref(), false);
            let text = format!("{} failed: {told} {}", context.tool, excerpt(body.trim()));
            return ToolReply::settled(CallOutcome::error(ErrorCode::ToolFailed, text.trim_end()));
        }
        match CloudEvent::read(letter.headers.iter(), &letter.payload) {
            Ok(Some(reply)) => self.own_reply(context, id, reply, false),
            // An acknowledgement of a stream, or of whoever else only took the event.
            Ok(None) if letter.payload.is_empty() => ToolReply::unanswered(late(context)),
            Ok(None) => {
                let plain = CloudEvent { data: letter.payload.to_vec(), ..CloudEvent::default() };
                ToolReply::settled(self.outcome(plain, false))
            }
            Err(fault) => broken_reply(context, &fault),
        }
    }

    /// Takes a reply, unless it says that it answers another event.
    fn own_reply(
        &self,
        context: &ToolContext,
        id: &str,
        reply: CloudEvent,
        is_cut: bool,
    ) -> ToolReply {
        let of = reply.attribute(&self.spec.source.reply_attribute);
        if of.is_some_and(|of| of != id) {
            self.replies.count_unknown(&self.spec.source.name);
            let text =
                format!("{} was given the reply to another event, which was dropped", context.tool);
            return ToolReply::lost(ErrorCode::ToolFailed, text);
        }
        ToolReply::settled(self.outcome(reply, is_cut))
    }

    /// Says what the answer to a request that was taken means.
    fn response(&self, context: &ToolContext, id: &str, mut received: Received) -> ToolReply {
        let most = self.spec.response_bytes_max;
        let (head, body) = received.parts();
        match CloudEvent::take(head.headers(), body) {
            Ok(Some(reply)) => {
                let is_cut = head.is_cut();
                drop(received);
                self.own_reply(context, id, reply, is_cut)
            }
            Ok(None) if body.is_empty() => ToolReply::unanswered(late(context)),
            Ok(None) => received.cut_to(most).reply(),
            Err(fault) => broken_reply(context, &fault),
        }
    }

    async fn await_reply(
        &self,
        context: &ToolContext,
        mut waiting: replies::Waiting,
        end: Instant,
        missed: Option<WireError>,
    ) -> ToolReply {
        match timeout_at(end, waiting.reply()).await {
            Ok(Some(reply)) => ToolReply::settled(self.outcome(reply, false)),
            Ok(None) | Err(_) => ToolReply::unanswered(missed.unwrap_or_else(|| late(context))),
        }
    }

    /// Says what a reply means. A text stands for a failure: results are JSON.
    fn outcome(&self, mut reply: CloudEvent, is_cut: bool) -> CallOutcome {
        let most = self.spec.response_bytes_max;
        let mut kept = std::mem::take(&mut reply.data);
        let is_cut = is_cut || kept.len() > most;
        kept.truncate(most);
        let bytes = kept.len();
        let body = Body::read(kept, reply.data_content_type.as_deref(), is_cut);
        if reply.is_of("text/plain") {
            let told = body.into_text();
            let told =
                if told.trim().is_empty() { "the tool says no more" } else { excerpt(&told) };
            return CallOutcome::error(ErrorCode::ToolFailed, told);
        }
        let told = match body {
            Body::Text(told) => told,
            Body::NotShown(told) => return CallOutcome::text(told),
        };
        if is_cut {
            return CallOutcome::text(told + &cut_mark(bytes));
        }
        if reply.is_json()
            && let Ok(output) = json::read(&told)
        {
            return CallOutcome::Ok { output };
        }
        CallOutcome::text(told)
    }
}

fn late(context: &ToolContext) -> WireError {
    let text = format!(
        "{} sent its event and got no reply within {:.1} s",
        context.tool,
        context.remaining.as_secs_f64()
    );
    WireError::new(ErrorCode::ToolTimeout, text)
}

fn broken_reply(context: &ToolContext, fault: &str) -> ToolReply {
    let text =
        format!("the call was made, but the reply to {} is no whole event: {fault}", context.tool);
    ToolReply::settled(CallOutcome::error(ErrorCode::ToolFailed, text))
}

/// Returns the arguments that the schema declares, where it lists them at its root and does not say
/// that there may be others.
fn declared(parameters: &Value, arguments: &Value) -> Value {
    let is_closed = parameters.get("additionalProperties").is_none_or(|others| others == false);
    let lists_all = is_closed
        && ["oneOf", "anyOf", "allOf", "$ref", "patternProperties", "if"]
            .iter()
            .all(|key| parameters.get(key).is_none());
    match (parameters.get("properties").and_then(Value::as_object), arguments.as_object()) {
        (Some(properties), Some(arguments)) if lists_all => arguments
            .iter()
            .filter(|(name, _)| properties.contains_key(*name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Map<String, Value>>()
            .into(),
        _ => arguments.clone(),
    }
}

/// Writes a time as events have it, in UTC with microseconds.
fn rfc3339(micros: u64) -> String {
    let micros = i64::try_from(micros).unwrap_or(i64::MAX);
    chrono::DateTime::from_timestamp_micros(micros)
        .unwrap_or_default()
        .to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}

impl Tool for EventTool {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(self.exchange(context, arguments))
    }

    fn rejoin<'a>(
        &'a self,
        context: &'a ToolContext,
        _arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(async move {
            let waiting = self.replies.wait(&self.spec.source.name, context.call.as_str());
            let end = Instant::now() + context.answer_time();
            self.await_reply(context, waiting, end, None).await
        })
    }
}
