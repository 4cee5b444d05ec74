//! Takes secrets out of what comes from outside, before it is passed on, journaled or shown.

use agents_core::capture;
use tools::secret::{clean, clean_str, clean_value};
use wire::chat::{ToolCall, TurnDetail};
use wire::{CallOutcome, Capture, ModelReply, Question, SpanRecord, ToolReply, WireError};

/// Takes secrets out of what a tool replies.
pub(crate) fn tool_reply(reply: ToolReply) -> ToolReply {
    match reply {
        ToolReply::Settled { outcome: told, usage, tainted, hop } => {
            ToolReply::Settled { outcome: outcome(told), usage, tainted, hop }
        }
        ToolReply::Lost { error: lost, hop } => ToolReply::Lost { error: error(lost), hop },
        ToolReply::Suspended { question } => ToolReply::Suspended { question: clean(question) },
        ToolReply::Asks { question: Question { id, text, form } } => {
            let (text, form) = (clean(text), clean_value(form));
            ToolReply::Asks { question: Question { id, text, form } }
        }
    }
}

fn outcome(outcome: CallOutcome) -> CallOutcome {
    match outcome {
        CallOutcome::Ok { output } => CallOutcome::Ok { output: clean_value(output) },
        CallOutcome::Error { error: why } => CallOutcome::Error { error: error(why) },
        CallOutcome::Unknown { note } => CallOutcome::Unknown { note: clean(note) },
        CallOutcome::Ended { status, output, error: why } => {
            CallOutcome::Ended { status, output: clean(output), error: error(why) }
        }
    }
}

/// Takes secrets out of what a model replies: providers repeat what they are sent.
pub(crate) fn model_reply(reply: ModelReply) -> ModelReply {
    let call = |ToolCall { id, name, arguments }| ToolCall {
        id: clean(id),
        name: clean(name),
        arguments: clean(arguments),
    };
    ModelReply {
        content: clean(reply.content),
        calls: reply.calls.into_iter().map(call).collect(),
        model: clean(reply.model),
        detail: TurnDetail { response_id: reply.detail.response_id.map(clean), ..reply.detail },
        ..reply
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
