//! What the runtime itself costs: the relay, an agent that adds up numbers one call after another,
//! against a model server of ours that answers at once or after a fixed time, and what it is to be
//! compared with.
//!
//! `cargo relay [RUNS] [ROWS]` prints tables of medians; ROWS is a list such as `chain-1,growth`
//! of ids or of how they begin. `cargo relay page` measures everything and writes
//! `runtime/PERFORMANCE.md`; `cargo relay page FILE` writes it from what
//! `cargo relay sheet RUNS ROWS` printed. `cargo relay profile FOLDER` tells where the time went, of
//! what `profile.sh` had recorded. Each party is a process of its own, so that CPU time is counted
//! apart: the model server, a hand-written loop without any of what the runtime does, and a node.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking, prints its tables and reads the clock"
)]

use std::path::PathBuf;

mod allocations;
mod floors;
mod handmade;
mod host;
mod idle;
mod large;
mod measure;
mod page;
mod party;
mod pick;
mod profile;
mod rows;
mod servers;
mod sheet;
mod start;
mod stub;
mod table;
mod targets;
mod team;
mod tokens;
mod work;

use pick::Pick;
use rows::Measured;
use sheet::Sheet;
use work::Work;

/// Times that each row is measured unless told otherwise; the tables show medians.
const RUNS: usize = 3;

/// The same for the page.
const PAGE_RUNS: usize = 5;

/// Has what was measured printed as JSON.
const SHEET: &str = "sheet";

fn main() {
    rustls::crypto::ring::default_provider().install_default().expect("the first one");
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["stub", port_file] => stub::serve(&PathBuf::from(port_file)),
        ["handmade", rest @ ..] => handmade::work(&Work::from_args(rest)),
        ["host", rest @ ..] => host::work(&Work::from_args(rest)),
        ["floor", kind, at_once, each, url, nats] => floors::floor(kind, at_once, each, url, nats),
        [idle::IDLE, url] if url.starts_with("http") => idle::idle(url),
        [start::ROLE, file, data, act] => start::start(file.as_ref(), data.as_ref(), act),
        [large::ROLE, id, url] => large::large(id, url),
        [SHEET, runs, rows] => {
            let runs = runs.parse().expect("a number of runs");
            tell(&rows::measured(runs, &Pick::new(rows)), |sheet| println!("{}", sheet.to_json()));
        }
        ["profile", folder] => profile::print(folder.as_ref()),
        ["page"] => {
            // Known before an hour is spent on a page that lacks a row.
            let is_built = start::binary_bytes().is_some();
            assert!(is_built, "the page tells of the binary as well: {}", start::TO_BUILD);
            tell(&rows::measured(PAGE_RUNS, &Pick::new("")), page);
        }
        ["page", file] => page(&read(file)),
        [] => compare(RUNS, ""),
        [runs] if runs.parse::<usize>().is_err() => compare(RUNS, runs),
        [runs] => compare(runs.parse().expect("a number"), ""),
        [runs, rows] => compare(runs.parse().expect("a number of runs"), rows),
        _ => panic!("cargo relay [RUNS] [ROWS], or cargo relay page"),
    }
}

/// Tells what was measured, and fails if not all was that was asked for.
fn tell(measured: &Measured, tell: impl FnOnce(&Sheet)) {
    tell(&measured.sheet);
    assert!(measured.is_whole, "a part failed, and does not count");
}

/// Writes the page and prints its tables.
fn page(sheet: &Sheet) {
    assert!(sheet.rounds() > 0, "no round was measured");
    println!("{}", table::all(sheet));
    page::write(sheet);
}

/// Reads what was measured before.
fn read(file: &str) -> Sheet {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut sheet = Sheet::default();
    sheet.merge(&serde_json::from_str(&text).expect("a sheet as JSON"));
    sheet
}

/// Measures what is chosen and prints it.
fn compare(runs: usize, rows: &str) {
    tell(&rows::measured(runs, &Pick::new(rows)), |sheet| println!("{}", table::all(sheet)));
}
