//! The form of subjects, patterns, queue groups and headers, the same for both kinds of bus.

use wire::Headers;
use wire::header::HeaderValue;

use crate::error::Error;

/// The longest subject, in bytes. A nats-server takes 4,096 bytes for a whole protocol line, which
/// holds a subject and a reply subject.
const SUBJECT_BYTES_MAX: usize = 1024;

/// How much of a faulty text an error shows, in characters.
const SHOWN_CHARS_MAX: usize = 80;

/// Cuts a text from outside to a length that can be shown.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// Checks a subject that something is sent to.
pub(crate) fn subject(text: &str) -> Result<(), Error> {
    if is_plain(text) {
        return Ok(());
    }
    tokens(text)?;
    if text.contains(['*', '>']) {
        return Err(invalid(text, "wildcards are for subscriptions"));
    }
    Ok(())
}

/// Checks a subject that something is received on: `*` stands for one token, `>` for all the rest.
pub(crate) fn pattern(text: &str) -> Result<(), Error> {
    tokens(text)?;
    let mut tokens = text.split('.').peekable();
    while let Some(token) = tokens.next() {
        match token {
            "*" => {}
            ">" if tokens.peek().is_none() => {}
            ">" => return Err(invalid(text, "`>` is the last token")),
            _ if token.contains(['*', '>']) => {
                return Err(invalid(text, "a wildcard is a token of its own"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Tells whether a pattern has wildcards.
pub(crate) fn is_wild(pattern: &str) -> bool {
    pattern.contains(['*', '>'])
}

/// Checks the name of a queue group.
pub(crate) fn queue(text: &str) -> Result<(), Error> {
    tokens(text)
}

/// Tells at a glance that a subject is of ordinary characters, as nearly all are; another one may be
/// right as well.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_right =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$' | b'.');
    let is_gap = |one: &u8, next: &u8| *one == b'.' && *next == b'.';
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'.');
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    // All are looked at, also after one that is not right: so many of them are looked at together.
    text.len() <= SUBJECT_BYTES_MAX
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().fold(true, |right, byte| right & is_right(byte))
        && !pairs.fold(false, |gap, (one, next)| gap | is_gap(one, next))
}

fn tokens(text: &str) -> Result<(), Error> {
    if text.len() > SUBJECT_BYTES_MAX {
        return Err(invalid(text, "it is longer than 1024 bytes"));
    }
    if text.split('.').any(str::is_empty) {
        return Err(invalid(text, "a token is empty"));
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(invalid(text, "it has spaces or control characters"));
    }
    Ok(())
}

fn invalid(text: &str, fault: &'static str) -> Error {
    Error::InvalidSubject { subject: shown(text), fault }
}

/// Checks that headers arrive as they are sent.
pub(crate) fn headers(headers: &Headers) -> Result<(), Error> {
    for (name, value) in headers.values() {
        let invalid = |fault| Err(Error::InvalidHeader { name: shown(name), fault });
        if name.is_empty() || name.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b':') {
            return invalid("a name is printable ASCII without colon and space");
        }
        // All others are written so that they arrive.
        let HeaderValue::Text(value) = value else { continue };
        if value.contains(char::is_control) {
            return invalid("a value has no control characters");
        }
        if value.trim().len() != value.len() {
            return invalid("receivers drop the space around a value");
        }
    }
    Ok(())
}

/// Makes a header value of any text: one line, at most so many characters.
pub(crate) fn header_value(text: &str, chars_max: usize) -> String {
    let line: String =
        text.chars().take(chars_max).map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.trim().to_owned()
}

/// Checks the size of a message, its headers included.
pub(crate) fn size(headers: &Headers, payload_bytes: usize, max: usize) -> Result<(), Error> {
    let bytes = headers.wire_len().saturating_add(payload_bytes);
    if bytes > max { Err(Error::TooLarge { bytes, max }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_and_patterns() {
        let long = "x".repeat(SUBJECT_BYTES_MAX + 1);
        // (text, is a subject, is a pattern)
        let cases = [
            ("a", true, true),
            ("a.b-c.D_1", true, true),
            ("$SRV.PING", true, true),
            ("a.ü", true, true),
            ("a.*", false, true),
            ("*.b", false, true),
            (">", false, true),
            ("a.>", false, true),
            ("a.>.b", false, false),
            ("a*", false, false),
            ("a.b>", false, false),
            ("", false, false),
            (".", false, false),
            ("a.", false, false),
            (".a", false, false),
            ("a..b", false, false),
            ("a b", false, false),
            ("a\r\nPUB b 0", false, false),
            ("a\0", false, false),
            ("a.b.c.d-e_f$.0123456789.ABCXYZ.abcxyz", true, true),
            ("a.b.c.d-e_f$.0123456789..ABCXYZ.abcxyz", false, false),
            ("a.b.c.d-e_f$.0123456789.ABCXYZ.abc xyz", false, false),
            (&long, false, false),
        ];
        for (text, is_subject, is_pattern) in cases {
            assert_eq!(subject(text).is_ok(), is_subject, "subject {text:?}");
            assert_eq!(pattern(text).is_ok(), is_pattern, "pattern {text:?}");
        }
    }

    #[test]
    fn headers_that_would_not_arrive_are_refused() {
        let cases = [
            ("a", "b", true),
            ("a", "", true),
            ("Nats-Msg-Id", "ä ö", true),
            ("", "b", false),
            ("a:b", "c", false),
            ("a b", "c", false),
            ("ä", "c", false),
            ("a", "b\r\nc: d", false),
            ("a", "b\rc", false),
            ("a", " b", false),
            ("a", "b\t", false),
        ];
        for (name, value, good) in cases {
            let list = Headers::new().with(name, value);
            assert_eq!(headers(&list).is_ok(), good, "{name:?}: {value:?}");
        }
        assert_eq!(header_value(" a\r\nb\t", 10), "a  b");
        assert_eq!(header_value("äöü", 2), "äö");
    }
}
