//! Takes secrets out of what comes from outside, and depth, before it is passed on, journaled or
//! shown.

use std::borrow::Cow;
use std::sync::Arc;

use agents_core::capture;
use serde_json::{Value, json};
use tools::secret::{Cleaner, clean, clean_str, clean_value};
use tracing::warn;
use wire::chat::{ToolCall, TurnDetail};
use wire::json::is_kept;
use wire::{
    CallOutcome, Capture, ModelReply, Question, Reasoning, SharedText, SpanRecord, ToolReply,
    WireError,
};

/// Takes secrets out of what a tool replies.
pub(crate) fn tool_reply(reply: ToolReply) -> ToolReply {
    match reply {
        ToolReply::Settled { outcome: told, usage, tainted, hop } => {
            ToolReply::Settled { outcome: outcome(told), usage, tainted, hop }
        }
        ToolReply::Lost { error: lost, usage, tainted, hop } => {
            ToolReply::Lost { error: error(lost), usage, tainted, hop }
        }
        ToolReply::Suspended { question } => ToolReply::Suspended { question: clean(question) },
        ToolReply::Asks { question: Question { id, text, form } } => {
            // A form that no journal could hold has nothing to be filled in.
            let form = if is_kept(&form) { form } else { json!({"type": "object"}) };
            let (text, form) = (clean(text), clean_value(form));
            ToolReply::Asks { question: Question { id, text, form } }
        }
    }
}

/// Returns a result that no journal could hold as its text: what is journaled has to be read again.
fn kept(output: Value) -> Value {
    if is_kept(&output) { output } else { Value::String(output.to_string()) }
}

fn outcome(outcome: CallOutcome) -> CallOutcome {
    match outcome {
        CallOutcome::Ok { output } => CallOutcome::Ok { output: clean_value(kept(output)) },
        CallOutcome::Error { error: why } => CallOutcome::Error { error: error(why) },
        CallOutcome::Unknown { note } => CallOutcome::Unknown { note: clean(note) },
        CallOutcome::Ended { status, output, error: why } => {
            CallOutcome::Ended { status, output: clean(output), error: error(why) }
        }
    }
}

/// Takes secrets out of what a model replies: providers repeat what they are sent.
pub(crate) fn model_reply(reply: ModelReply) -> ModelReply {
    let cleaner = Cleaner::new();
    let clean = |text: String| cleaner.clean(text);
    let call = |ToolCall { id, name, arguments }| ToolCall {
        id: clean(id),
        name: clean(name),
        arguments: clean(arguments),
    };
    ModelReply {
        content: shared(&cleaner, reply.content),
        calls: reply.calls.into_iter().map(call).collect(),
        reasoning: reply.reasoning.and_then(|reasoning| self::reasoning(&cleaner, reasoning)),
        model: clean(reply.model),
        detail: TurnDetail { response_id: reply.detail.response_id.map(clean), ..reply.detail },
        ..reply
    }
}

/// Takes secrets out of the reasoning behind calls. One that no journal could hold is dropped: as a
/// text its provider would not know it again.
fn reasoning(cleaner: &Cleaner, reasoning: Arc<Reasoning>) -> Option<Arc<Reasoning>> {
    let parts = || std::iter::once(&reasoning.message).chain(&reasoning.calls);
    if !parts().all(is_kept) {
        warn!(
            "the reasoning behind a reply cannot be journaled and is dropped; its provider may refuse the next turn"
        );
        return None;
    }
    let Reasoning { by, message, calls } = Arc::unwrap_or_clone(reasoning);
    let clean = |value| cleaner.clean_value(value);
    let calls = calls.into_iter().map(clean).collect();
    Some(Arc::new(Reasoning { by, message: clean(message), calls }))
}

/// Takes secrets out of a text that others hold; one that has none is not copied.
fn shared(cleaner: &Cleaner, text: SharedText) -> SharedText {
    match cleaner.clean_str(&text) {
        Cow::Owned(clean) => clean.into(),
        Cow::Borrowed(_) => text,
    }
}

/// Takes secrets out of an error.
pub(crate) fn error(error: WireError) -> WireError {
    WireError { message: clean(error.message), ..error }
}

/// Returns why a span failed, as a trace of some level holds it.
pub(crate) fn span_error(span: &SpanRecord, level: Capture) -> Option<String> {
    capture::reduce_error(span, level, &clean_str)
}

/// Makes of a span what a trace of some level holds, without secrets that were not known yet when
/// it was made.
pub(crate) fn span(span: SpanRecord, level: Capture) -> SpanRecord {
    capture::reduce(span, level, &clean_str)
}

#[cfg(test)]
mod tests {
    use wire::entry::{Body, Entry, Input};
    use wire::json::LEVELS_MAX;
    use wire::{CallKey, Timestamp, Usage};

    use super::*;

    #[test]
    fn a_result_can_be_read_again_from_the_journal_however_deep_it_was() {
        for (levels, is_text) in
            [(1, false), (LEVELS_MAX, false), (LEVELS_MAX + 1, true), (127, true)]
        {
            let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            let output: Value = serde_json::from_str(&text).unwrap();
            let expected = if is_text { text.into() } else { output.clone() };
            let reply = tool_reply(ToolReply::settled(CallOutcome::Ok { output }));
            let ToolReply::Settled { outcome, .. } = reply else { panic!("{reply:?}") };
            assert_eq!(outcome, CallOutcome::Ok { output: expected }, "{levels}");
            let call = CallKey::new("c").unwrap();
            let (usage, tainted, hop) = (Usage::default(), false, None);
            let input = Input::CallSettled { call, outcome, usage, tainted, hop };
            let entry = Entry::new(Timestamp::default(), Body::Session(input));
            let written = serde_json::to_vec(&entry).unwrap();
            assert_eq!(serde_json::from_slice::<Entry>(&written).unwrap(), entry, "{levels}");
        }
    }
}
