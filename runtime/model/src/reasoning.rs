//! The reasoning behind the calls of a reply: how it comes in, and whom it goes back to.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use wire::{Digest, Message, Reasoning};

use crate::fields::Json;

#[cfg(test)]
mod tests;

/// The most bytes of reasoning that are kept of one reply: several times what models think before a
/// call, and half of what a server of NATS takes as one message, in which the reply goes too.
pub(crate) const REASONING_BYTES_MAX: usize = 512 << 10;

/// The field that holds reasoning as a list.
pub(crate) const DETAILS: &str = "reasoning_details";

/// The texts of an entry of that list which come in pieces.
const DETAIL_TEXTS: [&str; 2] = ["text", "summary"];

/// What ends such an entry.
const SIGNATURE: &str = "signature";

/// Reasoning that is being put together. What is too large is dropped as a whole, since a provider
/// refuses what was cut.
#[derive(Debug, Default)]
pub(crate) struct ReasoningDraft {
    /// What stands beside the text, by name.
    fields: Map<String, Value>,
    /// Blocks of reasoning, and the texts among them, with their places in the reply.
    blocks: Vec<(Option<u64>, Value)>,
    bytes: usize,
    /// Whether more came than is kept.
    is_over: bool,
}

/// The reasoning behind the calls of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kept {
    /// What stands beside the message; null if nothing does.
    pub(crate) message: Value,
    /// What stands beside each call; fewer where nothing follows.
    pub(crate) calls: Vec<Value>,
    /// Whether it was dropped for its size.
    pub(crate) is_over: bool,
}

impl ReasoningDraft {
    /// Returns how many bytes of it have come.
    pub(crate) const fn len(&self) -> usize {
        self.bytes
    }

    /// Counts what comes, and tells whether it is kept.
    pub(crate) fn takes(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > REASONING_BYTES_MAX && !self.is_over {
            *self = Self { is_over: true, bytes: self.bytes, ..Self::default() };
        }
        !self.is_over
    }

    /// Adds to a text that stands beside the text of the reply, and is there if nothing is added.
    pub(crate) fn add_text(&mut self, name: &str, text: &str) {
        if !self.takes(text.len()) {
            return;
        }
        match self.fields.get_mut(name) {
            Some(Value::String(before)) => before.push_str(text),
            Some(_) | None => drop(self.fields.insert(name.to_owned(), text.into())),
        }
    }

    /// Adds an entry to the list; in a stream it may be a piece of one.
    pub(crate) fn add_detail(&mut self, entry: &Json<'_>, is_streamed: bool) {
        let entry = Value::from(entry);
        let list = self.fields.get(DETAILS).and_then(Value::as_array);
        let list = list.map(Vec::as_slice).unwrap_or_default();
        let known = list.iter().rposition(|known| is_streamed && goes_on(known, &entry));
        let more = |name: &str| entry.get(name).and_then(Value::as_str).map_or(0, str::len);
        let bytes = match known {
            Some(_) => DETAIL_TEXTS.iter().chain(&[SIGNATURE]).map(|name| more(name)).sum(),
            None => length(&entry),
        };
        if !self.takes(bytes) {
            return;
        }
        let list = self.fields.entry(DETAILS).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(list) = list else { return };
        match known.and_then(|at| list.get_mut(at)) {
            Some(known) => join(known, entry),
            None => list.push(entry),
        }
    }

    /// Adds a block of reasoning, or the beginning of one, after what was `said` before.
    pub(crate) fn push_block(&mut self, index: Option<u64>, block: &Json<'_>, said: &str) {
        if self.blocks.is_empty() && !said.trim().is_empty() {
            self.push(None, text_block(said), said.len());
        }
        let block = Value::from(block);
        let bytes = length(&block);
        self.push(index, block, bytes);
    }

    /// Notes a block of text, whose place counts only if reasoning stands before it.
    pub(crate) fn note_text(&mut self, index: Option<u64>, text: &str) {
        if !self.blocks.is_empty() {
            self.push(index, text_block(text), text.len());
        }
    }

    fn push(&mut self, index: Option<u64>, block: Value, bytes: usize) {
        if self.takes(bytes) {
            self.blocks.push((index, block));
        }
    }

    /// Adds to a text of a block, if it is one that is kept.
    pub(crate) fn extend_block(&mut self, index: Option<u64>, name: &str, text: &str) {
        let is_known = self.blocks.iter().any(|(place, _)| *place == index);
        if !is_known || !self.takes(text.len()) {
            return;
        }
        let block = self.blocks.iter_mut().rfind(|(place, _)| *place == index);
        let Some(fields) = block.and_then(|(_, block)| block.as_object_mut()) else { return };
        match fields.get_mut(name) {
            Some(Value::String(before)) => before.push_str(text),
            Some(_) | None => drop(fields.insert(name.to_owned(), text.into())),
        }
    }

    /// Ends it, with what stands beside each of the calls. Of a reply without calls nothing is
    /// kept, since no provider wants it back.
    pub(crate) fn end(self, mut calls: Vec<Value>) -> Kept {
        if calls.is_empty() {
            return Kept::default();
        }
        if self.is_over {
            return Kept { is_over: true, ..Kept::default() };
        }
        let message = if !self.blocks.is_empty() {
            in_order(self.blocks.into_iter().map(|(_, block)| block).collect())
        } else if self.fields.is_empty() {
            Value::Null
        } else {
            Value::Object(self.fields)
        };
        let last = calls.iter().rposition(|call| !call.is_null());
        calls.truncate(last.map_or(0, |last| last + 1));
        Kept { message, calls, is_over: false }
    }
}

impl Kept {
    /// Makes of it what the model gets back with its message, if there is anything.
    pub(crate) fn of(self, by: Digest) -> Option<Arc<Reasoning>> {
        let Self { message, calls, .. } = self;
        let is_any = !message.is_null() || !calls.is_empty();
        is_any.then(|| Arc::new(Reasoning { by, message, calls }))
    }
}

/// Returns the reasoning with which a message goes to a model: its own and no other's, and none to
/// one that is not named.
pub(crate) fn carried<'m>(message: &'m Message, to: Option<&Digest>) -> Option<&'m Reasoning> {
    match message {
        Message::Assistant { reasoning, .. } => {
            reasoning.as_deref().filter(|reasoning| Some(&reasoning.by) == to)
        }
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
    }
}

/// Tells whether a block is of text and not of reasoning.
pub(crate) fn is_text(block: &Value) -> bool {
    block.get("type").is_some_and(|kind| kind == "text")
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Leaves the texts out, which stand in the message, unless reasoning follows on one of them: then
/// all of them keep their places. None may be empty.
fn in_order(mut blocks: Vec<Value>) -> Value {
    let is_said = |block: &Value| {
        let text = block.get("text").and_then(Value::as_str).unwrap_or_default();
        is_text(block) && !text.trim().is_empty()
    };
    let last = blocks.iter().rposition(|block| !is_text(block)).unwrap_or(0);
    let is_mixed = blocks.iter().take(last).any(is_said);
    blocks.retain(|block| !is_text(block) || (is_mixed && is_said(block)));
    Value::Array(blocks)
}

/// Tells whether a piece goes on with an entry: one of the same place and kind that is not signed
/// yet. What is encrypted comes whole.
fn goes_on(known: &Value, piece: &Value) -> bool {
    let is_same = |name: &str| of(known, name) == of(piece, name);
    let is_other = of(known, "id").zip(of(piece, "id")).is_some_and(|(one, other)| one != other);
    let has_text = DETAIL_TEXTS.iter().any(|name| of(piece, name).is_some_and(|text| text != ""));
    let is_signed = of(known, SIGNATURE).is_some();
    let is_encrypted = of(piece, "data").is_some();
    is_same("index") && is_same("type") && !is_other && !is_encrypted && !(is_signed && has_text)
}

/// Returns a field of an entry, unless it is null.
fn of<'v>(entry: &'v Value, name: &str) -> Option<&'v Value> {
    entry.get(name).filter(|value| !value.is_null())
}

/// Adds a piece to an entry: texts are joined, and what was not known is put in.
fn join(known: &mut Value, piece: Value) {
    let (Value::Object(known), Value::Object(piece)) = (known, piece) else { return };
    for (name, value) in piece {
        match (known.get_mut(&name), value) {
            (Some(Value::String(text)), Value::String(more))
                if DETAIL_TEXTS.contains(&name.as_str()) =>
            {
                text.push_str(&more);
            }
            (Some(_), Value::Null) => {}
            (Some(before), value) => *before = value,
            (None, value) => drop(known.insert(name, value)),
        }
    }
}

/// Returns how long a value is as JSON.
pub(crate) fn length(value: &Value) -> usize {
    // A value can always be written.
    wire::json::measure(value).unwrap_or_default()
}
