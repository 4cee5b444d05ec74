//! What happens next, decided without I/O: the run machine, the dialects, the policies.

#![warn(missing_docs)]

pub mod capture;
pub mod dialect;
pub mod effect;
pub mod form;
pub mod grammar;
pub mod invariant;
pub mod owner;
pub mod permission;
pub mod restart;
mod run;
pub mod session;
pub mod spans;
pub mod validate;
