//! What came back from outside becomes text that a model may read.

use serde_json::Value;

/// The most bytes of an error that are passed on: enough for what went wrong, and not a whole page.
pub(crate) const ERROR_BYTES_MAX: usize = 2 * 1024;

/// Takes bytes as text; a character that the cut went through is dropped.
pub(crate) fn text(bytes: &[u8], cut: bool) -> String {
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if cut && error.error_len().is_none() => bytes.get(..error.valid_up_to()),
        _ => None,
    };
    String::from_utf8_lossy(whole.unwrap_or(bytes)).into_owned()
}

/// Takes a text as the result of a call: as JSON if it is JSON, else as it is.
pub(crate) fn value(text: &str) -> Value {
    serde_json::from_str(text)
        .unwrap_or_else(|_| Value::String(text.trim_end_matches(['\n', '\r']).to_owned()))
}

/// Returns the first [`ERROR_BYTES_MAX`] bytes.
pub(crate) fn excerpt(text: &str) -> &str {
    text.get(..text.floor_char_boundary(ERROR_BYTES_MAX)).unwrap_or(text)
}

/// Returns what stands after an output of which this much was kept.
pub(crate) fn cut_mark(bytes: usize) -> String {
    format!("\n[cut after {bytes} bytes]")
}
