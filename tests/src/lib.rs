//! The harness of the end-to-end tests: the daemon as a process, a ledger that counts effects, a
//! team that exercises both, and a NATS client that is not ours.

#![expect(clippy::expect_used, clippy::panic, reason = "a harness fails by panicking")]

pub mod aimock;
pub mod client;
pub mod daemon;
pub mod graph;
pub mod http;
pub mod install;
pub mod job;
pub mod ledger;
pub mod machine;
pub mod postgres;
pub mod processes;
pub mod results;
pub mod trade;
