//! Removes the thinking that some models write into their text.

use std::borrow::Cow;
use std::ops::Range;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
const FENCE: &str = "```";

/// A text without its thinking.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spoken<'a> {
    /// What is left, trimmed.
    pub(super) text: Cow<'a, str>,
    /// A thinking block was never closed, so the reply ended inside it.
    pub(super) cut: bool,
}

/// Removes thinking blocks. A closing tag without an opening one drops all that precedes it,
/// since chat templates often write the opening tag themselves. A tag in backticks or in a fence is
/// spoken of, not used.
pub(super) fn removed(text: &str) -> Spoken<'_> {
    if !text.contains(OPEN) && !text.contains(CLOSE) {
        return Spoken { text: text.trim().into(), cut: false };
    }
    let quotes = quotes(text);
    let opens: Vec<usize> = text.match_indices(OPEN).map(|(at, _)| at).collect();
    let at = |rest: &str| text.len() - rest.len();
    let is_spoken_of = |at: usize| {
        let next = quotes.partition_point(|quote| quote.end <= at);
        let Some(quote) = quotes.get(next).filter(|quote| quote.contains(&at)) else {
            return false;
        };
        let is_close = text.get(at..).is_some_and(|tag| tag.starts_with(CLOSE));
        let is_first = || text.get(quote.start..at).is_some_and(|text| text.trim().is_empty());
        let is_opened = || {
            let next = opens.partition_point(|open| *open < quote.start);
            opens.get(next).is_some_and(|open| *open < at)
        };
        // Where nothing opens it, what looks like its quote may be made of odd backticks in the
        // thought and in what comes after it.
        !is_close || is_first() || is_opened()
    };
    let closes: Vec<usize> = text.match_indices(CLOSE).map(|(at, _)| at).collect();
    let used: Vec<usize> = closes.iter().copied().filter(|at| !is_spoken_of(*at)).collect();
    // Backticks that are odd in a thought must not hide its end.
    let past_thought = |from: usize| {
        let first = |places: &[usize]| places.get(places.partition_point(|at| *at < from)).copied();
        text.get(first(&used).or_else(|| first(&closes))? + CLOSE.len()..)
    };
    let mut kept = String::new();
    let mut rest = text;
    loop {
        // After the last tag nothing has to be put together, if nothing was said before it.
        if kept.trim().is_empty() && !rest.contains(CLOSE) && !rest.contains(OPEN) {
            return Spoken { text: rest.trim().into(), cut: false };
        }
        let (before, tag) = match rest.find('<') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        kept.push_str(before);
        if tag.is_empty() {
            return Spoken { text: kept.trim().to_owned().into(), cut: false };
        }
        if is_spoken_of(at(tag)) {
            kept.push('<');
            rest = tag.strip_prefix('<').unwrap_or_default();
        } else if let Some(inside) = tag.strip_prefix(OPEN) {
            match past_thought(at(inside)) {
                Some(after) => rest = after,
                None => return Spoken { text: kept.trim().to_owned().into(), cut: true },
            }
        } else if let Some(after) = tag.strip_prefix(CLOSE) {
            kept.clear();
            rest = after;
        } else {
            kept.push('<');
            rest = tag.strip_prefix('<').unwrap_or_default();
        }
    }
}

/// Finds what stands in fences, and in backticks if a tag is at its border: a longer text between
/// two backticks of a line may as well be what is not quoted.
fn quotes(text: &str) -> Vec<Range<usize>> {
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
            (None, _) => spans(line, at, &mut quotes),
            (Some(_), _) => {}
        }
        at += line.len();
    }
    quotes
}

/// Finds what stands in one or two backticks of a line that begins at a byte.
fn spans(line: &str, at: usize, quotes: &mut Vec<Range<usize>>) {
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
        if [OPEN, CLOSE].iter().any(|tag| inside.starts_with(tag) || inside.ends_with(tag)) {
            quotes.push(at + opens.end..at + closes.start);
        }
        runs = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_is_left() {
        let cases = [
            ("", "", false),
            (" plain ", "plain", false),
            ("a < b and <b>bold</b>", "a < b and <b>bold</b>", false),
            ("<think>x</think>\n\nanswer", "answer", false),
            ("<think></think>", "", false),
            ("a <think>x</think>b", "a b", false),
            ("<think>1</think>a<think>2</think>b", "ab", false),
            ("<think>a <think>b</think> c</think> d", "d", false),
            ("reasoning\n</think>answer", "answer", false),
            ("<think>never closed", "", true),
            ("said <think>never closed", "said", true),
            ("<thin", "<thin", false),
            ("ä<think>ö</think>ü", "äü", false),
        ];
        for (text, expected, cut) in cases {
            assert_eq!(removed(text), Spoken { text: expected.into(), cut }, "{text:?}");
        }
    }

    #[test]
    fn a_tag_that_is_spoken_of_stays() {
        for text in [
            "They write `<think>` before it.",
            "They write `</think>` after it.",
            "They write `<think>` before and `</think>` after it.",
            "They write `<think>hm</think>` before it.",
            "They write ``<think>`` before it, a ` aside.",
            "So:\n```xml\n<think>\nhm\n</think>\n```\nThat is all.",
            "`</think>`\n`x`",
        ] {
            for thought in ["", "<think>They use `<think>` and `</think>`.</think>"] {
                let spoken = Spoken { text: text.into(), cut: false };
                assert_eq!(removed(&format!("{thought}{text}")), spoken, "{thought}{text}");
            }
        }
        for (text, expected) in [
            ("<think>x</think>`a` is it", "`a` is it"),
            ("reasoning</think>`a` is it", "`a` is it"),
            ("it`s so</think>use `x`", "use `x`"),
            ("<think>it`s</think>use `x`", "use `x`"),
            ("<think>`</think>` is it", "` is it"),
            ("it`s so</think>`x` is it", "`x` is it"),
            ("x\n```py\ny\n</think>\n```json\n{}\n```", "```json\n{}\n```"),
            ("<think>\n```py\nx\n</think>\n```json\n{}\n```", "```json\n{}\n```"),
            ("<think>\n```\nx\n</think>a", "a"),
        ] {
            assert_eq!(removed(text), Spoken { text: expected.into(), cut: false }, "{text:?}");
        }
    }

    #[test]
    fn what_follows_the_thinking_is_not_copied() {
        for text in
            ["<think>x</think>\n\nanswer ", " <think>1</think> <think>2</think>a < b", "x</think>a"]
        {
            assert!(matches!(removed(text).text, Cow::Borrowed(_)), "{text:?}");
        }
    }

    #[test]
    fn many_tags_take_linear_time() {
        let quoted = format!("```\n<{}", "</think>".repeat(200_000));
        assert_eq!(removed(&quoted).text, "");
        let text = "</think><".repeat(200_000);
        assert_eq!(removed(&text).text, "<");
        assert_eq!(removed(&"<think>`</think>`".repeat(100_000)).text, "`".repeat(100_000));
        assert_eq!(removed(&"` `` </think>".repeat(100_000)).text, "");
        let text = "<think></think>".repeat(200_000);
        assert_eq!(removed(&text).text, "");
    }
}
