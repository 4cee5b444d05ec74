//! The rules of a grammar: how they are written, and whether every one comes to an end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::GrammarError;

/// Rules of one grammar. A server tries them for every token, and a schema that needs more would
/// not fit a prompt either.
pub const RULES_MAX: usize = 4096;

/// Bytes of a grammar's text; each request carries it.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;

/// What a rule stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    /// Exactly this text.
    Text(String),
    /// One character of a class, as it is written.
    Class(&'static str),
    /// One character of these ranges.
    Set(Vec<(char, char)>),
    /// One digit of a range.
    Digit(u8, u8),
    Rule(String),
    Seq(Vec<Expr>),
    Alt(Vec<Expr>),
    /// From so many times to so many, or without end.
    Repeat(Box<Expr>, u32, Option<u32>),
}

impl Expr {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn rule(name: &str) -> Self {
        Self::Rule(name.to_owned())
    }

    pub(super) fn repeat(self, min: u32, max: Option<u32>) -> Self {
        Self::Repeat(Box::new(self), min, max)
    }

    pub(super) fn optional(self) -> Self {
        self.repeat(0, Some(1))
    }

    /// Makes a choice; a choice of one is that one.
    pub(super) fn any_of(mut choices: Vec<Self>) -> Self {
        match choices.pop() {
            Some(only) if choices.is_empty() => only,
            last => Self::Alt(choices.into_iter().chain(last).collect()),
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) => write_text(text, out),
            Self::Class(class) => out.push_str(class),
            Self::Set(ranges) => write_set(ranges, out),
            Self::Digit(from, to) if from == to => drop(write!(out, "\"{from}\"")),
            Self::Digit(from, to) => drop(write!(out, "[{from}-{to}]")),
            Self::Rule(name) => out.push_str(name),
            Self::Seq(parts) => join(parts, " ", Self::write_part, out),
            Self::Alt(choices) => join(choices, " | ", Self::write, out),
            Self::Repeat(inner, min, max) => {
                inner.write_atom(out);
                match (min, max) {
                    (0, Some(1)) => out.push('?'),
                    (0, None) => out.push('*'),
                    (1, None) => out.push('+'),
                    (min, None) => drop(write!(out, "{{{min},}}")),
                    (min, Some(max)) if min == max => drop(write!(out, "{{{min}}}")),
                    (min, Some(max)) => drop(write!(out, "{{{min},{max}}}")),
                }
            }
        }
    }

    fn write_part(&self, out: &mut String) {
        match self {
            Self::Alt(_) => self.write_group(out),
            _ => self.write(out),
        }
    }

    fn write_atom(&self, out: &mut String) {
        match self {
            Self::Alt(_) | Self::Seq(_) | Self::Repeat(..) => self.write_group(out),
            Self::Text(_) | Self::Class(_) | Self::Set(_) | Self::Digit(..) | Self::Rule(_) => {
                self.write(out);
            }
        }
    }

    fn write_group(&self, out: &mut String) {
        out.push('(');
        self.write(out);
        out.push(')');
    }

    /// Tells whether it mentions a rule that is not among the given ones.
    fn mentions_other(&self, known: &BTreeSet<&str>) -> bool {
        match self {
            Self::Text(_) | Self::Class(_) | Self::Set(_) | Self::Digit(..) => false,
            Self::Rule(name) => !known.contains(name.as_str()),
            Self::Seq(parts) | Self::Alt(parts) => {
                parts.iter().any(|part| part.mentions_other(known))
            }
            Self::Repeat(inner, ..) => inner.mentions_other(known),
        }
    }

    /// Tells whether all rules that it cannot do without are among the given ones.
    fn ends(&self, ending: &BTreeSet<&str>) -> bool {
        match self {
            Self::Text(_) | Self::Class(_) | Self::Set(_) | Self::Digit(..) => true,
            Self::Rule(name) => ending.contains(name.as_str()),
            Self::Seq(parts) => parts.iter().all(|part| part.ends(ending)),
            Self::Alt(choices) => choices.iter().any(|choice| choice.ends(ending)),
            Self::Repeat(inner, min, _) => *min == 0 || inner.ends(ending),
        }
    }

    /// Tells whether it may be nothing; it has no rules in it.
    pub(super) fn may_be_nothing(&self) -> bool {
        self.may_be_empty(&BTreeSet::new())
    }

    /// Tells whether it may be nothing, given the rules that may be.
    fn may_be_empty(&self, empty: &BTreeSet<&str>) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Class(_) | Self::Set(_) | Self::Digit(..) => false,
            Self::Rule(name) => empty.contains(name.as_str()),
            Self::Seq(parts) => parts.iter().all(|part| part.may_be_empty(empty)),
            Self::Alt(choices) => choices.iter().any(|choice| choice.may_be_empty(empty)),
            Self::Repeat(inner, min, _) => *min == 0 || inner.may_be_empty(empty),
        }
    }

    /// Collects the rules that it may begin with.
    fn firsts<'a>(&'a self, empty: &BTreeSet<&str>, found: &mut BTreeSet<&'a str>) {
        match self {
            Self::Text(_) | Self::Class(_) | Self::Set(_) | Self::Digit(..) => {}
            Self::Rule(name) => drop(found.insert(name)),
            Self::Alt(choices) => choices.iter().for_each(|choice| choice.firsts(empty, found)),
            Self::Repeat(inner, ..) => inner.firsts(empty, found),
            Self::Seq(parts) => {
                for part in parts {
                    part.firsts(empty, found);
                    if !part.may_be_empty(empty) {
                        break;
                    }
                }
            }
        }
    }
}

fn join(parts: &[Expr], between: &str, write: fn(&Expr, &mut String), out: &mut String) {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.push_str(between);
        }
        write(part, out);
    }
    if parts.is_empty() {
        out.push_str("\"\"");
    }
}

fn write_set(ranges: &[(char, char)], out: &mut String) {
    let write = |c: char, out: &mut String| match c {
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => {
            out.push_str(&code(c));
        }
        c => out.push(c),
    };
    out.push('[');
    for (from, to) in ranges {
        write(*from, out);
        if from != to {
            out.push('-');
            write(*to, out);
        }
    }
    out.push(']');
}

/// Writes an ASCII character by its number.
fn code(c: char) -> String {
    format!("\\x{:02X}", u32::from(c))
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_ascii_control() => out.push_str(&code(c)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Named rules in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    /// Names in use, and the number to try next for each.
    names: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Rule {
    name: String,
    expr: Expr,
    /// The place in the schema that it was made for.
    at: String,
}

/// Characters of a rule's name that are taken from the schema.
const NAME_CHARS_MAX: usize = 48;

impl Rules {
    /// Returns a name that no other rule has, made of what is wished.
    pub(super) fn reserve(&mut self, wish: &str) -> Result<String, GrammarError> {
        let mut base: String = wish
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(NAME_CHARS_MAX)
            .collect();
        if base.is_empty() {
            base.push('x');
        }
        if self.names.len() >= RULES_MAX {
            return Err(GrammarError::TooLarge { what: "rules", max: RULES_MAX });
        }
        let mut name = base.clone();
        while self.names.contains_key(&name) {
            let next = self.names.entry(base.clone()).or_insert(1);
            *next += 1;
            name = format!("{base}-{next}");
        }
        self.names.insert(name.clone(), 1);
        Ok(name)
    }

    /// Gives a reserved name its meaning.
    pub(super) fn define(&mut self, name: String, at: &str, expr: Expr) {
        self.rules.push(Rule { name, expr, at: at.to_owned() });
    }

    /// Writes all rules, one a line.
    pub(super) fn write(&self) -> Result<String, GrammarError> {
        self.check()?;
        let mut out = String::new();
        for rule in &self.rules {
            out.push_str(&rule.name);
            out.push_str(" ::= ");
            rule.expr.write(&mut out);
            out.push('\n');
            if out.len() > TEXT_BYTES_MAX {
                return Err(GrammarError::TooLarge {
                    what: "bytes of grammar",
                    max: TEXT_BYTES_MAX,
                });
            }
        }
        Ok(out)
    }

    /// Refuses rules that never end, and rules that begin with themselves, which no server takes.
    fn check(&self) -> Result<(), GrammarError> {
        let defined: BTreeSet<&str> = self.rules.iter().map(|rule| rule.name.as_str()).collect();
        // What a reference leads to has no rule if no value fits it.
        if let Some(rule) = self.rules.iter().find(|rule| rule.expr.mentions_other(&defined)) {
            return Err(GrammarError::Empty { at: rule.at.clone() });
        }
        let ending = self.growing(Expr::ends);
        if let Some(rule) = self.rules.iter().find(|rule| !ending.contains(rule.name.as_str())) {
            return Err(GrammarError::Endless { at: rule.at.clone() });
        }
        let empty = self.growing(Expr::may_be_empty);
        let mut firsts = BTreeMap::new();
        for rule in &self.rules {
            let mut found = BTreeSet::new();
            rule.expr.firsts(&empty, &mut found);
            firsts.insert(rule.name.as_str(), found);
        }
        // Rules that begin with no rule that is left are taken away; what stays goes in circles.
        loop {
            let before = firsts.len();
            let left: BTreeSet<&str> = firsts.keys().copied().collect();
            firsts.retain(|_, found| found.iter().any(|first| left.contains(first)));
            if firsts.len() == before {
                break;
            }
        }
        match self.rules.iter().find(|rule| firsts.contains_key(rule.name.as_str())) {
            Some(rule) => Err(GrammarError::Endless { at: rule.at.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the least set of rules that have a property which they get from one another.
    fn growing(&self, has: fn(&Expr, &BTreeSet<&str>) -> bool) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        loop {
            let before = found.len();
            for rule in &self.rules {
                if !found.contains(rule.name.as_str()) && has(&rule.expr, &found) {
                    found.insert(rule.name.as_str());
                }
            }
            if found.len() == before {
                return found;
            }
        }
    }
}
