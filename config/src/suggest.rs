//! Finds the known word that an unknown one was probably meant to be.

/// Characters of the longest word that is compared, so that a hostile key costs nothing.
const WORD_CHARS_MAX: usize = 64;

/// Returns the known word nearest to `word`, if it is near enough to be a slip of the hand.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().count();
    if letters == 0 || letters > WORD_CHARS_MAX {
        return None;
    }
    let allowed = letters.div_ceil(3);
    known
        .into_iter()
        .filter(|candidate| *candidate != word)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(steps, candidate)| *steps <= allowed && *steps < candidate.chars().count())
        .min_by_key(|(steps, _)| *steps)
        .map(|(_, candidate)| candidate)
}

/// Counts the letters to insert, delete or replace to make one word from the other, without case.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.to_lowercase().chars().enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(&to) {
            let above = *cell;
            left = (diagonal + usize::from(letter != *other)).min(above + 1).min(left + 1);
            diagonal = above;
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_letters_that_differ() {
        for (from, to, steps) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("thinkr", "thinker", 1),
            ("flaw", "lawn", 2),
            ("Tools", "tools", 0),
        ] {
            assert_eq!(distance(from, to), steps, "{from} {to}");
            assert_eq!(distance(to, from), steps, "{to} {from}");
        }
    }

    #[test]
    fn suggests_only_what_is_near() {
        let known = ["thinker", "tools", "agents", "model"];
        for (word, expected) in [
            ("thinkr", Some("thinker")),
            ("agent", Some("agents")),
            ("Tools", Some("tools")),
            ("modle", Some("model")),
            ("models", Some("model")),
            ("weather", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"t".repeat(65), known), None);
    }
}
