//! Puts a streamed reply together.

use serde_json::Value;
use wire::ToolCall;

use super::sse::{SseEvent, SseParser};
use super::whole;
use crate::answer::Answer;
use crate::complaint::Complaint;
use crate::error::{CALLS_MAX, Error, REPLY_BYTES_MAX};

/// Reads a stream of completion chunks, fed as bytes.
#[derive(Debug, Default)]
pub(super) struct StreamReader {
    sse: SseParser,
    answer: Answer,
    calls: Vec<CallDraft>,
    /// Bytes of text and arguments so far.
    len: usize,
    /// Whether a chunk with a choice came.
    begun: bool,
    done: bool,
}

/// A call that is being written.
#[derive(Debug)]
struct CallDraft {
    index: u64,
    call: ToolCall,
}

impl StreamReader {
    /// Returns whether the server has marked the end.
    pub(super) const fn is_done(&self) -> bool {
        self.done
    }

    /// Returns whether the model has said why it stopped, so that the reply is whole.
    pub(super) const fn is_finished(&self) -> bool {
        self.answer.finish.is_some()
    }

    /// Takes some bytes and passes on the pieces of text in them.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Error> {
        for event in self.sse.push(bytes)? {
            if self.done {
                break;
            }
            self.on_event(&event, on_delta)?;
        }
        Ok(())
    }

    /// Takes the end of the bytes and returns the answer, if it is whole.
    pub(super) fn end(mut self, on_delta: &mut (dyn FnMut(&str) + Send)) -> Result<Answer, Error> {
        if !self.done {
            let rest = std::mem::take(&mut self.sse).end();
            // A piece of an event after the reply is whole takes nothing from it.
            let read = rest.and_then(|event| match event {
                Some(event) => self.on_event(&event, on_delta),
                None => Ok(()),
            });
            match read {
                Ok(()) if self.is_finished() || self.done => {}
                Err(error @ (Error::InBand(_) | Error::TooLarge)) => return Err(error),
                _ if self.is_finished() => {}
                _ => return Err(Error::Cut { reason: "the stream ended too early".to_owned() }),
            }
        }
        if !self.begun {
            return Err(Error::form("the stream has no choice", ""));
        }
        self.calls.sort_by_key(|draft| draft.index);
        self.answer.calls = self.calls.into_iter().map(|draft| draft.call).collect();
        Ok(self.answer)
    }

    fn on_event(
        &mut self,
        event: &SseEvent,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Error> {
        if event.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        if event.kind == "error" {
            return Err(Error::InBand(Complaint::from_body(event.data.as_bytes()).into()));
        }
        let chunk: Value = serde_json::from_str(&event.data)
            .map_err(|_| Error::form("an event of the stream is no JSON", &event.data))?;
        if let Some(complaint) = Complaint::from_answer(&chunk) {
            return Err(Error::InBand(complaint.into()));
        }
        self.on_chunk(&chunk, on_delta)
    }

    fn on_chunk(
        &mut self,
        chunk: &Value,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Error> {
        if let Some(usage) = whole::usage(chunk) {
            self.answer.usage = usage;
        }
        if self.answer.model.is_none() {
            self.answer.model = whole::model(chunk);
        }
        let first = |choice: &&Value| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        let Some(choice) = whole::list(chunk.get("choices")).iter().find(first) else {
            return Ok(());
        };
        self.begun = true;
        if let Some(complaint) = Complaint::from_answer(choice) {
            return Err(Error::InBand(complaint.into()));
        }
        if let Some(delta) = choice.get("delta") {
            self.on_delta(delta, on_delta)?;
        }
        self.answer.finish = whole::finish(choice).or(self.answer.finish);
        Ok(())
    }

    fn on_delta(
        &mut self,
        delta: &Value,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Error> {
        let content = whole::text(delta.get("content"));
        let refusal = whole::text(delta.get("refusal"));
        self.grow(content.len() + refusal.len())?;
        self.answer.content.push_str(&content);
        self.answer.refusal.push_str(&refusal);
        for piece in whole::list(delta.get("tool_calls")) {
            self.on_call_piece(piece)?;
        }
        if !content.is_empty() {
            on_delta(&content);
        }
        Ok(())
    }

    /// Adds a piece to the call of its index.
    ///
    /// Some servers give every call the index 0, or none: a piece with a name and an id of its own
    /// begins another call.
    fn on_call_piece(&mut self, piece: &Value) -> Result<(), Error> {
        let function = piece.get("function");
        let id = whole::text(piece.get("id"));
        let name = whole::text(function.and_then(|function| function.get("name")));
        let arguments = whole::arguments(function);
        self.grow(id.len() + name.len() + arguments.len())?;
        let index = piece.get("index").and_then(Value::as_u64);
        let known = match index {
            Some(index) => self.calls.iter_mut().rfind(|draft| draft.index == index),
            None => self.calls.last_mut(),
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
                if self.calls.len() >= CALLS_MAX {
                    return Err(Error::TooLarge);
                }
                let next = self.calls.last().map_or(0, |draft| draft.index.saturating_add(1));
                let call = ToolCall { id, name, arguments };
                self.calls.push(CallDraft { index: index.unwrap_or(next), call });
            }
        }
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        self.len = self.len.saturating_add(bytes);
        if self.len > REPLY_BYTES_MAX { Err(Error::TooLarge) } else { Ok(()) }
    }
}
