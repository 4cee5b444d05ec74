//! What the runtime itself costs: the relay, an agent that adds up numbers one call after another,
//! against a model server of ours that answers at once or after a fixed time.
//!
//! `cargo relay` prints a table. Each party is a process of its own, so that CPU time is counted
//! apart: the model server, a hand-written loop without any of what the runtime does, and a node.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking, prints its table and reads the clock"
)]

use std::path::PathBuf;

mod handmade;
mod host;
mod measure;
mod party;
mod stub;
mod table;
mod work;

use party::{Figures, Party, Stub};
use work::Work;

/// Times that each row is measured unless told otherwise; the table shows medians.
const RUNS: usize = 3;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["stub", port_file] => stub::serve(&PathBuf::from(port_file)),
        ["handmade", rest @ ..] => handmade::work(&Work::from_args(rest)),
        ["host", rest @ ..] => host::work(&Work::from_args(rest)),
        [] => compare(RUNS, ""),
        [runs] => compare(runs.parse().unwrap_or(RUNS), ""),
        [runs, only, ..] => compare(runs.parse().unwrap_or(RUNS), only),
    }
}

/// Runs every row of the table, one party after the other, round after round.
fn compare(runs: usize, only: &str) {
    let stub = Stub::start();
    let mut rows: Vec<(Work, Vec<Vec<Figures>>)> = work::rows()
        .into_iter()
        .filter(|work| work.title().contains(only))
        .map(|work| (work, vec![Vec::new(); Party::ALL.len()]))
        .collect();
    for _ in 0..runs {
        for (work, figures) in &mut rows {
            for (party, figures) in Party::ALL.iter().zip(figures.iter_mut()) {
                if let Some(measured) = party.measure(work, &stub) {
                    figures.push(measured);
                }
            }
        }
    }
    println!("{}", table::table(&rows));
}
