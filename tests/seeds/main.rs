//! The published agent systems as teams, one test for each thing that must hold.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod seed_002;
mod seed_002_house;
mod seed_002_words;
mod seed_004;
mod seed_004_replies;
