//! The span of a model turn that is over.

use serde_json::json;
use wire::chat::TurnDetail;
use wire::entry::{Feedback, TurnReport, Unread};
use wire::plan::{Dialect, Served};
use wire::semconv::{self, operation};
use wire::trace::SpanKind;
use wire::{
    Attribute, Attributes, ModelRole, Name, Planned, Reading, SpanRecord, Timestamp, Usage,
    WireError,
};

use super::content::{Contents, Part, Said};
use super::{RunFacts, failure, set_asked, set_usage};

/// A model turn that is over.
#[derive(Clone, Copy, Debug)]
pub struct TurnFacts<'a> {
    /// Its number in the run, from 0.
    pub turn: u32,
    /// The step it belongs to, from 1.
    pub step: u32,
    /// The part that the model played.
    pub role: ModelRole,
    /// The model's name in the team.
    pub model: &'a Name,
    /// The most tokens that the reply could have.
    pub max_tokens: u64,
    /// What the planner wants done in the step, if it has said so.
    pub planned: Option<&'a Planned>,
    /// How many replies of the step could not be used before.
    pub rounds: u32,
    /// When it was asked.
    pub start: Timestamp,
    /// When the answer was there.
    pub end: Timestamp,
    /// What the model reported, if it answered, and what it used with its price.
    pub report: Option<(&'a TurnReport, Usage)>,
    /// What its attempts may have used, with its price, if none of them was answered.
    pub lost: Usage,
    /// What is new to the models of the run since the turn before.
    pub(crate) told: &'a [Said<'a>],
    /// What the reply is read as, or why there is none.
    pub outcome: Result<&'a Reading, &'a WireError>,
    /// What follows in the reply and was not read, if anything does.
    pub unread: Option<&'a Unread>,
}

/// Makes the span of a model turn.
pub fn model_span(facts: &RunFacts<'_>, turn: &TurnFacts<'_>) -> SpanRecord {
    let mut attributes = facts.attributes(operation::CHAT);
    let served_by = turn.report.and_then(|(report, _)| report.served_by.as_ref());
    let reported = turn.report.map(|(report, _)| report.provider.as_str());
    let served = set_asked(&mut attributes, facts.plan, turn.model, served_by, reported);
    let model = served.map_or(turn.model.as_str(), |served| served.model.as_str());
    attributes.set(semconv::ROLE, Attribute::Word(turn.role.as_str()));
    attributes.set(semconv::TURN, turn.turn);
    if let Some((report, usage)) = turn.report {
        attributes.set(semconv::RESPONSE_MODEL, report.model.as_str());
        set_usage(&mut attributes, usage);
    } else if !turn.lost.is_none() {
        set_usage(&mut attributes, turn.lost);
    }
    if let Ok(reading) = turn.outcome
        && let Some(first) = feedback(reading).next()
    {
        attributes.set(semconv::FEEDBACK, first.code.as_str());
    }
    if facts.are_read() {
        describe(&mut attributes, facts, turn, served);
    }
    SpanRecord {
        context: facts.trace.of_turn(facts.run, turn.turn),
        parent: Some(*facts.trace.span()),
        kind: SpanKind::Client,
        ..facts.span(
            format!("{} {model}", operation::CHAT),
            (turn.start, turn.end),
            attributes,
            turn.outcome.err().map(failure),
        )
    }
}

/// Says of a turn what no measure reads.
fn describe(
    attributes: &mut Attributes,
    facts: &RunFacts<'_>,
    turn: &TurnFacts<'_>,
    served: Option<&Served>,
) {
    attributes.set(semconv::REQUEST_MAX_TOKENS, turn.max_tokens);
    if let Some(served) = served {
        set_request(attributes, served);
    }
    attributes.set(semconv::STEP, turn.step);
    facts.left.set(attributes);
    if turn.role == ModelRole::Actor {
        let (_, dialect) = facts.plan.acting_model(turn.planned);
        attributes.set(semconv::DIALECT, dialect.as_str());
        if dialect == Dialect::Schema {
            attributes.set(semconv::OUTPUT_TYPE, "json");
        }
    }
    if let Some(planned) = turn.planned {
        attributes.set(semconv::SELECTED_TOOL, planned.tool.as_str());
    }
    if turn.rounds > 0 {
        attributes.set(semconv::FEEDBACK_ROUNDS, turn.rounds);
    }
    if let Some((report, _)) = turn.report {
        attributes.set(semconv::FINISH_REASONS, json!([report.finish.as_str()]));
        attributes.set(semconv::ATTEMPTS, report.attempts);
        set_detail(attributes, &report.detail);
    }
    if let Some(unread) = turn.unread {
        attributes.set(semconv::UNREAD_BYTES, unread.bytes);
    }
    set_said(attributes, Contents::of(facts), turn);
}

/// Returns what was wrong with a reply.
fn feedback(reading: &Reading) -> impl Iterator<Item = &Feedback> {
    let (whole, calls) = match reading {
        Reading::Fault { feedback, .. } => (Some(feedback), [].as_slice()),
        Reading::Calls { calls, .. } => (None, calls.as_slice()),
        Reading::Thought { .. }
        | Reading::Continued { .. }
        | Reading::Final { .. }
        | Reading::Cut { .. }
        | Reading::Planned(_) => (None, [].as_slice()),
    };
    whole.into_iter().chain(calls.iter().filter_map(|call| call.fault.as_ref()))
}

fn set_request(attributes: &mut Attributes, served: &Served) {
    if served.stream {
        attributes.set(semconv::REQUEST_STREAM, true);
    }
    let top_k = served.top_k.and_then(|top_k| u32::try_from(top_k).ok()).map(f64::from);
    for (name, value) in [
        (semconv::REQUEST_TEMPERATURE, served.temperature),
        (semconv::REQUEST_TOP_P, served.top_p),
        (semconv::REQUEST_TOP_K, top_k),
    ] {
        if let Some(value) = value {
            attributes.set(name, value);
        }
    }
    if let Some(seed) = served.seed {
        attributes.set(semconv::REQUEST_SEED, seed);
    }
    if !served.stop.is_empty() {
        attributes.set(semconv::REQUEST_STOP_SEQUENCES, served.stop.clone());
    }
}

fn set_detail(attributes: &mut Attributes, detail: &TurnDetail) {
    if let Some(id) = &detail.response_id {
        attributes.set(semconv::RESPONSE_ID, id.as_str());
    }
    for (name, tokens) in [
        (semconv::CACHE_READ_TOKENS, detail.cache_read_tokens),
        (semconv::CACHE_CREATION_TOKENS, detail.cache_creation_tokens),
        (semconv::REASONING_TOKENS, detail.reasoning_tokens),
    ] {
        if let Some(tokens) = tokens {
            attributes.set(name, tokens);
        }
    }
    if let Some(micros) = detail.first_chunk_us {
        let time = std::time::Duration::from_micros(micros);
        attributes.set(semconv::TIME_TO_FIRST_CHUNK, time.as_secs_f64());
    }
}

/// Tells what the model was told and wrote, and what it was told of that.
fn set_said(attributes: &mut Attributes, contents: Contents<'_>, turn: &TurnFacts<'_>) {
    contents.put(attributes, semconv::INPUT_MESSAGES, turn.told);
    let Ok(reading) = turn.outcome else { return };
    let planned;
    let parts = match reading {
        Reading::Thought { text } | Reading::Continued { text } => vec![Part::Text(text)],
        Reading::Final { text } | Reading::Cut { text } => vec![Part::Text(text)],
        Reading::Planned(Planned { tool, task, thoughts, .. }) => {
            planned = json!({"task": task});
            let call = Part::Call { id: "", name: tool, arguments: &planned, bytes: task.len() };
            vec![Part::Text(thoughts), call]
        }
        Reading::Calls { text, calls } => {
            let calls = calls.iter().map(|call| Part::Call {
                id: &call.id,
                name: &call.name,
                arguments: &call.arguments,
                bytes: call.raw.len(),
            });
            [Part::Text(text)].into_iter().chain(calls).collect()
        }
        Reading::Fault { raw, .. } => vec![Part::Unread(raw)],
    };
    let finish = turn.report.map(|(report, _)| report.finish.as_str());
    let said = Said { finish, ..Said::model(parts) };
    contents.put(attributes, semconv::OUTPUT_MESSAGES, &[said]);
    if contents.are_put() {
        let told: Vec<String> = feedback(reading).map(Feedback::to_text).collect();
        if !told.is_empty() {
            contents.put_text(attributes, semconv::FEEDBACK_TEXT, &told.join("\n"));
        }
    }
}
