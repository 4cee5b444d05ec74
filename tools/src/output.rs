//! What came back from outside becomes text that a model may read.

use std::borrow::Cow;

use encoding_rs::Encoding;
use serde_json::Value;

use crate::json;
use crate::secret::clean;

/// The most bytes of an error that are passed on: enough for what went wrong, and not a whole page.
pub(crate) const ERROR_BYTES_MAX: usize = 2 * 1024;

/// What a body says.
pub(crate) enum Body {
    /// It is a text, here without secrets.
    Text(String),
    /// It is none, and this is told in its place.
    NotShown(String),
}

impl Body {
    /// Reads the bytes of a body, of which some may be cut, by their media type. Owned ones become
    /// the text without a copy, if they are one.
    pub(crate) fn read<'a>(
        bytes: impl Into<Cow<'a, [u8]>>,
        media_type: Option<&str>,
        cut: bool,
    ) -> Self {
        let bytes = bytes.into();
        let more = if cut { "more than " } else { "" };
        let not_shown = || {
            let kind = media_type.map_or_else(|| "data".to_owned(), essence);
            Self::NotShown(format!("[{kind}, {more}{} bytes, not shown]", bytes.len()))
        };
        let charset = media_type.and_then(charset);
        if let Some(charset) = charset.filter(|charset| *charset != encoding_rs::UTF_8) {
            return Self::Text(clean(charset.decode(&bytes).0.into_owned()));
        }
        let is_text = match media_type {
            None => true,
            Some(media_type) => is_textual(media_type) || is_utf8(&bytes, cut),
        };
        if !is_text || bytes.contains(&0) {
            return not_shown();
        }
        Self::Text(clean(text(bytes, cut)))
    }

    /// Returns what a model is told.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::NotShown(text) => text,
        }
    }
}

/// Returns a media type without its parameters.
pub(crate) fn essence(media_type: &str) -> String {
    excerpt(media_type).split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Tells whether data of a media type is JSON.
pub(crate) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence.ends_with("/json") || essence.ends_with("+json")
}

/// Tells whether data of a media type is text, whatever its bytes are.
fn is_textual(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence.starts_with("text/")
        || is_json(&essence)
        || essence.ends_with("/xml")
        || essence.ends_with("+xml")
}

/// Returns the encoding that a media type names, if it is known.
fn charset(media_type: &str) -> Option<&'static Encoding> {
    let parameters = media_type.split(';').skip(1);
    let mut pairs = parameters.filter_map(|parameter| parameter.split_once('='));
    let (_, label) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Encoding::for_label(label.trim().trim_matches('"').as_bytes())
}

/// Tells whether bytes are UTF-8, up to a character that the cut went through.
fn is_utf8(bytes: &[u8], cut: bool) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => cut && error.error_len().is_none(),
    }
}

/// Takes bytes as text; a character that the cut went through is dropped.
pub(crate) fn text<'a>(bytes: impl Into<Cow<'a, [u8]>>, cut: bool) -> String {
    String::from_utf8(bytes.into().into_owned()).unwrap_or_else(|error| {
        let fault = error.utf8_error();
        let mut bytes = error.into_bytes();
        if cut && fault.error_len().is_none() {
            bytes.truncate(fault.valid_up_to());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Takes a text as the result of a call: as JSON if it is JSON, else as it is. So is a number that
/// would be written otherwise, such as a version: 3.10 is not 3.1.
pub(crate) fn value(text: &str) -> Value {
    match json::read(text) {
        Ok(Value::Number(number)) if number.to_string() != text.trim() => {}
        Ok(value) => return value,
        Err(_) => {}
    }
    Value::String(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// Returns the first [`ERROR_BYTES_MAX`] bytes.
pub(crate) fn excerpt(text: &str) -> &str {
    text.get(..text.floor_char_boundary(ERROR_BYTES_MAX)).unwrap_or(text)
}

/// Returns what stands after an output of which this much was kept.
pub(crate) fn cut_mark(bytes: usize) -> String {
    format!("\n[cut after {bytes} bytes]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read_by_its_media_type() {
        let cases: [(&[u8], Option<&str>, bool, &str); 14] = [
            (b"plain", None, false, "plain"),
            ("ä".as_bytes(), Some("text/plain"), false, "ä"),
            (b"\xe4", Some("text/plain; charset=ISO-8859-1"), false, "ä"),
            (b"\xe4", Some("text/plain;charset=\"windows-1252\""), false, "ä"),
            (b"\x00\xe4", Some("text/plain; charset=utf-16be"), false, "ä"),
            (b"\xe4", Some("text/plain; charset=nonsense"), false, "\u{fffd}"),
            (b"a\xc3", Some("text/html"), true, "a"),
            (b"<a/>", Some("image/svg+xml"), false, "<a/>"),
            (b"{}", Some("application/problem+json"), false, "{}"),
            (b"a: 1", Some("application/yaml"), false, "a: 1"),
            (b"\x89PNG", Some("image/PNG"), false, "[image/png, 4 bytes, not shown]"),
            (b"\x89PNG", Some("image/png"), true, "[image/png, more than 4 bytes, not shown]"),
            (
                b"PK\x00",
                Some("application/zip; x=y"),
                false,
                "[application/zip, 3 bytes, not shown]",
            ),
            (b"a\x00b", None, false, "[data, 3 bytes, not shown]"),
        ];
        for (bytes, media_type, cut, expected) in cases {
            let read = Body::read(bytes, media_type, cut).into_text();
            assert_eq!(read, expected, "{bytes:?} of {media_type:?}");
        }
    }

    #[test]
    fn a_body_that_is_a_text_is_not_copied() {
        for media_type in [None, Some("application/json"), Some("image/png")] {
            let bytes = b"{\"a\": 1}".to_vec();
            let at = bytes.as_ptr();
            let read = Body::read(bytes, media_type, false).into_text();
            assert_eq!((read.as_str(), read.as_ptr()), ("{\"a\": 1}", at), "{media_type:?}");
        }
    }
}
