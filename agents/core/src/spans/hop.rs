//! The span of one attempt at a call that left the process.

use wire::hop::{Endpoint, Hop, HopEvent, HopReport};
use wire::semconv;
use wire::trace::SpanKind;
use wire::{Attributes, CallKey, Name, SpanRecord, Timestamp};

use super::content::Contents;
use super::{RunFacts, set_server};

/// The version of `CloudEvents` by which events are made.
const EVENT_VERSION: &str = "1.0";

/// The least status of HTTP that tells of a failure.
const STATUS_FAILED_MIN: u16 = 400;

/// An attempt that is over.
#[derive(Clone, Copy, Debug)]
pub struct AttemptFacts<'a> {
    /// The call's key.
    pub call: &'a CallKey,
    /// The tool.
    pub tool: &'a Name,
    /// How it leaves the process.
    pub hop: &'a Hop,
    /// Its number, from 1.
    pub attempt: u32,
    /// Whether it only waited for what an earlier one came to.
    pub rejoined: bool,
    /// When it was made.
    pub start: Timestamp,
    /// When it was over.
    pub end: Timestamp,
    /// What it met, if that was heard.
    pub report: Option<&'a HopReport>,
    /// What went wrong, in few words and in a sentence.
    pub error: Option<(&'a str, &'a str)>,
}

/// Makes the span of an attempt, below that of its call. What the other side reports of it hangs
/// below this one.
pub fn hop_span(facts: &RunFacts<'_>, attempt: &AttemptFacts<'_>) -> SpanRecord {
    let nothing = HopReport::default();
    let report = attempt.report.unwrap_or(&nothing);
    let mut attributes = facts.whose();
    attributes.set(semconv::TOOL_NAME, attempt.tool.as_str());
    if facts.are_read() {
        attributes.set(semconv::TOOL_CALL_ID, attempt.call.as_str());
        attributes.set(semconv::ATTEMPT, attempt.attempt);
        if attempt.rejoined {
            attributes.set(semconv::REJOINED, true);
        }
    }
    let (name, kind) = described(&mut attributes, facts, attempt, report);
    let status = report.status.filter(|status| *status >= STATUS_FAILED_MIN);
    let status = status.map(|status| status.to_string());
    let error = attempt.error.map(|(code, message)| {
        let error = (status.as_deref().unwrap_or(code), message.to_owned());
        Contents::of(facts).failure(attempt.tool.as_str(), error)
    });
    SpanRecord {
        context: facts.trace.of_attempt(attempt.call, attempt.attempt),
        parent: Some(facts.trace.of_call(attempt.call)),
        kind,
        ..facts.span(name, (attempt.start, attempt.end), attributes, error)
    }
}

/// Describes a hop by its kind; returns the span's name and side.
fn described(
    attributes: &mut Attributes,
    facts: &RunFacts<'_>,
    attempt: &AttemptFacts<'_>,
    report: &HopReport,
) -> (String, SpanKind) {
    match attempt.hop {
        Hop::Http { method, scheme, server, path, event } => {
            // An address that the plan does not name was made of arguments.
            let is_told = server.is_some() || Contents::of(facts).are_told_of(attempt.tool);
            let met = is_told.then_some(report);
            let server = met.and_then(|met| met.server.as_ref()).or(server.as_ref());
            attributes.set(semconv::HTTP_METHOD, method.as_str());
            set_server(attributes, server);
            let scheme = met.and_then(|met| met.scheme.as_ref()).or(scheme.as_ref());
            if let (Some(scheme), Some(Endpoint { address, port })) = (scheme, server) {
                let path = path.as_deref().unwrap_or_default();
                let bracketed =
                    if address.contains(':') { format!("[{address}]") } else { address.clone() };
                let full = format!("{scheme}://{bracketed}:{port}{path}");
                attributes.set(semconv::URL_FULL, full);
            }
            if let Some(status) = report.status {
                attributes.set(semconv::HTTP_STATUS, status);
            }
            if let Some(version) = &report.version {
                attributes.set(semconv::PROTOCOL_VERSION, version.as_str());
            }
            set_event(attributes, event.as_ref(), attempt.call);
            let name = match path {
                Some(path) => {
                    attributes.set(semconv::URL_TEMPLATE, path.as_str());
                    format!("{method} {path}")
                }
                None => method.clone(),
            };
            (name, SpanKind::Client)
        }
        Hop::Nats { subject, publishes, event } => {
            let operation = if *publishes { "publish" } else { "request" };
            attributes.set(semconv::MESSAGING_SYSTEM, "nats");
            attributes.set(semconv::MESSAGING_OPERATION, operation);
            attributes.set(semconv::MESSAGING_OPERATION_TYPE, "send");
            attributes.set(semconv::MESSAGING_TEMPLATE, subject.as_str());
            // A subject that holds an argument is content, and of too many values besides.
            if !subject.contains('{') {
                attributes.set(semconv::MESSAGING_DESTINATION, subject.as_str());
            }
            attributes.set(semconv::MESSAGE_ID, attempt.call.as_str());
            attributes.set(semconv::MESSAGE_CONVERSATION, facts.session.as_str());
            set_event(attributes, event.as_ref(), attempt.call);
            (format!("{operation} {subject}"), SpanKind::Producer)
        }
        Hop::Mcp { tool, server } => {
            attributes.set(semconv::MCP_METHOD, "tools/call");
            // The tool as the server calls it, which is what the conventions mean here.
            attributes.set(semconv::TOOL_NAME, tool.as_str());
            set_server(attributes, server.as_ref());
            let transport = if server.is_some() { "tcp" } else { "pipe" };
            attributes.set(semconv::TRANSPORT, transport);
            if server.is_some() {
                attributes.set(semconv::PROTOCOL_NAME, "http");
            }
            if let Some(version) = &report.version {
                attributes.set(semconv::MCP_VERSION, version.as_str());
            }
            (format!("tools/call {tool}"), SpanKind::Client)
        }
        Hop::Command { program } => {
            attributes.set(semconv::PROGRAM, program.as_str());
            if let Some(code) = report.exit_code {
                attributes.set(semconv::EXIT_CODE, code);
            }
            if let Some(process) = report.process {
                attributes.set(semconv::PROCESS_ID, process);
            }
            (program.clone(), SpanKind::Client)
        }
        Hop::Database { system, namespace, server } => {
            attributes.set(semconv::DB_SYSTEM, system.as_str());
            attributes.set(semconv::DB_NAMESPACE, namespace.as_str());
            set_server(attributes, server.as_ref());
            (namespace.to_string(), SpanKind::Client)
        }
    }
}

fn set_event(attributes: &mut Attributes, event: Option<&HopEvent>, call: &CallKey) {
    let Some(event) = event else { return };
    attributes.set(semconv::EVENT_ID, call.as_str());
    attributes.set(semconv::EVENT_SOURCE, event.source.as_str());
    attributes.set(semconv::EVENT_TYPE, event.kind.as_str());
    attributes.set(semconv::EVENT_VERSION, EVENT_VERSION);
}
