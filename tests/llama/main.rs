//! A real llama.cpp server with random weights: what it writes is noise, so what holds of it is
//! held by the schema alone.
//!
//! `cargo llama` runs these tests; it builds the server the first time, which takes minutes.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and print figures, as tests do"
)]

#[path = "../../agents/core/src/grammar/tests/arbitrary.rs"]
mod arbitrary;
mod grammar;
mod runs;
mod server;

/// What the server's own grammars let through although no strict reader of JSON takes it.
const NOT_JSON: &[&str] = &["surrogate", "number out of range"];
