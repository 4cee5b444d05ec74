//! Finds where a value of JSON ends that is quoted in a text, which may be within texts of JSON itself.
//!
//! What is not written quite as JSON is rather taken to be longer than it is: what a value hides is
//! not to be seen.

use std::ops::Range;

/// A value that is quoted in a text.
#[derive(Debug, PartialEq)]
pub(super) struct Quoted {
    /// Where it stands: of a string what is between its quotes.
    pub(super) range: Range<usize>,
    /// The quote to write before and after what takes its place, if that is to be a string as well.
    pub(super) quote: String,
}

impl Quoted {
    /// Returns the string, number, list or object that begins there; `escape` are the backslashes
    /// before the first quote of its name. What has no end goes to the quote that ends the string
    /// around it, or to the end of the text.
    pub(super) fn at(text: &str, start: usize, escape: &str) -> Option<Self> {
        let rest = text.get(start..)?;
        let slashes = rest.len() - rest.trim_start_matches('\\').len();
        let quote = || format!("{escape}\"");
        let (begin, length, quote) = match rest.as_bytes().get(slashes)? {
            b'"' => {
                let begin = start + slashes + 1;
                (begin, Quotes { slashes }.string_length(text.get(begin..)?), String::new())
            }
            b'[' if slashes == 0 => (start, nested_length(rest, (b'[', b']')), quote()),
            b'{' if slashes == 0 => (start, nested_length(rest, (b'{', b'}')), quote()),
            _ => (start, number_length(rest)?, quote()),
        };
        Some(Self { range: begin..begin.saturating_add(length), quote })
    }
}

/// The quotes of the strings of a value. In each text of JSON that it stands in a quote has a
/// backslash before it, and there are two for each backslash.
#[derive(Clone, Copy)]
struct Quotes {
    /// The backslashes before the quote that begins a string.
    slashes: usize,
}

/// What a quote is for a value.
enum Role {
    /// The begin or the end of a string in it.
    Delimits,
    /// A character of a string in it.
    IsWithin,
    /// The end of a string that it stands in.
    IsOutside,
}

impl Quotes {
    /// Returns what a quote with so many backslashes before it is.
    const fn role(self, slashes: usize) -> Role {
        let Some(more) = slashes.checked_sub(self.slashes) else { return Role::IsOutside };
        // How many stand for one backslash of a string: one more than before its quotes, which are
        // 0, 1, 3, 7 by how many texts they stand in. Some write twice or four times as many of each.
        let each = match self.slashes {
            0 => 1,
            slashes => slashes + (1 << slashes.trailing_zeros()),
        };
        if more.is_multiple_of(2 * each) { Role::Delimits } else { Role::IsWithin }
    }

    /// Returns the length of a string, whose first quote stands before the text.
    fn string_length(self, text: &str) -> usize {
        for (at, _, slashes) in others(text).filter(|(_, byte, _)| *byte == b'"') {
            match self.role(slashes) {
                Role::Delimits => return at - self.slashes,
                Role::IsOutside => return at - slashes,
                Role::IsWithin => {}
            }
        }
        text.len()
    }
}

/// Returns all but the backslashes of a text, where each stands, and how many backslashes stand
/// before it.
fn others(text: &str) -> impl Iterator<Item = (usize, u8, usize)> {
    let mut slashes = 0_usize;
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        if byte == b'\\' {
            slashes += 1;
            return None;
        }
        Some((at, byte, std::mem::take(&mut slashes)))
    })
}

/// Returns the length of a list or an object, with all that is in it.
fn nested_length(text: &str, (begins, ends): (u8, u8)) -> usize {
    let (mut open, mut is_string, mut quotes) = (0_usize, false, None);
    for (at, byte, slashes) in others(text) {
        if byte == b'"' {
            // The first one begins a string.
            match quotes.get_or_insert(Quotes { slashes }).role(slashes) {
                Role::Delimits => is_string = !is_string,
                Role::IsWithin => {}
                Role::IsOutside => return at - slashes,
            }
        } else if byte == begins && !is_string {
            open += 1;
        } else if byte == ends && !is_string {
            open = open.saturating_sub(1);
            if open == 0 {
                return at + 1;
            }
        }
    }
    text.len()
}

/// Returns the length of a number.
fn number_length(text: &str) -> Option<usize> {
    let is_of_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let begins = text.strip_prefix('-').unwrap_or(text).starts_with(|c: char| c.is_ascii_digit());
    begins.then(|| text.find(|c| !is_of_number(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns what stands for a value whose name ends at `:`.
    fn found(text: &str) -> Option<(&str, String)> {
        let (before, _) = text.split_once(':').unwrap();
        let name = before.trim_end_matches('"');
        let slashes = name.len() - name.trim_end_matches('\\').len();
        let value = Quoted::at(text, before.len() + 1, &"\\".repeat(slashes))?;
        Some((text.get(value.range).unwrap(), value.quote))
    }

    #[test]
    fn a_value_is_found_whole() {
        let cases = [
            (r#"{"k":"a\"b\\","n":"c"}"#, Some((r#"a\"b\\"#, ""))),
            (r#"{"k":""}"#, Some(("", ""))),
            (r#"{"k":-1.5e+3,"n":2}"#, Some(("-1.5e+3", "\""))),
            (r#"{"k":[["a]"],{"b":"}\"]"}],"n":[]}"#, Some((r#"[["a]"],{"b":"}\"]"}]"#, "\""))),
            (r#"{"k":{"a":{"b":{}}}}"#, Some((r#"{"a":{"b":{}}}"#, "\""))),
            (r#"{"k":null}"#, None),
            (r#"{"k":-x}"#, None),
            (r#"{"k":true}"#, None),
            (r#"{"k":"#, None),
            // Without an end.
            (r#"{"k":"ab\"c"#, Some((r#"ab\"c"#, ""))),
            (r#"{"k":[["a"],"#, Some((r#"[["a"],"#, "\""))),
            // Cut within a text of JSON.
            (r#"["{\"k\":\"ab","c"]"#, Some(("ab", ""))),
            (r#"["{\"k\":[1,2","c"]"#, Some((r#"[1,2","c"]"#, r#"\""#))),
            (r#"["{\"k\":[[\"ab","c"]"#, Some((r#"[[\"ab"#, r#"\""#))),
            (r#"["[\"{\\\"k\\\":\\\"ab\"","c"]"#, Some(("ab", ""))),
            // Not quite JSON: a bracket of the other kind, and quotes of another depth.
            (r#"{"k":['a}b','c']}"#, Some(("['a}b','c']", "\""))),
            (r#"{"k":{a]b},"n":1}"#, Some(("{a]b}", "\""))),
            (r#"{\"k\":["a","b"],\"n\":1}"#, Some((r#"["a","b"]"#, r#"\""#))),
            (r#"\"k":{"a":"b"},"n":1"#, Some((r#"{"a":"b"}"#, "\""))),
            (r#"{\\"k\\":[\\"a\\\\\\"b\\"],\\"n\\":1}"#, Some((r#"[\\"a\\\\\\"b\\"]"#, r#"\\""#))),
            (r#"{\\"k\\":\\"a\\\\\\"b\\",\\"n\\":1}"#, Some((r#"a\\\\\\"b"#, ""))),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(value, quote)| (value, quote.to_owned()));
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn a_value_is_found_however_deep_its_text_stands_in_others() {
        let values = [
            json!("a"),
            json!("quotes \" and \\ and \\\" at the end\\"),
            json!("\\\\\""),
            json!(12),
            json!(["a]\"", {"b": "}\\", "c": [["\"]"]]}]),
            json!({"a": {"b": "{\"c\":[\"d\\\"\"]}"}}),
        ];
        for value in values {
            let mut text = format!(r#"{{"k":{value},"n":["other"]}}"#);
            for depth in 0..4 {
                let (found, quote) = found(&text).unwrap();
                let mut marked = text.replacen(found, &format!("{quote}MARK{quote}"), 1);
                for _ in 0..depth {
                    marked = serde_json::from_str::<[String; 1]>(&marked).unwrap().concat();
                }
                let marked: Value = serde_json::from_str(&marked).unwrap();
                assert_eq!(marked, json!({"k": "MARK", "n": ["other"]}), "{text}");
                text = json!([text]).to_string();
            }
        }
    }
}
