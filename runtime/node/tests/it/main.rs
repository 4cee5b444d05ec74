//! Whole nodes over the embedded bus, with scripted models.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking, as tests do")]

mod cancel;
mod door;
mod house;
mod model_tool;
mod restart;
mod run;
mod steps;
