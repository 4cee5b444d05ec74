//! What the runtime is to reach, and whether it did in this run.

use crate::idle::{HELD, IDLE, LIVE, NODE, SESSIONS};
use crate::party::Party;
use crate::sheet::Sheet;
use crate::table::{number, short, table};
use crate::{allocations, large, measure, start, tokens};

const LOOP: &str = Party::Handmade.word();
const EMBEDDED: &str = Party::Embedded.word();
const UNTRACED: &str = Party::Untraced.word();
const NATS: &str = Party::Nats.word();

const KIB: f64 = 1024.0;
const MB: f64 = 1e6;

/// A figure that is to stay below or above a limit.
struct Target {
    what: String,
    is_most: bool,
    limit: f64,
    unit: &'static str,
    found: Option<f64>,
}

/// Writes every target with what was measured.
pub(crate) fn targets(sheet: &Sheet) -> Option<String> {
    let parts =
        [cpu(sheet), traces(sheet), latency(sheet), growth(sheet), memory(sheet), rest(sheet)];
    let line = |target: Target| {
        let Target { what, is_most, limit, unit, found } = target;
        let bound = if is_most { "≤" } else { "≥" };
        // What is shown is what counts, so that a thousandth of a byte is none.
        let shown_as = short(found);
        let met = shown_as
            .parse::<f64>()
            .ok()
            .map(|found| if is_most { found <= limit } else { found >= limit });
        let verdict = met.map_or("not measured", |met| if met { "met" } else { "**not met**" });
        let found = met.map_or_else(String::new, |_| format!("{shown_as} {unit}"));
        vec![what, format!("{bound} {} {unit}", shown(limit)), found, verdict.to_owned()]
    };
    let lines: Vec<Vec<String>> = parts.into_iter().flatten().map(line).collect();
    table(&["what", "target", "measured", ""], &lines)
}

/// Writes a limit as it was set.
fn shown(limit: f64) -> String {
    number(Some(limit), usize::from(limit.fract() != 0.0))
}

fn most(what: &str, limit: f64, unit: &'static str, found: Option<f64>) -> Target {
    Target { what: what.to_owned(), is_most: true, limit, unit, found }
}

fn cpu(sheet: &Sheet) -> Vec<Target> {
    let rows = [("chain-1", 1, 3.0, 9.0), ("chain-32", 32, 2.0, 4.0), ("chain-256", 256, 2.0, 3.2)];
    let of = |party: &'static str, name: &str, row: &str, sessions: usize, limit: f64| {
        let what = format!("CPU of a step, {name}, {sessions} at once");
        most(&what, limit, "× loop", sheet.ratio((row, party), (row, LOOP), "cpu_us"))
    };
    let embedded = rows.map(|(row, at, limit, _)| of(EMBEDDED, "embedded bus", row, at, limit));
    let nats = rows.map(|(row, at, _, limit)| of(NATS, "over NATS", row, at, limit));
    embedded.into_iter().chain(nats).collect()
}

fn traces(sheet: &Sheet) -> Vec<Target> {
    let rows = [
        ("chain-1", "1 at once"),
        ("chain-32", "32 at once"),
        ("chain-256", "256 at once"),
        ("slow-256", "256 at once, model of 200 ms"),
    ];
    let target = |(row, how): (&str, &str)| {
        let found = sheet.ratio((row, EMBEDDED), (row, UNTRACED), "cpu_us");
        most(&format!("CPU of a step with traces, embedded bus, {how}"), 1.1, "× without", found)
    };
    rows.into_iter().map(target).collect()
}

fn latency(sheet: &Sheet) -> Vec<Target> {
    let mut targets = Vec::new();
    for (party, name) in [(EMBEDDED, "embedded bus"), (NATS, "over NATS")] {
        let gap = |row: &str, figure: &str| sheet.median(row, party, figure).map(|us| us / 1e3);
        let what = |what: &str| format!("model of 200 ms, {name}, {what}");
        targets.extend([
            most(&what("1 at once, gap p50"), 0.9, "ms", gap("slow-1", "gap_p50_us")),
            most(&what("256 at once, gap p50"), 6.0, "ms", gap("slow-256", "gap_p50_us")),
            most(&what("256 at once, gap p99"), 30.0, "ms", gap("slow-256", "gap_p99_us")),
            Target {
                what: what("256 at once"),
                is_most: false,
                limit: 1100.0,
                unit: "steps/s",
                found: sheet.median("slow-256", party, "steps_per_s"),
            },
        ]);
    }
    targets
}

fn growth(sheet: &Sheet) -> Vec<Target> {
    let mut targets = Vec::new();
    for (party, name) in [(EMBEDDED, "embedded bus"), (NATS, "over NATS")] {
        let cpu = |row: &str, other: &str| sheet.ratio((row, party), (other, party), "cpu_us");
        let mb = |figure: &str| sheet.median("growth-200", party, figure).map(|b| b / MB);
        let what = |what: &str| format!("{what}, {name}");
        targets.extend([
            most(&what("CPU of a step, 200 turns of 1 KiB"), 1.5, "× 10 turns", {
                cpu("growth-200", "growth-10")
            }),
            // Four times would be the square.
            most(&what("all CPU of 400 turns"), 2.5, "× 200 turns", {
                cpu("growth-400", "growth-200").map(|step| step * 401.0 / 201.0)
            }),
            most(&what("all that is written for 400 turns"), 2.5, "× 200 turns", {
                sheet.ratio(("growth-400", party), ("growth-200", party), "written_bytes")
            }),
            most(&what("journal of 200 turns of 1 KiB"), 1.0, "MB", mb("journal_bytes")),
            most(&what("all that is written for them"), 1.0, "MB", mb("written_bytes")),
        ]);
    }
    targets
}

fn memory(sheet: &Sheet) -> Vec<Target> {
    let more = |row: &str, figure: &str, before: &str, sessions: usize| {
        let before = sheet.median(row, NODE, before)?;
        Some((sheet.median(row, NODE, figure)? - before) / measure::float(sessions as u64))
    };
    let heap = |figure: &str, sessions| {
        more(allocations::HEAP, figure, "before_heap", sessions).map(|bytes| bytes / KIB)
    };
    let full = sheet.median(IDLE, NODE, "full_kib").map(|kib| kib / KIB);
    vec![
        most("an idle live session, resident, its history included", 4.0, "KiB", {
            more(IDLE, "live_kib", "before_kib", LIVE)
        }),
        most("the same, where what is freed is given back at once", 4.0, "KiB", {
            more(HELD, "live_kib", "before_kib", LIVE)
        }),
        most("the same, allocated", 4.0, "KiB", heap("live_heap", LIVE)),
        most("a session that left memory, allocated", 0.0, "KiB", heap("left_heap", SESSIONS)),
        most("a process with 10,000 idle sessions, resident", 150.0, "MiB", full),
        most("peak of a streamed reply of 4 MB", 3.0, "× its size", {
            sheet.median(large::REPLY, NODE, "times")
        }),
        most("peak of a result of 4 MB", 3.0, "× its size", {
            sheet.median(large::RESULT, NODE, "times")
        }),
    ]
}

fn rest(sheet: &Sheet) -> Vec<Target> {
    let mut targets = Vec::new();
    for token in tokens::tokens(sheet).into_iter().filter(|token| token.party != LOOP) {
        let what = |what: &str| format!("{what}, {}", token.party);
        targets.push(most(&what("CPU of a streamed token"), 3.0, "µs", token.cpu_us));
        targets.push(most(&what("journal of a token"), 0.0, "B", token.journal_bytes));
    }
    let wall = |row: &str| sheet.median(row, NODE, "wall_ms");
    let binary = sheet.median(start::BINARY, NODE, "bytes").map(|bytes| bytes / MB);
    targets.extend([
        most("start to first answer", 40.0, "ms", wall(start::EMPTY)),
        most("ready with 10,000 sessions in the journal", 1000.0, "ms", wall(start::FULL)),
        most("the binary", 30.0, "MB", binary),
    ]);
    targets
}
