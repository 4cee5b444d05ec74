//! Turns finished spans into those of the OpenTelemetry SDK, ids kept.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Array, InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use wire::trace::SpanKind as Side;
use wire::{SpanEvent, SpanLink, SpanRecord, Timestamp, TraceContext, semconv};

use crate::attribute::attributes;

/// What a span takes in memory, and more than on the wire, without its texts.
const SPAN_BYTES: usize = 512;

/// The same of an attribute, an event or a link.
const PART_BYTES: usize = 64;

/// Turns a span, whose own context is given in OpenTelemetry's form already.
pub(crate) fn span_data(
    span: &SpanRecord,
    own: SpanContext,
    scope: InstrumentationScope,
) -> SpanData {
    let mut attributes = attributes(&span.attributes);
    for (key, value) in [
        (semconv::RUN_ID, span.run.as_str()),
        (semconv::CONVERSATION_ID, span.session.as_str()),
        (semconv::AGENT_NAME, span.agent.as_str()),
    ] {
        if !span.attributes.contains(key) {
            attributes.push(KeyValue::new(key, value.to_owned()));
        }
    }
    let above = span.parent.as_ref().map(span_context);
    let (parent, linked) = match above {
        Some(above) if above.trace_id() == own.trace_id() => (above.span_id(), None),
        // A span has its parent in its own trace; anything else that led to it is a link.
        other => (SpanId::INVALID, other),
    };
    let mut links = SpanLinks::default();
    links.links.extend(linked.map(Link::with_context));
    links.links.extend(span.links.iter().map(link));
    let mut events = SpanEvents::default();
    events.events.extend(span.events.iter().map(event));
    SpanData {
        span_context: own,
        parent_span_id: parent,
        parent_span_is_remote: false,
        span_kind: match span.kind {
            Side::Internal => SpanKind::Internal,
            Side::Client => SpanKind::Client,
            Side::Server => SpanKind::Server,
            Side::Producer => SpanKind::Producer,
            Side::Consumer => SpanKind::Consumer,
        },
        name: span.name.clone().into(),
        start_time: system_time(span.start),
        end_time: system_time(span.end),
        attributes,
        dropped_attributes_count: 0,
        events,
        links,
        status: span.error.clone().map_or(Status::Unset, Status::error),
        instrumentation_scope: scope,
    }
}

/// Turns a context, with the sampled flag that it carries.
pub(crate) fn span_context(context: &TraceContext) -> SpanContext {
    // The flags are the last field of a traceparent.
    let sampled = context.to_string().ends_with("01");
    SpanContext::new(
        TraceId::from_bytes(context.trace_bytes()),
        SpanId::from_bytes(context.span_bytes()),
        TraceFlags::default().with_sampled(sampled),
        false,
        TraceState::default(),
    )
}

/// Estimates the bytes of a span, rather too high.
pub(crate) fn bytes(span: &SpanData) -> usize {
    let error = match &span.status {
        Status::Error { description } => description.len(),
        Status::Unset | Status::Ok => 0,
    };
    let events = span.events.iter();
    let events = events.map(|it| PART_BYTES + it.name.len() + bytes_of(&it.attributes));
    let links = span.links.iter().map(|it| PART_BYTES + bytes_of(&it.attributes));
    let parts: usize = events.chain(links).sum();
    SPAN_BYTES + span.name.len() + error + bytes_of(&span.attributes) + parts
}

fn bytes_of(attributes: &[KeyValue]) -> usize {
    let value = |value: &Value| match value {
        Value::String(text) => text.as_str().len(),
        Value::Array(Array::String(texts)) => {
            texts.iter().map(|text| PART_BYTES + text.as_str().len()).sum()
        }
        _ => 0,
    };
    attributes.iter().map(|it| PART_BYTES + it.key.as_str().len() + value(&it.value)).sum()
}

fn event(event: &SpanEvent) -> Event {
    let attributes = attributes(&event.attributes);
    Event::new(event.name.clone(), system_time(event.at), attributes, 0)
}

fn link(link: &SpanLink) -> Link {
    Link::new(span_context(&link.context), attributes(&link.attributes), 0)
}

fn system_time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(at.as_micros())
}
