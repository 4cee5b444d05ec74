//! The calculator: an expression goes in, a number or an error that names the place comes out.
//!
//! The parser is a Pratt parser that computes as it reads: no tree is built, and a fault is
//! reported at the character where reading or computing stopped.
//!
//! | binds, loosest first | operators | groups |
//! | --- | --- | --- |
//! | sum | `+ -` | left |
//! | product | `* / %` and `× ÷` | left |
//! | sign | `-x +x` | |
//! | power | `^ **` | right |
//! | factorial | `x!` | |
//!
//! So `-2^2` is -4, `2^3^2` is 512 and `2^-1` is 0.5. `%` is the remainder with the sign of the
//! divisor, and a signed divisor needs parentheses. Nothing is implied: `2pi` and `2(3)` are faults.

mod fault;
mod function;
mod lex;
mod number;
#[cfg(test)]
mod tests;

use std::iter::Peekable;
use std::vec::IntoIter;

pub use fault::{Error, Fault};
pub use number::Number;

use function::Function;
use lex::{Lexeme, Token};

/// The longest expression, in bytes. It bounds the work of one call; sums that people and models
/// write have a few hundred.
pub const EXPRESSION_BYTES_MAX: usize = 4096;

/// The deepest nesting of parentheses, signs and powers. It bounds the parser's stack.
pub const NESTING_MAX: usize = 64;

/// The constants, by name.
const CONSTANTS: [(&str, f64); 4] = [
    ("pi", std::f64::consts::PI),
    ("π", std::f64::consts::PI),
    ("e", std::f64::consts::E),
    ("tau", std::f64::consts::TAU),
];

/// Computes an arithmetic expression.
pub fn evaluate(expression: &str) -> Result<Number, Error> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(Error { position: 1, fault: Fault::TooLong });
    }
    let mut parser = Parser { lexemes: lex::lex(expression)?.into_iter().peekable(), depth: 0 };
    let value = parser.expression(Binding::Sum)?;
    let rest = parser.next();
    match rest.token {
        Token::End => Ok(value),
        Token::Comma => Err(rest.fault(Fault::Comma)),
        Token::Close => Err(rest.fault(Fault::Unopened)),
        _ => Err(rest.expected("an operator")),
    }
}

/// How tightly an operator binds, loosest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Sum,
    Product,
    Sign,
    Power,
}

struct Parser {
    /// Ends with [`Token::End`], which is never taken.
    lexemes: Peekable<IntoIter<Lexeme>>,
    depth: usize,
}

impl Parser {
    /// Reads operands and the operators between them that bind at least as tightly as `least`.
    fn expression(&mut self, least: Binding) -> Result<Number, Error> {
        let mut left = self.operand()?;
        loop {
            let binding = match self.peek() {
                Token::Plus | Token::Minus => Binding::Sum,
                Token::Times | Token::Over | Token::Percent => Binding::Product,
                Token::Power => Binding::Power,
                _ => return Ok(left),
            };
            if binding < least {
                return Ok(left);
            }
            let operator = self.next();
            let operand = matches!(self.peek(), Token::Number(_) | Token::Name(_) | Token::Open);
            if operator.token == Token::Percent && !operand {
                return Err(operator.fault(Fault::Percent));
            }
            let right = match binding {
                Binding::Sum => self.expression(Binding::Product),
                Binding::Product => self.expression(Binding::Sign),
                Binding::Sign | Binding::Power => self.nested(&operator, Binding::Power),
            }?;
            let result = match operator.token {
                Token::Plus => left.plus(right),
                Token::Minus => left.minus(right),
                Token::Times => left.times(right),
                Token::Over => left.over(right),
                Token::Percent => left.modulo(right),
                _ => left.power(right),
            };
            left = result.map_err(|fault| operator.fault(fault))?;
        }
    }

    /// Reads a number, a name, a call, a parenthesis or a signed operand, and a factorial sign.
    fn operand(&mut self) -> Result<Number, Error> {
        let first = self.next();
        let value = match &first.token {
            // A sign takes the powers and factorials to its right, so that -2^2 is -4.
            Token::Minus => return Ok(self.nested(&first, Binding::Power)?.negated()),
            Token::Plus => return self.nested(&first, Binding::Power),
            Token::Number(value) => *value,
            Token::Name(name) => self.named(&first, name)?,
            Token::Open => {
                let value = self.nested(&first, Binding::Sum)?;
                self.close(&first)?;
                value
            }
            Token::Comma => return Err(first.fault(Fault::Comma)),
            _ => return Err(first.expected("a number, a name or '('")),
        };
        if *self.peek() != Token::Bang {
            return Ok(value);
        }
        let bang = self.next();
        if *self.peek() == Token::Bang {
            return Err(bang.fault(Fault::DoubleFactorial));
        }
        value.factorial().map_err(|fault| bang.fault(fault))
    }

    fn named(&mut self, at: &Lexeme, name: &str) -> Result<Number, Error> {
        if let Some(function) = Function::named(name) {
            let arguments = self.arguments(function)?;
            return function.apply(&arguments).map_err(|fault| at.fault(fault));
        }
        let constant = CONSTANTS.iter().find(|(constant, _)| *constant == name);
        let (_, value) = constant.ok_or_else(|| at.fault(Fault::UnknownName(name.to_owned())))?;
        if *self.peek() == Token::Open {
            return Err(self.next().expected("an operator"));
        }
        Number::from_f64(*value).map_err(|fault| at.fault(fault))
    }

    fn arguments(&mut self, function: &Function) -> Result<Vec<Number>, Error> {
        let open = self.next();
        if open.token != Token::Open {
            return Err(open.fault(Fault::CallWithoutParenthesis { usage: function.usage }));
        }
        let mut arguments = Vec::new();
        if *self.peek() == Token::Close {
            self.next();
            return Ok(arguments);
        }
        loop {
            arguments.push(self.nested(&open, Binding::Sum)?);
            if *self.peek() != Token::Comma {
                self.close(&open)?;
                return Ok(arguments);
            }
            self.next();
        }
    }

    fn close(&mut self, open: &Lexeme) -> Result<(), Error> {
        let close = self.next();
        match close.token {
            Token::Close => Ok(()),
            Token::Comma => Err(close.fault(Fault::Comma)),
            Token::End => Err(close.fault(Fault::Unclosed { open: open.position })),
            _ => Err(close.expected("an operator or ')'")),
        }
    }

    fn nested(&mut self, at: &Lexeme, least: Binding) -> Result<Number, Error> {
        if self.depth == NESTING_MAX {
            return Err(at.fault(Fault::TooDeep));
        }
        self.depth += 1;
        let value = self.expression(least)?;
        self.depth -= 1;
        Ok(value)
    }

    fn peek(&mut self) -> &Token {
        self.lexemes.peek().map_or(&Token::End, |lexeme| &lexeme.token)
    }

    /// Takes the next lexeme; the end stays where it is.
    fn next(&mut self) -> Lexeme {
        let end = |lexeme: &Lexeme| lexeme.token == Token::End;
        match self.lexemes.next_if(|lexeme| !end(lexeme)) {
            Some(lexeme) => lexeme,
            None => self.lexemes.peek().map_or(Lexeme { position: 1, token: Token::End }, |end| {
                Lexeme { position: end.position, token: Token::End }
            }),
        }
    }
}
