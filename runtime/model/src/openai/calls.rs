//! Joins the pieces of calls that come in a stream.

use serde_json::Value;
use wire::ToolCall;

use super::whole;
use crate::error::{CALLS_MAX, Error};

/// The calls of a reply that is being written, [`CALLS_MAX`] at most.
#[derive(Debug, Default)]
pub(super) struct CallDrafts(Vec<CallDraft>);

#[derive(Debug)]
struct CallDraft {
    index: u64,
    call: ToolCall,
}

impl CallDrafts {
    /// Adds a piece to the call of its index and returns how many bytes it brought.
    ///
    /// Some servers give every call the index 0, or none: a piece with a name and an id of its own
    /// begins another call.
    pub(super) fn push(&mut self, piece: &Value) -> Result<usize, Error> {
        let function = piece.get("function");
        let id = whole::text(piece.get("id"));
        let name = whole::text(function.and_then(|function| function.get("name")));
        let arguments = whole::arguments(function);
        let bytes = id.len() + name.len() + arguments.len();
        let index = piece.get("index").and_then(Value::as_u64);
        let known = match index {
            Some(index) => self.0.iter_mut().rfind(|draft| draft.index == index),
            None => self.0.last_mut(),
        };
        let another = |call: &ToolCall| {
            !name.is_empty() && !id.is_empty() && !call.id.is_empty() && call.id != id
        };
        match known {
            Some(CallDraft { call, .. }) if !another(call) => {
                if call.id.is_empty() {
                    call.id = id;
                }
                if call.name.is_empty() {
                    call.name = name;
                }
                call.arguments.push_str(&arguments);
            }
            _ => {
                if self.0.len() >= CALLS_MAX {
                    return Err(Error::TooLarge);
                }
                let next = self.0.last().map_or(0, |draft| draft.index.saturating_add(1));
                let call = ToolCall { id, name, arguments };
                self.0.push(CallDraft { index: index.unwrap_or(next), call });
            }
        }
        Ok(bytes)
    }

    /// Returns the calls in the order of their indexes.
    pub(super) fn into_calls(mut self) -> Vec<ToolCall> {
        self.0.sort_by_key(|draft| draft.index);
        self.0.into_iter().map(|draft| draft.call).collect()
    }
}
