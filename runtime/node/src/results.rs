//! Cuts what a model is not shown of a result, and keeps all of it for a model that can read on.

use serde_json::Value;
use tools::results::{KeptResult, Results};
use tracing::warn;
use wire::{CallKey, CallOutcome, Name, SessionId, ToolReply, ToolRequest, WireError};

/// What is to be known of a call when its result is cut.
pub(crate) struct Asked {
    session: SessionId,
    call: CallKey,
    reader: Option<Name>,
}

impl Asked {
    pub(crate) fn of(request: &ToolRequest) -> Self {
        let (session, call) = (request.session.clone(), request.call.clone());
        Self { session, call, reader: request.reader.clone() }
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
                let result = KeptResult { text, untrusted: tainted };
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
    let Asked { session, call, reader } = asked;
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
            let asked = Asked { session: session.clone(), call: call.clone(), reader };
            let settled = |outcome| {
                let usage = Usage::default();
                ToolReply::Settled { outcome, usage, tainted: true, hop: None }
            };
            let reply = shown(settled(outcome), 10, asked, &results).await;
            assert_eq!(reply, settled(expected));
            let kept = results.read(session.clone(), call).await.unwrap();
            let expected =
                expected_kept.map(|text| KeptResult { text: text.to_owned(), untrusted: true });
            assert_eq!(kept, expected);
        }
    }
}
