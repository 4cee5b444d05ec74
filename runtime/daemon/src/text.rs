//! Texts of others on one line of a terminal: made harmless, measured, shortened.

use std::time::Duration;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use wire::Usage;
use wire::money::usd;

/// The most characters of a text that are looked at to fill a line.
const SCANNED_CHARS_MAX: usize = 4_096;

/// Returns the columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Puts a text on one line: runs of white space become one space, control characters vanish.
///
/// What models and tools say must not move the cursor or change colours.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    let mut gap = false;
    for c in text.chars().take(SCANNED_CHARS_MAX) {
        if c.is_whitespace() {
            gap = !line.is_empty();
        } else if !c.is_control() && !is_format(c) {
            if std::mem::take(&mut gap) {
                line.push(' ');
            }
            line.push(c);
        }
    }
    line
}

/// Keeps line breaks and tabs, and drops what else would steer a terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .filter(|c| matches!(c, '\n' | '\t') || !(c.is_control() || is_format(*c)))
        .collect()
}

/// Writes what cannot be seen in JSON as `\uXXXX`, which says the same: a terminal may take it for an
/// order, and a person for something else.
pub(crate) fn json(text: &str) -> String {
    // In its texts a line break is written so already.
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// Writes what cannot be seen as `\uXXXX`, where a person has to see all that is there.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_format(c) || is_hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                shown.extend(format!("\\u{unit:04x}").chars());
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Tells whether nobody sees a character: it takes no room, or is blank, or is what every font draws
/// as it likes. The console marks the same ones.
fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}'
            | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}'
            | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffc}' | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}'
    )
}

/// Tells whether a character changes the direction in which others are read.
fn is_format(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Cuts a line to some columns, with an ellipsis where something is missing.
pub(crate) fn shorten(line: &str, columns: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    let mut short = String::new();
    let mut left = columns.saturating_sub(1);
    for c in line.chars() {
        let wide = c.width().unwrap_or(0);
        if wide > left {
            break;
        }
        left -= wide;
        short.push(c);
    }
    if columns > 0 {
        short.push('…');
    }
    short
}

/// Fills a line with spaces on its right.
pub(crate) fn pad(line: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width(line));
    format!("{line}{}", " ".repeat(missing))
}

/// Writes a time span in the unit that suits it.
pub(crate) fn duration(time: Duration) -> String {
    let micros = time.as_micros();
    let seconds = time.as_secs();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..9_950 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        9_950..999_500 => format!("{:.0} ms", time.as_secs_f64() * 1e3),
        999_500..60_000_000 => format!("{:.1} s", time.as_secs_f64()),
        _ if seconds < 3_600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Writes what was used: tokens, and money if it cost any.
pub(crate) fn used(usage: Usage) -> String {
    let tokens = format!("{} tokens", count(usage.total()));
    match usage.cost_nano_usd {
        0 => tokens,
        cost => format!("{tokens} · {}", usd(cost)),
    }
}

/// Writes a count with its thousands apart.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_becomes_one_harmless_line() {
        let cases = [
            ("a\n  b\tc ", "a b c"),
            ("\u{1b}[31mred\u{1b}[0m", "[31mred[0m"),
            ("\n x", "x"),
            ("a\u{202e}b", "ab"),
        ];
        for (text, expected) in cases {
            assert_eq!(one_line(text), expected, "{text:?}");
        }
        assert_eq!(harmless("a\n\tb\u{1b}]0;x\u{7}"), "a\n\tb]0;x");
    }

    #[test]
    fn json_says_the_same_with_all_to_be_seen() {
        let value =
            serde_json::json!({"a\u{7f}": ["x\u{9b}2J", "\u{202e}cod", "👩\u{200d}💻", "ä\n"]});
        let shown = json(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        assert_eq!(shown.lines().count(), 8, "{shown}");
        for seen in ["a\\u007f", "x\\u009b2J", "\\u202ecod", "👩\\u200d💻", "ä\\n"] {
            assert!(shown.contains(seen), "{seen}: {shown}");
        }
    }

    /// Returns the characters that the console marks wherever they stand, out of its own list.
    fn marked_by_the_console() -> Vec<std::ops::RangeInclusive<u32>> {
        let source = include_str!("../../gateway/console/dom.js");
        let list = source.split_once("HIDDEN = new RegExp(").unwrap().1;
        let list = list.split_once("\"[").unwrap().1.split_once("]\"").unwrap().0;
        let code = |escape: &str| {
            let digits = escape.trim_start_matches('{').trim_end_matches('}');
            u32::from_str_radix(digits, 16).unwrap()
        };
        // What stands between two parts of the text is no escape.
        let parts = list.split('"').step_by(2).collect::<String>().replace("-\\\\u", "-");
        let ranges = parts.split("\\\\u").skip(1).map(|range| {
            let (first, end) = range.split_once('-').unwrap_or((range, range));
            code(first)..=code(end)
        });
        ranges.collect()
    }

    #[test]
    fn what_a_person_does_not_see_is_shown_as_in_the_console() {
        let marked = marked_by_the_console();
        assert!(marked.len() > 20, "{marked:?}");
        // A line break and a tab are seen there. Joiners and signs of style are marked there by what
        // stands around them, which a terminal may join or not.
        let otherwise = ['\t', '\n', '\u{200c}', '\u{200d}', '\u{fe0e}', '\u{fe0f}'];
        for c in ('\0'..=char::MAX).filter(|c| !otherwise.contains(c)) {
            let is_marked = marked.iter().any(|range| range.contains(&u32::from(c)));
            let is_shown = visible(c.encode_utf8(&mut [0; 4])).starts_with("\\u");
            assert_eq!(is_shown, is_marked, "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn lines_are_cut_by_columns() {
        let cases = [
            ("abcdef", 6, "abcdef"),
            ("abcdef", 5, "abcd…"),
            ("女友年龄", 5, "女友…"),
            ("女友年龄", 4, "女…"),
            ("ab", 1, "…"),
            ("ab", 0, ""),
        ];
        for (line, columns, expected) in cases {
            let short = shorten(line, columns);
            assert_eq!(short, expected, "{line} in {columns}");
            assert!(width(&short) <= columns);
        }
        assert_eq!(pad("女", 4), "女  ");
    }

    #[test]
    fn time_spans_have_three_digits_or_less() {
        let cases = [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_000, "1.0 ms"),
            (9_949, "9.9 ms"),
            (9_950, "10 ms"),
            (999_499, "999 ms"),
            (999_500, "1.0 s"),
            (59_900_000, "59.9 s"),
            (60_000_000, "1:00 min"),
            (61_000_000, "1:01 min"),
            (3_660_000_000, "1:01 h"),
        ];
        for (micros, expected) in cases {
            assert_eq!(duration(Duration::from_micros(micros)), expected, "{micros}");
        }
    }

    #[test]
    fn thousands_stand_apart() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (number, expected) in cases {
            assert_eq!(count(number), expected);
        }
    }
}
