//! Splits a stream of lines, wherever its pieces are cut.

use std::mem;

use crate::error::{Error, REPLY_BYTES_MAX};

/// A splitter that is fed pieces of any length. It holds one line, [`REPLY_BYTES_MAX`] at most.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    line: Vec<u8>,
}

impl LineSplitter {
    /// Takes a piece and returns the lines that it completes; empty ones are left out.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Vec<String>, Error> {
        let mut lines = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + part.len() > REPLY_BYTES_MAX {
                return Err(Error::TooLarge);
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                lines.extend(self.end()?);
            }
        }
        Ok(lines)
    }

    /// Takes the end of the stream and returns the line that lacked only its end.
    pub(crate) fn end(&mut self) -> Result<Option<String>, Error> {
        let bytes = mem::take(&mut self.line);
        let line = str::from_utf8(&bytes).map_err(|_| {
            Error::form("the stream is not UTF-8", &String::from_utf8_lossy(&bytes))
        })?;
        let line = line.trim_start_matches('\u{feff}').trim();
        Ok((!line.is_empty()).then(|| line.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_give_the_same_lines_however_they_are_cut() {
        for (stream, lines) in [
            ("", vec![]),
            ("\n\r\n \n", vec![]),
            ("{}", vec!["{}"]),
            ("{\"a\":\"ä😀\"}\n\n{}\r\n[1]", vec!["{\"a\":\"ä😀\"}", "{}", "[1]"]),
            ("\u{feff}{}\n", vec!["{}"]),
        ] {
            for cut in 0..=stream.len() {
                let (first, second) = stream.as_bytes().split_at(cut);
                let mut splitter = LineSplitter::default();
                let mut found = splitter.push(first).unwrap();
                found.extend(splitter.push(second).unwrap());
                found.extend(splitter.end().unwrap());
                assert_eq!(found, lines, "{stream:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_line_has_a_largest_size_and_is_text() {
        let mut splitter = LineSplitter::default();
        assert!(splitter.push(&vec![b'x'; REPLY_BYTES_MAX]).unwrap().is_empty());
        assert!(matches!(splitter.push(b"x"), Err(Error::TooLarge)));
        let error = LineSplitter::default().push(b"\xff\n").unwrap_err();
        assert!(matches!(error, Error::Form { .. }), "{error}");
    }
}
