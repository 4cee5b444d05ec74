//! Cuts texts into the words that memory is searched by.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// The longest word, in bytes, so that a key stays small; what is longer is cut.
const WORD_BYTES_MAX: usize = 64;

/// What is cut into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// A fact, which is to be found.
    Fact,
    /// What is looked for.
    Query,
}

/// How the words around a character are told from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It stands between words.
    Between,
    /// It is of a script that has something between its words.
    Spaced,
    /// It is of a script that has not.
    Unspaced,
}

/// Counts the words of a text: runs of letters, digits and their marks, in lower case and in the
/// form NFKC, in which a character is the same however it was composed.
///
/// Where a script has nothing between its words, each two neighbours are a word, and in facts also
/// each character, so that one alone is found.
///
/// Stops at `max` different words. A change here needs a new schema number, because the words of
/// a fact are found again by cutting its text again.
pub(crate) fn count(text: &str, of: Of, max: usize) -> BTreeMap<String, u32> {
    let chars: Vec<char> = text.nfkc().filter(|c| !is_selector(*c)).collect();
    let mut counts = BTreeMap::new();
    for run in chars.chunk_by(|a, b| kind(*a) == kind(*b)) {
        for word in words(run, of) {
            if counts.len() >= max && !counts.contains_key(&word) {
                return counts;
            }
            *counts.entry(word).or_insert(0) += 1;
        }
    }
    counts
}

/// Returns the words of characters of one kind.
fn words(run: &[char], of: Of) -> Vec<String> {
    match run.first().map_or(Kind::Between, |first| kind(*first)) {
        Kind::Between => Vec::new(),
        Kind::Spaced => {
            // A mark that stands on nothing is none of a word.
            let letters = run.iter().skip_while(|c| is_combining_mark(**c));
            let mut word = letters.collect::<String>().to_lowercase();
            word.truncate(word.floor_char_boundary(WORD_BYTES_MAX));
            Some(word).filter(|word| !word.is_empty()).into_iter().collect()
        }
        Kind::Unspaced => {
            let is_single = of == Of::Fact || run.len() == 1;
            let singles = run.chunks(1).filter(|_| is_single);
            run.windows(2).chain(singles).map(|word| word.iter().collect()).collect()
        }
    }
}

fn kind(c: char) -> Kind {
    if !c.is_alphanumeric() && !is_combining_mark(c) {
        return Kind::Between;
    }
    match c {
        // Thai and Lao, Myanmar and its extensions, Khmer.
        '\u{e00}'..='\u{eff}'
        | '\u{1000}'..='\u{109f}'
        | '\u{a9e0}'..='\u{a9ff}'
        | '\u{aa60}'..='\u{aa7f}'
        | '\u{1780}'..='\u{17ff}'
        // Hiragana, Katakana and their extensions.
        | '\u{3041}'..='\u{30ff}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{1aff0}'..='\u{1b16f}'
        // Han, with what repeats and what counts it.
        | '\u{3005}'..='\u{3007}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' => Kind::Unspaced,
        _ => Kind::Spaced,
    }
}

/// Tells whether a character only chooses how the one before it is drawn.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words, each with how often it occurs.
    type Counted<'t> = &'t [(&'t str, u32)];

    fn check(of: Of, text: &str, expected: Counted<'_>) {
        let counted = count(text, of, 100);
        let counted: Vec<(&str, u32)> = counted.iter().map(|(w, n)| (w.as_str(), *n)).collect();
        assert_eq!(counted, expected, "{of:?} {text:?}");
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        let long = "ä".repeat(100);
        let cut = "ä".repeat(32);
        let cases: [(&str, Counted<'_>); 11] = [
            ("", &[]),
            (" -- \0 !", &[]),
            ("The cat, the CAT.", &[("cat", 2), ("the", 2)]),
            ("user_id=42", &[("42", 1), ("id", 1), ("user", 1)]),
            ("Zürich Ελλάδα", &[("zürich", 1), ("ελλάδα", 1)]),
            (&long, &[(&cut, 1)]),
            ("Zu\u{308}rich \u{308}", &[("zürich", 1)]),
            ("ＡＢＣ１ ﬁn", &[("abc1", 1), ("fin", 1)]),
            ("हिन्दी भाषा", &[("भाषा", 1), ("हिन्दी", 1)]),
            ("한국어 말", &[("말", 1), ("한국어", 1)]),
            ("tea\u{2615}\u{fe0f}cup", &[("cup", 1), ("tea", 1)]),
        ];
        for (text, expected) in cases {
            check(Of::Fact, text, expected);
            check(Of::Query, text, expected);
        }
        assert_eq!(count("a b a c", Of::Fact, 2).len(), 2);
    }

    #[test]
    fn where_no_space_parts_words_they_are_neighbours() {
        let cases: [(Of, &str, Counted<'_>); 8] = [
            (Of::Fact, "喝绿茶。", &[("喝", 1), ("喝绿", 1), ("绿", 1), ("绿茶", 1), ("茶", 1)]),
            (Of::Query, "喝绿茶", &[("喝绿", 1), ("绿茶", 1)]),
            (Of::Query, "茶", &[("茶", 1)]),
            (Of::Query, "iPhone用户 15", &[("15", 1), ("iphone", 1), ("用户", 1)]),
            (Of::Query, "お茶・コーヒー", &[("お茶", 1), ("コー", 1), ("ヒー", 1), ("ーヒ", 1)]),
            // Half-width, and with a voicing mark of its own.
            (Of::Query, "ｶﾞｽ", &[("ガス", 1)]),
            (Of::Query, "葛\u{e0100}城", &[("葛城", 1)]),
            (Of::Query, "ชาดี", &[("ชา", 1), ("ดี", 1), ("าด", 1)]),
        ];
        for (of, text, expected) in cases {
            check(of, text, expected);
        }
        assert_eq!(count("喝绿茶", Of::Fact, 2).len(), 2);
    }
}
