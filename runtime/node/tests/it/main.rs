//! Whole nodes over the embedded bus, with scripted models.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod ahead;
mod bombs;
mod called_agents;
mod calls;
mod cancel;
mod changed;
mod commands;
mod door;
mod fallback;
mod going_on;
mod house;
mod large;
mod long_results;
mod look;
mod model_tool;
mod planner;
mod reasoning;
mod refresh;
mod restart;
mod retention;
mod run;
mod steps;
mod when_busy;
