//! Reads arguments of a call, and says in the call's outcome what is wrong with them.

use serde_json::Value;
use wire::{CallOutcome, ErrorCode};

/// Makes the outcome of a call whose arguments cannot be used.
pub(crate) fn invalid(message: impl Into<String>) -> CallOutcome {
    CallOutcome::error(ErrorCode::InvalidArguments, message)
}

/// Takes a text of at most `bytes_max` bytes that is not blank.
pub(crate) fn text<'a>(
    arguments: &'a Value,
    name: &str,
    bytes_max: usize,
) -> Result<&'a str, CallOutcome> {
    let Some(text) = arguments.get(name).and_then(Value::as_str) else {
        return Err(invalid(format!("argument {name:?} has to be a text")));
    };
    if text.trim().is_empty() {
        return Err(invalid(format!("argument {name:?} is empty")));
    }
    if text.len() > bytes_max {
        let message = format!("argument {name:?} has {} bytes, more than {bytes_max}", text.len());
        return Err(invalid(message));
    }
    Ok(text)
}
