//! The word with which a model says that its text is not the answer yet, and how it is kept from
//! the user.
//!
//! A model is shown its words as it wrote them. Whoever else reads them gets them by [`without`],
//! or by a [`Veil`] while they are still being written.

use wire::entry::FeedbackCode;
use wire::plan::Dialect;
use wire::{ModelReply, Reading};

use super::thinking;

/// What may stand round the word, the same on both sides or as a pair.
const PAIRS: &[(char, char)] = &[
    ('*', '*'),
    ('_', '_'),
    ('`', '`'),
    ('~', '~'),
    ('"', '"'),
    ('\'', '\''),
    ('“', '”'),
    ('(', ')'),
    ('[', ']'),
    ('<', '>'),
];

/// Takes a reply that begins with the word for a text after which the model goes on, and keeps the
/// word out of an answer that does not.
pub(super) fn reading(
    word: &str,
    dialect: Dialect,
    reading: Reading,
    reply: &ModelReply,
) -> Reading {
    match reading {
        Reading::Final { text } | Reading::Cut { text } if begins(word, &text) => {
            let said = thinking::removed(&reply.content).text;
            // An answer that is a call is told as a text, since a call would need a result.
            let text = if reply.calls.is_empty() { said.into_owned() } else { text.to_string() };
            Reading::Continued { text }
        }
        Reading::Final { text } if text.contains(word) => {
            Reading::Final { text: without(word, &text).trim().into() }
        }
        Reading::Final { text } => Reading::Final { text: text.part(text.trim()) },
        Reading::Cut { text } if text.contains(word) => {
            Reading::Cut { text: without(word, &text).trim().into() }
        }
        Reading::Fault { feedback, raw } => {
            let is_form = feedback.code == FeedbackCode::MalformedReply;
            match prose(word, dialect, reply).filter(|_| is_form) {
                Some(text) => Reading::Continued { text },
                None => Reading::Fault { feedback, raw },
            }
        }
        Reading::Thought { .. }
        | Reading::Planned(_)
        | Reading::Cut { .. }
        | Reading::Calls { .. }
        | Reading::Continued { .. } => reading,
    }
}

/// Returns a reply that is prose and begins with the word, where a dialect takes prose for a fault.
fn prose(word: &str, dialect: Dialect, reply: &ModelReply) -> Option<String> {
    match dialect {
        // What is a fault here set out to be a call.
        Dialect::Native => return None,
        Dialect::Schema | Dialect::Json | Dialect::React => {}
    }
    let text = thinking::removed(&reply.content).text;
    let said = text.strip_prefix("Thought:").unwrap_or(&text);
    let may_call = !reply.calls.is_empty() || text.contains('{') || text.contains("```");
    (begins(word, said) && !may_call).then(|| text.into_owned())
}

/// Tells whether a text begins with the word; markup may precede it.
fn begins(word: &str, text: &str) -> bool {
    let text = text.trim_start();
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        if rest.starts_with(word) {
            return stands_alone(word, text, at, None);
        }
        match rest.chars().next() {
            Some(c) if is_markup(c) => at += c.len_utf8(),
            Some(_) | None => return false,
        }
    }
}

/// Returns a text without the word where it stands by itself, and without what goes with it: the
/// markup round it, and the punctuation after it at the beginning of a line.
pub fn without(word: &str, text: &str) -> String {
    removed(word, text, None, text.len()).0
}

/// Removes the word from the part of a text that ends before `to`, where the text follows a
/// character. Returns what is left, and where in the text it ends.
fn removed(word: &str, text: &str, before: Option<char>, to: usize) -> (String, usize) {
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    let places = text.match_indices(word).map(|(at, _)| at);
    for at in places.take_while(|at| *at < to && !word.is_empty()) {
        if at < from || !stands_alone(word, text, at, before) {
            continue;
        }
        let (start, end) = grown(text, from, at, at + word.len());
        shown.push_str(text.get(from..start).unwrap_or_default());
        let rest = text.get(end..).unwrap_or_default();
        let sides = rest.chars().next().zip(shown.chars().next_back().or(before));
        // What only markup kept apart must not become one word, which could be this one again.
        if start < at
            && sides.is_some_and(|(next, last)| [next, last].iter().all(|c| c.is_alphanumeric()))
        {
            shown.push(' ');
        }
        from = end + closed(&mut shown, rest, before);
    }
    let to = to.max(from);
    shown.push_str(text.get(from..to).unwrap_or_default());
    (shown, to)
}

/// Closes the gap that the word leaves; returns how many bytes of the rest go with it.
fn closed(shown: &mut String, rest: &str, before: Option<char>) -> usize {
    let line = shown.rsplit('\n').next().unwrap_or_default();
    let is_first = line.len() < shown.len() || before.is_none_or(|c| c == '\n');
    if is_first && line.chars().all(|c| is_markup(c) || c.is_whitespace()) {
        let bare = rest.trim_start_matches(is_mark).trim_start_matches([' ', '\t']);
        let bare =
            ["- ", "– ", "— "].iter().find_map(|dash| bare.strip_prefix(dash)).unwrap_or(bare);
        let bare = if line.is_empty() { bare.strip_prefix('\n').unwrap_or(bare) } else { bare };
        return rest.len() - bare.len();
    }
    let next = rest.chars().next();
    if next.is_none_or(|c| c.is_whitespace() || is_mark(c)) {
        shown.truncate(shown.trim_end_matches([' ', '\t']).len());
    }
    match next {
        Some(c) if is_mark(c) && shown.ends_with(is_mark) => c.len_utf8(),
        Some(_) | None => 0,
    }
}

/// Widens a range over the markup that stands on both sides of it.
fn grown(text: &str, from: usize, mut start: usize, mut end: usize) -> (usize, usize) {
    loop {
        let before = text.get(from..start).and_then(|text| text.chars().next_back());
        let after = text.get(end..).and_then(|text| text.chars().next());
        match before.zip(after) {
            Some((before, after)) if PAIRS.contains(&(before, after)) => {
                start -= before.len_utf8();
                end += after.len_utf8();
            }
            Some(_) | None => return (start, end),
        }
    }
}

/// Tells whether the word at a place is one by itself and no part of a longer one.
fn stands_alone(word: &str, text: &str, at: usize, before: Option<char>) -> bool {
    let left = text.get(..at).unwrap_or_default().trim_end_matches('_');
    let right = text.get(at + word.len()..).unwrap_or_default().trim_start_matches('_');
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let joins_left =
        is_letter(word.chars().next()) && is_letter(left.chars().next_back().or(before));
    let joins_right = is_letter(word.chars().next_back()) && is_letter(right.chars().next());
    !joins_left && !joins_right
}

fn is_markup(c: char) -> bool {
    matches!(c, '#' | '>' | '-' | '•') || PAIRS.iter().any(|(open, _)| *open == c) || c == ' '
}

fn is_mark(c: char) -> bool {
    matches!(c, ':' | '.' | ',' | ';' | '!' | '-' | '–' | '—' | '…')
}

/// Keeps the word out of a text that comes in pieces.
///
/// What may be the beginning of the word, or a part of a longer one, is held back until more of
/// the text is there.
#[derive(Clone, Debug)]
pub struct Veil {
    word: String,
    held: String,
    /// The last character that was let through or removed.
    before: Option<char>,
}

impl Veil {
    /// Makes one for a word.
    pub fn new(word: impl Into<String>) -> Self {
        Self { word: word.into(), held: String::new(), before: None }
    }

    /// Takes a piece and returns what can be shown.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        self.show(self.open_from())
    }

    /// Returns what was held back, as nothing more comes.
    pub fn finish(&mut self) -> String {
        self.show(self.held.len())
    }

    fn show(&mut self, to: usize) -> String {
        let (shown, to) = removed(&self.word, &self.held, self.before, to);
        let rest = self.held.split_off(to);
        self.before = self.held.chars().next_back().or(self.before);
        self.held = rest;
        shown
    }

    /// Returns from where on it is open what the text is.
    fn open_from(&self) -> usize {
        let text = self.held.as_str();
        let whole = text.rfind(&self.word).filter(|at| {
            let after = text.get(at + self.word.len()..).unwrap_or_default();
            !after.contains(char::is_alphanumeric)
        });
        let begun = || {
            let starts = text.char_indices().map(|(at, _)| at);
            let near = starts.skip_while(|at| text.len() - at > self.word.len());
            near.into_iter().find(|at| self.word.starts_with(text.get(*at..).unwrap_or("\0")))
        };
        let from = whole.or_else(begun).unwrap_or(text.len());
        text.get(..from).map_or(from, |text| text.trim_end_matches(is_markup).len())
    }
}

#[cfg(test)]
mod tests;
