//! A real llama.cpp server with random weights: what it writes is noise, so what holds of it is
//! held by the schema alone.
//!
//! `cargo llama` runs these tests; it builds the server the first time, which takes minutes.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod runs;
mod server;
