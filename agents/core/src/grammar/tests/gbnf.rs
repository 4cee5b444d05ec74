//! Reads a grammar from its text, says what it accepts, and makes sentences of it.

use std::collections::{BTreeSet, HashMap};

use super::arbitrary::Random;

#[derive(Debug)]
enum Node {
    Text(Vec<char>),
    Class { negated: bool, ranges: Vec<(char, char)> },
    Rule(String),
    Seq(Vec<Node>),
    Alt(Vec<Node>),
    Repeat(Box<Node>, usize, Option<usize>),
}

/// A grammar that was read.
pub(super) struct Grammar {
    rules: HashMap<String, Node>,
}

/// Levels of rules after which a sentence is given up.
const LEVELS_MAX: usize = 60;

impl Grammar {
    pub(super) fn read(text: &str) -> Self {
        let mut rules = HashMap::new();
        for line in text.lines() {
            let (name, body) = line.split_once(" ::= ").unwrap_or_else(|| panic!("{line}"));
            let good = |c: char| c.is_ascii_alphanumeric() || c == '-';
            assert!(!name.is_empty() && name.chars().all(good), "{line}");
            let mut reader = Reader { chars: body.chars().collect(), at: 0 };
            let node = reader.choices();
            assert_eq!(reader.at, reader.chars.len(), "{line}");
            assert!(rules.insert(name.to_owned(), node).is_none(), "twice: {line}");
        }
        Self { rules }
    }

    pub(super) fn accepts(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let mut known = HashMap::new();
        let ends = self.ends(&Node::Rule("root".into()), &text, 0, &mut known);
        ends.contains(&text.len())
    }

    /// Returns every place at which a match that begins at `at` can end.
    fn ends(
        &self,
        node: &Node,
        text: &[char],
        at: usize,
        known: &mut HashMap<(String, usize), BTreeSet<usize>>,
    ) -> BTreeSet<usize> {
        match node {
            Node::Text(expected) => {
                let found = text[at..].starts_with(expected);
                found.then_some(at + expected.len()).into_iter().collect()
            }
            Node::Class { negated, ranges } => {
                let fits = |c: &char| ranges.iter().any(|(a, b)| a <= c && c <= b) != *negated;
                text.get(at).filter(|c| fits(c)).map(|_| at + 1).into_iter().collect()
            }
            Node::Rule(name) => {
                let key = (name.clone(), at);
                if let Some(ends) = known.get(&key) {
                    return ends.clone();
                }
                let rule = self.rules.get(name).unwrap_or_else(|| panic!("no rule {name}"));
                let ends = self.ends(rule, text, at, known);
                known.insert(key, ends.clone());
                ends
            }
            Node::Alt(choices) => {
                choices.iter().flat_map(|choice| self.ends(choice, text, at, known)).collect()
            }
            Node::Seq(parts) => parts.iter().fold(BTreeSet::from([at]), |starts, part| {
                starts.into_iter().flat_map(|at| self.ends(part, text, at, known)).collect()
            }),
            Node::Repeat(inner, min, max) => {
                let (mut current, mut all) = (BTreeSet::from([at]), BTreeSet::new());
                for times in 0..=max.unwrap_or(usize::MAX) {
                    if times >= *min {
                        let before = all.len();
                        all.extend(current.iter().copied());
                        if times > *min && all.len() == before {
                            break;
                        }
                    }
                    let step = |at| self.ends(inner, text, at, known);
                    current = current.into_iter().flat_map(step).collect();
                    if current.is_empty() {
                        break;
                    }
                }
                all
            }
        }
    }

    /// Makes a sentence, or nothing if chance led too deep.
    pub(super) fn sentence(&self, random: &mut Random) -> Option<String> {
        let mut out = String::new();
        self.make(&Node::Rule("root".into()), random, LEVELS_MAX, &mut out).then_some(out)
    }

    fn make(&self, node: &Node, random: &mut Random, levels: usize, out: &mut String) -> bool {
        match node {
            Node::Text(text) => out.extend(text),
            Node::Class { negated: false, ranges } => {
                let (from, to) = ranges[random.below(ranges.len())];
                let span = u32::from(to) - u32::from(from) + 1;
                let step = u32::try_from(random.below(span as usize)).unwrap();
                out.push(char::from_u32(u32::from(from) + step).unwrap());
            }
            Node::Class { ranges, .. } => {
                let tried = ['a', ' ', '\'', '{', '\u{80}', 'é', '\u{fffd}', '😀', '"', '\n', '\0'];
                let fits = |c: &char| !ranges.iter().any(|(a, b)| a <= c && c <= b);
                let good: Vec<char> = tried.into_iter().filter(fits).collect();
                out.push(good[random.below(good.len())]);
            }
            Node::Rule(name) => {
                return levels > 0 && self.make(&self.rules[name], random, levels - 1, out);
            }
            Node::Seq(parts) => {
                return parts.iter().all(|part| self.make(part, random, levels, out));
            }
            Node::Alt(choices) => {
                return self.make(&choices[random.below(choices.len())], random, levels, out);
            }
            Node::Repeat(inner, min, max) => {
                let most = max.unwrap_or(min + 3).min(min + 3);
                let times = if random.chance(10) { max.unwrap_or(most) } else { most };
                let times = min + random.below(times - min + 1);
                return (0..times).all(|_| self.make(inner, random, levels, out));
            }
        }
        true
    }
}

struct Reader {
    chars: Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> char {
        self.at += 1;
        self.chars[self.at - 1]
    }

    fn skip(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn choices(&mut self) -> Node {
        let mut choices = vec![self.sequence()];
        while self.skip('|') {
            choices.push(self.sequence());
        }
        Node::Alt(choices)
    }

    fn sequence(&mut self) -> Node {
        let mut parts = Vec::new();
        loop {
            while self.skip(' ') {}
            let node = match self.peek() {
                None | Some('|' | ')') => return Node::Seq(parts),
                Some('(') => {
                    self.at += 1;
                    let inside = self.choices();
                    assert!(self.skip(')'));
                    inside
                }
                Some('"') => {
                    self.at += 1;
                    let mut text = Vec::new();
                    while !self.skip('"') {
                        text.push(self.character());
                    }
                    Node::Text(text)
                }
                Some('[') => self.class(),
                Some(_) => {
                    let start = self.at;
                    while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '-') {
                        self.at += 1;
                    }
                    assert!(self.at > start, "{:?} at {start}", self.chars);
                    Node::Rule(self.chars[start..self.at].iter().collect())
                }
            };
            parts.push(self.repeated(node));
        }
    }

    fn class(&mut self) -> Node {
        self.at += 1;
        let negated = self.skip('^');
        let mut ranges = Vec::new();
        while !self.skip(']') {
            let from = self.character();
            let is_range = self.peek() == Some('-') && self.chars[self.at + 1] != ']';
            let to = if is_range {
                self.at += 1;
                self.character()
            } else {
                from
            };
            ranges.push((from, to));
        }
        Node::Class { negated, ranges }
    }

    fn character(&mut self) -> char {
        match self.next() {
            '\\' => match self.next() {
                'x' => {
                    let digits: String = [self.next(), self.next()].into_iter().collect();
                    char::from_u32(u32::from_str_radix(&digits, 16).unwrap()).unwrap()
                }
                c @ ('"' | '\\' | '[' | ']') => c,
                c => panic!("unknown escape {c}"),
            },
            c => c,
        }
    }

    fn repeated(&mut self, node: Node) -> Node {
        let (min, max) = match self.peek() {
            Some('?') => (0, Some(1)),
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('{') => {
                let length = self.chars[self.at..].iter().position(|c| *c == '}').unwrap();
                let inside: String = self.chars[self.at + 1..self.at + length].iter().collect();
                self.at += length;
                match inside.split_once(',') {
                    None => (inside.parse().unwrap(), Some(inside.parse().unwrap())),
                    Some((min, "")) => (min.parse().unwrap(), None),
                    Some((min, max)) => (min.parse().unwrap(), Some(max.parse().unwrap())),
                }
            }
            _ => return node,
        };
        self.at += 1;
        Node::Repeat(Box::new(node), min, max)
    }
}
