//! Takes apart a reply in channels, where the server did not: models that write so think, speak and
//! call in messages of their own, each with a head that names its channel.

use std::borrow::Cow;

use super::super::payload::MARKS;
use super::place::{self, Data, Held};

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
const END: &str = "<|end|>";

/// The author of what the model writes.
const ASSISTANT: &str = "assistant";

/// The authors of what a model that goes on for others makes up.
const OTHERS: [&str; 5] = ["user", "system", "developer", "tool", "functions"];

/// The most messages that are told apart. A reply has few, and each may be read to the end.
const MESSAGES_MAX: usize = 64;

/// The most characters of a head after the name of its channel; more is prose that speaks of one.
const HEAD_CHARS_MAX: usize = 200;

/// What the messages of a reply say.
pub(super) struct Said<'a> {
    /// The answer, or what was told meanwhile; a call as it was written, with all that follows it.
    pub(super) text: Cow<'a, str>,
    /// The reply ended inside a thought.
    pub(super) cut: bool,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Thinking, which is said to nobody.
    Thought,
    /// What is told before a call.
    Aside,
    Answer,
    Call,
    /// What is not the model's to write.
    Invented,
}

/// The head of a message.
#[derive(Clone, Copy)]
struct Head {
    kind: Kind,
    /// Where it begins.
    at: usize,
    /// Where the message begins, or the mark of a call.
    end: usize,
}

/// Returns what a reply says, if it is one in channels: the last answer, or else what was told
/// meanwhile. A call ends it.
pub(super) fn said(text: &str) -> Option<Said<'_>> {
    if !text.contains(CHANNEL) && !text.contains(START) {
        return None;
    }
    let mut heads = Heads { text, data: Data::new(text) };
    let mut head = heads.next(0, Kind::Aside)?;
    let mut told = String::new();
    let before = text.get(..head.at).unwrap_or_default().trim();
    // What ends a message that began in the prompt was a thought.
    if !before.ends_with(END) {
        told.push_str(before);
    }
    let (mut answer, mut cut) = (None, false);
    for _ in 0..MESSAGES_MAX {
        let next = match head.kind {
            Kind::Call => {
                let call = text.get(head.end..).unwrap_or_default();
                let told = answer.map_or(told, str::to_owned);
                let text = if told.is_empty() { call.into() } else { (told + call).into() };
                return Some(Said { text, cut: false });
            }
            Kind::Invented => break,
            Kind::Thought | Kind::Aside | Kind::Answer => heads.next(head.end, head.kind),
        };
        let end = next.map_or(text.len(), |next| next.at);
        let body = super::without_end_tokens(text.get(head.end..end).unwrap_or_default().trim());
        cut = head.kind == Kind::Thought;
        match head.kind {
            Kind::Answer => answer = Some(body),
            Kind::Aside => {
                let gap = if told.is_empty() || body.is_empty() { "" } else { "\n" };
                told.extend([gap, body]);
            }
            Kind::Thought | Kind::Call | Kind::Invented => {}
        }
        let Some(next) = next else { break };
        head = next;
    }
    Some(match answer {
        Some(answer) => Said { text: answer.into(), cut: false },
        None => Said { text: told.into(), cut },
    })
}

/// Finds the heads of messages.
struct Heads<'a> {
    text: &'a str,
    data: Data<'a>,
}

impl Heads<'_> {
    /// Finds the next head that is used. In a message that is said, one in quotes is spoken of and
    /// one in an object is data. In a thought, whose quotes and objects may be odd, one right after
    /// the end of a message is used in any case.
    fn next(&mut self, from: usize, inside: Kind) -> Option<Head> {
        let rest = self.text.get(from..)?;
        let quotes = place::quotes(rest, &[START, CHANNEL, MESSAGE, END]);
        let mut at = from;
        loop {
            at += self.text.get(at..)?.find(['<', '{'])?;
            let before = self.text.get(from..at).unwrap_or_default();
            let is_thought = inside == Kind::Thought;
            if let Some(head) = head(self.text, at) {
                let is_ended = is_thought && before.trim_end().ends_with(END);
                if is_ended || place::quote(&quotes, at - from).is_none() {
                    return Some(head);
                }
            } else if !is_thought {
                match self.data.held(at) {
                    Held::Data { end } => {
                        at = end;
                        continue;
                    }
                    Held::Broken if place::is_opening(before) => return None,
                    Held::Broken | Held::Nothing => {}
                }
            }
            at += 1;
        }
    }
}

/// Reads the head that begins at a byte.
fn head(text: &str, at: usize) -> Option<Head> {
    let rest = text.get(at..)?;
    let is_head = rest.starts_with(START) || rest.starts_with(CHANNEL);
    if is_head && MARKS.iter().any(|mark| rest.starts_with(mark)) {
        return Some(Head { kind: Kind::Call, at, end: at });
    }
    let Some(author) = rest.strip_prefix(START) else {
        let channel = rest.strip_prefix(CHANNEL)?;
        let name = channel.split(|c: char| !c.is_alphanumeric()).next()?;
        let kind = match name {
            "analysis" => Kind::Thought,
            "commentary" => Kind::Aside,
            "final" => Kind::Answer,
            _ => return None,
        };
        return end(text, at + CHANNEL.len() + name.len()).map(|end| Head { kind, at, end });
    };
    let Some(after) = author.strip_prefix(ASSISTANT) else {
        let name = OTHERS.iter().find(|name| author.starts_with(**name))?;
        let end = end(text, at + START.len() + name.len())?;
        return Some(Head { kind: Kind::Invented, at, end });
    };
    let after_author = text.len() - after.len();
    if after.starts_with(CHANNEL) {
        return head(text, after_author).map(|head| Head { at, ..head });
    }
    end(text, after_author).map(|end| Head { kind: Kind::Aside, at, end })
}

/// Returns where a head ends of which the names are read. One that the text ends in has no message.
fn end(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    if rest.trim().is_empty() {
        return Some(text.len());
    }
    let most = rest.char_indices().nth(HEAD_CHARS_MAX).map_or(rest.len(), |(most, _)| most);
    let (names, _) = rest.get(..most)?.split_once(MESSAGE)?;
    let is_prose = ["\n", "`", START, CHANNEL, END].iter().any(|it| names.contains(it));
    (!is_prose).then_some(from + names.len() + MESSAGE.len())
}
