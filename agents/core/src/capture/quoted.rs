//! Finds where a value of JSON ends that is quoted in a text, which may be within texts of JSON itself.

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
    /// before the quotes of the name of it. What has no end goes as far as the text around it.
    pub(super) fn at(text: &str, start: usize, escape: &str) -> Option<Self> {
        let rest = text.get(start..)?;
        let slashes = rest.len() - rest.trim_start_matches('\\').len();
        let depth = Depth::of(escape.len());
        let (begin, length, quote) = match rest.as_bytes().get(slashes)? {
            b'"' => {
                let begin = start + slashes + 1;
                (begin, string_length(text.get(begin..)?, Depth::of(slashes)), String::new())
            }
            b'[' | b'{' if slashes == 0 => (start, nested_length(rest, depth), depth.quote()),
            b'-' | b'0'..=b'9' if slashes == 0 => {
                let is_of_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
                let length = rest.find(|c| !is_of_number(c)).unwrap_or(rest.len());
                (start, length, depth.quote())
            }
            _ => return None,
        };
        Some(Self { range: begin..begin.saturating_add(length), quote })
    }
}

/// In how many texts of JSON something stands: in each a quote has a backslash before it, and there
/// are two for each backslash.
#[derive(Clone, Copy)]
struct Depth(u32);

/// What a quote is for a value.
enum Role {
    /// The begin or the end of a string in it.
    Delimits,
    /// A character of a string in it.
    IsWithin,
    /// The end of a text that it stands in, at a depth.
    Ends(Depth),
}

impl Depth {
    /// Returns that of a string with so many backslashes before its quotes.
    const fn of(slashes: usize) -> Self {
        Self(slashes.saturating_add(1).ilog2())
    }

    /// Returns how many backslashes the quotes of a string have before them.
    const fn slashes(self) -> usize {
        (1 << self.0) - 1
    }

    /// Returns a quote that begins or ends a string.
    fn quote(self) -> String {
        format!("{}\"", "\\".repeat(self.slashes()))
    }

    /// Returns what a quote with so many backslashes before it is for a value.
    fn role_of(self, mut slashes: usize) -> Role {
        for depth in 0..self.0 {
            if slashes.is_multiple_of(2) {
                return Role::Ends(Self(depth));
            }
            slashes /= 2;
        }
        if slashes.is_multiple_of(2) { Role::Delimits } else { Role::IsWithin }
    }
}

/// Returns each character that may be of the structure, where it stands, and how many backslashes
/// stand before it.
fn marks(text: &str) -> impl Iterator<Item = (usize, u8, usize)> {
    let mut slashes = 0_usize;
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        if byte == b'\\' {
            slashes += 1;
            return None;
        }
        Some((at, byte, std::mem::take(&mut slashes)))
    })
}

/// Returns the length of a string, whose first quote stands before the text.
fn string_length(text: &str, depth: Depth) -> usize {
    let end = marks(text).filter(|(_, byte, _)| *byte == b'"').find_map(|(at, _, slashes)| {
        let depth = match depth.role_of(slashes) {
            Role::Delimits => depth,
            Role::Ends(outer) => outer,
            Role::IsWithin => return None,
        };
        Some(at - depth.slashes())
    });
    end.unwrap_or(text.len())
}

/// Returns the length of a list or an object, with all that is in it.
fn nested_length(text: &str, depth: Depth) -> usize {
    let (mut open, mut is_string) = (0_usize, false);
    for (at, byte, slashes) in marks(text) {
        match byte {
            b'"' => match depth.role_of(slashes) {
                Role::Delimits => is_string = !is_string,
                Role::IsWithin => {}
                Role::Ends(outer) => return at - outer.slashes(),
            },
            b'[' | b'{' if !is_string => open += 1,
            b']' | b'}' if !is_string => {
                open = open.saturating_sub(1);
                if open == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns what stands for a value whose name ends at `:`.
    fn found(text: &str) -> Option<(&str, String)> {
        let colon = text.find(':').unwrap();
        let name = text[..colon].trim_end_matches('"');
        let slashes = name.len() - name.trim_end_matches('\\').len();
        let value = Quoted::at(text, colon + 1, &"\\".repeat(slashes))?;
        Some((&text[value.range], value.quote))
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
            (r#"{"k":true}"#, None),
            (r#"{"k":"#, None),
            // Without an end.
            (r#"{"k":"ab\"c"#, Some((r#"ab\"c"#, ""))),
            (r#"{"k":[["a"],"#, Some((r#"[["a"],"#, "\""))),
            // Cut within a text of JSON.
            (r#"["{\"k\":\"ab","c"]"#, Some(("ab", ""))),
            (r#"["{\"k\":[[\"ab","c"]"#, Some((r#"[[\"ab"#, r#"\""#))),
            (r#"["[\"{\\\"k\\\":\\\"ab\"","c"]"#, Some(("ab", ""))),
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
