//! Splits an expression into numbers, names and signs.

use std::iter::{Enumerate, Peekable};
use std::str::Chars;

use super::fault::{Error, Fault};
use super::number::Number;

/// One piece of an expression and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Lexeme {
    /// The first character, counted from 1.
    pub(super) position: usize,
    pub(super) token: Token,
}

impl Lexeme {
    pub(super) fn fault(&self, fault: Fault) -> Error {
        Error { position: self.position, fault }
    }

    pub(super) fn expected(&self, expected: &'static str) -> Error {
        self.fault(Fault::Expected { expected, found: self.token.to_string() })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(Number),
    /// A constant or a function, in lower case.
    Name(String),
    Plus,
    Minus,
    Times,
    Over,
    Percent,
    Power,
    Bang,
    Open,
    Close,
    Comma,
    End,
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Number(number) => return write!(f, "the number {number}"),
            Self::Name(name) => return write!(f, "the name {name:?}"),
            Self::Plus => "'+'",
            Self::Minus => "'-'",
            Self::Times => "'*'",
            Self::Over => "'/'",
            Self::Percent => "'%'",
            Self::Power => "'^'",
            Self::Bang => "'!'",
            Self::Open => "'('",
            Self::Close => "')'",
            Self::Comma => "','",
            Self::End => "the end",
        })
    }
}

type Characters<'a> = Peekable<Enumerate<Chars<'a>>>;

/// Splits an expression; the last lexeme is [`Token::End`].
pub(super) fn lex(expression: &str) -> Result<Vec<Lexeme>, Error> {
    let mut characters = expression.chars().enumerate().peekable();
    let mut lexemes = Vec::new();
    while let Some((index, first)) = characters.next() {
        let position = index + 1;
        let fault = |fault| Error { position, fault };
        let token = match first {
            _ if first.is_whitespace() => continue,
            '+' => Token::Plus,
            // U+2212 is the sign that typesetting uses for minus.
            '-' | '\u{2212}' => Token::Minus,
            '*' if next_if(&mut characters, |c| c == '*').is_some() => Token::Power,
            '*' | '×' => Token::Times,
            '/' | '÷' => Token::Over,
            '%' => Token::Percent,
            '^' => Token::Power,
            '!' => Token::Bang,
            '(' => Token::Open,
            ')' => Token::Close,
            ',' => Token::Comma,
            '0'..='9' | '.' => Token::Number(number(first, &mut characters).map_err(fault)?),
            _ if first.is_alphabetic() => Token::Name(name(first, &mut characters)),
            other => return Err(fault(Fault::Character(other))),
        };
        lexemes.push(Lexeme { position, token });
    }
    lexemes.push(Lexeme { position: expression.chars().count() + 1, token: Token::End });
    Ok(lexemes)
}

fn next_if(characters: &mut Characters<'_>, wanted: impl Fn(char) -> bool) -> Option<char> {
    characters.next_if(|(_, character)| wanted(*character)).map(|(_, character)| character)
}

fn take_while(text: &mut String, characters: &mut Characters<'_>, wanted: fn(char) -> bool) {
    while let Some(character) = next_if(characters, wanted) {
        text.push(character);
    }
}

fn name(first: char, characters: &mut Characters<'_>) -> String {
    let mut text = String::from(first);
    take_while(&mut text, characters, |c| c.is_alphanumeric() || c == '_');
    text.to_lowercase()
}

fn number(first: char, characters: &mut Characters<'_>) -> Result<Number, Fault> {
    let mut text = String::from(first);
    take_while(&mut text, characters, |c| c.is_ascii_digit() || matches!(c, '.' | '_'));
    // An e after digits is an exponent only if digits follow; else it is the constant.
    let mut ahead = characters.clone();
    let mut exponent = String::new();
    exponent.extend(next_if(&mut ahead, |c| matches!(c, 'e' | 'E')));
    if !exponent.is_empty() {
        exponent.extend(
            next_if(&mut ahead, |c| matches!(c, '+' | '-' | '\u{2212}'))
                .map(|c| if c == '+' { '+' } else { '-' }),
        );
        let bare = exponent.len();
        take_while(&mut exponent, &mut ahead, |c| c.is_ascii_digit());
        if exponent.len() > bare {
            text.push_str(&exponent);
            *characters = ahead;
        }
    }
    let zeros = text.starts_with('0') && text.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
    if zeros || text.contains('_') {
        return Err(Fault::Malformed(text));
    }
    if let Ok(integer) = text.parse() {
        return Ok(Number::Integer(integer));
    }
    let float = text.parse::<f64>().map_err(|_| Fault::Malformed(text))?;
    Number::from_f64(float)
}
