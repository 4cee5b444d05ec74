//! Reads the bodies of requests, within bounds.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use wire::run::BODY_BYTES_MAX;
use wire::{ErrorCode, WireError};

/// The nesting of JSON that is read; deeper texts are refused unread.
const JSON_DEPTH_MAX: usize = 64;

/// Reads a body, refusing what is too large, too deep or of another form.
pub(super) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, WireError> {
    if body.len() > BODY_BYTES_MAX {
        let text = format!("the body has {} bytes, at most {BODY_BYTES_MAX} are read", body.len());
        return Err(WireError::new(ErrorCode::TooLarge, text));
    }
    if depth(body) > JSON_DEPTH_MAX {
        let text = format!("the body is nested more than {JSON_DEPTH_MAX} deep");
        return Err(WireError::new(ErrorCode::BadRequest, text));
    }
    serde_json::from_slice(body).map_err(|error| {
        WireError::new(ErrorCode::BadRequest, format!("the body cannot be read: {error}"))
    })
}

/// Counts how deep brackets are nested, outside of strings.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in json {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (true, b'"') => in_string = false,
            (false, b'"') => in_string = true,
            (false, b'{' | b'[') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use wire::RunRequest;

    use super::*;

    #[test]
    fn depth_counts_brackets_outside_of_strings() {
        let cases =
            [("1", 0), ("{}", 1), (r#"{"a":[[]]}"#, 3), (r#"{"a":"[[[\"[["}"#, 1), ("]]", 0)];
        for (json, expected) in cases {
            assert_eq!(depth(json.as_bytes()), expected, "{json}");
        }
    }

    #[test]
    fn bodies_are_read_or_refused() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let large = vec![b' '; BODY_BYTES_MAX + 1];
        let cases: [(&[u8], Option<ErrorCode>); 7] = [
            (br#"{"input":"x"}"#, None),
            (b"", Some(ErrorCode::BadRequest)),
            (b"\xff\xfe", Some(ErrorCode::BadRequest)),
            (deep.as_bytes(), Some(ErrorCode::BadRequest)),
            (br#"{"input":7}"#, Some(ErrorCode::BadRequest)),
            (br#"{"input":"x","extra":1}"#, Some(ErrorCode::BadRequest)),
            (&large, Some(ErrorCode::TooLarge)),
        ];
        for (body, expected) in cases {
            let read = read::<RunRequest>(&Bytes::copy_from_slice(body));
            assert_eq!(read.err().map(|error| error.code), expected);
        }
    }
}
