//! Regular expressions that a grammar can say: anchored at both ends, over plain characters.
//!
//! Characters that JSON writes with an escape cannot be matched, nor can anything that looks
//! around. A dot, a negated class or `\s` would allow such characters, so they are left out too.

use super::LENGTH_MAX;
use super::rules::Expr;

/// Groups inside one another.
const GROUPS_MAX: usize = 16;

/// Converts a pattern to the characters between the quotes, if it is of the kind that can be.
pub(super) fn characters(pattern: &str) -> Option<Expr> {
    let body = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let mut reader = Reader { rest: body, groups: 0 };
    let expr = reader.sequence()?;
    // An alternative out here would have an anchor on one side only.
    reader.rest.is_empty().then_some(expr)
}

struct Reader<'a> {
    rest: &'a str,
    groups: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        Some(next)
    }

    fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn choices(&mut self) -> Option<Expr> {
        let mut choices = vec![self.sequence()?];
        while self.skip("|") {
            choices.push(self.sequence()?);
        }
        Some(Expr::any_of(choices))
    }

    fn sequence(&mut self) -> Option<Expr> {
        let mut parts = Vec::new();
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            let atom = self.atom()?;
            parts.push(self.repeated(atom)?);
        }
        Some(Expr::Seq(parts))
    }

    fn atom(&mut self) -> Option<Expr> {
        if self.skip("(?:") || self.skip("(") {
            self.groups += 1;
            if self.groups > GROUPS_MAX || self.rest.starts_with('?') {
                return None;
            }
            let inside = self.choices()?;
            self.groups -= 1;
            return self.skip(")").then_some(inside);
        }
        if self.skip("[") {
            return self.class();
        }
        match self.next()? {
            '\\' => self.escape().map(Expr::Set),
            '^' | '$' | '.' | '*' | '+' | '?' | '{' | '}' | ']' => None,
            c => plain(c).then(|| Expr::text(c)),
        }
    }

    /// Reads what follows a backslash.
    fn escape(&mut self) -> Option<Vec<(char, char)>> {
        match self.next()? {
            'd' => Some(vec![('0', '9')]),
            'w' => Some(vec![('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')]),
            c if c.is_ascii_punctuation() && plain(c) => Some(vec![(c, c)]),
            _ => None,
        }
    }

    fn class(&mut self) -> Option<Expr> {
        let mut ranges = Vec::new();
        while !self.skip("]") {
            let from = match self.next()? {
                '\\' => {
                    ranges.extend(self.escape()?);
                    continue;
                }
                '^' | '[' | '&' | '~' => return None,
                c => c,
            };
            let is_range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            let to = if is_range && self.skip("-") { self.next()? } else { from };
            let both = from.is_ascii_alphanumeric() && to.is_ascii_alphanumeric() && from <= to;
            if !(both || (from == to && plain(from))) {
                return None;
            }
            // From a capital to a small letter stand characters that need an escape.
            if from.is_ascii_uppercase() && to.is_ascii_lowercase() {
                return None;
            }
            ranges.push((from, to));
        }
        (!ranges.is_empty()).then_some(Expr::Set(ranges))
    }

    fn repeated(&mut self, atom: Expr) -> Option<Expr> {
        let (min, max) = if self.skip("?") {
            (0, Some(1))
        } else if self.skip("*") {
            (0, None)
        } else if self.skip("+") {
            (1, None)
        } else if self.skip("{") {
            let (inside, rest) = self.rest.split_once('}')?;
            self.rest = rest;
            match inside.split_once(',') {
                None => (count(inside)?, Some(count(inside)?)),
                Some((min, "")) => (count(min)?, None),
                Some((min, max)) => (count(min)?, Some(count(max)?)),
            }
        } else {
            return Some(atom);
        };
        // What may repeat nothing would have no end of readings, and a second sign means another.
        let twice = self.rest.starts_with(['?', '*', '+', '{']);
        let sound = !twice && !atom.may_be_nothing() && max.is_none_or(|max| min <= max);
        sound.then(|| atom.repeat(min, max))
    }
}

fn count(digits: &str) -> Option<u32> {
    let number: u32 = digits.parse().ok()?;
    (u64::from(number) <= LENGTH_MAX && !digits.starts_with('+')).then_some(number)
}

/// Tells whether JSON writes a character as it is.
fn plain(c: char) -> bool {
    !c.is_control() && !matches!(c, '"' | '\\')
}
