//! Team files: TOML in, a checked [`Team`] out, with reports that point at the line.
//!
//! A file is read in three stages. `document` knows where everything stands, `shape` holds the file
//! against the schema of the `raw` structs, and `compile` gives it meaning. No stage stops at its
//! first fault, and none binds a port, calls anybody or reads a secret.

#![warn(missing_docs)]

pub mod bound;
mod compile;
mod document;
mod load;
mod parameters;
mod raw;
mod report;
mod schema;
pub mod script;
mod secrecy;
mod shape;
mod sources;
mod suggest;
pub mod team;

pub use load::{TeamText, load, parse, parse_with};
pub use report::{FAULTS_MAX, Fault, Report};
pub use schema::schema;
pub use sources::{Catalogs, Sources};
pub use team::Team;
