//! Splits a stream of server-sent events, wherever its pieces are cut.

use std::mem;

use crate::error::{Error, REPLY_BYTES_MAX};

/// One event that carries data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The event's type, empty if it has none.
    pub(crate) kind: String,
    /// Its data; several lines are joined with line feeds.
    pub(crate) data: String,
}

impl SseEvent {
    /// Makes an event without a type.
    pub(crate) fn of(data: String) -> Self {
        Self { kind: String::new(), data }
    }
}

/// A parser that is fed pieces of any length. It holds one event, [`REPLY_BYTES_MAX`] at most.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    event: SseEvent,
    /// Whether the event has a data line, which may be empty.
    has_data: bool,
    /// Whether a line feed that comes next belongs to the carriage return before it.
    after_return: bool,
    /// Whether the first line is over, before which a byte order mark may stand.
    begun: bool,
}

impl SseParser {
    /// Takes a piece and returns the events that it completes.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Vec<SseEvent>, Error> {
        let mut events = Vec::new();
        for part in piece.split_inclusive(|byte| matches!(byte, b'\r' | b'\n')) {
            let (line, end) = match part.split_last() {
                Some((end @ (b'\r' | b'\n'), line)) => (line, Some(*end)),
                _ => (part, None),
            };
            let paired = mem::take(&mut self.after_return) && end == Some(b'\n') && line.is_empty();
            if paired {
                continue;
            }
            if self.line.len() + self.event.data.len() + line.len() > REPLY_BYTES_MAX {
                return Err(Error::TooLarge);
            }
            self.line.extend_from_slice(line);
            if let Some(end) = end {
                self.after_return = end == b'\r';
                events.extend(self.end_line()?);
            }
        }
        Ok(events)
    }

    /// Takes the end of the stream and returns the event that lacked only its last line ends.
    pub(crate) fn end(&mut self) -> Result<Option<SseEvent>, Error> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        self.end_line()
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, Error> {
        let bytes = mem::take(&mut self.line);
        let line = str::from_utf8(&bytes).map_err(|_| {
            Error::form("the stream is not UTF-8", &String::from_utf8_lossy(&bytes))
        })?;
        let line = if mem::replace(&mut self.begun, true) {
            line
        } else {
            line.trim_start_matches('\u{feff}')
        };
        if line.is_empty() {
            let event = mem::take(&mut self.event);
            return Ok(mem::take(&mut self.has_data).then_some(event));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.event.kind),
            // Older servers of llama.cpp name the field of an error after it.
            "error" => {
                "error".clone_into(&mut self.event.kind);
                value.clone_into(&mut self.event.data);
                self.has_data = true;
            }
            // Comments, ids and reconnection times are of no use here.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, data: &str) -> SseEvent {
        SseEvent { kind: kind.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn streams_give_the_same_events_however_they_are_cut() {
        let cases: [(&str, Vec<SseEvent>); 13] = [
            ("data: a\n\n", vec![event("", "a")]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", vec![event("", "a"), event("", "b")]),
            ("data: a\r\ndata: b\r\n\r\n", vec![event("", "a\nb")]),
            ("data: a\r\rdata: b\r\r", vec![event("", "a"), event("", "b")]),
            ("data:a\ndata:  b\ndata\n\n", vec![event("", "a\n b\n")]),
            (": ping\n\ndata: a\n: between\n\n", vec![event("", "a")]),
            (
                "event: error\nid: 7\nretry: 9\ndata: a\n\ndata: b\n\n",
                vec![event("error", "a"), event("", "b")],
            ),
            ("event: lonely\n\ndata: a\n\n", vec![event("", "a")]),
            ("\u{feff}data: a\n\n", vec![event("", "a")]),
            ("data: ä€😀\n\n", vec![event("", "ä€😀")]),
            ("data: a: b\n\n", vec![event("", "a: b")]),
            ("data: unfinished", vec![event("", "unfinished")]),
            ("\n\n\r\n", vec![]),
        ];
        for (text, expected) in cases {
            let bytes = text.as_bytes();
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let mut parser = SseParser::default();
                    let mut events = Vec::new();
                    for piece in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                        events.extend(parser.push(piece).unwrap());
                    }
                    events.extend(parser.end().unwrap());
                    assert_eq!(events, expected, "{text:?} cut at {first} and {second}");
                }
            }
        }
    }

    #[test]
    fn bad_text_and_endless_events_are_refused() {
        let error = SseParser::default().push(b"data: \xff\n").unwrap_err();
        assert!(matches!(error, Error::Form { .. }), "{error}");
        let endless: [&[u8]; 3] =
            [b"data: xxxxxxxxxxx\n", b"xxxxxxxxxxxxxxxx", b"data: xxxxxxxxxx"];
        for piece in endless {
            let piece = piece.repeat(1 << 12);
            let mut parser = SseParser::default();
            let pushes = REPLY_BYTES_MAX / piece.len() * 3;
            let result = (0..pushes).try_for_each(|_| parser.push(&piece).map(|_| ()));
            assert!(matches!(result, Err(Error::TooLarge)), "{result:?}");
        }
        // Comments pass by without being kept.
        let mut parser = SseParser::default();
        let comments = b": still there\n\n".repeat(1 << 12);
        for _ in 0..200 {
            assert_eq!(parser.push(&comments).unwrap(), []);
        }
    }
}
