//! Removes what is no part of a reply: the thinking that some models write into their text, and the
//! tokens that end it.

use std::borrow::Cow;
use std::ops::Range;

use super::extract::{self, TRIES_MAX};
use super::lenient::Cursor;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
const FENCE: &str = "```";

/// Tokens of chat templates that end a reply and some servers leave in.
const END_TOKENS: &[&str] = &[
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|eos|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
    STRUCK,
];

/// The token that is also a tag of HTML.
const STRUCK: &str = "</s>";

/// What begins and ends a parameter of a call that is written in tags.
const PARAMETERS: [(&str, &str); 2] =
    [("<parameter", "</parameter>"), ("<arg_value>", "</arg_value>")];

/// The brackets that may be missing at the end of an object whose strings are looked for.
const SPARE: usize = 2;

/// A text without its thinking.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spoken<'a> {
    /// What is left, trimmed.
    pub(super) text: Cow<'a, str>,
    /// A thinking block was never closed, so the reply ended inside it.
    pub(super) cut: bool,
}

impl<'a> Spoken<'a> {
    /// Joins what was said before a thought and after it, which is no copy if one of them is blank.
    fn new(mut before: String, after: &'a str, cut: bool) -> Self {
        if before.trim().is_empty() {
            return Self { text: without_end_tokens(after.trim()).into(), cut };
        }
        before.push_str(after);
        Self { text: without_end_tokens(before.trim()).to_owned().into(), cut }
    }
}

/// Removes thinking blocks, and the tokens that end the reply. A closing tag without an opening one
/// drops all that precedes it, since chat templates often write the opening tag themselves.
///
/// A tag in backticks or in a fence is spoken of, not used, and one in an object or in the tags of
/// a parameter is data. Of a reply that begins with an object nothing is removed if the object cannot
/// be read: which of its tags are data cannot be told then.
pub(super) fn removed(text: &str) -> Spoken<'_> {
    if !text.contains(OPEN) && !text.contains(CLOSE) {
        return Spoken::new(String::new(), text, false);
    }
    let quotes = quotes(text);
    let opens: Vec<usize> = text.match_indices(OPEN).map(|(at, _)| at).collect();
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
        first(&used).or_else(|| first(&closes)).map(|at| at + CLOSE.len())
    };
    let mut data = Data { text, tries: TRIES_MAX };
    let mut before = String::new();
    // What is said goes on from a byte, and is read up to another.
    let (mut from, mut at) = (0, 0);
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let Some(next) = rest.find(['<', '{']) else {
            return Spoken::new(before, text.get(from..).unwrap_or_default(), false);
        };
        at += next;
        let tag = text.get(at..).unwrap_or_default();
        let said = text.get(from..at).unwrap_or_default();
        let is_first = || before.trim().is_empty() && is_opening(said);
        match data.held(at) {
            Held::Data { end } => at = end,
            Held::Broken if is_first() => at = text.len(),
            Held::Broken | Held::Nothing if is_spoken_of(at) => at += 1,
            Held::Broken | Held::Nothing if tag.starts_with(OPEN) => {
                let Some(after) = past_thought(at + OPEN.len()) else {
                    return Spoken::new(before, said, true);
                };
                before.push_str(said);
                (from, at) = (after, after);
            }
            Held::Broken | Held::Nothing if tag.starts_with(CLOSE) => {
                before.clear();
                at += CLOSE.len();
                from = at;
            }
            Held::Broken | Held::Nothing => at += 1,
        }
    }
}

/// What begins at a byte.
enum Held {
    /// Data up to another byte, whose tags are no thinking.
    Data { end: usize },
    /// An object that cannot be read.
    Broken,
    /// Nothing that holds data.
    Nothing,
}

/// Finds what holds data.
struct Data<'a> {
    text: &'a str,
    /// How many places may still be tried in vain: each may be read to the end of the text.
    tries: usize,
}

impl Data<'_> {
    fn held(&mut self, at: usize) -> Held {
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
fn is_opening(said: &str) -> bool {
    let said = said.trim();
    said.is_empty() || extract::fences(said).any(|at| at == said.len() && said.starts_with("``"))
}

/// Removes the tokens that end a reply from a text that is trimmed.
fn without_end_tokens(mut text: &str) -> &str {
    let is_html = text.contains("<s>");
    let ends = |token: &&&str| **token != STRUCK || !is_html;
    while let Some(shorter) =
        END_TOKENS.iter().filter(ends).find_map(|token| text.strip_suffix(token))
    {
        text = shorter.trim_end();
    }
    text
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
    fn a_tag_in_data_stays() {
        let object = r#"{"tool":"write","arguments":{"content":"{{q}}<think></think>"}}"#;
        let closes = r#"{"thought":"a </think> b","action":{"function":"now","arguments":{}}}"#;
        let parameter = "<function=write><parameter=content>\n<think>x</think>\n</parameter>";
        let key = "<tool_call>write\n<arg_key>c</arg_key>\n<arg_value></think></arg_value>";
        let broken = r#"{"thought": t, "content": "a</think>{\"tool\": 1}"}"#;
        let cut = r#"{"content": "<think>hm"#;
        for data in [object, closes, parameter, key, broken, cut] {
            for before in ["", "<think>hm {\"a\": \"b\"}</think>", "reasoning\n</think>\n"] {
                let spoken = Spoken { text: data.into(), cut: false };
                assert_eq!(removed(&format!("{before}{data}")), spoken, "{before}{data}");
            }
        }
        let fenced = format!("```json\n{closes}\n```");
        let marked = format!("So <tool_call>{object}</tool_call>");
        for text in [fenced, marked, format!("Action:\n{closes}"), format!("{object}\n{closes}")] {
            assert_eq!(removed(&text), Spoken { text: (&text).into(), cut: false }, "{text}");
        }
        for (text, expected, cut) in [
            (format!("{object}<think>so"), object, true),
            (format!("{object}</think>a"), "a", false),
            (format!("{object}<think>so</think>"), object, false),
            ("a {b} <think>c</think>d".to_owned(), "a {b} d", false),
            ("maybe {\"a\": b}</think>{\"a\": 1}".to_owned(), "{\"a\": 1}", false),
            (
                "maybe <parameter=a></think><parameter=a>b</parameter>".to_owned(),
                "<parameter=a>b</parameter>",
                false,
            ),
        ] {
            assert_eq!(removed(&text), Spoken { text: expected.into(), cut }, "{text}");
        }
    }

    #[test]
    fn tokens_that_end_a_reply_are_left_out() {
        for (text, expected) in [
            ("a<|im_end|>", "a"),
            ("a <|eot_id|>\n<|endoftext|> ", "a"),
            ("a<end_of_turn>\n", "a"),
            ("<think>x</think>a<｜end▁of▁sentence｜>", "a"),
            ("a<think>x</think> </s>", "a"),
            ("<think>x</think></s>", ""),
            ("</s>", ""),
            ("a</s>", "a"),
            ("now <s>5</s>", "now <s>5</s>"),
            ("it ends with `<|im_end|>`", "it ends with `<|im_end|>`"),
            ("<|im_end|> a", "<|im_end|> a"),
        ] {
            assert_eq!(removed(text), Spoken { text: expected.into(), cut: false }, "{text:?}");
        }
    }

    #[test]
    fn what_follows_the_thinking_is_not_copied() {
        for text in [
            "<think>x</think>\n\nanswer ",
            " <think>1</think> <think>2</think>a < b",
            "x</think>a",
            "a<|im_end|>",
            "<think>x</think>{\"a\": \"<think>\"}</s>",
            "`<think>` is it",
        ] {
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
        for text in ["<think></think>", "<s></s>", "<think></think>{//", "</think>x{\"a\":\""] {
            let text = text.repeat(20_000) + "\n<think>";
            assert!(removed(&text).cut);
        }
    }
}
