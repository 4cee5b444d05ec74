//! Team files: TOML in, a checked [`Team`] out, with reports that point at the line.

#![warn(missing_docs)]

pub mod script;
pub mod team;

pub use team::Team;
