//! Tables of figures: for each of them its heading and its lines.

use std::fmt::Write as _;

use crate::floors::{self, FLOOR};
use crate::idle::{HELD, IDLE, LIVE, NODE, SESSIONS};
use crate::party::Party;
use crate::sheet::Sheet;
use crate::work::{self, Work};
use crate::{allocations, large, measure, start, tokens};

/// The rows of growth begin so, and are compared with the first of them.
const GROWTH: &str = "growth-";
const GROWTH_FIRST: &str = "growth-10";

const KIB: f64 = 1024.0;

/// A column of a table: its heading, the figure, what it is divided by, and its digits.
struct Column(&'static str, &'static str, f64, usize);

/// Returns all tables in which something stands.
pub(crate) fn all(sheet: &Sheet) -> String {
    let tables = [floors, relay, growth, tokens, memory, large, start, allocations];
    let tables = tables.iter().filter_map(|table| table(sheet));
    tables.collect::<Vec<String>>().join("\n")
}

/// Writes a table, if it has lines.
pub(crate) fn table(head: &[&str], lines: &[Vec<String>]) -> Option<String> {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(head.len()));
    for line in lines {
        writeln!(text, "| {} |", line.join(" | ")).expect("a string takes it");
    }
    (!lines.is_empty()).then_some(text)
}

/// Writes a number with some digits after the point.
pub(crate) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// Writes a number with as many digits as tell something.
pub(crate) fn short(value: Option<f64>) -> String {
    let size = value.unwrap_or_default().abs();
    number(value, if size < 10.0 { 2 } else { usize::from(size < 100.0) })
}

/// Writes what the parts of a step cost.
pub(crate) fn floors(sheet: &Sheet) -> Option<String> {
    let measured = floors::ids().filter(|id| sheet.has(id));
    let line = |id: &str| {
        let figure = |name: &str| number(sheet.median(id, FLOOR, name), 1);
        let [cpu, p50, p99] = ["cpu_us", "p50_us", "p99_us"].map(figure);
        vec![format!("`{id}`"), floors::title(id), cpu, p50, p99]
    };
    let lines: Vec<Vec<String>> = measured.map(line).collect();
    table(&["row", "floor", "CPU µs", "p50 µs", "p99 µs"], &lines)
}

/// Writes what the parties used for each step, also as ratios to the loop and to the round trip
/// that every step has to make.
pub(crate) fn relay(sheet: &Sheet) -> Option<String> {
    let columns = [
        Column("gap p50 µs", "gap_p50_us", 1.0, 0),
        Column("gap p99 µs", "gap_p99_us", 1.0, 0),
        Column("steps/s", "steps_per_s", 1.0, 0),
        Column("peak MiB", "peak_kib", KIB, 1),
        Column("journal KiB a run", "journal_bytes", KIB, 1),
        Column("written KiB a run", "written_bytes", KIB, 0),
    ];
    let rows = work::rows().into_iter().filter(|(id, _)| !id.starts_with(GROWTH)).collect();
    parties(sheet, rows, ("× loop", None), &columns)
}

/// Writes how the cost of a step grows with the steps before it.
pub(crate) fn growth(sheet: &Sheet) -> Option<String> {
    let columns = [
        Column("gap p50 µs", "gap_p50_us", 1.0, 0),
        Column("gap p99 µs", "gap_p99_us", 1.0, 0),
        Column("peak MiB", "peak_kib", KIB, 1),
        Column("journal KiB a run", "journal_bytes", KIB, 0),
        Column("data KiB a run", "data_bytes", KIB, 0),
        Column("written KiB a run", "written_bytes", KIB, 0),
    ];
    let rows = work::rows().into_iter().filter(|(id, _)| id.starts_with(GROWTH)).collect();
    parties(sheet, rows, ("× 10 turns", Some(GROWTH_FIRST)), &columns)
}

/// Writes a line for each party of each row. Its CPU time stands there as a ratio to that of the
/// loop, or to its own in another row, and to that of the round trip.
fn parties(
    sheet: &Sheet,
    rows: Vec<(&str, Work)>,
    (ratio, to): (&str, Option<&str>),
    columns: &[Column],
) -> Option<String> {
    let mut head = vec!["row", "work", "who", "CPU µs a step", ratio, "× HTTP"];
    head.extend(columns.iter().map(|Column(heading, ..)| *heading));
    let mut lines = Vec::new();
    for (id, work) in rows {
        for party in Party::ALL.map(Party::word) {
            let Some(cpu) = sheet.median(id, party, "cpu_us") else { continue };
            let http = format!("floor-http-{}", work.sessions);
            let other = to.map_or((id, Party::Handmade.word()), |row| (row, party));
            let mut line = vec![
                format!("`{id}`"),
                work.title(),
                party.to_owned(),
                number(Some(cpu), 0),
                number(sheet.ratio((id, party), other, "cpu_us"), 2),
                number(sheet.ratio((id, party), (&http, FLOOR), "cpu_us"), 2),
            ];
            line.extend(columns.iter().map(|Column(_, figure, unit, digits)| {
                number(sheet.median(id, party, figure).map(|value| value / unit), *digits)
            }));
            lines.push(line);
        }
    }
    table(&head, &lines)
}

/// Writes what a streamed token costs.
pub(crate) fn tokens(sheet: &Sheet) -> Option<String> {
    let line = |token: tokens::Token| {
        vec![
            token.party.to_owned(),
            number(token.cpu_us, 2),
            number(token.paced_cpu_us, 2),
            number(token.journal_bytes, 2),
        ]
    };
    let lines: Vec<Vec<String>> = tokens::tokens(sheet).into_iter().map(line).collect();
    let head = ["who", "CPU µs a token", "CPU µs a token, 1 ms apart", "journal B a token"];
    table(&head, &lines)
}

/// Writes what idle sessions take, resident and, where it is counted, allocated.
pub(crate) fn memory(sheet: &Sheet) -> Option<String> {
    let line = |row: &str, what: &str, [before, live, full, left]: [&str; 4], kib: f64| {
        let figure = |name| sheet.median(row, NODE, name).map(|value| value / kib);
        let (before, live) = (figure(before)?, figure(live)?);
        let (full, left) = (figure(full)?, figure(left)?);
        let mib = |value: f64| number(Some(value / KIB), 1);
        let each = |more: f64, of: usize| number(Some(more / measure::float(of as u64)), 2);
        Some(vec![
            format!("`{row}`"),
            what.to_owned(),
            mib(before),
            mib(full),
            mib(left),
            each(live - before, LIVE),
            each(left - before, SESSIONS),
        ])
    };
    let resident = ["before_kib", "live_kib", "full_kib", "left_kib"];
    let allocated = ["before_heap", "live_heap", "full_heap", "left_heap"];
    let lines = [
        line(IDLE, "resident", resident, 1.0),
        line(HELD, "resident, given back at once", resident, 1.0),
        line(allocations::HEAP, "allocated", allocated, KIB),
    ];
    let head = [
        "row",
        "memory",
        "before, MiB",
        "10,000 sessions, MiB",
        "after they left, MiB",
        "KiB a session in memory",
        "KiB kept of one that left",
    ];
    table(&head, &lines.into_iter().flatten().collect::<Vec<_>>())
}

/// Writes what large texts take.
pub(crate) fn large(sheet: &Sheet) -> Option<String> {
    let line = |row: &str| {
        let figure = |name| sheet.median(row, NODE, name);
        let mib = |name| number(figure(name).map(|kib| kib / KIB), 1);
        Some(vec![
            format!("`{row}`"),
            mib("before_kib"),
            mib("peak_kib"),
            number(Some(figure("times")?), 2),
            number(figure("times_of_five"), 2),
            number(figure("cpu_us").map(|cpu| cpu / 1e3), 0),
        ])
    };
    let lines: Vec<Vec<String>> =
        [large::REPLY, large::RESULT].into_iter().filter_map(line).collect();
    let head =
        ["row", "before, MiB", "peak, MiB", "× its size", "× its size, five in a row", "CPU ms"];
    table(&head, &lines)
}

/// Writes how soon a node is there.
pub(crate) fn start(sheet: &Sheet) -> Option<String> {
    let line = |row: &str, what: &str| {
        let figure = |name| sheet.median(row, NODE, name);
        let (wall, cpu) = (Some(figure("wall_ms")?), figure("cpu_ms"));
        let mib = figure("resident_kib").map(|kib| kib / KIB);
        Some(vec![
            format!("`{row}`"),
            what.to_owned(),
            number(wall, 1),
            number(cpu, 1),
            number(mib, 1),
        ])
    };
    let empty = line(start::EMPTY, "an empty folder, first answer");
    let full = line(start::FULL, "10,000 sessions after a kill, ready");
    let lines: Vec<Vec<String>> = [empty, full].into_iter().flatten().collect();
    table(&["row", "start with", "ms", "CPU ms", "resident MiB"], &lines)
}

/// Writes how often each step allocates.
pub(crate) fn allocations(sheet: &Sheet) -> Option<String> {
    let mut lines = Vec::new();
    for row in [allocations::STEP, allocations::MANY] {
        for party in allocations::PARTIES.map(Party::word) {
            let figure = |name| sheet.median(row, party, name);
            let Some(count) = figure("allocations") else { continue };
            lines.push(vec![
                format!("`{row}`"),
                party.to_owned(),
                number(Some(count), 0),
                number(sheet.ratio((row, party), (row, Party::Handmade.word()), "allocations"), 1),
                number(figure("allocated_bytes").map(|bytes| bytes / KIB), 1),
            ]);
        }
    }
    table(&["row", "who", "allocations a step", "× loop", "KiB a step"], &lines)
}
