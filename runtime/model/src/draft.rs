//! A reply that is being put together, from pieces or from one.

use serde::de::IgnoredAny;
use serde_json::Value;
use wire::chat::TurnDetail;
use wire::{FinishReason, ToolCall, Usage};

use crate::answer::{Answer, Received};
use crate::error::{CALLS_MAX, Error, REPLY_BYTES_MAX};
use crate::fields::Json;
use crate::reasoning::{ReasoningDraft, length};

/// The most bytes of a reply's id at its provider; they use some forty.
const RESPONSE_ID_BYTES_MAX: usize = 200;

/// The bytes of a reply from which on it gets room for the longest one at once: doubling would leave
/// as much behind as it has, while room that is not written to takes no memory.
const LONG_BYTES_MIN: usize = 256 << 10;

/// Returns how many more bytes a long reply that grows should have room for, if it needs any for
/// what comes. What comes at once takes its own length.
pub(crate) fn room(held: usize, capacity: usize, more: usize) -> Option<usize> {
    let needed = held.saturating_add(more);
    let is_long = (LONG_BYTES_MIN..=REPLY_BYTES_MAX).contains(&needed);
    (held > 0 && needed > capacity && is_long).then_some(REPLY_BYTES_MAX - held)
}

/// A reply of [`REPLY_BYTES_MAX`] bytes and [`CALLS_MAX`] calls at most.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    answer: Answer,
    calls: Vec<CallDraft>,
    reasoning: ReasoningDraft,
    /// Bytes of text, names and arguments so far.
    len: usize,
    /// Bytes of the text that were passed on already.
    told: usize,
    /// Whether something came that only a reply has.
    pub(crate) begun: bool,
    /// Whether the server has marked the end.
    pub(crate) done: bool,
    /// Whether what came last of the reply is a call, where a protocol tells.
    pub(crate) in_call: bool,
}

#[derive(Debug)]
struct CallDraft {
    index: u64,
    /// Whether the server gave the index.
    is_given: bool,
    call: ToolCall,
    /// What stands beside it for the provider; null if nothing does.
    extra: Value,
}

impl CallDraft {
    /// Takes over what another draft adds to this one if both are of one call, and returns whether
    /// they are.
    ///
    /// Some servers stream a call again under another index. It has its id then, and of name and
    /// arguments it has the same or nothing; other calls of one id are calls of their own.
    fn takes(&mut self, again: &mut Self) -> bool {
        let (call, other) = (&mut self.call, &mut again.call);
        let is_same = |one: &str, two: &str| one == two || one.is_empty() || two.is_empty();
        let is_again = self.is_given
            && again.is_given
            && !call.id.is_empty()
            && call.id == other.id
            && is_same(&call.name, &other.name)
            && is_same(&call.arguments, &other.arguments);
        if is_again {
            for (own, more) in
                [(&mut call.name, &mut other.name), (&mut call.arguments, &mut other.arguments)]
            {
                if own.is_empty() {
                    *own = std::mem::take(more);
                }
            }
            if self.extra.is_null() {
                self.extra = again.extra.take();
            }
        }
        is_again
    }
}

/// A piece of a call, or a whole one.
#[derive(Debug, Default)]
pub(crate) struct CallPiece {
    /// Which call of the reply it belongs to, if the server says.
    pub(crate) index: Option<u64>,
    /// The call's id, empty if it is not in this piece.
    pub(crate) id: String,
    /// The tool's name, empty if it is not in this piece.
    pub(crate) name: String,
    /// What is added to the arguments.
    pub(crate) arguments: String,
    /// What stands beside the call for the provider; null if it is not in this piece.
    pub(crate) extra: Value,
}

impl Draft {
    /// Adds to the text.
    pub(crate) fn push_text(&mut self, text: &str) -> Result<(), Error> {
        self.grow(text.len())?;
        let content = &mut self.answer.content;
        if let Some(room) = room(content.len(), content.capacity(), text.len()) {
            content.reserve_exact(room);
        }
        content.push_str(text);
        Ok(())
    }

    /// Adds to the text by which the model refuses.
    pub(crate) fn push_refusal(&mut self, text: &str) -> Result<(), Error> {
        self.grow(text.len())?;
        self.answer.refusal.push_str(text);
        Ok(())
    }

    /// Adds a whole call.
    pub(crate) fn push_call(&mut self, piece: CallPiece) -> Result<(), Error> {
        self.grow(piece.id.len() + piece.name.len() + piece.arguments.len())?;
        if self.calls.len() >= CALLS_MAX {
            return Err(Error::TooLarge);
        }
        let next = self.calls.last().map_or(0, |draft| draft.index.saturating_add(1));
        let CallPiece { index, id, name, arguments, extra } = piece;
        if !extra.is_null() {
            self.reasoning.takes(length(&extra));
        }
        let call = ToolCall { id, name, arguments };
        let is_given = index.is_some();
        self.calls.push(CallDraft { index: index.unwrap_or(next), is_given, call, extra });
        Ok(())
    }

    /// Adds a piece to the call of its index.
    ///
    /// Some servers give every call the index 0, or none: a piece with a name begins another call
    /// if its name or its id is another, or if it has no id, the call before has all its arguments and
    /// this one brings its own.
    pub(crate) fn join_call(&mut self, piece: CallPiece) -> Result<(), Error> {
        let known = match piece.index {
            Some(index) => self.calls.iter_mut().rfind(|draft| draft.index == index),
            None => self.calls.last_mut(),
        };
        let another = |call: &ToolCall| {
            let is_known = !piece.id.is_empty() && !call.id.is_empty();
            let is_whole = || serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok();
            let is_other = || {
                if is_known {
                    call.id != piece.id
                } else {
                    !piece.arguments.is_empty() && is_whole()
                }
            };
            let is_named = !call.name.is_empty() && call.name != piece.name;
            !piece.name.is_empty() && (is_named || is_other())
        };
        match known {
            Some(CallDraft { call, extra, .. }) if !another(call) => {
                let bytes = piece.id.len() + piece.name.len() + piece.arguments.len();
                if call.id.is_empty() {
                    call.id = piece.id;
                }
                if call.name.is_empty() {
                    call.name = piece.name;
                }
                call.arguments.push_str(&piece.arguments);
                if !piece.extra.is_null() {
                    self.reasoning.takes(length(&piece.extra));
                    *extra = piece.extra;
                }
                self.grow(bytes)
            }
            _ => self.push_call(piece),
        }
    }

    /// Adds to the arguments of the call of an index, if there is one.
    pub(crate) fn extend_call(&mut self, index: Option<u64>, arguments: &str) -> Result<(), Error> {
        let known = self.calls.iter_mut().rfind(|draft| index.is_none_or(|it| draft.index == it));
        let Some(CallDraft { call, .. }) = known else { return Ok(()) };
        call.arguments.push_str(arguments);
        self.grow(arguments.len())
    }

    /// Opens the arguments of the last call again if the reply was cut inside of it: some servers
    /// close what a model did not.
    pub(crate) fn reopen_cut_call(&mut self) {
        let is_cut =
            matches!(self.answer.finish, Some(FinishReason::Length | FinishReason::ContentFilter));
        if is_cut
            && self.in_call
            && let Some(CallDraft { call, .. }) = self.calls.last_mut()
            && let Some(open) = call.arguments.trim_end().strip_suffix('}')
        {
            call.arguments.truncate(open.len());
        }
    }

    /// Returns the reasoning so far, to be added to.
    pub(crate) const fn reasoning(&mut self) -> &mut ReasoningDraft {
        &mut self.reasoning
    }

    /// Adds a block of reasoning, or the beginning of one, at its place in the text.
    pub(crate) fn push_block(&mut self, index: Option<u64>, block: &Json<'_>) {
        self.reasoning.push_block(index, block, &self.answer.content);
    }

    /// Notes why the model stopped; what is absent leaves what was known.
    pub(crate) fn finish(&mut self, finish: Option<FinishReason>) {
        self.answer.finish = finish.or(self.answer.finish);
    }

    /// Returns whether the model has said why it stopped, so that the reply is whole.
    pub(crate) const fn is_finished(&self) -> bool {
        self.answer.finish.is_some()
    }

    /// Returns what came so far of text, calls and reasoning.
    pub(crate) fn received(&self) -> Received {
        let bytes = self.len.saturating_add(self.reasoning.len());
        Received { bytes: bytes as u64, usage: self.answer.usage }
    }

    /// Returns whether there is a call.
    pub(crate) const fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Returns the tokens so far, to be added to or replaced.
    pub(crate) const fn usage(&mut self) -> &mut Usage {
        &mut self.answer.usage
    }

    /// Returns what else is known so far.
    pub(crate) const fn detail(&mut self) -> &mut TurnDetail {
        &mut self.answer.detail
    }

    /// Notes the provider's id of the reply; the first stands, and one that is no id is left out.
    pub(crate) fn response_id(&mut self, id: Option<&Json<'_>>) {
        if self.answer.detail.response_id.is_none() {
            let id = id.and_then(Json::as_str).filter(|id| !id.is_empty());
            let id = id.filter(|id| id.len() <= RESPONSE_ID_BYTES_MAX);
            self.answer.detail.response_id = id.map(str::to_owned);
        }
    }

    /// Notes the model that answers; the first to be named stands.
    pub(crate) fn model(&mut self, model: Option<&Json<'_>>) {
        if self.answer.model.is_none() {
            let model = model.and_then(Json::as_str).filter(|model| !model.is_empty());
            self.answer.model = model.map(str::to_owned);
        }
    }

    /// Returns the text that came since this was last asked for.
    pub(crate) fn news(&mut self) -> &str {
        let news = self.answer.content.get(self.told..).unwrap_or_default();
        self.told = self.answer.content.len();
        news
    }

    /// Returns the answer, its calls in the order of their indexes.
    pub(crate) fn into_answer(mut self) -> Answer {
        self.calls.sort_by_key(|draft| draft.index);
        let mut at = 1;
        while let Some((before, [draft, ..])) = self.calls.split_at_mut_checked(at) {
            if before.iter_mut().any(|known| known.takes(draft)) {
                self.calls.remove(at);
            } else {
                at += 1;
            }
        }
        let calls = self.calls.into_iter().map(|draft| (draft.call, draft.extra));
        let (calls, extras) = calls.unzip();
        self.answer.calls = calls;
        self.answer.reasoning = self.reasoning.end(extras);
        self.answer
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        self.len = self.len.saturating_add(bytes);
        if self.len > REPLY_BYTES_MAX { Err(Error::TooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reply_gets_its_room_once() {
        let mut draft = Draft::default();
        let mut long = Vec::new();
        for _ in 0..REPLY_BYTES_MAX / 1000 {
            draft.push_text(&"x".repeat(1000)).unwrap();
            if draft.answer.content.len() >= LONG_BYTES_MIN * 2 {
                long.push((draft.answer.content.as_ptr(), draft.answer.content.capacity()));
            }
        }
        long.dedup();
        assert_eq!(long, [(draft.answer.content.as_ptr(), REPLY_BYTES_MAX)]);
        assert!(matches!(draft.push_text(&"x".repeat(1000)), Err(Error::TooLarge)));
    }

    #[test]
    fn a_call_that_comes_again_under_another_index_is_one() {
        let piece = |index, id: &str, name: &str, arguments: &str| CallPiece {
            index,
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            ..CallPiece::default()
        };
        let (one, two) = (Some(0), Some(1));
        for (pieces, expected) in [
            ([(one, "x", "f", "{}"), (two, "x", "f", "{}")], vec![("f", "{}")]),
            ([(one, "x", "f", "{}"), (two, "x", "", "")], vec![("f", "{}")]),
            ([(one, "x", "f", ""), (two, "x", "f", "{}")], vec![("f", "{}")]),
            ([(one, "x", "f", "{}"), (two, "x", "f", "[]")], vec![("f", "{}"), ("f", "[]")]),
            ([(one, "x", "f", "{}"), (two, "x", "g", "{}")], vec![("f", "{}"), ("g", "{}")]),
            ([(one, "x", "f", "{}"), (two, "y", "f", "{}")], vec![("f", "{}"), ("f", "{}")]),
            ([(one, "", "f", "{}"), (two, "", "f", "{}")], vec![("f", "{}"), ("f", "{}")]),
            // Calls that came whole are as many as there are.
            ([(None, "x", "f", "{}"), (None, "x", "f", "{}")], vec![("f", "{}"), ("f", "{}")]),
        ] {
            let mut draft = Draft::default();
            for (index, id, name, arguments) in pieces {
                draft.push_call(piece(index, id, name, arguments)).unwrap();
            }
            let calls = draft.into_answer().calls;
            let found: Vec<_> =
                calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            assert_eq!(found, expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_reply_that_is_short_or_comes_at_once_gets_no_more_room_than_it_needs() {
        for bytes in [1000, LONG_BYTES_MIN * 2] {
            let mut draft = Draft::default();
            draft.push_text(&"x".repeat(bytes)).unwrap();
            assert!(draft.answer.content.capacity() < bytes * 2, "{bytes}");
        }
    }
}
