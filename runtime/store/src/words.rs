//! Cuts texts into the words that memory is searched by.

use std::collections::BTreeMap;

/// The longest word, in bytes, so that a key stays small; what is longer is cut.
const WORD_BYTES_MAX: usize = 64;

/// Counts the words of a text: runs of letters and digits, in lower case.
///
/// Stops at `max` different words. A change here needs a new schema number, because the words of
/// a fact are found again by cutting its text again.
pub(crate) fn count(text: &str, max: usize) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        let mut word = run.to_lowercase();
        word.truncate(word.floor_char_boundary(WORD_BYTES_MAX));
        if counts.len() >= max && !counts.contains_key(&word) {
            break;
        }
        *counts.entry(word).or_insert(0) += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        let long = "ä".repeat(100);
        let cut = "ä".repeat(32);
        let cases: [(&str, &[(&str, u32)]); 6] = [
            ("", &[]),
            (" -- \0 !", &[]),
            ("The cat, the CAT.", &[("cat", 2), ("the", 2)]),
            ("user_id=42", &[("42", 1), ("id", 1), ("user", 1)]),
            ("Zürich Ελλάδα", &[("zürich", 1), ("ελλάδα", 1)]),
            (&long, &[(&cut, 1)]),
        ];
        for (text, expected) in cases {
            let counted = count(text, 100);
            let counted: Vec<(&str, u32)> = counted.iter().map(|(w, n)| (w.as_str(), *n)).collect();
            assert_eq!(counted, expected, "{text:?}");
        }
        assert_eq!(count("a b a c", 2).len(), 2);
    }
}
