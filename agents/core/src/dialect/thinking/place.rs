//! Tells where a tag is not used but spoken of, or is data.

use std::ops::Range;

use super::super::extract::{self, TRIES_MAX};
use super::super::lenient::Cursor;

const FENCE: &str = "```";

/// What begins and ends a parameter of a call that is written in tags.
const PARAMETERS: [(&str, &str); 4] = [
    ("<parameter", "</parameter>"),
    ("<arg_value>", "</arg_value>"),
    ("<｜DSML｜parameter", "</｜DSML｜parameter>"),
    ("<｜｜DSML｜｜parameter", "</｜｜DSML｜｜parameter>"),
];

/// The brackets that may be missing at the end of an object whose strings are looked for.
const SPARE: usize = 2;

/// What begins at a byte.
pub(super) enum Held {
    /// Data up to another byte, whose tags are no thinking.
    Data { end: usize },
    /// An object that cannot be read.
    Broken,
    /// Nothing that holds data.
    Nothing,
}

/// Finds what holds data.
pub(super) struct Data<'a> {
    text: &'a str,
    /// How many places may still be tried in vain: each may be read to the end of the text.
    tries: usize,
}

impl<'a> Data<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, tries: TRIES_MAX }
    }

    pub(super) fn held(&mut self, at: usize) -> Held {
        let rest = self.text.get(at..).unwrap_or_default();
        let parameter = PARAMETERS.iter().find(|(open, _)| rest.starts_with(open));
        if self.tries == 0 || parameter.is_none() && !rest.starts_with('{') {
            return Held::Nothing;
        }
        let held = match parameter {
            Some((open, close)) => {
                let length = rest.find(close).filter(|length| {
                    // Where another one begins, this one is spoken of and has no end.
                    rest.get(open.len()..*length).is_some_and(|inside| !inside.contains(open))
                });
                length.map_or(Held::Nothing, |length| Held::Data { end: at + length })
            }
            None if extract::is_object_like(self.text, at) => {
                let mut cursor = Cursor::new(self.text, at, SPARE);
                cursor.value().map_or(Held::Broken, |_| Held::Data { end: cursor.at() })
            }
            None => Held::Nothing,
        };
        match held {
            Held::Data { .. } => {}
            Held::Broken | Held::Nothing => self.tries -= 1,
        }
        held
    }
}

/// Tells whether a text is nothing, or the line that opens a fence.
pub(super) fn is_opening(said: &str) -> bool {
    let said = said.trim();
    said.is_empty() || extract::fences(said).any(|at| at == said.len() && said.starts_with("``"))
}

/// Finds what stands in fences, and in backticks if one of the tags is at its border: a longer text
/// between two backticks of a line may as well be what is not quoted.
pub(super) fn quotes(text: &str, tags: &[&str]) -> Vec<Range<usize>> {
    let mut quotes = Vec::new();
    let mut fence = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let marked = line.trim().strip_prefix(FENCE);
        match (fence, marked) {
            (Some(start), Some(rest)) if rest.trim_matches('`').is_empty() => {
                quotes.push(start..at);
                fence = None;
            }
            (None, Some(rest)) if !rest.contains('`') => fence = Some(at),
            (None, _) => spans(line, at, tags, &mut quotes),
            (Some(_), _) => {}
        }
        at += line.len();
    }
    quotes
}

/// Finds what stands in one or two backticks of a line that begins at a byte.
fn spans(line: &str, at: usize, tags: &[&str], quotes: &mut Vec<Range<usize>>) {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (tick, _) in line.match_indices('`') {
        match runs.last_mut() {
            Some(run) if run.end == tick => run.end += 1,
            _ => runs.push(tick..tick + 1),
        }
    }
    let mut runs = runs.as_slice();
    while let Some((opens, later)) = runs.split_first() {
        runs = later;
        if opens.len() >= FENCE.len() {
            continue;
        }
        let Some(index) = later.iter().position(|run| run.len() == opens.len()) else { continue };
        let Some((closes, rest)) = later.get(index..).and_then(<[_]>::split_first) else {
            continue;
        };
        let inside = line.get(opens.end..closes.start).unwrap_or_default().trim();
        if tags.iter().any(|tag| inside.starts_with(tag) || inside.ends_with(tag)) {
            quotes.push(at + opens.end..at + closes.start);
        }
        runs = rest;
    }
}

/// Returns the quote that a byte stands in.
pub(super) fn quote(quotes: &[Range<usize>], at: usize) -> Option<&Range<usize>> {
    let next = quotes.partition_point(|quote| quote.end <= at);
    quotes.get(next).filter(|quote| quote.contains(&at))
}
