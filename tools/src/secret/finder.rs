//! Finds secrets in texts, and what may yet become one.

use aho_corasick::{AhoCorasick, BuildError, MatchKind};

/// What stands in a text where a secret was.
pub(super) const MARK: &str = "[secret]";

/// Looks for all forms of all known secrets at once.
pub(super) struct Finder {
    automaton: AhoCorasick,
    /// In their order.
    forms: Vec<String>,
    /// For each first byte, and one more, how many forms begin with a lower one.
    lower: Vec<usize>,
    /// Bytes of the longest form.
    longest: usize,
}

impl Finder {
    /// Makes one for some forms. It fails only if there are more than numbers for them.
    pub(super) fn new(forms: impl IntoIterator<Item = String>) -> Result<Self, BuildError> {
        let mut forms: Vec<String> = forms.into_iter().collect();
        forms.sort_unstable();
        forms.dedup();
        let automaton =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&forms)?;
        let first = |form: &String| form.bytes().next().map_or(0, usize::from);
        let below = |byte| forms.partition_point(|form| first(form) < byte);
        let lower = (0..=256).map(below).collect();
        let longest = forms.iter().map(String::len).max().unwrap_or_default();
        Ok(Self { automaton, forms, lower, longest })
    }

    /// Tells whether there is any in a text.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.automaton.is_match(text)
    }

    /// Returns a text with marks in place of what was found.
    pub(super) fn without(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut end = 0;
        for found in self.automaton.find_iter(text) {
            let before = text.get(end..found.start()).unwrap_or_default();
            // The halves of a secret that was cut in the middle are one place.
            if !(before.is_empty() && clean.ends_with(MARK)) {
                clean.push_str(before);
                clean.push_str(MARK);
            }
            end = found.end();
        }
        clean.push_str(text.get(end..).unwrap_or_default());
        clean
    }

    /// Returns how far a text can be cleaned before it is known what follows it: up to what may be
    /// the beginning of a form, and to no place within another.
    pub(super) fn settled(&self, text: &str) -> usize {
        let near = text.len().saturating_sub(self.longest.saturating_sub(1));
        let near = text.ceil_char_boundary(near);
        let starts = text.get(near..).unwrap_or_default().char_indices().map(|(at, _)| near + at);
        let mut begun = starts.filter(|at| self.is_begun(text.get(*at..).unwrap_or_default()));
        let Some(begun) = begun.next() else { return text.len() };
        let mut before = self.automaton.find_iter(text).take_while(|found| found.start() < begun);
        before.find(|found| found.end() > begun).map_or(begun, |across| across.start())
    }

    /// Tells whether a form begins with a text and goes on after it.
    fn is_begun(&self, text: &str) -> bool {
        let Some(first) = text.bytes().next().map(usize::from) else { return false };
        let bounds = self.lower.get(first).zip(self.lower.get(first + 1));
        let forms = bounds.and_then(|(from, to)| self.forms.get(*from..*to)).unwrap_or_default();
        let next = forms.get(forms.partition_point(|form| form.as_str() <= text));
        next.is_some_and(|form| form.starts_with(text))
    }
}

impl std::fmt::Debug for Finder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finder").field("forms", &self.forms.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_settled_up_to_what_may_become_a_secret() {
        let forms = ["abcdef", "abcdefghij", "secret-ef", "efxyz1", "öäü-12"];
        let finder = Finder::new(forms.map(str::to_owned)).unwrap();
        let cases = [
            ("", ""),
            ("hello", "hello"),
            ("hello a", "hello "),
            ("hello abcd", "hello "),
            ("hello abcx", "hello abcx"),
            // One that is whole may be the beginning of a longer one.
            ("abcdef", ""),
            ("abcdefgh!", "abcdefgh!"),
            ("abcdefghij", "abcdefghij"),
            // The end of one may be the beginning of another.
            ("a secret-ef", "a "),
            ("a secret-efx", "a "),
            ("a secret-efxy.", "a secret-efxy."),
            ("secret-ef efxyz1", "secret-ef efxyz1"),
            ("ää ö", "ää "),
            ("ä öäü-1", "ä "),
            ("öä öä", "öä "),
        ];
        for (text, settled) in cases {
            assert_eq!(text.split_at(finder.settled(text)).0, settled, "{text:?}");
        }
        let none = Finder::new([]).unwrap();
        assert_eq!((none.settled("a"), none.is_match("a")), (1, false));
    }
}
