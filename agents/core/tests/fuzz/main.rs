//! Readers of model replies under seeded mutations of replies that models write.
//!
//! Each execution makes one input from its seed alone, reads it in every way that its reader has
//! and checks what comes out. A failure names its seed; the same seed makes the same input.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::string_slice,
    reason = "a test that is not as it was written to be has failed"
)]

mod agent;
mod check;
mod drive;
mod mutate;
#[path = "../../../../tests/sim/rng.rs"]
mod rng;
mod schema;

use drive::Target;

#[test]
fn native() {
    drive::run(&Target { name: "native", make: check::native_input, read: check::native });
}

#[test]
fn schema_dialect() {
    drive::run(&Target { name: "schema", make: check::schema_input, read: check::schema });
}

#[test]
fn json() {
    drive::run(&Target { name: "json", make: check::json_input, read: check::json });
}

#[test]
fn react() {
    drive::run(&Target { name: "react", make: check::react_input, read: check::react });
}

#[test]
fn planner() {
    drive::run(&Target { name: "planner", make: check::planner_input, read: check::planner });
}

#[test]
fn arguments() {
    drive::run(&Target { name: "arguments", make: schema::input, read: schema::arguments });
}

#[test]
fn grammar() {
    drive::run(&Target { name: "grammar", make: schema::input, read: schema::grammar });
}
