//! What can be wrong with an expression, and where.

use super::function::Function;
use super::{EXPRESSION_BYTES_MAX, NESTING_MAX};

/// Tells at which character an expression failed, and why.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("character {position}: {fault}")]
pub struct Error {
    /// The character, counted from 1.
    pub position: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The expression is longer than [`EXPRESSION_BYTES_MAX`].
    #[error("the expression has more than {EXPRESSION_BYTES_MAX} bytes; split it")]
    TooLong,
    /// The expression is nested deeper than [`NESTING_MAX`].
    #[error(
        "parentheses, signs and powers are nested deeper than {NESTING_MAX}; split the expression"
    )]
    TooDeep,
    /// A character that no expression contains.
    #[error("unexpected {0:?}; an expression consists of numbers, names, + - * / % ^ ! ( ) and ,")]
    Character(char),
    /// Digits that do not make a number.
    #[error(
        "{0:?} is no number; write digits without separators or leading zeros, such as 1000, 0.5 \
         or 1.5e-3"
    )]
    Malformed(String),
    /// Something else stands where a certain thing must.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What could have stood there.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// A comma outside a call.
    #[error("unexpected ','; it separates the arguments of a function, so write 1000 for 1,000")]
    Comma,
    /// A remainder without a divisor, as in `5%`; a sign in front of the divisor is refused as
    /// well, because `50% + 3` most likely means percent.
    #[error(
        "'%' is the remainder of a division and takes a number, a name or '(' to its right; write \
         /100 for percent"
    )]
    Percent,
    /// A parenthesis that nothing opened.
    #[error("')' without '('")]
    Unopened,
    /// The end came before a parenthesis was closed.
    #[error("expected ')' for the '(' at character {open}, found the end")]
    Unclosed {
        /// The character that opened it, counted from 1.
        open: usize,
    },
    /// Neither a constant nor a function.
    #[error(
        "unknown name {0:?}; there are the constants pi, e and tau and the functions {names}",
        names = Function::names()
    )]
    UnknownName(String),
    /// A function without its arguments.
    #[error("expected '(' after the function's name, as in {usage}")]
    CallWithoutParenthesis {
        /// How the function is called.
        usage: &'static str,
    },
    /// A call with too few or too many arguments.
    #[error("{given} arguments are given, but it is called as {usage}")]
    Arity {
        /// How many there are.
        given: usize,
        /// How the function is called.
        usage: &'static str,
    },
    /// `x!!`, which some read as a double factorial and some as two factorials.
    #[error("'!!' can be read in two ways; write (x!)! for the factorial of a factorial")]
    DoubleFactorial,
    /// A division or remainder by zero, or zero to a negative power.
    #[error("division by zero")]
    DivisionByZero,
    /// No real number is the result.
    #[error("{0} is not a real number")]
    NotReal(String),
    /// The result is beyond what a 64-bit float holds.
    #[error("the result is too large, beyond 1.8e308")]
    Overflow,
    /// An integer is needed.
    #[error("{what} takes integers, not {given}")]
    NotInteger {
        /// The function.
        what: &'static str,
        /// What was given.
        given: String,
    },
    /// An argument is outside the function's range.
    #[error("{what} takes {range}, not {given}")]
    OutOfRange {
        /// The function or its argument.
        what: &'static str,
        /// What it takes.
        range: &'static str,
        /// What was given.
        given: String,
    },
}
