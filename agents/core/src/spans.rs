//! Finished spans, made from facts alone.
//!
//! Names are those of [`wire::semconv`]. What was said is part of a span, as values, as far as the
//! plan's [`Levels`](wire::Levels) go for where the span goes; [`crate::capture::reduce`] makes them
//! what a trace holds of it.

use wire::plan::{Plan, Served};
use wire::run::RunReply;
use wire::semconv::{self, ERROR_OTHER, PROVIDER_SELF, PROVIDER_UNKNOWN, operation};
use wire::trace::{SpanEvent, SpanKind, SpanLink};
use wire::{
    Attribute, Attributes, Name, RunId, RunTrace, SessionId, SpanRecord, Timestamp, TraceContext,
    TraceSink, Usage, WireError,
};

mod call;
pub(crate) mod content;
mod hop;
#[cfg(test)]
mod tests;
mod turn;

pub use call::{CallFacts, call_span};
pub use hop::{AttemptFacts, hop_span};
pub use turn::{TurnFacts, model_span};

use content::{Contents, Part, Said};

/// The most events of one span; those after them are not noted. A run that is taken up or steered
/// more often has stopped being readable as one.
pub const EVENTS_MAX: usize = 128;

/// What all spans of a run have in common.
#[derive(Clone, Copy, Debug)]
pub struct RunFacts<'a> {
    /// The agent's plan.
    pub plan: &'a Plan,
    /// The session.
    pub session: &'a SessionId,
    /// The run.
    pub run: &'a RunId,
    /// The run's own span, and the names of those below it.
    pub trace: &'a RunTrace,
    /// Where the spans go.
    pub sink: TraceSink,
    /// What the run has left.
    pub left: Left,
}

/// What a run may still use; absent is what is not bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Steps.
    pub steps: Option<u32>,
    /// Calls.
    pub calls: Option<u64>,
    /// Money, in billionths of a US dollar.
    pub cost_nano_usd: Option<u64>,
}

/// What there is to tell of a run that is over.
#[derive(Clone, Copy, Debug)]
pub struct EndFacts<'a> {
    /// The caller's span, if there is one.
    pub caller: Option<&'a TraceContext>,
    /// When the message was accepted.
    pub start: Timestamp,
    /// When the reply was decided.
    pub end: Timestamp,
    /// The message.
    pub input: &'a str,
    /// The reply.
    pub reply: &'a RunReply,
    /// How many steps it took.
    pub steps: u32,
    /// How often it was taken up again.
    pub resumes: u32,
    /// How many replies of its models could not be used.
    pub feedback: u32,
    /// How many exchanges of earlier runs its models were shown.
    pub history_shown: usize,
    /// How many there were that they were not shown.
    pub history_left_out: usize,
    /// What happened within it.
    pub events: &'a [SpanEvent],
    /// The span of the run that its message joined, if it did.
    pub joined: Option<&'a TraceContext>,
}

/// Makes the span of a run that is over, below its caller's span if there is one.
pub fn run_span(facts: &RunFacts<'_>, end: &EndFacts<'_>) -> SpanRecord {
    let reply = end.reply;
    let mut attributes = facts.attributes(operation::INVOKE_AGENT);
    attributes.set(semconv::PROVIDER_NAME, Attribute::Word(PROVIDER_SELF));
    attributes.set(semconv::OUTCOME, Attribute::Word(reply.status.as_str()));
    set_usage(&mut attributes, reply.usage);
    if facts.are_read() {
        describe_run(&mut attributes, facts, end);
    }
    let joined = end.joined.map(|run| SpanLink { context: *run, attributes: Attributes::new() });
    SpanRecord {
        parent: end.caller.copied(),
        events: end.events.to_vec(),
        links: joined.into_iter().collect(),
        ..facts.span(
            format!("{} {}", operation::INVOKE_AGENT, facts.plan.agent),
            (end.start, end.end),
            attributes,
            reply.error.as_ref().map(failure),
        )
    }
}

/// Says of a run what no measure reads.
fn describe_run(attributes: &mut Attributes, facts: &RunFacts<'_>, end: &EndFacts<'_>) {
    let reply = end.reply;
    if !facts.plan.description.is_empty() {
        attributes.set(semconv::AGENT_DESCRIPTION, facts.plan.description.as_str());
    }
    attributes.set(semconv::STEP, end.steps);
    attributes.set(semconv::RESUMES, end.resumes);
    if end.feedback > 0 {
        attributes.set(semconv::FEEDBACK_ROUNDS, end.feedback);
    }
    for (name, count) in [
        (semconv::HISTORY_SHOWN, end.history_shown),
        (semconv::HISTORY_LEFT_OUT, end.history_left_out),
    ] {
        if count > 0 {
            attributes.set(name, count as u64);
        }
    }
    if let Some(joined) = &reply.joined {
        attributes.set(semconv::JOINED, joined.as_str());
    } else {
        facts.left.set(attributes);
    }
    if reply.tainted {
        attributes.set(semconv::TAINTED, true);
    }
    let contents = Contents::of(facts);
    let instructions = [Part::Text(&facts.plan.instructions)];
    contents.put_parts(attributes, semconv::SYSTEM_INSTRUCTIONS, &instructions);
    contents.put(attributes, semconv::INPUT_MESSAGES, &[Said::user(end.input)]);
    let finish = if reply.error.is_none() { "stop" } else { "error" };
    let said = Said { finish: Some(finish), ..Said::model(vec![Part::Text(&reply.output)]) };
    contents.put(attributes, semconv::OUTPUT_MESSAGES, &[said]);
}

impl RunFacts<'_> {
    /// Tells whether anybody reads spans. If not, they have what is measured, and no more.
    fn are_read(&self) -> bool {
        self.sink != TraceSink::Nowhere
    }

    fn attributes(&self, operation: &'static str) -> Attributes {
        let mut attributes = self.whose();
        attributes.set(semconv::OPERATION_NAME, Attribute::Word(operation));
        attributes
    }

    /// Says to what a span belongs.
    fn whose(&self) -> Attributes {
        let mut attributes = if self.are_read() { Attributes::new() } else { Attributes::few() };
        attributes.set(semconv::AGENT_NAME, self.plan.agent.clone());
        if self.are_read() {
            attributes.set(semconv::CONVERSATION_ID, self.session.as_str());
            attributes.set(semconv::TEAM, self.plan.team.as_str());
            attributes.set(semconv::RUN_ID, self.run.as_str());
        }
        attributes
    }

    /// Makes a span of the run itself; the callers put it in its place.
    fn span(
        &self,
        name: String,
        (start, end): (Timestamp, Timestamp),
        mut attributes: Attributes,
        error: Option<(&str, String)>,
    ) -> SpanRecord {
        if let Some((kind, _)) = error {
            attributes.set(semconv::ERROR_TYPE, kind);
        }
        SpanRecord {
            context: *self.trace.span(),
            parent: None,
            name,
            kind: SpanKind::Internal,
            start,
            end,
            session: self.session.clone(),
            run: self.run.clone(),
            agent: self.plan.agent.clone(),
            attributes,
            events: Vec::new(),
            links: Vec::new(),
            error: error.map(|(_, message)| message),
        }
    }
}

impl Left {
    fn set(self, attributes: &mut Attributes) {
        let steps = self.steps.map(u64::from);
        for (name, left) in [
            (semconv::TOKENS_LEFT, self.tokens),
            (semconv::STEPS_LEFT, steps),
            (semconv::CALLS_LEFT, self.calls),
            (semconv::COST_LEFT_NANO_USD, self.cost_nano_usd),
        ] {
            if let Some(left) = left {
                attributes.set(name, left);
            }
        }
    }
}

/// Makes an event of a span.
pub(crate) fn event<V: Into<Attribute>>(
    name: &str,
    at: Timestamp,
    attributes: impl IntoIterator<Item = (&'static str, V)>,
) -> SpanEvent {
    SpanEvent { name: name.to_owned(), at, attributes: attributes.into_iter().collect() }
}

/// Notes an event, unless there are too many.
pub(crate) fn note(events: &mut Vec<SpanEvent>, event: SpanEvent) {
    if events.len() < EVENTS_MAX {
        events.push(event);
    }
}

fn failure(error: &WireError) -> (&'static str, String) {
    (error.code.as_str(), error.to_string())
}

fn set_name(attributes: &mut Attributes, name: &'static str, value: Option<&Name>) {
    if let Some(value) = value {
        attributes.set(name, value.clone());
    }
}

fn set_server(attributes: &mut Attributes, server: Option<&wire::hop::Endpoint>) {
    if let Some(server) = server {
        attributes.set(semconv::SERVER_ADDRESS, server.address.as_str());
        attributes.set(semconv::SERVER_PORT, server.port);
    }
}

/// Says which model was asked, and which one answered. Whoever counts what was used counts it for that
/// one. Returns what the plan knows of it.
fn set_asked<'p>(
    attributes: &mut Attributes,
    plan: &'p Plan,
    asked: &Name,
    served_by: Option<&Name>,
    reported: Option<&str>,
) -> Option<&'p Served> {
    let served = plan.served.get(served_by.unwrap_or(asked));
    let provider = reported.or(served.map(|served| served.provider.as_str()));
    attributes.set(semconv::PROVIDER_NAME, provider.unwrap_or(PROVIDER_UNKNOWN));
    let model = served.map_or(asked.as_str(), |served| served.model.as_str());
    attributes.set(semconv::REQUEST_MODEL, model);
    set_server(attributes, served.and_then(|served| served.server.as_ref()));
    attributes.set(semconv::MODEL, asked.clone());
    set_name(attributes, semconv::SERVED_BY, served_by);
    served
}

fn set_usage(attributes: &mut Attributes, usage: Usage) {
    attributes.set(semconv::INPUT_TOKENS, usage.input_tokens);
    attributes.set(semconv::OUTPUT_TOKENS, usage.output_tokens);
    if usage.cost_nano_usd > 0 {
        attributes.set(semconv::COST_NANO_USD, usage.cost_nano_usd);
    }
    if usage.calls > 0 {
        attributes.set(semconv::CALLS, usage.calls);
    }
}

/// Returns what went wrong with a call, in few words and in a sentence.
fn outcome_failure(outcome: &wire::CallOutcome) -> Option<(&'static str, String)> {
    match outcome {
        wire::CallOutcome::Ok { .. } => None,
        wire::CallOutcome::Error { error } | wire::CallOutcome::Ended { error, .. } => {
            Some(failure(error))
        }
        wire::CallOutcome::Unknown { note } => Some((ERROR_OTHER, note.clone())),
    }
}
