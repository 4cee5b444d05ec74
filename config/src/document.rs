//! A TOML document whose every key and value knows its place in the text.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

/// Syntax errors that are reported at once; the parser goes on after an error, and soon guesses.
const SYNTAX_ERRORS_MAX: usize = 8;

/// A parsed document.
///
/// Paths are lists of keys; an element of an array is named by its index in decimal.
pub(crate) struct Document<'a> {
    root: Spanned<DeValue<'a>>,
    /// Where elements of lists begin that are left out.
    left_out: BTreeSet<usize>,
}

impl<'a> Document<'a> {
    /// Parses a text; the errors are few and in the order of the text.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Vec<Error>> {
        let (table, mut errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            let root = Spanned::new(0..text.len(), DeValue::Table(table.into_inner()));
            return Ok(Self { root, left_out: BTreeSet::new() });
        }
        errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
        errors.truncate(SYNTAX_ERRORS_MAX);
        Err(errors)
    }

    /// Leaves out the elements of lists that begin at these places: an index counts those that are
    /// left.
    pub(crate) fn leave_out(&mut self, elements: BTreeSet<usize>) {
        self.left_out = elements;
    }

    /// Returns the whole document as one table.
    pub(crate) fn root(&self) -> &Spanned<DeValue<'a>> {
        &self.root
    }

    /// Tells whether there is something at a path.
    pub(crate) fn has(&self, path: &[&str]) -> bool {
        self.find(path).is_some()
    }

    /// Returns the keys of a table in the order of the text.
    pub(crate) fn keys(&self, path: &[&str]) -> Vec<&str> {
        match self.find(path).map(|(_, value)| value.get_ref()) {
            Some(DeValue::Table(table)) => {
                in_order(table).into_iter().map(|(key, _)| key.get_ref().as_ref()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the texts in a list.
    pub(crate) fn texts(&self, path: &[&str]) -> Vec<&str> {
        match self.find(path).map(|(_, value)| value.get_ref()) {
            Some(DeValue::Array(array)) => {
                array.iter().filter_map(|element| element.get_ref().as_str()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the place of the key at a path, or of the nearest key above it.
    pub(crate) fn key_span(&self, path: &[&str]) -> Option<Range<usize>> {
        (1..=path.len()).rev().find_map(|len| self.find(path.get(..len)?)?.0)
    }

    /// Returns the place of the value at a path, or of the nearest key above it.
    pub(crate) fn value_span(&self, path: &[&str]) -> Option<Range<usize>> {
        match self.find(path) {
            Some((_, value)) => Some(value.span()),
            None => self.key_span(path),
        }
    }

    fn find(&self, path: &[&str]) -> Option<(Option<Range<usize>>, &Spanned<DeValue<'a>>)> {
        path.iter().try_fold((None, &self.root), |(_, value), step| match value.get_ref() {
            DeValue::Table(table) => {
                let (key, value) = table.iter().find(|(key, _)| key.get_ref().as_ref() == *step)?;
                Some((Some(key.span()), value))
            }
            DeValue::Array(array) => {
                let is_there = |element: &&Spanned<DeValue<'a>>| {
                    !self.left_out.contains(&element.span().start)
                };
                Some((None, array.iter().filter(is_there).nth(step.parse().ok()?)?))
            }
            _ => None,
        })
    }
}

/// Returns the entries of a table in the order of the text.
pub(crate) fn in_order<'t, 'a>(
    table: &'t DeTable<'a>,
) -> Vec<(&'t Spanned<std::borrow::Cow<'a, str>>, &'t Spanned<DeValue<'a>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "[models.b]\nscript = 'x'\n[models.a]\n[agents.lead]\ntools = ['one', 'two']\n";

    #[test]
    fn finds_places() {
        let document = Document::parse(TEXT).unwrap();
        for (path, key, value) in [
            (&["models", "b", "script"][..], "script", "'x'"),
            (&["models", "b"], "b", "[models.b]"),
            (&["agents", "lead", "tools", "1"], "tools", "'two'"),
            (&["agents", "lead", "absent"], "lead", "lead"),
            (&["agents", "lead", "tools", "2"], "tools", "tools"),
        ] {
            assert_eq!(TEXT.get(document.key_span(path).unwrap()).unwrap(), key, "{path:?}");
            assert_eq!(TEXT.get(document.value_span(path).unwrap()).unwrap(), value, "{path:?}");
        }
        assert_eq!(document.key_span(&["nothing"]), None);
        assert_eq!(document.keys(&["models"]), ["b", "a"]);
        assert!(document.has(&["models", "a"]) && !document.has(&["models", "c"]));
    }

    #[test]
    fn reports_several_syntax_errors_in_order() {
        let errors = Document::parse("a = \nb = 1\nb = 2\nc = [1,\n").err().unwrap();
        assert!(errors.len() >= 2, "{errors:?}");
        assert!(errors.len() <= SYNTAX_ERRORS_MAX);
    }
}
