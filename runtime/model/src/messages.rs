//! The messages of a conversation, of which most are those of the turn before.

use std::sync::Arc;

use wire::{Digest, Message, Reasoning};

use crate::part::{Form, Part, WrittenPart, push_list};
use crate::reasoning::carried;

/// Messages that become one block. So many more stand after them by then, so that those of earlier
/// turns have been written one by one.
const BLOCK: usize = 16;

const _: () = assert!(BLOCK <= u16::BITS as usize, "a form has a bit for each message of a block");

/// Bytes of a block as it is sent: of larger messages fewer are put together, since they cost by
/// what they hold and not by their number.
const BLOCK_BYTES_MAX: usize = 64 << 10;

/// The messages of a conversation, oldest first. To copy them, to add some and to write them again
/// costs little however many they are: all but the newest stand in blocks, which copies share.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    blocks: Vec<Arc<Block>>,
    newest: Vec<Arc<Part<Message>>>,
}

/// Messages that follow one another.
#[derive(Debug)]
struct Block {
    part: Part<Vec<Arc<Message>>>,
    /// Whether any has reasoning, which goes back to some models.
    has_reasoning: bool,
    /// The ids of the calls in it.
    ids: Texts,
}

/// Texts that are gone through rather than looked for, in one place.
#[derive(Debug, Default)]
struct Texts {
    texts: String,
    ends: Vec<usize>,
}

impl Texts {
    fn push(&mut self, text: &str) {
        self.texts.push_str(text);
        self.ends.push(self.texts.len());
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).filter_map(|(&begin, &end)| self.texts.get(begin..end))
    }
}

impl Messages {
    /// Iterates over the messages, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> {
        let blocks = self.blocks.iter().flat_map(|block| block.part.iter());
        blocks.map(|message| &**message).chain(self.newest.iter().map(|message| &***message))
    }

    /// Iterates over the ids of their calls, oldest first.
    pub(crate) fn call_ids(&self) -> impl Iterator<Item = &str> {
        let newest = self.newest.iter().flat_map(|message| ids(message));
        self.blocks.iter().flat_map(|block| block.ids.iter()).chain(newest)
    }

    /// Writes them in a protocol's form, each with the reasoning that goes back to its model.
    /// Returns lists without their brackets.
    pub(crate) fn written(
        &self,
        to: Option<&Digest>,
        protocol: &'static str,
        write: impl Fn(&Message, Option<&Reasoning>) -> serde_json::Result<WrittenPart>,
    ) -> serde_json::Result<Vec<WrittenPart>> {
        let mut parts = Vec::with_capacity(self.blocks.len() + self.newest.len());
        for Block { part, has_reasoning, .. } in self.blocks.iter().map(|block| &**block) {
            let carrying = |message: &Arc<Message>| carried(message, to).is_some();
            let reasoning = if *has_reasoning { mask(part.iter().map(carrying)) } else { 0 };
            parts.push(part.written(Form { protocol, reasoning }, |messages| {
                let each = messages.iter().map(|message| write(message, carried(message, to)));
                Ok(joined(&each.collect::<Result<Vec<_>, _>>()?))
            })?);
        }
        for message in &self.newest {
            let reasoning = carried(message, to);
            let form = Form { protocol, reasoning: mask([reasoning.is_some()]) };
            parts.push(message.written(form, |message| write(message, reasoning))?);
        }
        Ok(parts)
    }

    fn push(&mut self, message: Arc<Message>) {
        if self.newest.len() == 2 * BLOCK {
            let mut bytes = 0;
            let fits = |message: &&Arc<Part<Message>>| {
                bytes += message.sent().map_or(message.content().len(), |(_, json)| json.len());
                bytes <= BLOCK_BYTES_MAX
            };
            let count = self.newest.iter().take(BLOCK).take_while(fits).count().max(1);
            let newest = self.newest.split_off(count);
            let oldest = std::mem::replace(&mut self.newest, newest);
            self.blocks.push(Arc::new(Block::of(&oldest)));
        }
        self.newest.push(Arc::new(message.into()));
    }
}

impl Extend<Arc<Message>> for Messages {
    fn extend<M: IntoIterator<Item = Arc<Message>>>(&mut self, messages: M) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}

impl FromIterator<Arc<Message>> for Messages {
    fn from_iter<M: IntoIterator<Item = Arc<Message>>>(messages: M) -> Self {
        let mut all = Self::default();
        all.extend(messages);
        all
    }
}

impl Block {
    /// Puts messages together, and what was sent of them if all were sent in one protocol and with
    /// all their reasoning; else it is written as who is asked next wants it.
    fn of(messages: &[Arc<Part<Message>>]) -> Self {
        let reasoning =
            mask(messages.iter().map(|message| {
                matches!(&***message, Message::Assistant { reasoning: Some(_), .. })
            }));
        let mut in_it = Texts::default();
        messages.iter().flat_map(|message| ids(message)).for_each(|id| in_it.push(id));
        let part = Part::from(messages.iter().map(|message| message.whole()).collect::<Vec<_>>());
        let sent: Option<Vec<_>> = messages.iter().map(|message| message.sent()).collect();
        if let Some(sent) = sent
            && let Some((Form { protocol, .. }, _)) = sent.first()
            && sent.iter().all(|(form, _)| form.protocol == *protocol)
            && reasoning == mask(sent.iter().map(|(form, _)| form.reasoning > 0))
        {
            let json: Vec<_> = sent.iter().map(|(_, json)| WrittenPart::clone(json)).collect();
            part.was_sent(Form { protocol, reasoning }, joined(&json));
        }
        Self { part, has_reasoning: reasoning > 0, ids: in_it }
    }
}

/// Returns the ids of the calls of a message.
fn ids(message: &Message) -> impl Iterator<Item = &str> {
    message.calls().iter().map(|call| call.id.as_str())
}

/// Returns a number with a bit for each that is true, of a block at most.
fn mask(of: impl IntoIterator<Item = bool>) -> u16 {
    of.into_iter().enumerate().fold(0, |mask, (at, is)| mask | (u16::from(is) << at))
}

/// Makes one list of some, without brackets.
fn joined(parts: &[WrittenPart]) -> WrittenPart {
    if let [one] = parts {
        return one.clone();
    }
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 1).sum());
    push_list(&mut bytes, parts);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::fixture::{asked, call, result, said, user};
    use crate::part::to_written;

    /// Returns the ids of all calls and what is written of a conversation, and counts the messages
    /// that are written for it.
    fn all(
        messages: &Messages,
        to: Option<&Digest>,
        protocol: &'static str,
        writes: &Cell<usize>,
    ) -> (Vec<String>, String) {
        let written = messages.written(to, protocol, |message, reasoning| {
            writes.set(writes.get() + 1);
            to_written(&(protocol, message.content(), reasoning.is_some()), 0)
        });
        let mut bytes = Vec::new();
        push_list(&mut bytes, &written.unwrap());
        let ids = messages.call_ids().map(str::to_owned).collect();
        (ids, String::from_utf8(bytes).unwrap())
    }

    /// Returns the same of messages that are gone through one by one.
    fn expected(
        messages: &[Message],
        to: Option<&Digest>,
        protocol: &'static str,
    ) -> (Vec<String>, String) {
        let of = |message: &Message| {
            let written = (protocol, message.content(), carried(message, to).is_some());
            serde_json::to_string(&written).unwrap()
        };
        let ids = messages.iter().flat_map(ids).map(str::to_owned);
        (ids.collect(), messages.iter().map(of).collect::<Vec<_>>().join(","))
    }

    /// The message of some number: a user's, a reply with calls, with reasoning or without, or the
    /// answer to one, which may be large.
    fn message(number: usize) -> Message {
        let id = format!("c{number}");
        match number % 7 {
            0 => user(&format!("u{number}")),
            1 | 4 => said("", vec![call(&id, "f", ""), call("", "f", "")]),
            3 if number > 2 * BLOCK => match said("so", vec![call(&id, "f", "")]) {
                Message::Assistant { content, calls, .. } => {
                    let reasoning = Some(Arc::new(Reasoning {
                        by: asked(),
                        message: "so".into(),
                        calls: vec![],
                    }));
                    Message::Assistant { content, calls, reasoning }
                }
                other => other,
            },
            5 if number > 4 * BLOCK => result(&id, &"r".repeat(BLOCK_BYTES_MAX)),
            _ => result(&id, "r"),
        }
    }

    #[test]
    fn what_is_written_is_what_each_message_is_written_as_and_most_is_written_once() {
        let asked = asked();
        let (mut growing, mut told) = (Messages::default(), Vec::new());
        let writes = Cell::new(0);
        for number in 0..7 * BLOCK {
            growing.extend([Arc::new(message(number))]);
            told.push(message(number));
            assert!(growing.iter().eq(&told), "{number}");
            assert!(growing.newest.len() <= 2 * BLOCK, "{number}");
            // What a turn adds for itself changes nothing for the next.
            let mut turn = growing.clone();
            turn.extend([Arc::new(user("now"))]);
            told.push(user("now"));
            let before = writes.get();
            let found = all(&turn, Some(&asked), "x", &writes);
            assert_eq!(found, expected(&told, Some(&asked), "x"), "{number}");
            assert_eq!(writes.get() - before, 2, "{number}");
            told.pop();
        }
        assert!(growing.blocks.len() > 5);
        for (to, protocol) in [(None, "x"), (Some(&asked), "y"), (None, "y"), (Some(&asked), "x")] {
            assert_eq!(
                all(&growing, to, protocol, &writes),
                expected(&told, to, protocol),
                "{to:?} {protocol}"
            );
        }
    }

    #[test]
    fn a_conversation_that_comes_whole_is_written_as_well() {
        let whole: Messages = (0..5 * BLOCK).map(|number| Arc::new(message(number))).collect();
        let told: Vec<_> = (0..5 * BLOCK).map(message).collect();
        let writes = Cell::new(0);
        for protocol in ["x", "x", "y"] {
            assert_eq!(all(&whole, None, protocol, &writes), expected(&told, None, protocol));
        }
        assert_eq!(writes.get(), 2 * told.len(), "once for each protocol");
    }
}
