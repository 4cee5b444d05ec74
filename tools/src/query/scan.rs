//! The words of a statement whose database is not asked: where parameters stand, and where the
//! same letters are only part of a text, a name in quotes or a remark.

use std::ops::Range;

/// A language in which statements are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// SQL as PostgreSQL reads it; parameters are `:name`.
    Postgres,
    /// Cypher; parameters are `$name`.
    Cypher,
}

/// One piece of a statement; blank space and remarks are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A keyword, a name or a number, without quotes.
    Word(&'a str),
    /// A text or a name in quotes.
    Quoted,
    /// A parameter by its name.
    Parameter(&'a str),
    /// A parameter that is written in a way which is not for team files.
    Strange(&'a str),
    /// Anything else.
    Sign(char),
}

/// A token and the bytes where it stands.
pub(super) type Piece<'a> = (Token<'a>, Range<usize>);

/// Takes a statement apart; an error says what is not closed, and on which line it begins.
pub(super) fn pieces(language: Language, text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut scanner = Scanner { language, text, at: 0 };
    let mut pieces = Vec::new();
    while let Some(piece) = scanner.next()? {
        pieces.push(piece);
    }
    Ok(pieces)
}

struct Scanner<'a> {
    language: Language,
    text: &'a str,
    at: usize,
}

fn is_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn slice(&self, from: usize) -> &'a str {
        self.text.get(from..self.at).unwrap_or_default()
    }

    fn skip_while(&mut self, is_in: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !is_in(c)).unwrap_or(rest.len());
    }

    fn unclosed(&self, what: &str, from: usize) -> String {
        let before = self.text.get(..from).unwrap_or_default();
        format!("{what} is not closed (line {})", before.matches('\n').count() + 1)
    }

    fn next(&mut self) -> Result<Option<Piece<'a>>, String> {
        loop {
            self.skip_while(char::is_whitespace);
            if !self.skip_remark()? {
                break;
            }
        }
        let from = self.at;
        let Some(first) = self.rest().chars().next() else { return Ok(None) };
        let token = match (self.language, first) {
            (language, '\'' | '"') => self.quoted(first, language == Language::Cypher)?,
            (Language::Cypher, '`') => self.quoted(first, false)?,
            (Language::Postgres, '$') => self.dollar()?,
            (Language::Cypher, '$') => self.marked('$'),
            (Language::Postgres, ':') => self.marked(':'),
            (_, c) if is_word(c) => self.word()?,
            (_, c) => {
                self.at += c.len_utf8();
                Token::Sign(c)
            }
        };
        Ok(Some((token, from..self.at)))
    }

    /// Passes over a remark, if one begins here.
    fn skip_remark(&mut self) -> Result<bool, String> {
        let line = match self.language {
            Language::Postgres => "--",
            Language::Cypher => "//",
        };
        if self.rest().starts_with(line) {
            self.skip_while(|c| c != '\n');
            return Ok(true);
        }
        if !self.rest().starts_with("/*") {
            return Ok(false);
        }
        let from = self.at;
        let mut depth = 0_usize;
        loop {
            let rest = self.rest();
            if rest.starts_with("*/") {
                self.at += 2;
                // Remarks of PostgreSQL may hold others.
                depth = if self.language == Language::Postgres { depth - 1 } else { 0 };
                if depth == 0 {
                    return Ok(true);
                }
            } else if rest.starts_with("/*") {
                self.at += 2;
                depth += 1;
            } else {
                match rest.chars().next() {
                    Some(c) => self.at += c.len_utf8(),
                    None => return Err(self.unclosed("a remark", from)),
                }
            }
        }
    }

    /// Takes what stands in quotes, in which two quotes are one.
    fn quoted(&mut self, quote: char, has_escapes: bool) -> Result<Token<'a>, String> {
        let from = self.at;
        self.at += quote.len_utf8();
        loop {
            let mut rest = self.rest().chars();
            match rest.next() {
                None => return Err(self.unclosed("a text or a name in quotes", from)),
                Some('\\') if has_escapes => {
                    self.at += 1 + rest.next().map_or(0, char::len_utf8);
                }
                Some(c) if c == quote => {
                    self.at += c.len_utf8();
                    if rest.next() != Some(quote) {
                        return Ok(Token::Quoted);
                    }
                    self.at += quote.len_utf8();
                }
                Some(c) => self.at += c.len_utf8(),
            }
        }
    }

    /// Takes a text in dollars, such as `$tag$..$tag$`, or a parameter by number.
    fn dollar(&mut self) -> Result<Token<'a>, String> {
        let from = self.at;
        self.at += 1;
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            self.skip_while(|c| c.is_ascii_digit());
            return Ok(Token::Strange(self.slice(from)));
        }
        self.skip_while(is_word);
        if !self.rest().starts_with('$') {
            return Ok(Token::Sign('$'));
        }
        self.at += 1;
        let tag = self.slice(from);
        match self.rest().find(tag) {
            Some(length) => {
                self.at += length + tag.len();
                Ok(Token::Quoted)
            }
            None => Err(self.unclosed("a text in dollars", from)),
        }
    }

    /// Takes a parameter, or a sign that only begins like one.
    fn marked(&mut self, mark: char) -> Token<'a> {
        let from = self.at;
        self.at += 1;
        let rest = self.rest();
        match (self.language, rest.chars().next()) {
            // A cast, or an argument by name.
            (Language::Postgres, Some(':' | '=')) => {
                self.at += 1;
                Token::Sign(mark)
            }
            (Language::Cypher, Some('`')) => {
                let end = rest.get(1..).and_then(|inner| inner.find('`'));
                self.at += end.map_or(1, |end| end + 2);
                Token::Strange(self.slice(from))
            }
            (_, Some(c)) if is_start(c) => {
                self.skip_while(is_word);
                Token::Parameter(self.slice(from + 1))
            }
            (Language::Cypher, Some(c)) if c.is_ascii_digit() => {
                self.skip_while(is_word);
                Token::Strange(self.slice(from))
            }
            _ => Token::Sign(mark),
        }
    }

    fn word(&mut self) -> Result<Token<'a>, String> {
        let from = self.at;
        let may_have_dollars = self.language == Language::Postgres;
        self.skip_while(|c| is_word(c) || may_have_dollars && c == '$');
        let word = self.slice(from);
        let is_escaped = may_have_dollars && word.eq_ignore_ascii_case("e");
        // A text such as `E'it\'s'`.
        if is_escaped && self.rest().starts_with('\'') {
            return self.quoted('\'', true);
        }
        Ok(Token::Word(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(language: Language, text: &str) -> Result<String, String> {
        let shown = |(token, _): Piece<'_>| match token {
            Token::Word(word) => word.to_owned(),
            Token::Quoted => "Q".to_owned(),
            Token::Parameter(name) => format!("<{name}>"),
            Token::Strange(written) => format!("!{written}"),
            Token::Sign(sign) => sign.to_string(),
        };
        Ok(pieces(language, text)?.into_iter().map(shown).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn parameters_are_told_from_what_looks_like_them() {
        use Language::{Cypher, Postgres};
        for (language, text, expected) in [
            (Postgres, "select :x, ':y', \":z\" -- :a\n/* :b /* :c */ :d */", "select <x> , Q , Q"),
            (
                Postgres,
                "a::int, f(b := 1), c[1: 2], :x::text",
                "a : int , f ( b : 1 ) , c [ 1 : 2 ] , <x> : text",
            ),
            (Postgres, "E'it\\'s :x' 'a\\' :y 'it''s :z'", "Q Q <y> Q"),
            (Postgres, "$$ :x $$ $a$ $$ :y $a$ $1 a$b :é", "Q Q !$1 a$b <é>"),
            (Postgres, "1.5e3+:x;", "1 . 5e3 + <x> ;"),
            (
                Cypher,
                "MATCH (n:Film {t: $x}) // $y\nRETURN n.`$z`, '$a\\'$b', \"$c\"",
                "MATCH ( n : Film { t : <x> } ) RETURN n . Q , Q , Q",
            ),
            (Cypher, "/* $x /* */ $y $`odd` $1", "<y> !$`odd` !$1"),
        ] {
            assert_eq!(shown(language, text).unwrap(), expected, "{text}");
        }
        for (language, text, expected) in [
            (Postgres, "select\n'a", "a text or a name in quotes is not closed (line 2)"),
            (Postgres, "/* /* */", "a remark is not closed (line 1)"),
            (Postgres, "\n\n$a$ $b$", "a text in dollars is not closed (line 3)"),
            (Cypher, "RETURN `a", "a text or a name in quotes is not closed (line 1)"),
        ] {
            assert_eq!(shown(language, text).unwrap_err(), expected, "{text}");
        }
    }
}
