//! Finds the calls that a model wrote into its text, where its server did not recognise them.
//!
//! A mark (`<tool_call>`, `[TOOL_CALLS]`, `<function=..>` and their like) says that a call is
//! meant, so what follows it is a call or a fault. Without a mark a call has to be evident: JSON or
//! Python that is the whole text, a fence or a line of its own, and names a tool that is offered.
//! Prose that speaks of calls is prose.

use super::calls::{Arguments, Written};
use super::extract::{self, TRIES_MAX};
use super::lenient::{self, Cursor};
use super::payload::{self, MARKS, Payload};
use super::python;
use super::shape::{self, Shape};
use crate::validate::Toolbox;

/// What a text holds.
pub(super) enum Holds {
    /// No call.
    Prose,
    /// Calls, at least one, and what was said before them.
    Calls { text: String, calls: Vec<Written> },
    /// A call that cannot be read, and why.
    Broken { why: String, is_cut: bool },
}

/// Words right before a call in prose that make it an example of one.
const EXAMPLE: &[&str] = &["example", "examples", "e.g.", "for instance", "format"];

/// Words that do so at the end of a sentence, whatever they mean inside of one.
const EXAMPLE_ENDS: &[&str] = &["looks like", "look like", "would be"];

/// Looks for calls in what a model said.
pub(super) fn calls(text: &str, toolbox: &Toolbox) -> Holds {
    let offered = |name: &str| toolbox.find(name).is_some();
    if let Some((at, end)) = mark(text) {
        let said = text.get(..at).unwrap_or_default();
        return match payload::read(text, end, &offered) {
            Payload::Calls(calls) => Holds::Calls { text: said.trim().to_owned(), calls },
            Payload::Broken { why, is_cut } => Holds::Broken { why, is_cut },
        };
    }
    let first = extract::fences(text).next().filter(|_| text.starts_with("``"));
    match evident(text, first.unwrap_or(0), &offered, true) {
        Holds::Prose => {}
        found => return found,
    }
    within(text, toolbox, &offered)
}

/// Finds the first mark that is followed by what may be a call.
fn mark(text: &str) -> Option<(usize, usize)> {
    let places = MARKS.iter().flat_map(|mark| text.match_indices(mark).take(TRIES_MAX));
    let mut places: Vec<(usize, usize)> = places.map(|(at, mark)| (at, at + mark.len())).collect();
    places.sort_by_key(|(at, end)| (*at, std::cmp::Reverse(*end)));
    places.into_iter().find(|(at, end)| {
        let before = text.get(..*at).unwrap_or_default();
        let after = text.get(*end..).unwrap_or_default();
        // A mark in backticks is spoken of, not used.
        let opens = before.ends_with('`') && !before.ends_with("``");
        let closes = after.starts_with('`') && !after.starts_with("``");
        !opens && !closes
    })
}

/// Reads a place where nothing but calls may stand.
fn evident(text: &str, at: usize, offered: &dyn Fn(&str) -> bool, is_whole: bool) -> Holds {
    let cursor = Cursor::new(text, at, 1);
    let rest = cursor.rest();
    let holds = |calls: Vec<Written>| Holds::Calls { text: String::new(), calls };
    // What cannot be read is a call only if it says so: else it is an answer in its own notation.
    let broken = |fault: &lenient::Fault| Holds::Broken {
        why: format!("it looks like a call, but {fault}"),
        is_cut: fault.is_cut,
    };
    if extract::is_object_like(text, at)
        || rest.strip_prefix('[').is_some_and(|rest| {
            let skipped = rest.len() - rest.trim_start().len();
            extract::is_object_like(text, at + 1 + skipped)
        })
    {
        return match payload::unmarked(text, at, offered) {
            Ok(Shape::Calls(calls)) => {
                if is_whole || calls.iter().all(|call| offered(&call.name)) {
                    holds(calls)
                } else {
                    Holds::Prose
                }
            }
            Ok(Shape::Broken(why)) if is_whole => {
                Holds::Broken { why: why.to_owned(), is_cut: false }
            }
            Err(fault) if is_whole && shape::names(rest, offered) => broken(&fault),
            Ok(Shape::Broken(_) | Shape::Other) | Err(_) => Holds::Prose,
        };
    }
    let mut ahead = cursor.clone();
    let is_list = ahead.take("[");
    ahead.blank();
    if python::called(&ahead).is_none_or(|name| !offered(name)) {
        return named(&cursor, offered);
    }
    let mut calls = cursor;
    let read = if is_list {
        python::list(&mut calls)
    } else {
        python::call(&mut calls).map(|call| vec![call])
    };
    match read {
        Ok(found) if is_list || is_over(&calls) => holds(payload::written(found)),
        Err(fault) if python::names(&ahead) => broken(&fault),
        Ok(_) | Err(_) => Holds::Prose,
    }
}

/// Tells whether a call is followed by nothing, by the end of its fence, or by another line.
fn is_over(cursor: &Cursor<'_>) -> bool {
    let rest = cursor.rest().trim_start_matches([' ', ';']);
    rest.is_empty() || rest.starts_with('\n') || rest.starts_with("``") || rest.starts_with('<')
}

/// Reads `name{..}` at the start of a text.
fn named(cursor: &Cursor<'_>, offered: &dyn Fn(&str) -> bool) -> Holds {
    let mut ahead = cursor.clone();
    let name = ahead.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    ahead.blank();
    if name.is_empty() || !offered(name) || ahead.peek() != Some('{') {
        return Holds::Prose;
    }
    let is_quoted = ahead.rest().get(1..).is_some_and(|rest| rest.trim_start().starts_with('"'));
    match ahead.value() {
        Ok(value) => {
            let written = Written {
                id: String::new(),
                name: name.to_owned(),
                arguments: Arguments::Value(value),
            };
            Holds::Calls { text: String::new(), calls: vec![written] }
        }
        // Sets and blocks of code have their braces behind a word as well.
        Err(_) if !is_quoted => Holds::Prose,
        Err(fault) => Holds::Broken {
            why: format!("the arguments cannot be read: {fault}"),
            is_cut: fault.is_cut,
        },
    }
}

/// Looks for a call that stands by itself inside of prose.
fn within(text: &str, toolbox: &Toolbox, offered: &dyn Fn(&str) -> bool) -> Holds {
    let lines = line_starts(text).filter(|at| {
        let rest = text.get(*at..).unwrap_or_default();
        rest.starts_with(['{', '[']) || rest.starts_with("Call:")
    });
    let after_colon = text.match_indices(": {").map(|(at, colon)| at + colon.len() - 1);
    let mut places: Vec<usize> =
        extract::fences(text).chain(lines).chain(after_colon).take(TRIES_MAX).collect();
    places.sort_unstable();
    for at in places {
        let said = unopened(text.get(..at).unwrap_or_default());
        let start = match text.get(at..).and_then(|rest| rest.strip_prefix("Call:")) {
            Some(rest) => text.len() - rest.trim_start().len(),
            None => at,
        };
        // Outside of a fence a Python call is taken from a list or after its mark only.
        if let Holds::Calls { calls, .. } = evident(text, start, offered, false)
            && calls.iter().all(|call| toolbox.find(&call.name).is_some())
        {
            if is_example(said) {
                return Holds::Prose;
            }
            return Holds::Calls { text: said.to_owned(), calls };
        }
    }
    Holds::Prose
}

/// Returns what was said before a call without the fence that opens there.
fn unopened(said: &str) -> &str {
    let said = said.trim();
    let opened =
        said.trim_end_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '+'));
    let is_fence = ["``", "~~~"].iter().any(|mark| opened.ends_with(mark));
    if is_fence { opened.trim_end_matches(['`', '~']).trim_end() } else { said }
}

/// Tells whether the sentence before a call, or the line above its list, presents an example.
fn is_example(said: &str) -> bool {
    let mut lines = said.lines().rev().filter(|line| !line.trim().is_empty());
    let last = lines.next().unwrap_or_default();
    let is_item = |line: &str| {
        let bare = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        [". ", ") ", "- ", "* "].iter().any(|mark| bare.starts_with(mark))
    };
    let above = if is_item(last) { lines.find(|line| !is_item(line)) } else { None };
    [Some(sentence(last)), above].into_iter().flatten().any(|said| {
        let said = said.to_lowercase();
        let end = said.trim_end_matches([':', ' ', '*', '.']);
        let end =
            ["this", "as follows"].iter().find_map(|word| end.strip_suffix(word)).unwrap_or(end);
        EXAMPLE.iter().any(|word| speaks_of(&said, word))
            || EXAMPLE_ENDS.iter().any(|words| end.trim_end().ends_with(words))
    })
}

/// Returns the last sentence of a line.
fn sentence(line: &str) -> &str {
    let line = line.trim();
    let begins = |(at, mark): (usize, &str)| {
        let rest = line.get(at + mark.len()..)?;
        // What goes on in small letters is the same sentence after an abbreviation.
        rest.starts_with(|c: char| !c.is_lowercase()).then_some(rest)
    };
    let ends = [". ", "! ", "? "].into_iter().flat_map(|mark| line.match_indices(mark));
    ends.filter_map(begins).min_by_key(|rest| rest.len()).unwrap_or(line)
}

/// Tells whether a text has a word by itself, which is no part of another word or of an address.
fn speaks_of(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '@');
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        let after = text.get(at + word.len()..).unwrap_or_default();
        let goes_on = after.strip_prefix('.').is_some_and(|rest| rest.starts_with(is_part));
        !before.ends_with(|c| is_part(c) || c == '.') && !after.starts_with(is_part) && !goes_on
    })
}

fn line_starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).map(|at| {
        let rest = text.get(at..).unwrap_or_default();
        at + rest.len() - rest.trim_start_matches([' ', '\t']).len()
    })
}

#[cfg(test)]
mod tests;
