//! Statements of PostgreSQL as far as they are understood without a server: their parameters, and
//! whether they may write.

use super::super::database::{Columns, Described, Parameter};
use super::super::scan::{Language, Token, pieces};

/// What a statement may begin with. The rest reaches beyond the data of one database or beyond one
/// call: transactions, settings, other sessions, files of the server.
const VERBS: [(&str, Verb); 15] = [
    ("select", Verb::Read),
    ("table", Verb::Read),
    ("values", Verb::Read),
    ("show", Verb::Read),
    ("insert", Verb::Change),
    ("update", Verb::Change),
    ("delete", Verb::Change),
    ("merge", Verb::Change),
    ("create", Verb::Define),
    ("alter", Verb::Define),
    ("drop", Verb::Define),
    ("truncate", Verb::Define),
    ("refresh", Verb::Define),
    ("call", Verb::Define),
    ("lock", Verb::Define),
];

/// What a statement does in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    /// Returns rows.
    Read,
    /// Inserts, updates or deletes rows, and says how many.
    Change,
    /// Anything else that is not for readers.
    Define,
}

/// How often one parameter is told to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbering {
    /// Once, so that it is one value of one type.
    Shared,
    /// Once for each place where it stands, so that each may have a type of its own.
    Apart,
}

/// A statement as the server takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    /// The statement, with parameters by number.
    pub(super) sql: String,
    /// The names of the parameters, in the order of their numbers.
    pub(super) names: Vec<String>,
    /// Whether the server tells how many rows it changed.
    pub(super) counts: bool,
    described: Described,
}

impl Parsed {
    pub(super) fn new(text: &str, numbering: Numbering) -> Result<Self, String> {
        let pieces = pieces(Language::Postgres, text)?;
        let mut parsed = Self {
            sql: String::with_capacity(text.len()),
            names: Vec::new(),
            counts: false,
            described: Described { parameters: Vec::new(), columns: Columns::Open, is_read: true },
        };
        let mut copied = 0;
        let mut end = None;
        for (token, span) in &pieces {
            if end.is_some() && *token != Token::Sign(';') {
                return Err("there is more than one statement; write them as `statements = [..]`"
                    .to_owned());
            }
            match token {
                Token::Sign(';') => end = end.or(Some(span.start)),
                Token::Parameter(name) => {
                    let number = parsed.number(name, numbering);
                    parsed.sql.push_str(text.get(copied..span.start).unwrap_or_default());
                    parsed.sql.extend(["$", &number.to_string()]);
                    copied = span.end;
                    parsed.described.parameters.push(Parameter::Named((*name).to_owned()));
                }
                Token::Strange(written) => {
                    parsed.described.parameters.push(Parameter::Strange((*written).to_owned()));
                }
                Token::Word(_) | Token::Quoted | Token::Sign(_) => {}
            }
        }
        let end = end.unwrap_or(text.len());
        parsed.sql.push_str(text.get(copied..end).unwrap_or_default());
        let tokens: Vec<Token<'_>> = pieces.iter().map(|(token, _)| *token).collect();
        parsed.judge(&tokens)?;
        Ok(parsed)
    }

    /// Returns what is known of the statement before it is put to a server.
    pub(super) fn into_described(self) -> Described {
        self.described
    }

    /// Tells whether the statement changes nothing, as far as it says itself.
    pub(super) fn is_read(&self) -> bool {
        self.described.is_read
    }

    fn number(&mut self, name: &str, numbering: Numbering) -> usize {
        let known = self.names.iter().position(|known| known == name);
        if let Some(index) = known.filter(|_| numbering == Numbering::Shared) {
            return index + 1;
        }
        self.names.push(name.to_owned());
        self.names.len()
    }

    fn judge(&mut self, tokens: &[Token<'_>]) -> Result<(), String> {
        let mut open = tokens.iter().skip_while(|token| **token == Token::Sign('('));
        let verb = match open.next() {
            None | Some(Token::Sign(';')) => return Err("there is no statement".to_owned()),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("with") => {
                last_verb(tokens).unwrap_or(Verb::Read)
            }
            Some(Token::Word(word)) => verb(word).ok_or_else(|| refused(word))?,
            Some(_) => return Err("a statement begins with a word such as `select`".to_owned()),
        };
        self.counts = verb == Verb::Change;
        self.described.is_read = verb == Verb::Read && !writes_inside(tokens);
        let returns = tokens.iter().any(|token| is(*token, &["returning"]));
        if verb != Verb::Read && !returns {
            self.described.columns = Columns::Known(Vec::new());
        }
        Ok(())
    }
}

fn verb(word: &str) -> Option<Verb> {
    let found = VERBS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
    found.map(|(_, verb)| *verb)
}

fn refused(word: &str) -> String {
    let begins: Vec<&str> = VERBS.iter().map(|(word, _)| *word).collect();
    format!(
        "`{word}` is not for statements; they begin with `with` or one of {}",
        begins.join(", ")
    )
}

fn is(token: Token<'_>, words: &[&str]) -> bool {
    matches!(token, Token::Word(word) if words.iter().any(|known| known.eq_ignore_ascii_case(word)))
}

/// Finds what a statement that begins with `with` does: what it names stands in parentheses.
fn last_verb(tokens: &[Token<'_>]) -> Option<Verb> {
    let mut depth = 0_usize;
    for token in tokens {
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => depth = depth.saturating_sub(1),
            Token::Word(word) if depth == 0 => {
                if let Some(verb) = verb(word) {
                    return Some(verb);
                }
            }
            _ => {}
        }
    }
    None
}

/// Tells whether a statement that reads also writes: by a part of its `with`, into a table of its
/// own, or because it holds what it reads.
fn writes_inside(tokens: &[Token<'_>]) -> bool {
    const CHANGES: [&str; 4] = ["insert", "update", "delete", "merge"];
    let pairs = || tokens.iter().zip(tokens.iter().skip(1));
    pairs().any(|(before, token)| *before == Token::Sign('(') && is(*token, &CHANGES))
        || pairs().any(|(before, token)| {
            is(*before, &["for"]) && is(*token, &["update", "share", "no", "key"])
        })
        || tokens.iter().any(|token| is(*token, &["into"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_apart() {
        let named = |name: &str| Parameter::Named(name.to_owned());
        for (text, sql, names, is_read, counts, returns) in [
            ("select :x, :y, :x;", "select $1, $2, $1", vec!["x", "y"], true, false, true),
            (
                "(select 1) union (select :x)",
                "(select 1) union (select $1)",
                vec!["x"],
                true,
                false,
                true,
            ),
            (
                "WITH a AS (SELECT 1) SELECT * FROM a -- :x",
                "WITH a AS (SELECT 1) SELECT * FROM a -- :x",
                vec![],
                true,
                false,
                true,
            ),
            (
                "with a as (insert into t values (1) returning x) select * from a",
                "",
                vec![],
                false,
                false,
                true,
            ),
            ("with a as (select 1) update t set x = 1", "", vec![], false, true, false),
            (
                "insert into t values (:a) returning a",
                "insert into t values ($1) returning a",
                vec!["a"],
                false,
                true,
                true,
            ),
            ("select * from t for update", "", vec![], false, false, true),
            ("select \"update\" from t", "", vec![], true, false, true),
            ("select 1 into t", "", vec![], false, false, true),
            ("truncate t", "", vec![], false, false, false),
        ] {
            let parsed = Parsed::new(text, Numbering::Shared).unwrap();
            assert!(sql.is_empty() || parsed.sql == sql, "{text}: {}", parsed.sql);
            assert_eq!(parsed.names, names, "{text}");
            assert_eq!((parsed.is_read(), parsed.counts), (is_read, counts), "{text}");
            assert_eq!(parsed.described.columns.has_some(), returns, "{text}");
            assert!(names.iter().all(|name| parsed.described.parameters.contains(&named(name))));
        }
        let apart = Parsed::new("select :x, :y, :x", Numbering::Apart).unwrap();
        assert_eq!(
            (apart.sql.as_str(), apart.names.join(" ")),
            ("select $1, $2, $3", "x y x".to_owned())
        );
        for (text, part) in [
            ("", "there is no statement"),
            (" ; -- none", "there is no statement"),
            ("select 1; select 2", "more than one statement"),
            ("begin", "`begin` is not for statements"),
            ("SET x = 1", "`SET` is not for statements"),
            ("copy t to '/tmp/x'", "`copy` is not for statements"),
            ("do $$ begin end $$", "`do` is not for statements"),
            ("'select'", "begins with a word"),
            ("select 'x", "not closed (line 1)"),
        ] {
            let fault = Parsed::new(text, Numbering::Shared).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }
}
