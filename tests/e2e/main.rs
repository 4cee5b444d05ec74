//! End to end: the daemon as a process, a real nats-server, clients that are not ours.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod calls;
mod clock;
mod compare;
mod disk;
mod drain;
mod hostile;
mod kill;
mod load;
mod looked_up;
mod main_job;
mod outage;
mod ready;
mod rebuild;
mod rivals;
mod secure;
mod servers;
mod setup;
mod twice;
