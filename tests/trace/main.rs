//! Traces end to end: one for every chain of agents, tools and nodes, by the conventions, and the
//! same in a receiver that is not ours.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod chain;
mod conventions;
mod levels;
mod receiver;
mod resumed;
mod shops;
