//! Whole nodes over the embedded bus, with scripted models.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod door;
mod house;
mod model_tool;
mod retention;
mod run;
