//! Removes what is no part of a reply: the thinking that some models write into their text, what
//! they put round the rest, and the tokens that end it.

use std::borrow::Cow;
use std::ops::Range;

mod channels;
mod place;

use place::{Data, Held};

/// What begins a thought and what ends it, in the words of the models that write theirs into the
/// text. Those that think in channels are told apart by [`channels`].
const THOUGHTS: [(&str, &str); 8] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<｜begin▁of▁thinking｜>", "<｜end▁of▁thinking｜>"),
];

/// What some models put round all that they say.
const WRAPPERS: [(&str, &str); 2] =
    [("<|START_RESPONSE|>", "<|END_RESPONSE|>"), ("<response>", "</response>")];

/// Tokens of chat templates that end a reply and some servers leave in.
const END_TOKENS: &[&str] = &[
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|eos|>",
    "<end_of_turn>",
    "<turn|>",
    "<seed:eos>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
    STRUCK,
];

/// The token that is also a tag of HTML.
const STRUCK: &str = "</s>";

/// A text without its thinking.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spoken<'a> {
    /// What is left, trimmed.
    pub(super) text: Cow<'a, str>,
    /// A thinking block was never closed, so the reply ended inside it.
    pub(super) cut: bool,
}

impl<'a> Spoken<'a> {
    /// Joins what was said before a thought and after it, which is no copy if one of them is blank.
    fn new(mut before: String, after: &'a str, is_after_thought: bool, cut: bool) -> Self {
        if before.trim().is_empty() {
            return Self { text: bare(after, is_after_thought).into(), cut };
        }
        before.push_str(after);
        Self { text: bare(&before, is_after_thought).to_owned().into(), cut }
    }
}

/// Returns what a text says, without what its model puts round that.
fn bare(text: &str, is_after_thought: bool) -> &str {
    unwrapped(without_end_tokens(text.trim()), is_after_thought)
}

/// Removes thinking blocks, and the tokens that end the reply. A closing tag without an opening one
/// drops all that precedes it, since chat templates often write the opening tag themselves.
///
/// A tag in backticks or in a fence is spoken of, not used, and one in an object or in the tags of
/// a parameter is data. Of a reply that begins with an object nothing is removed if the object cannot
/// be read: which of its tags are data cannot be told then.
pub(super) fn removed(text: &str) -> Spoken<'_> {
    let Some(said) = channels::said(text) else { return outside_of_tags(text) };
    let spoken = match said.text {
        Cow::Borrowed(text) => outside_of_tags(text),
        Cow::Owned(text) => {
            let Spoken { text, cut } = outside_of_tags(&text);
            Spoken { text: text.into_owned().into(), cut }
        }
    };
    Spoken { cut: spoken.cut || said.cut, ..spoken }
}

fn outside_of_tags(text: &str) -> Spoken<'_> {
    let tags = Tags::of(text);
    let mut data = Data::new(text);
    let mut before = String::new();
    // What is said goes on from a byte, and is read up to another.
    let (mut from, mut at) = (0, 0);
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let Some(next) = rest.find(['<', '{', '[']).filter(|_| !tags.thoughts.is_empty()) else {
            return Spoken::new(before, text.get(from..).unwrap_or_default(), from > 0, false);
        };
        at += next;
        let said = text.get(from..at).unwrap_or_default();
        let is_first = || before.trim().is_empty() && place::is_opening(said);
        let tag = match data.held(at) {
            Held::Data { end } => {
                at = end;
                continue;
            }
            Held::Broken if is_first() => {
                at = text.len();
                continue;
            }
            Held::Broken | Held::Nothing => tags.used(at),
        };
        match tag {
            Some(Tag::Open(thought)) => {
                let Some(after) = thought.end_after(at + thought.open.len()) else {
                    return Spoken::new(before, said, from > 0, true);
                };
                before.push_str(said);
                (from, at) = (after, after);
            }
            Some(Tag::Close(thought)) => {
                before.clear();
                at += thought.close.len();
                from = at;
            }
            None => at += 1,
        }
    }
}

/// A tag that is used.
enum Tag<'t> {
    Open(&'t Thought),
    Close(&'t Thought),
}

/// Where the tags of thoughts stand in a text.
struct Tags {
    thoughts: Vec<Thought>,
    quotes: Vec<Range<usize>>,
}

/// Where the tags of one kind of thought stand.
struct Thought {
    open: &'static str,
    close: &'static str,
    opens: Vec<usize>,
    closes: Vec<usize>,
    /// Those that close a thought, and are not just spoken of.
    used: Vec<usize>,
}

impl Tags {
    fn of(text: &str) -> Self {
        // Every tag begins with one of these, and most replies have neither.
        if !text.contains(['<', '[']) {
            return Self { thoughts: Vec::new(), quotes: Vec::new() };
        }
        let places = |tag| text.match_indices(tag).map(|(at, _)| at).collect::<Vec<usize>>();
        let mut thoughts: Vec<Thought> = THOUGHTS
            .map(|(open, close)| {
                let (opens, closes) = (places(open), places(close));
                Thought { open, close, opens, closes, used: Vec::new() }
            })
            .into_iter()
            .filter(|it| !it.opens.is_empty() || !it.closes.is_empty())
            .collect();
        let tags: Vec<&str> = thoughts.iter().flat_map(|it| [it.open, it.close]).collect();
        let quotes = if tags.is_empty() { Vec::new() } else { place::quotes(text, &tags) };
        for thought in &mut thoughts {
            let closes = thought.closes.iter().copied();
            thought.used = closes.filter(|at| thought.is_closed(*at, text, &quotes)).collect();
        }
        Self { thoughts, quotes }
    }

    /// Returns the tag at a byte, unless it is spoken of.
    fn used(&self, at: usize) -> Option<Tag<'_>> {
        let is_at = |places: &[usize]| places.binary_search(&at).is_ok();
        let thought = self.thoughts.iter().find(|it| is_at(&it.opens) || is_at(&it.used))?;
        if is_at(&thought.used) {
            return Some(Tag::Close(thought));
        }
        place::quote(&self.quotes, at).is_none().then_some(Tag::Open(thought))
    }
}

impl Thought {
    /// Tells whether the closing tag at a byte is used. Where nothing opens it, what looks like its
    /// quote may be made of odd backticks in the thought and in what comes after it.
    fn is_closed(&self, at: usize, text: &str, quotes: &[Range<usize>]) -> bool {
        let Some(quote) = place::quote(quotes, at) else { return true };
        let is_first = text.get(quote.start..at).is_some_and(|text| text.trim().is_empty());
        let next = self.opens.partition_point(|open| *open < quote.start);
        let is_opened = self.opens.get(next).is_some_and(|open| *open < at);
        !is_first && !is_opened
    }

    /// Returns where a thought ends that goes on at a byte. Backticks that are odd in it must not
    /// hide its end.
    fn end_after(&self, from: usize) -> Option<usize> {
        let first = |places: &[usize]| places.get(places.partition_point(|at| *at < from)).copied();
        first(&self.used).or_else(|| first(&self.closes)).map(|at| at + self.close.len())
    }
}

/// Removes what a model put round all that it says, which may lack its end. A tag that is an answer's
/// as well is one of these only behind a thought.
fn unwrapped(text: &str, is_after_thought: bool) -> &str {
    let is_wrapper = |open: &str| is_after_thought || open.starts_with("<|");
    let inside = WRAPPERS.iter().filter(|(open, _)| is_wrapper(open)).find_map(|(open, close)| {
        let inside = text.strip_prefix(open)?;
        Some(inside.strip_suffix(close).unwrap_or(inside).trim())
    });
    inside.unwrap_or(text)
}

/// Removes the tokens that end a reply from a text that is trimmed.
fn without_end_tokens(mut text: &str) -> &str {
    let is_html = text.contains("<s>");
    let ends = |token: &&&str| **token != STRUCK || !is_html;
    while let Some(shorter) =
        END_TOKENS.iter().filter(ends).find_map(|token| text.strip_suffix(token))
    {
        text = shorter.trim_end();
    }
    text
}

#[cfg(test)]
mod tests;
