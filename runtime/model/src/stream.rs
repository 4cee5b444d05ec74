//! Puts a streamed reply together.

use crate::answer::{Answer, Received};
use crate::complaint::Complaint;
use crate::draft::Draft;
use crate::error::{COMPLAINT_BYTES_MAX, Error};
use crate::fields::Json;
use crate::lines::LineSplitter;
use crate::provider::Protocol;
use crate::sse::{SseEvent, SseParser};

#[cfg(test)]
mod arbitrary;

/// Bytes kept of the beginning of a stream, enough to tell a web page from a reply.
const BEGINNING_BYTES: usize = 200;

/// How a stream is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON value a line.
    Lines,
}

impl Framing {
    /// Returns what a client accepts that can read it, besides an answer in one piece.
    pub(crate) const fn accept(self) -> &'static str {
        match self {
            Self::Events => "text/event-stream, application/json",
            Self::Lines => "application/x-ndjson, application/json",
        }
    }
}

/// Reads a stream of one protocol, fed as bytes.
pub(crate) struct StreamReader<'a> {
    protocol: &'a dyn Protocol,
    splitter: Splitter,
    draft: Draft,
    /// What came first, for the error if it is something else.
    beginning: Vec<u8>,
    /// Whether the model said why it stopped without a piece of the reply beside it.
    is_ending: bool,
    /// Whether more of the reply came after the model had said why it stopped. Some servers say so
    /// with every piece, so that only the end of the stream is one.
    is_doubtful: bool,
}

enum Splitter {
    Events(SseParser),
    Lines(LineSplitter),
}

impl Splitter {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, Error> {
        match self {
            Self::Events(parser) => parser.push(bytes),
            Self::Lines(lines) => Ok(lines.push(bytes)?.into_iter().map(SseEvent::of).collect()),
        }
    }

    fn end(&mut self) -> Result<Option<SseEvent>, Error> {
        match self {
            Self::Events(parser) => parser.end(),
            Self::Lines(lines) => Ok(lines.end()?.map(SseEvent::of)),
        }
    }
}

impl<'a> StreamReader<'a> {
    /// Begins to read.
    pub(crate) fn new(protocol: &'a dyn Protocol, framing: Framing) -> Self {
        let splitter = match framing {
            Framing::Events => Splitter::Events(SseParser::default()),
            Framing::Lines => Splitter::Lines(LineSplitter::default()),
        };
        Self {
            protocol,
            splitter,
            draft: Draft::default(),
            beginning: Vec::new(),
            is_ending: false,
            is_doubtful: false,
        }
    }

    /// Returns whether the server has marked the end.
    pub(crate) const fn is_done(&self) -> bool {
        self.draft.done
    }

    /// Returns whether the model has said why it stopped and nothing of the reply came since, so
    /// that it is whole as far as is known.
    pub(crate) const fn is_finished(&self) -> bool {
        self.draft.is_finished() && !self.is_doubtful
    }

    /// Returns whether nothing but the tail of the stream is to come: the model has said why it
    /// stopped, and not beside a piece of the reply, as it may with every piece.
    pub(crate) const fn is_ending(&self) -> bool {
        self.is_ending && !self.is_doubtful
    }

    /// Returns what came so far of what the model writes, also of what is not passed on.
    pub(crate) fn received(&self) -> Received {
        self.draft.received()
    }

    /// Takes some bytes and passes on the pieces of text in them.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Error> {
        let room = self.beginning_max(bytes).saturating_sub(self.beginning.len());
        self.beginning.extend(bytes.iter().take(room));
        // Line by line, so that what comes after the end, or after a fault, changes nothing.
        for line in bytes.split_inclusive(|byte| matches!(byte, b'\r' | b'\n')) {
            if self.draft.done {
                break;
            }
            for event in self.splitter.push(line)? {
                self.on_event(&event, on_delta)?;
            }
        }
        Ok(())
    }

    /// Takes the end of the bytes and returns the answer, if it is whole.
    pub(crate) fn end(mut self, on_delta: &mut (dyn FnMut(&str) + Send)) -> Result<Answer, Error> {
        if !self.draft.done
            && let Some(event) = self.splitter.end().unwrap_or_default()
        {
            // Of another error, such as a torn event, only the cut below is of interest.
            if let Err(error @ (Error::InBand(_) | Error::TooLarge)) =
                self.on_event(&event, on_delta)
            {
                return Err(error);
            }
        }
        if !self.draft.begun {
            let whole = serde_json::from_slice(&self.beginning).ok();
            if let Some(complaint) = whole.as_ref().and_then(Complaint::from_answer) {
                return Err(Error::InBand(complaint.into()));
            }
            let beginning = String::from_utf8_lossy(&self.beginning);
            return Err(Error::form("the answer is no stream of a reply", &beginning));
        }
        if !self.draft.done && !self.draft.is_finished() {
            return Err(Error::Cut { reason: "the stream ended too early".to_owned() });
        }
        Ok(self.draft.into_answer())
    }

    /// Returns how many bytes are kept of the beginning: an answer that is JSON and no event, whatever
    /// the server says that it is, may be an error, which is read whole.
    fn beginning_max(&self, bytes: &[u8]) -> usize {
        let is_events = matches!(self.splitter, Splitter::Events(_));
        let mut came = self.beginning.iter().chain(bytes);
        let first = came.find(|byte| !byte.is_ascii_whitespace());
        if is_events && matches!(first, Some(b'{' | b'[')) {
            COMPLAINT_BYTES_MAX
        } else {
            BEGINNING_BYTES
        }
    }

    fn on_event(
        &mut self,
        event: &SseEvent,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Error> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.draft.done = true;
            return Ok(());
        }
        if event.kind == "error" {
            return Err(Error::InBand(Complaint::from_body(event.data.as_bytes()).into()));
        }
        // A sign of life.
        if data.is_empty() {
            return Ok(());
        }
        let value: Json<'_> = serde_json::from_str(&event.data)
            .map_err(|_| Error::form("an event of the stream is no JSON", &event.data))?;
        if let Some(complaint) = Complaint::from_answer(&value) {
            return Err(Error::InBand(complaint.into()));
        }
        let (was_finished, before) = (self.draft.is_finished(), self.draft.received().bytes);
        self.protocol.read_event(&value, &mut self.draft)?;
        let has_grown = self.draft.received().bytes > before;
        self.is_doubtful |= was_finished && has_grown;
        self.is_ending |= !was_finished && self.draft.is_finished() && !has_grown;
        let news = self.draft.news();
        if !news.is_empty() {
            on_delta(news);
        }
        Ok(())
    }
}
