//! Reads JSON as models write it: notation is mended, meaning is never guessed.
//!
//! Beyond JSON it takes single quotes, triple quotes, line breaks in strings, needless
//! backslashes, trailing commas, a comma that was forgotten before a key, bare keys, comments, the
//! literals of Python and the tokens that models write for quotes. Everything else is a fault, an
//! end of text before the value is closed above all.

use serde_json::{Map, Number, Value};

/// The deepest nesting that is read. Arguments seldom nest more than five levels; text that does
/// is no call, and the bound keeps the stack small.
const DEPTH_MAX: usize = 64;

/// What some models write for the quotes of a string, which holds no escapes then.
const QUOTES: [&str; 2] = ["<|\"|>", "<escape>"];

/// Why a value cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The byte at which it was noticed.
    pub(super) at: usize,
    /// What is wrong there.
    pub(super) what: &'static str,
    /// The text ended inside the value.
    pub(super) is_cut: bool,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

/// A place in a text.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// How many closing brackets may be missing at the end.
    spare: usize,
    /// Whether this reads inside of a string whose quotes nobody escaped. Such strings are not
    /// sought in each other, since that would nest as deep as the text is long.
    is_inside: bool,
}

impl<'a> Cursor<'a> {
    /// Starts at a byte. The text may lack `spare` closing brackets after its last value: as many
    /// as enclose arguments, so that arguments themselves are always closed by their author.
    pub(super) fn new(text: &'a str, at: usize, spare: usize) -> Self {
        Self { text, at, spare, is_inside: false }
    }

    /// Returns the byte that is read next.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns what has not been read.
    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the next character without reading it.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Reads a text if it comes next.
    pub(super) fn take(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    /// Passes over some bytes, which must end where a character does.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Reads as long as a condition holds.
    pub(super) fn take_while(&mut self, holds: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !holds(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Reads a name of letters, digits and underscores, or nothing.
    pub(super) fn identifier(&mut self) -> &'a str {
        match self.peek() {
            Some(c) if c.is_alphabetic() || c == '_' => {
                self.take_while(|c| c.is_alphanumeric() || c == '_')
            }
            _ => "",
        }
    }

    /// Reads white space and comments.
    pub(super) fn blank(&mut self) {
        loop {
            self.take_while(|c| c.is_whitespace() || c == '\u{feff}');
            if self.take("//") {
                self.take_while(|c| c != '\n');
            } else if self.rest().starts_with("/*") {
                let Some(end) = self.rest().find("*/") else { return };
                self.at += end + "*/".len();
            } else {
                return;
            }
        }
    }

    /// Reads one value.
    pub(super) fn value(&mut self) -> Result<Value, Fault> {
        self.nested(0)
    }

    fn nested(&mut self, depth: usize) -> Result<Value, Fault> {
        if depth > DEPTH_MAX {
            return Err(self.fault("it nests too deep"));
        }
        self.blank();
        match self.peek() {
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some('"' | '\'' | '“' | '<') => self.string().map(Value::String),
            Some('-' | '+' | '.' | '0'..='9') => self.number(),
            _ => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Fault> {
        self.take("{");
        let mut object = Map::new();
        loop {
            self.blank();
            if self.take("}") {
                return Ok(object.into());
            }
            let key = match self.peek() {
                Some('"' | '\'' | '“' | '<') => self.string()?,
                _ => match self.identifier() {
                    "" => return Err(self.fault("a key is expected")),
                    key => key.to_owned(),
                },
            };
            self.blank();
            if !self.take(":") {
                return Err(self.fault("a colon is expected"));
            }
            self.blank();
            let value = match self.unescaped() {
                Some(text) => Value::String(text),
                None => self.nested(depth + 1)?,
            };
            if object.contains_key(&key) {
                return Err(self.fault("a key is given twice"));
            }
            object.insert(key, value);
            self.blank();
            if self.take(",") {
                continue;
            }
            if self.take("}") || self.lacks_end() {
                return Ok(object.into());
            }
            if !self.is_at_key() {
                return Err(self.fault("a comma or a closing brace is expected"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Fault> {
        self.take("[");
        let mut items = Vec::new();
        loop {
            self.blank();
            if self.take("]") {
                return Ok(items.into());
            }
            items.push(self.nested(depth + 1)?);
            self.blank();
            if self.take(",") {
                continue;
            }
            if self.take("]") || self.lacks_end() {
                return Ok(items.into());
            }
            return Err(self.fault("a comma or a closing bracket is expected"));
        }
    }

    /// Allows a closing bracket to be missing where the text, a fence or a tag ends.
    fn lacks_end(&mut self) -> bool {
        let rest = self.rest();
        let is_over = rest.is_empty() || rest.starts_with("``") || rest.starts_with("</");
        if is_over && self.spare > 0 {
            self.spare -= 1;
            return true;
        }
        false
    }

    fn is_at_key(&self) -> bool {
        let mut ahead = self.clone();
        if ahead.peek() != Some('"') || ahead.string().is_err() {
            return false;
        }
        ahead.blank();
        ahead.take(":")
    }

    /// Reads a string that holds an object whose quotes nobody escaped.
    fn unescaped(&mut self) -> Option<String> {
        if self.is_inside || !self.rest().starts_with("\"{\"") {
            return None;
        }
        let start = self.at + 1;
        let mut ahead = Cursor { is_inside: true, ..Cursor::new(self.text, start, 0) };
        ahead.nested(DEPTH_MAX / 2).ok()?;
        let text = self.text.get(start..ahead.at)?;
        if !ahead.take("\"") {
            return None;
        }
        let end = ahead.at;
        ahead.blank();
        matches!(ahead.peek(), Some(',' | '}')).then(|| {
            self.at = end;
            text.to_owned()
        })
    }

    fn number(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        let digits = self.take_while(|c| matches!(c, '-' | '+' | '.' | '0'..='9' | 'e' | 'E'));
        let digits = digits.strip_prefix('+').unwrap_or(digits);
        let number: Option<Number> = serde_json::from_str(digits).ok();
        match number {
            // A float in place of the number would be another number.
            Some(number) if number.is_f64() && is_whole(digits) && number.as_f64() != Some(0.0) => {
                let what = "a whole number beyond 64 bits (write it as a text)";
                Err(Fault { at: start, what, is_cut: false })
            }
            Some(number) if !self.peek().is_some_and(|c| c.is_alphanumeric() || c == '_') => {
                Ok(number.into())
            }
            _ => Err(Fault { at: start, what: "a number is not well formed", is_cut: false }),
        }
    }

    fn word(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        match self.identifier() {
            "true" | "True" => Ok(true.into()),
            "false" | "False" => Ok(false.into()),
            "null" | "None" => Ok(Value::Null),
            _ => {
                self.at = start;
                Err(self.fault("a value is expected"))
            }
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        if let Some(quote) = QUOTES.iter().find(|quote| self.take(quote)) {
            let Some((text, _)) = self.rest().split_once(*quote) else {
                self.at = self.text.len();
                return Err(self.fault("a string is not closed"));
            };
            self.at += text.len() + quote.len();
            return Ok(text.to_owned());
        }
        let close = ["\"\"\"", "'''", "\"", "'", "“"].into_iter().find(|open| self.take(open));
        let close = match close {
            Some("“") => "”",
            Some(close) => close,
            None => return Err(self.fault("a string is expected")),
        };
        let mut text = String::new();
        loop {
            if self.take(close) {
                return Ok(text);
            }
            match self.peek() {
                None => return Err(self.fault("a string is not closed")),
                Some('\\') => {
                    self.at += 1;
                    self.escape(&mut text);
                }
                Some(c) => {
                    text.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
    }

    /// Reads what follows a backslash. One before punctuation was needless and is dropped; one
    /// before a letter that has no meaning was meant.
    fn escape(&mut self, text: &mut String) {
        let Some(c) = self.peek() else { return };
        self.at += c.len_utf8();
        match c {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'u' => match self.unit() {
                Some(unit) => text.push(self.character(unit)),
                None => text.push_str("\\u"),
            },
            '\n' => {}
            c if c.is_alphanumeric() => {
                text.push('\\');
                text.push(c);
            }
            c => text.push(c),
        }
    }

    /// Reads the four digits of an escape.
    fn unit(&mut self) -> Option<u16> {
        let digits = self.rest().get(..4)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let unit = u16::from_str_radix(digits, 16).ok()?;
        self.at += 4;
        Some(unit)
    }

    fn character(&mut self, unit: u16) -> char {
        let mut ahead = self.clone();
        let low = if (0xD800..0xDC00).contains(&unit) && ahead.take("\\u") {
            ahead.unit().filter(|low| (0xDC00..0xE000).contains(low))
        } else {
            None
        };
        if low.is_some() {
            self.at = ahead.at;
        }
        let units = std::iter::once(unit).chain(low);
        let mut decoded = char::decode_utf16(units);
        decoded.next().and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    pub(super) fn fault(&self, what: &'static str) -> Fault {
        let is_cut = self.rest().is_empty();
        Fault { at: self.at, what: if is_cut { "the text ends too soon" } else { what }, is_cut }
    }
}

/// Tells whether the digits of a number have neither a point nor an exponent.
fn is_whole(digits: &str) -> bool {
    !digits.contains(['.', 'e', 'E'])
}

/// Reads a text that is one value and nothing else.
///
/// Closing brackets too many are let pass; the value is over where it is closed.
pub(super) fn whole(text: &str, spare: usize) -> Result<Value, Fault> {
    let mut cursor = Cursor::new(text, 0, spare);
    let value = cursor.value()?;
    cursor.take_while(|c| c.is_whitespace() || matches!(c, '}' | ']' | ';'));
    if cursor.rest().is_empty() { Ok(value) } else { Err(cursor.fault("the value ends before")) }
}

#[cfg(test)]
mod tests;
