//! The span of a call that is over.

use wire::plan::{Offer, Target};
use wire::semconv::{self, operation};
use wire::trace::SpanEvent;
use wire::{Attribute, Attributes, CallKey, CallOutcome, Name, SpanRecord, Timestamp, Usage};

use serde_json::Value;

use super::content::Contents;
use super::{RunFacts, outcome_failure, set_asked, set_usage};

/// A call that is over.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// Its key.
    pub call: &'a CallKey,
    /// What was called.
    pub offer: &'a Offer,
    /// The arguments.
    pub arguments: &'a Value,
    /// The last turn before it, by its number in the run, from 0.
    pub turn: u32,
    /// The step it belongs to, from 1.
    pub step: u32,
    /// How often it was made.
    pub attempts: u32,
    /// When it was decided.
    pub start: Timestamp,
    /// When its outcome was there.
    pub end: Timestamp,
    /// How it ended.
    pub outcome: &'a CallOutcome,
    /// What all attempts at it used, if it was a run of another agent or its tool asks a model.
    pub usage: Usage,
    /// The model that answered, if it stood in for the one that its tool asks.
    pub served_by: Option<&'a Name>,
    /// What happened meanwhile.
    pub events: &'a [SpanEvent],
}

/// Makes the span of a call. The run of an agent that was called hangs below it.
pub fn call_span(facts: &RunFacts<'_>, call: &CallFacts<'_>) -> SpanRecord {
    let name = &call.offer.spec.name;
    let mut attributes = facts.attributes(operation::EXECUTE_TOOL);
    attributes.set(semconv::TOOL_NAME, name.clone());
    attributes.set(semconv::EFFECT, Attribute::Word(call.offer.effect.as_str()));
    attributes.set(semconv::OUTCOME, Attribute::Word(call.outcome.as_str()));
    if call.usage != Usage::default() {
        set_usage(&mut attributes, call.usage);
        if let Some(asked) = &call.offer.model {
            set_asked(&mut attributes, facts.plan, asked, call.served_by, None);
            attributes.set(semconv::TURN, call.turn);
        }
    }
    if facts.are_read() {
        describe(&mut attributes, facts, call);
    }
    SpanRecord {
        context: facts.trace.of_call(call.call),
        parent: Some(*facts.trace.span()),
        events: call.events.to_vec(),
        ..facts.span(
            format!("{} {name}", operation::EXECUTE_TOOL),
            (call.start, call.end),
            attributes,
            outcome_failure(call.outcome)
                .map(|error| Contents::of(facts).failure(name.as_str(), error)),
        )
    }
}

/// Says of a call what no measure reads.
fn describe(attributes: &mut Attributes, facts: &RunFacts<'_>, call: &CallFacts<'_>) {
    let kind = match call.offer.target {
        Target::Tool => "function",
        Target::Agent => "extension",
    };
    attributes.set(semconv::TOOL_TYPE, kind);
    attributes.set(semconv::TOOL_CALL_ID, call.call.as_str());
    attributes.set(semconv::STEP, call.step);
    attributes.set(semconv::ATTEMPTS, call.attempts);
    facts.left.set(attributes);
    let name = call.offer.spec.name.as_str();
    let contents = Contents::of(facts);
    contents.put_value(attributes, semconv::TOOL_CALL_ARGUMENTS, name, call.arguments);
    contents.put_outcome(attributes, semconv::TOOL_CALL_RESULT, name, call.outcome);
}
