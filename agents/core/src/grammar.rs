//! Grammars that a model's reply has to obey, made from JSON Schemas.
//!
//! [`to_gbnf`] writes the notation of llama.cpp. The grammar may be narrower than the schema but
//! never wider: whatever it accepts is strict JSON and valid by the schema. A keyword that it
//! could not hold to is an error, never passed over; annotations, and keywords that do not apply
//! to the types that are left, are. It is narrower in these points:
//!
//! - Objects hold the properties that they declare: the required ones, then the others, both in
//!   the order of the schema. Only an object without `properties`, or with an empty table and an
//!   explicit `additionalProperties`, holds what it likes.
//! - A schema without `type` whose keywords speak of one type is of that type.
//! - Between tokens stands at most one space.
//! - Numbers have at most sixteen digits before the point and two in the exponent, integers are
//!   written as such, and free values are nested at most [`FREE_DEPTH_MAX`] deep.
//! - A `pattern` must be anchored at both ends and made of plain characters, classes, groups and
//!   counts; it cannot stand beside a length.
//! - The alternatives of `oneOf` must be told apart by a type, by the values of a property that
//!   they require, or by a property that one of them requires and the other does not have.

use serde_json::{Map, Value};

mod alternatives;
mod convert;
mod digits;
mod literal;
mod merge;
mod object;
mod pattern;
mod rules;
mod terminal;
#[cfg(test)]
mod tests;

pub use rules::{RULES_MAX, TEXT_BYTES_MAX};

/// Levels of a schema that are followed, references that are merged included. Readers of JSON
/// refuse values that are nested deeper than 128 levels.
pub const DEPTH_MAX: usize = 64;

/// Subschemas that are looked at, each as often as it is used. Merging could otherwise make much
/// of a small schema.
pub const SUBSCHEMAS_MAX: usize = 20_000;

/// The largest `minLength` and `maxLength`. llama.cpp refuses to count to more than 2000, and
/// what it counts to costs it memory for every character.
pub const LENGTH_MAX: u64 = 1000;

/// The largest `minItems` and `maxItems`, for the same reason.
pub const ITEMS_MAX: u64 = 1000;

/// Levels of arrays and objects in a value that the schema says nothing about.
pub const FREE_DEPTH_MAX: usize = 4;

/// Why a schema has no grammar. `at` is a JSON pointer into the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// A keyword says what a grammar cannot hold to.
    #[error(
        "make a grammar of {}: {what} cannot be expressed; leave it out and check the reply \
         against the whole schema",
        place(at)
    )]
    Unsupported {
        /// Where.
        at: String,
        /// The keyword, or what it asks for.
        what: String,
    },
    /// A keyword has a value that JSON Schema does not allow.
    #[error("make a grammar of {}: {what} is not valid there; correct the schema", place(at))]
    Malformed {
        /// Where.
        at: String,
        /// The keyword.
        what: String,
    },
    /// A reference leads nowhere in this schema.
    #[error(
        "make a grammar of {}: nothing stands at {reference:?}; references must point into the \
         same schema",
        place(at)
    )]
    Reference {
        /// Where it stands.
        at: String,
        /// Where it leads.
        reference: String,
    },
    /// No value is valid.
    #[error("make a grammar of {}: no value is valid there; correct the schema", place(at))]
    Empty {
        /// Where.
        at: String,
    },
    /// Every value would hold another of its own kind, or be nothing but it.
    #[error(
        "make a grammar of {}: its values refer to themselves without an end; make a property on \
         the way optional",
        place(at)
    )]
    Endless {
        /// Where.
        at: String,
    },
    /// The schema exceeds a limit.
    #[error("make a grammar of the schema: it needs more than {max} {what}; make it smaller")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        max: usize,
    },
}

fn place(at: &str) -> String {
    if at.is_empty() { "the schema".to_owned() } else { format!("the schema at {at}") }
}

/// Writes a grammar whose every sentence is valid by a JSON Schema.
///
/// The result depends on nothing but the schema; the start rule is `root`.
pub fn to_gbnf(schema: &Value) -> Result<String, GrammarError> {
    convert::Converter::new(schema).grammar()?.write()
}

/// The keywords of one subschema.
type Keywords = Map<String, Value>;

/// Appends a step to a JSON pointer.
fn below(at: &str, step: &str) -> String {
    format!("{at}/{}", step.replace('~', "~0").replace('/', "~1"))
}

fn unsupported(at: &str, what: impl Into<String>) -> GrammarError {
    GrammarError::Unsupported { at: at.to_owned(), what: what.into() }
}

fn malformed(at: &str, what: &str) -> GrammarError {
    GrammarError::Malformed { at: at.to_owned(), what: what.to_owned() }
}
