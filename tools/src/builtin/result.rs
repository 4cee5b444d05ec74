//! `read_result`: the rest of a result that was cut.

use futures_util::future::BoxFuture;
use serde_json::Value;
use wire::{CallKey, CallOutcome, ErrorCode, ToolReply, Usage};

use super::TEXT_BYTES_MAX;
use crate::argument::{self, invalid};
use crate::results::Results;
use crate::tool::{Tool, ToolContext};

/// The number of bytes that one call returns if it does not say how many.
pub(super) const PIECE_BYTES_DEFAULT: usize = 16 * 1024;

/// The most bytes that one call returns, as much as a tool shows of a result by default.
pub(super) const PIECE_BYTES_MAX: usize = 64 * 1024;

/// What stands before a text that was looked for, so that it is read with what led to it.
const LEAD_BYTES: usize = 200;

pub(super) struct ReadResult {
    pub(super) results: Results,
}

/// Which piece of a result is wanted.
struct Wanted<'a> {
    offset: usize,
    bytes: usize,
    find: Option<&'a str>,
}

impl Tool for ReadResult {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(async {
            match self.read(context, arguments).await {
                Ok((outcome, tainted)) => {
                    ToolReply::Settled { outcome, usage: Usage::default(), tainted, hop: None }
                }
                Err(outcome) => ToolReply::settled(outcome),
            }
        })
    }
}

impl ReadResult {
    async fn read(
        &self,
        context: &ToolContext,
        arguments: &Value,
    ) -> Result<(CallOutcome, bool), CallOutcome> {
        let call = argument::text(arguments, "call", TEXT_BYTES_MAX)?;
        let call = CallKey::new(call).map_err(|error| invalid(error.to_string()))?;
        let wanted = Wanted::of(arguments)?;
        let read = self.results.read(context.session.clone(), call.clone()).await;
        let kept = read.map_err(|error| {
            let text = format!("the result of call {call} cannot be read: {error}");
            CallOutcome::error(ErrorCode::ToolFailed, text)
        })?;
        let kept = kept.ok_or_else(|| {
            let text = format!(
                "no result of call {call} is kept: only long ones of this conversation are, for a \
                 while; make the call again if that does no harm"
            );
            CallOutcome::error(ErrorCode::ToolFailed, text)
        })?;
        Ok((CallOutcome::text(wanted.piece(&kept.text)?), kept.untrusted))
    }
}

impl<'a> Wanted<'a> {
    fn of(arguments: &'a Value) -> Result<Self, CallOutcome> {
        let number = |name: &str, default: usize, max: usize| match arguments.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(given) => given
                .as_u64()
                .and_then(|number| usize::try_from(number).ok())
                .filter(|number| *number <= max)
                .ok_or_else(|| {
                    invalid(format!("argument {name:?} has to be an integer from 0 to {max}"))
                }),
        };
        let find = match arguments.get("find") {
            None | Some(Value::Null) => None,
            Some(_) => Some(argument::text(arguments, "find", TEXT_BYTES_MAX)?),
        };
        let bytes = number("bytes", PIECE_BYTES_DEFAULT, PIECE_BYTES_MAX)?.max(1);
        Ok(Self { offset: number("offset", 0, usize::MAX)?, bytes, find })
    }

    /// Cuts the piece out of a text, and says where it goes on.
    fn piece(&self, whole: &str) -> Result<String, CallOutcome> {
        let asked = whole.floor_char_boundary(self.offset);
        let mut begin = asked;
        if let Some(find) = self.find {
            let rest = whole.get(asked..).unwrap_or_default();
            let Some(at) = rest.find(find) else {
                let text = format!("{find:?} does not stand in the result from byte {asked} on");
                return Err(CallOutcome::error(ErrorCode::ToolFailed, text));
            };
            begin = whole.floor_char_boundary((asked + at).saturating_sub(LEAD_BYTES)).max(asked);
        }
        // At least one character, so that reading on comes to an end.
        let end = whole.floor_char_boundary(begin.saturating_add(self.bytes));
        let end = if end > begin { end } else { whole.ceil_char_boundary(begin + 1) };
        let end = end.min(whole.len());
        let piece = whole.get(begin..end).unwrap_or_default();
        let (bytes, further) = (whole.len(), end < whole.len());
        let how = if further { format!("go on at offset {end}") } else { "this is the end".into() };
        Ok(format!("{piece}\n[bytes {begin} to {end} of {bytes}; {how}]"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::results::KeptResult;
    use crate::testing::context;

    #[tokio::test]
    async fn a_result_is_read_piece_by_piece() {
        let dir = tempfile::tempdir().unwrap();
        let results = Results::open(dir.path().to_owned(), 1 << 20);
        let context = context(Duration::from_secs(1));
        let text = format!("{}needle{}", "ä".repeat(300), "z".repeat(94));
        let kept = KeptResult { text, untrusted: true };
        let call = CallKey::new("k1").unwrap();
        results.keep(context.session.clone(), call, kept.clone()).await.unwrap();
        let tool = ReadResult { results };
        let cases = [
            (json!({"call": "k1", "bytes": 4}), Ok("ää\n[bytes 0 to 4 of 700; go on at offset 4]")),
            (json!({"call": "k1", "bytes": 1}), Ok("ä\n[bytes 0 to 2 of 700; go on at offset 2]")),
            (
                json!({"call": "k1", "offset": 3, "bytes": 3}),
                Ok("ä\n[bytes 2 to 4 of 700; go on at offset 4]"),
            ),
            (
                json!({"call": "k1", "offset": 600, "find": "needle", "bytes": 7}),
                Ok("needlez\n[bytes 600 to 607 of 700; go on at offset 607]"),
            ),
            (
                json!({"call": "k1", "find": "needle", "bytes": 2}),
                Ok("ä\n[bytes 400 to 402 of 700; go on at offset 402]"),
            ),
            (
                json!({"call": "k1", "offset": 699, "bytes": null}),
                Ok("z\n[bytes 699 to 700 of 700; this is the end]"),
            ),
            (
                json!({"call": "k1", "offset": 5000}),
                Ok("\n[bytes 700 to 700 of 700; this is the end]"),
            ),
            (
                json!({"call": "k1", "find": "hay"}),
                Err("\"hay\" does not stand in the result from byte 0 on"),
            ),
            (
                json!({"call": "k1", "bytes": 65_537}),
                Err("argument \"bytes\" has to be an integer from 0 to 65536"),
            ),
            (json!({"call": "no key"}), Err("a name consists of")),
            (json!({"call": "k2"}), Err("no result of call k2 is kept")),
        ];
        for (arguments, expected) in cases {
            let ToolReply::Settled { outcome, tainted, .. } = tool.call(&context, &arguments).await
            else {
                panic!("it settles: {arguments}")
            };
            match (outcome, expected) {
                (CallOutcome::Ok { output }, Ok(expected)) => {
                    assert_eq!((output, tainted), (json!(expected), true), "{arguments}");
                }
                (CallOutcome::Error { error }, Err(expected)) => {
                    assert!(error.message.contains(expected), "{arguments}: {error}");
                    assert!(!tainted);
                }
                (outcome, _) => panic!("{arguments}: {outcome:?}"),
            }
        }
    }
}
