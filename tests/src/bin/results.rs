//! Runs the tests that hold figures and writes these into `tests/RESULTS.md`.
//!
//! `cargo results` runs each in its short form, `cargo results long` in its long one, and
//! `cargo results from FILE..` reads what tests printed that were run by hand.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;
use tests::daemon::root;
use tests::machine::machine;
use tests::results::MARK;

/// The tests, as arguments of `cargo test --workspace --locked`.
const TESTS: [&[&str]; 10] = [
    &["--test", "matrix", "--", "--nocapture"],
    &["--test", "sim", "--", "--nocapture"],
    &["--test", "recovery", "--", "--nocapture"],
    &["--lib", "t14_", "--", "--nocapture"],
    &["--test", "it", "--", "--nocapture", "t20_", "t21_", "t23", "t33_"],
    &["--test", "command", "--", "--nocapture"],
    &["--test", "security", "--test", "deploy", "--", "--nocapture"],
    &["--test", "http", "--", "--nocapture", "t26_"],
    &["--test", "trace", "--test", "console", "--test", "soak", "--", "--nocapture"],
    // One after the other, since they measure times.
    &["--test", "e2e", "--", "--nocapture", "--test-threads=1"],
];

/// What makes the tests long.
const LONG: [(&str, &str); 3] =
    [("CALLBOARD_KILLS", "500"), ("CALLBOARD_RESTARTS", "50"), ("CALLBOARD_PAUSE_S", "30")];

/// The rows by number and name.
type Rows = BTreeMap<(u32, String), Value>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut rows = Rows::new();
    let done = match words.as_slice() {
        [] => run(&mut rows, &[]),
        ["long"] => run(&mut rows, &LONG),
        ["from", files @ ..] if !files.is_empty() => read(&mut rows, files),
        _ => Err("usage: cargo results [long | from FILE..]".to_owned()),
    };
    let written = done.and_then(|()| {
        let file = root().join("tests/RESULTS.md");
        std::fs::write(&file, page(&rows)).map_err(|error| format!("{}: {error}", file.display()))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a program tells whoever runs it how it goes")]
fn say(text: &str) {
    eprintln!("{text}");
}

/// Runs all tests; one that fails ends it, since its figures would be none.
fn run(rows: &mut Rows, settings: &[(&str, &str)]) -> Result<(), String> {
    for test in TESTS {
        let mut child = Command::new(env!("CARGO"))
            .args(["test", "--workspace", "--locked"])
            .args(test)
            .envs(settings.iter().copied())
            .current_dir(root())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cargo does not run: {error}"))?;
        let output = child.stdout.take().ok_or("the output of cargo is not there")?;
        for line in BufReader::new(output).lines() {
            let line = line.map_err(|error| format!("read the output of a test: {error}"))?;
            take(rows, &line);
            say(&line);
        }
        let ended = child.wait().map_err(|error| format!("cargo does not end: {error}"))?;
        if !ended.success() {
            return Err(format!("cargo test {} failed", test.join(" ")));
        }
    }
    Ok(())
}

fn read(rows: &mut Rows, files: &[&str]) -> Result<(), String> {
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        text.lines().for_each(|line| take(rows, line));
    }
    Ok(())
}

/// Takes a row out of a line, if it has one; the last of a name counts.
fn take(rows: &mut Rows, line: &str) {
    let row = line.strip_prefix(MARK).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(row) = row else { return };
    let id = field(&row, "id").to_owned();
    let digits: String = id.chars().filter(char::is_ascii_digit).collect();
    rows.insert((digits.parse().unwrap_or(u32::MAX), id), row);
}

fn field<'r>(row: &'r Value, name: &str) -> &'r str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn page(rows: &Rows) -> String {
    let mut page = "# Results\n\n\
        What the tests held that break things on purpose, as the last run of `cargo results` wrote it.\n\
        The daemon is built without optimisation, as tests build it, so times are longer than those of a release.\n\n"
        .to_owned();
    for (what, found) in machine() {
        writeln!(page, "- {what}: {found}").unwrap_or_default();
    }
    page += "\n| test | what is done | what was found | what has to be found | again with |\n";
    page += "| --- | --- | --- | --- | --- |\n";
    for row in rows.values() {
        let cell = |name: &str| field(row, name).replace('|', "\\|");
        let (id, what, held) = (cell("id"), cell("what"), cell("held"));
        let (passes, command) = (cell("passes"), cell("command"));
        writeln!(page, "| {id} | {what} | {held} | {passes} | `{command}` |").unwrap_or_default();
    }
    page
}
