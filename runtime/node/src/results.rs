//! Cuts what a model is not shown of a result, and keeps all of it for a model that can read on.

use std::borrow::Cow;

use bus::Content as _;
use serde_json::Value;
use tools::results::{KeptResult, Results};
use tracing::warn;
use wire::{CallKey, CallOutcome, Name, SessionId, ToolReply, ToolRequest, WireError};

/// Room in a message for what stands beside the text of a result, in bytes: what else is told of
/// the call, and later the model's request in which the text goes on.
const BESIDE_BYTES: usize = 8 * 1024;

/// The part of a small message that this is at most, as a divisor.
const BESIDE_PART: usize = 8;

/// What is to be known of a call when its result is cut.
pub(crate) struct Asked {
    session: SessionId,
    call: CallKey,
    reader: Option<Name>,
    /// Whether the run that asks is tainted, by which the arguments may be, and so the result.
    tainted: bool,
}

impl Asked {
    pub(crate) fn of(request: &ToolRequest) -> Self {
        let (session, call) = (request.session.clone(), request.call.clone());
        Self { session, call, reader: request.reader.clone(), tainted: request.tainted }
    }
}

/// Cuts the text of a reply to some bytes; all of it is kept if the caller can read on.
pub(crate) async fn shown(
    reply: ToolReply,
    bytes_max: usize,
    asked: Asked,
    results: &Results,
) -> ToolReply {
    let ToolReply::Settled { outcome, usage, tainted, hop } = reply else { return reply };
    let outcome = match outcome {
        CallOutcome::Ok { output } => match too_long(output, bytes_max) {
            Err(output) => CallOutcome::Ok { output },
            Ok(text) => {
                let begins = Begins::of(&text, bytes_max);
                let result = KeptResult { text, untrusted: tainted || asked.tainted };
                let rest = kept(asked, result, results).await;
                CallOutcome::text(begins.told(rest))
            }
        },
        CallOutcome::Error { error } if error.message.len() > bytes_max => {
            let message = Begins::of(&error.message, bytes_max).told(Rest::Dropped);
            CallOutcome::Error { error: WireError { message, ..error } }
        }
        whole @ (CallOutcome::Error { .. }
        | CallOutcome::Unknown { .. }
        | CallOutcome::Ended { .. }) => whole,
    };
    ToolReply::Settled { outcome, usage, tainted, hop }
}

/// Returns how many bytes of a reply's text can be told in a message of so many bytes, if it is too
/// long for one.
pub(crate) fn fitting(reply: &ToolReply, message_bytes_max: usize) -> Option<usize> {
    let room = message_bytes_max - BESIDE_BYTES.min(message_bytes_max / BESIDE_PART);
    // What cannot be measured is refused when it is written.
    if !reply.measure(room).is_ok_and(|bytes| bytes > room) {
        return None;
    }
    let ToolReply::Settled { outcome, .. } = reply else { return None };
    let text = match outcome {
        CallOutcome::Ok { output: Value::String(text) } => Cow::Borrowed(text.as_str()),
        CallOutcome::Ok { output } => Cow::Owned(output.to_string()),
        CallOutcome::Error { error } => Cow::Borrowed(error.message.as_str()),
        CallOutcome::Unknown { .. } | CallOutcome::Ended { .. } => return None,
    };
    let mut bytes = text.len().min(room.saturating_sub("\"\"".len()));
    loop {
        let begins = text.get(..text.floor_char_boundary(bytes)).unwrap_or_default();
        if wire::json::measure(&begins).is_ok_and(|told| told <= room) || bytes == 0 {
            return Some(bytes);
        }
        // It holds what JSON says with more bytes, and a little less of it is tried.
        bytes -= bytes.div_ceil(8);
    }
}

/// Returns the text of a result if a model is not shown all of it, else the result as it is.
fn too_long(output: Value, bytes_max: usize) -> Result<String, Value> {
    match output {
        Value::String(text) if text.len() > bytes_max => Ok(text),
        Value::String(_) => Err(output),
        json => {
            let text = json.to_string();
            if text.len() > bytes_max { Ok(text) } else { Err(json) }
        }
    }
}

/// What became of all that is not shown.
enum Rest {
    Kept { reader: Name, call: CallKey },
    Dropped,
}

async fn kept(asked: Asked, result: KeptResult, results: &Results) -> Rest {
    let Asked { session, call, reader, tainted: _ } = asked;
    let Some(reader) = reader else { return Rest::Dropped };
    match results.keep(session, call.clone(), result).await {
        Ok(()) => Rest::Kept { reader, call },
        Err(error) => {
            warn!(%call, %error, "a long result cannot be kept, the rest of it is lost");
            Rest::Dropped
        }
    }
}

/// The part of a long text that is shown, and how long the whole is.
struct Begins {
    shown: String,
    bytes: usize,
}

impl Begins {
    fn of(text: &str, bytes_max: usize) -> Self {
        let shown = text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default();
        Self { shown: shown.to_owned(), bytes: text.len() }
    }

    /// Says what became of the rest.
    fn told(self, rest: Rest) -> String {
        let Self { shown, bytes } = self;
        let end = shown.len();
        match rest {
            Rest::Kept { reader, call } => format!(
                "{shown}\n[cut after {end} of {bytes} bytes; {reader} reads on: call \"{call}\", \
                 offset {end}]"
            ),
            Rest::Dropped => format!("{shown}\n[cut after {end} of {bytes} bytes]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::{ErrorCode, Usage};

    use super::*;

    #[test]
    fn what_does_not_fit_into_a_message_is_known() {
        let error = |text: &str| CallOutcome::error(ErrorCode::ToolFailed, text);
        let ok = |output| CallOutcome::Ok { output };
        let cases = [
            (CallOutcome::text("x".repeat(500)), 8000, None),
            (CallOutcome::text("x".repeat(8000)), 8000, Some(6000..7001)),
            (error(&"x".repeat(8000)), 8000, Some(6000..7001)),
            // What JSON escapes has up to six bytes for one.
            (CallOutcome::text("\n".repeat(5000)), 8000, Some(3000..3501)),
            (CallOutcome::text("\u{1}".repeat(5000)), 8000, Some(1000..1167)),
            (ok(json!(vec!["\""; 4000])), 8000, Some(2500..4000)),
            (CallOutcome::text("x".repeat(70_000)), 64 << 10, Some(56_000..57_345)),
        ];
        for (number, (outcome, message, expected)) in cases.into_iter().enumerate() {
            let found = fitting(&ToolReply::settled(outcome), message);
            match (found, expected) {
                (None, None) => {}
                (Some(bytes), Some(expected)) => {
                    assert!(expected.contains(&bytes), "case {number}: {bytes}");
                }
                other => panic!("case {number}: {other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn what_is_too_long_is_cut_and_kept_for_those_who_read_on() {
        let dir = tempfile::tempdir().unwrap();
        let results = Results::open(dir.path().to_owned(), 1 << 20);
        let session = SessionId::new("s").unwrap();
        let error = |text: &str| CallOutcome::error(ErrorCode::ToolFailed, text);
        let ok = |output| CallOutcome::Ok { output };
        let mark = "[cut after 9 of 10 bytes; more reads on: call \"k3\", offset 9]";
        // Each call has its number in its key.
        let cases = [
            (CallOutcome::text("1234567890"), true, CallOutcome::text("1234567890"), None),
            (ok(json!({"a": 1})), true, ok(json!({"a": 1})), None),
            (
                CallOutcome::text("12345678901"),
                false,
                CallOutcome::text("1234567890\n[cut after 10 of 11 bytes]"),
                None,
            ),
            (
                CallOutcome::text("123456789ä"),
                true,
                CallOutcome::text(format!("123456789\n{}", mark.replace("10", "11"))),
                Some("123456789ä"),
            ),
            (
                ok(json!({"abc": [1, 2]})),
                true,
                CallOutcome::text(
                    "{\"abc\":[1,\n[cut after 10 of 13 bytes; more reads on: call \"k4\", \
                     offset 10]",
                ),
                Some("{\"abc\":[1,2]}"),
            ),
            (error("12345678901"), true, error("1234567890\n[cut after 10 of 11 bytes]"), None),
        ];
        for (number, (outcome, reads_on, expected, expected_kept)) in cases.into_iter().enumerate()
        {
            let call = CallKey::new(&format!("k{number}")).unwrap();
            let reader = reads_on.then(|| Name::new("more").unwrap());
            // What is kept is a stranger's if the tool's words are, or those of the run that asked.
            for (tainted, is_asked_by_tainted) in [(false, false), (true, false), (false, true)] {
                let asked = Asked {
                    session: session.clone(),
                    call: call.clone(),
                    reader: reader.clone(),
                    tainted: is_asked_by_tainted,
                };
                let settled = |outcome: &CallOutcome| {
                    let (outcome, usage) = (outcome.clone(), Usage::default());
                    ToolReply::Settled { outcome, usage, tainted, hop: None }
                };
                let reply = shown(settled(&outcome), 10, asked, &results).await;
                assert_eq!(reply, settled(&expected));
                let kept = results.read(session.clone(), call.clone()).await.unwrap();
                let untrusted = tainted || is_asked_by_tainted;
                let expected =
                    expected_kept.map(|text| KeptResult { text: text.to_owned(), untrusted });
                assert_eq!(kept, expected);
            }
        }
    }
}
