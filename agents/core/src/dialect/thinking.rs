//! Removes the thinking that some models write into their text.

use std::borrow::Cow;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A text without its thinking.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spoken<'a> {
    /// What is left, trimmed.
    pub(super) text: Cow<'a, str>,
    /// A thinking block was never closed, so the reply ended inside it.
    pub(super) cut: bool,
}

/// Removes thinking blocks. A closing tag without an opening one drops all that precedes it,
/// since chat templates often write the opening tag themselves.
pub(super) fn removed(text: &str) -> Spoken<'_> {
    if !text.contains(OPEN) && !text.contains(CLOSE) {
        return Spoken { text: text.trim().into(), cut: false };
    }
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
        if let Some(inside) = tag.strip_prefix(OPEN) {
            match inside.split_once(CLOSE) {
                Some((_, after)) => rest = after,
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
    fn what_follows_the_thinking_is_not_copied() {
        for text in
            ["<think>x</think>\n\nanswer ", " <think>1</think> <think>2</think>a < b", "x</think>a"]
        {
            assert!(matches!(removed(text).text, Cow::Borrowed(_)), "{text:?}");
        }
    }

    #[test]
    fn many_tags_take_linear_time() {
        let text = "</think><".repeat(200_000);
        assert_eq!(removed(&text).text, "<");
        let text = "<think></think>".repeat(200_000);
        assert_eq!(removed(&text).text, "");
    }
}
