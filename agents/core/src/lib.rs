//! What happens next, decided without I/O: the run machine, the dialects, the policies.

#![warn(missing_docs)]

pub mod dialect;
pub mod spans;
pub mod validate;
