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
use super::shape::Shape;
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

/// Words before a call in prose that make it an example of one.
const EXAMPLE: &[&str] = &["example", "e.g.", "for instance", "looks like", "would be", "format"];

/// Looks for calls in what a model said.
pub(super) fn calls(text: &str, toolbox: &Toolbox) -> Holds {
    let text = payload::without_end_tokens(text);
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
            Err(fault) if is_whole => broken(&fault),
            Ok(Shape::Broken(_) | Shape::Other) | Err(_) => Holds::Prose,
        };
    }
    let mut ahead = cursor.clone();
    let is_list = ahead.take("[");
    ahead.blank();
    let Some(name) = python::called(&ahead).filter(|name| offered(name)) else {
        return named(&cursor, offered);
    };
    let mut calls = cursor;
    let read = if is_list {
        python::list(&mut calls)
    } else {
        python::call(&mut calls).map(|call| vec![call])
    };
    match read {
        Ok(found) if is_list || is_over(&calls) => holds(payload::written(found)),
        Err(fault) if is_list => broken(&fault),
        // A sentence may begin with the name of a tool and a bracket.
        Err(fault) if rest.get(name.len()..).is_some_and(|rest| rest.contains('=')) => {
            broken(&fault)
        }
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
    match ahead.value() {
        Ok(value) => {
            let written = Written {
                id: String::new(),
                name: name.to_owned(),
                arguments: Arguments::Value(value),
            };
            Holds::Calls { text: String::new(), calls: vec![written] }
        }
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
        let said = text.get(..at).unwrap_or_default();
        let before = said.to_lowercase();
        if EXAMPLE.iter().any(|word| before.contains(word)) {
            return Holds::Prose;
        }
        let start = match text.get(at..).and_then(|rest| rest.strip_prefix("Call:")) {
            Some(rest) => text.len() - rest.trim_start().len(),
            None => at,
        };
        // Outside of a fence a Python call is taken from a list or after its mark only.
        if let Holds::Calls { calls, .. } = evident(text, start, offered, false)
            && calls.iter().all(|call| toolbox.find(&call.name).is_some())
        {
            let said = said.trim_end().trim_end_matches("json").trim_end_matches('`').trim();
            return Holds::Calls { text: said.to_owned(), calls };
        }
    }
    Holds::Prose
}

fn line_starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).map(|at| {
        let rest = text.get(at..).unwrap_or_default();
        at + rest.len() - rest.trim_start_matches([' ', '\t']).len()
    })
}
