//! End to end: the daemon as a process, a real nats-server, clients that are not ours.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod calls;
mod disk;
mod drain;
mod hostile;
mod kill;
mod main_job;
mod rebuild;
mod servers;
mod setup;
