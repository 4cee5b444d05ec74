//! How soon a process answers, or is ready with many sessions in its journal.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::idle::{NODE, SESSIONS, fill};
use crate::servers::{Owned, Stub, role};
use crate::sheet::Sheet;
use crate::work::{self, Work};
use crate::{measure, profile, team};

/// The ids of the rows.
pub(crate) const EMPTY: &str = "start-empty";
pub(crate) const FULL: &str = "start-10000";
pub(crate) const BINARY: &str = "start-binary";

/// The command that makes the daemon.
pub(crate) const TO_BUILD: &str = "sh deploy/release.sh build --release -p daemon";

/// Starts that are measured in one round; the fillings of a journal take longer than they do.
const STARTS: usize = 3;

/// The role, and what it does once it is ready.
pub(crate) const ROLE: &str = "start";
const ANSWER: &str = "answer";
const FILL: &str = "fill";
const WAIT: &str = "wait";

/// Measures the first answer of nodes with nothing on the disk.
pub(crate) fn measure_empty(stub: &Stub, sheet: &mut Sheet) {
    for _ in 0..STARTS {
        let home = tempfile::tempdir().expect("a temporary folder");
        let file = write(stub, home.path());
        let (told, _child) = started(EMPTY, &file, &home.path().join("data"), ANSWER);
        sheet.add(EMPTY, NODE, &told);
    }
}

/// Measures how soon a node is ready that was killed with ten thousand sessions in its journal.
pub(crate) fn measure_full(stub: &Stub, sheet: &mut Sheet) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (file, data) = (write(stub, home.path()), home.path().join("data"));
    drop(started(FULL, &file, &data, FILL));
    for _ in 0..STARTS {
        let (told, _child) = started(FULL, &file, &data, WAIT);
        sheet.add(FULL, NODE, &told);
    }
}

/// Notes the size of the daemon, if it is built beside this program.
pub(crate) fn measure_binary(sheet: &mut Sheet) {
    match binary_bytes() {
        Some(bytes) => sheet.add(BINARY, NODE, &json!({"bytes": bytes})),
        None => eprintln!("{BINARY}: left out; {TO_BUILD} makes the binary"),
    }
}

/// Returns the size of the daemon in bytes, if it is built beside this program.
pub(crate) fn binary_bytes() -> Option<u64> {
    let own = std::env::current_exe().expect("a path");
    let profile = own.parent().and_then(Path::parent).expect("benches lie in target/PROFILE/deps");
    profile.join("callboard").metadata().ok().map(|found| found.len())
}

fn write(stub: &Stub, folder: &Path) -> std::path::PathBuf {
    team::write(&Work { url: stub.url.clone(), ..work::chain() }, folder)
}

/// Starts a node and returns its figures, with the time from the start of its process until they
/// came, and the process, which is killed when it is dropped.
fn started(row: &str, file: &Path, data: &Path, act: &str) -> (Value, Owned) {
    let text = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    let command = role(ROLE, [text(file).as_str(), &text(data), act]);
    // What fills the journal is no start.
    let mut command = if act == FILL { command } else { profile::recorded(row, NODE, command) };
    let began = Instant::now();
    let mut child = Owned(command.stdout(Stdio::piped()).spawn().expect("the process starts"));
    let output = child.0.stdout.take().expect("the output is piped");
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).expect("a line");
    let took = began.elapsed();
    let mut told: Value = serde_json::from_str(&line).expect("figures as JSON");
    told["wall_ms"] = (took.as_secs_f64() * 1e3).into();
    (told, child)
}

/// Starts a node, does something, tells the figures of that and waits to be killed.
pub(crate) fn start(file: &Path, data: &Path, act: &str) {
    let runtime = node::executor(None).expect("a runtime");
    runtime.block_on(async {
        let node = team::start(file, data, team::bus(&work::chain()).await).await;
        match act {
            ANSWER => {
                let one = Work { calls: 0, ..work::chain() };
                team::ask(node.bus(), "lead", &one.request("start")).await;
            }
            FILL => {
                fill(node.bus(), "start", SESSIONS, 1).await;
                team::of(&node).settle().await;
            }
            _ => assert!(node.is_ready(), "the node is ready"),
        }
        let cpu = measure::cpu().as_secs_f64() * 1e3;
        println!("{}", json!({"cpu_ms": cpu, "resident_kib": measure::resident_kib()}));
        tokio::time::sleep(Duration::from_secs(600)).await;
    });
}
