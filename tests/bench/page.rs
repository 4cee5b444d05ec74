//! The page that tells what was measured.

use std::fmt::Write as _;

use tests::daemon::root;
use tests::machine::machine;

use crate::floors::FLOOR;
use crate::idle::NODE;
use crate::party::Party;
use crate::sheet::Sheet;
use crate::table::{self, short};
use crate::{start, targets};

/// The page, with `{{..}}` where what was measured stands.
const PAGE: &str = include_str!("page.md");

/// Set by `deploy/release.sh` where the record is not for what is built.
const RECORD_OF_OTHERS: &str = "BENCH_RECORD_OF_OTHERS";

/// Where it is written.
const FILE: &str = "runtime/PERFORMANCE.md";

/// Writes the page.
pub(crate) fn write(sheet: &Sheet) {
    let parts = [
        ("machine", Some(about(sheet.rounds()))),
        ("targets", targets::targets(sheet)),
        ("floors", table::floors(sheet)),
        ("relay", table::relay(sheet)),
        ("growth", table::growth(sheet)),
        ("tokens", table::tokens(sheet)),
        ("memory", table::memory(sheet)),
        ("large", table::large(sheet)),
        ("start", table::start(sheet)),
        ("binary", Some(binary(sheet))),
        ("allocations", table::allocations(sheet)),
        ("parts", parts(sheet)),
    ];
    let mut page = PAGE.to_owned();
    for (name, text) in parts {
        let text = text.unwrap_or_else(|| "Nothing of it was measured.\n".to_owned());
        page = page.replace(&format!("{{{{{name}}}}}\n"), &text);
    }
    assert!(!page.contains("{{"), "page.md asks for what is not measured");
    let file = root().join(FILE);
    std::fs::write(&file, page).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

/// Describes the machine, and how the program was built.
fn about(rounds: usize) -> String {
    let mut text = String::new();
    for (what, found) in machine() {
        writeln!(text, "- {what}: {found}").expect("a string takes it");
    }
    let own = |(name, value): (String, String)| {
        let name = name.strip_prefix("CARGO_PROFILE_BENCH_")?.to_lowercase();
        Some(format!("{} = {value}", name.replace('_', "-")))
    };
    let mut changed: Vec<String> = std::env::vars().filter_map(own).collect();
    changed.sort();
    if !std::env::var("RUSTFLAGS").is_ok_and(|flags| flags.contains("-Cprofile-use=")) {
        changed.push("the record of deploy/release.sh, which is left out".to_owned());
    } else if std::env::var_os(RECORD_OF_OTHERS).is_some() {
        changed.push("the record, which was made for other crates or another compiler".to_owned());
    }
    if cfg!(not(tokio_unstable)) {
        changed.push("the order of .cargo/config.toml for tasks, which is tokio's own".to_owned());
    }
    let profile = if changed.is_empty() {
        "as released".to_owned()
    } else {
        format!("as released, but for {}", changed.join(", "))
    };
    writeln!(text, "- build: {profile}").expect("a string takes it");
    writeln!(text, "- rounds: {rounds}").expect("a string takes it");
    text
}

fn binary(sheet: &Sheet) -> String {
    match sheet.median(start::BINARY, NODE, "bytes") {
        Some(bytes) => format!("The binary `callboard` has {:.1} MB.\n", bytes / 1e6),
        None => "The binary `callboard` was not built, so its size is not known.\n".to_owned(),
    }
}

/// Writes what a step has to cost by the floors, part by part, beside what it does.
fn parts(sheet: &Sheet) -> Option<String> {
    let at = ["1", "32", "256"];
    let floor = |row: &str| sheet.median(row, FLOOR, "cpu_us");
    let by = |row: &str| at.map(|at| floor(&format!("{row}-{at}")));
    let sessions = [1.0, 32.0, 256.0];
    let (http, nats) = (by("floor-http"), by("floor-nats"));
    let sync = sessions.map(|sessions| floor("floor-sync").map(|sync| sync / sessions));
    let calls = by("floor-call").map(|call| call.map(|call| 2.0 * call));
    let sum = |parts: [&[Option<f64>; 3]; 3]| {
        let of = |index: usize| parts.iter().map(|part| *part.get(index)?).sum::<Option<f64>>();
        [of(0), of(1), of(2)]
    };
    let party =
        |party: Party| at.map(|at| sheet.median(&format!("chain-{at}"), party.word(), "cpu_us"));
    let (embedded, untraced) = (party(Party::Embedded), party(Party::Untraced));
    let over_nats = party(Party::Nats);
    let less = |more: &[Option<f64>; 3], by: &[Option<f64>; 3]| {
        let of = |index: usize| Some((*more.get(index)?)? - (*by.get(index)?)?);
        [of(0), of(1), of(2)]
    };
    let line = |what: &str, figures: &[Option<f64>; 3]| {
        let figures = figures.iter().map(|figure| short(*figure));
        std::iter::once(what.to_owned()).chain(figures).collect::<Vec<String>>()
    };
    sheet.has("floor-http-1").then_some(())?;
    let lines = [
        line("the request to the model, over HTTP", &http),
        line("a sync of the journal, shared by all sessions", &sync),
        line("two hops in the process, to the model's actor and to the tool's", &calls),
        line("two messages over NATS, to the same two, with the server", &nats),
        line("**sum, hops in the process**", &sum([&http, &sync, &calls])),
        line("measured, embedded", &embedded),
        line("of which traces", &less(&embedded, &untraced)),
        line("**sum, requests over NATS**", &sum([&http, &sync, &nats])),
        line("measured, over NATS", &over_nats),
        line("of which NATS", &less(&over_nats, &embedded)),
        line("measured, the loop", &party(Party::Handmade)),
    ];
    table::table(&["CPU µs of a step of `chain`", "1", "32", "256"], &lines)
}
