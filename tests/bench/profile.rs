//! Where the time of the parties goes: what perf records while they do the work of a row, added up
//! by thread, by part of the program, and by function.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::party::Party;
use crate::{rows, table};

/// Names the folder for recordings. Without it nothing is recorded.
const FOLDER: &str = "BENCH_RECORD";

/// Samples in a second; odd, so that they do not keep step with what happens at every tick.
const HERTZ: &str = "1999";

/// Functions that are shown of a party: what comes after takes less than a hundredth each.
const FUNCTIONS: usize = 12;

/// The least share of a line, in percent. Less is a few samples, and chance.
const SHARE_MIN: f64 = 0.5;

/// The parts of a program, and the crates whose functions belong to each. A function counts where it
/// stands and not where it is called, and one that is generic where it is written.
const PARTS: [(&str, &str); 13] = [
    ("agents-core", "agents_core"),
    ("node", "node"),
    ("wire", "wire blake3 const_hex arrayvec"),
    ("model", "model"),
    ("tools", "tools"),
    ("bus", "bus"),
    ("async-nats", "async_nats"),
    ("journal", "journal crc32c"),
    (
        "store",
        "store sled crc32fast crossbeam_epoch crossbeam_utils fxhash parking_lot parking_lot_core",
    ),
    (
        "traces and log",
        "telemetry tracing tracing_core tracing_subscriber opentelemetry opentelemetry_sdk \
         sharded_slab",
    ),
    (
        "tasks and actors",
        "tokio tokio_util ractor mio slab futures_util futures_channel futures_core",
    ),
    (
        "HTTP",
        "reqwest hyper hyper_util http http_body http_body_util httparse tower tower_http \
         tower_service url idna percent_encoding want",
    ),
    ("JSON", "serde_json serde_json_borrow serde_core serde itoa ryu zmij"),
];

/// The benchmark's own part: the loop, and the clients of a node.
const BENCHMARK: (&str, &str) = ("benchmark", "relay bench tests");

/// The part of all crates that are named nowhere, most of which is the standard library's.
const REST: &str = "std and others";

/// What stands before the tables.
const HEAD: &str = "\
# Where the time goes

`sh tests/bench/profile.sh` prints these tables, of rows of `cargo relay`.
A figure is the share of the samples that perf took of one process, the beginning and the end of
the process included; a NATS server is a process of its own and not in it, clients are.
A function counts where it is written and not where it is called, so what a dialect has serde do is
JSON; one that the compiler put into its caller counts as that, so what polls an actor's future has
some of the actor's work.
Lines with less than 0.5 in every column are left out.
The build is not guided by a record and not optimised over the borders of crates, which would hide
functions: a step costs more in it than in a release.
";

/// Returns what does the same as a command, and has it recorded if that is asked for.
pub(crate) fn recorded(row: &str, party: &str, command: Command) -> Command {
    let Some(folder) = std::env::var_os(FOLDER) else { return command };
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--no-buildid-cache", "--event", "cpu-clock"]);
    perf.args(["--freq", HERTZ, "--output"]);
    perf.arg(Path::new(&folder).join(format!("{row}.{party}"))).arg("--");
    perf.arg(command.get_program()).args(command.get_args());
    perf.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    perf.stdin(Stdio::null()).stderr(Stdio::inherit());
    perf
}

/// Tells whether parties are recorded, and so have to be ended gently.
pub(crate) fn is_recording() -> bool {
    std::env::var_os(FOLDER).is_some()
}

/// Prints tables of all recordings of a folder, row by row.
pub(crate) fn print(folder: &Path) {
    let entries = std::fs::read_dir(folder).expect("a folder of recordings");
    let mut found: BTreeMap<String, BTreeMap<String, PathBuf>> = BTreeMap::new();
    for entry in entries.flatten() {
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        // What perf would have written over it keeps under the name of no party.
        let Some((row, party)) = name.split_once('.') else { continue };
        found.entry(row.to_owned()).or_default().insert(party.to_owned(), entry.path());
    }
    println!("{HEAD}");
    let ids = rows::ids().into_iter();
    let rows = ids.filter_map(|id| Some(of_row(id, found.remove(id)?)));
    print!("{}", rows.collect::<Vec<String>>().join("\n"));
}

/// What is added up of a recording.
type Sums = BTreeMap<String, f64>;

/// Writes the tables of a row.
fn of_row(id: &str, mut recordings: BTreeMap<String, PathBuf>) -> String {
    let parties = Party::ALL.map(Party::word);
    let shares: Vec<(&str, Shares)> = parties
        .into_iter()
        .filter_map(|party| Some((party, Shares::of(&recordings.remove(party)?))))
        .collect();
    let mut text = format!("## {id}\n\n");
    let columns = |sums: fn(&Shares) -> &Sums| -> Vec<(&str, &Sums)> {
        shares.iter().map(|(party, shares)| (*party, sums(shares))).collect()
    };
    text.push_str(&side_by_side("% by part", &columns(|shares| &shares.parts)));
    text.push('\n');
    text.push_str(&side_by_side("% by thread", &columns(|shares| &shares.threads)));
    text.push('\n');
    if let Some((party, shares)) = shares.iter().find(|(party, _)| *party == Party::Embedded.word())
    {
        text.push_str(&top(party, &shares.functions));
    }
    text
}

/// Writes what several parties have, the largest first.
fn side_by_side(what: &str, columns: &[(&str, &Sums)]) -> String {
    let mut most = Sums::new();
    for (name, share) in columns.iter().flat_map(|(_, sums)| *sums) {
        let known = most.entry(name.clone()).or_default();
        *known = known.max(*share);
    }
    let line = |name: &String| {
        let each = columns.iter().map(|(_, sums)| table::number(sums.get(name).copied(), 1));
        std::iter::once(name.clone()).chain(each).collect()
    };
    let lines: Vec<Vec<String>> = largest(&most).map(|(name, _)| line(name)).collect();
    let head: Vec<&str> =
        [what].into_iter().chain(columns.iter().map(|(party, _)| *party)).collect();
    table::table(&head, &lines).unwrap_or_default()
}

/// Writes the functions that take the most.
fn top(party: &str, functions: &Sums) -> String {
    let line =
        |(name, share): (&String, f64)| vec![table::number(Some(share), 1), format!("`{name}`")];
    let lines: Vec<Vec<String>> = largest(functions).take(FUNCTIONS).map(line).collect();
    table::table(&["%", &format!("function, {party}")], &lines).unwrap_or_default()
}

/// Returns what is large enough to be shown, the largest first.
fn largest(sums: &Sums) -> impl Iterator<Item = (&String, f64)> {
    let mut all: Vec<(&String, f64)> = sums.iter().map(|(name, share)| (name, *share)).collect();
    all.retain(|(_, share)| *share >= SHARE_MIN);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.into_iter()
}

/// The shares of a recording, in percent.
#[derive(Default)]
struct Shares {
    threads: Sums,
    parts: Sums,
    functions: Sums,
}

impl Shares {
    fn of(recording: &Path) -> Self {
        let mut command = Command::new("perf");
        command.args(["report", "--stdio", "--fields", "sample,comm,dso,symbol"]);
        command.args(["--field-separator", SEPARATOR, "--input"]).arg(recording);
        let told = command.stderr(Stdio::null()).output().expect("perf is there");
        assert!(told.status.success(), "perf cannot read {}", recording.display());
        Self::read(&String::from_utf8_lossy(&told.stdout))
    }

    fn read(report: &str) -> Self {
        let mut shares = Self::default();
        for line in report.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split(SEPARATOR).map(str::trim).collect();
            let [samples, thread, object, symbol, ..] = fields.as_slice() else { continue };
            let samples: f64 = samples.parse().expect("a number of samples");
            let (mark, function) = symbol.split_once(' ').unwrap_or_default();
            let mut add = |sums: fn(&mut Self) -> &mut Sums, name: &str| {
                *sums(&mut shares).entry(name.to_owned()).or_default() += samples;
            };
            add(|shares| &mut shares.threads, thread_of(thread));
            add(|shares| &mut shares.parts, part_of(mark, object, function));
            add(|shares| &mut shares.functions, function);
        }
        let all: f64 = shares.threads.values().sum();
        for sums in [&mut shares.threads, &mut shares.parts, &mut shares.functions] {
            for samples in sums.values_mut() {
                *samples *= 100.0 / all;
            }
        }
        shares
    }
}

/// What stands between the fields of a report, and in no name.
const SEPARATOR: &str = "\t";

/// Returns the name of a thread, without the number of one of several.
fn thread_of(name: &str) -> &str {
    // The first thread has the name of the program.
    if name.starts_with("relay-") {
        return "main";
    }
    name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-')
}

/// How perf marks functions of the kernel, those of its modules among them.
const KERNEL: &str = "[k]";

/// Returns the part to which a function belongs.
fn part_of(mark: &str, object: &str, function: &str) -> &'static str {
    if mark == KERNEL {
        return "kernel";
    }
    if object.starts_with("libc.") || object.starts_with("libm.") || object == "[vdso]" {
        return "libc";
    }
    let is_allocator = |name: &str| name.starts_with("mi_") || name.starts_with("rustc::");
    if is_allocator(function.trim_start_matches('_')) {
        return "allocator";
    }
    let owner = owner_of(function);
    let mut parts = PARTS.into_iter().chain([BENCHMARK]);
    let part = parts.find(|(_, crates)| crates.split(' ').any(|name| name == owner));
    part.map_or(REST, |(part, _)| part)
}

/// Returns the crate of the type or the module to which a function belongs.
fn owner_of(function: &str) -> &str {
    // What is dropped is what the time is spent on.
    let function = function.strip_prefix("core::ptr::drop_in_place").unwrap_or(function);
    let name = function.trim_start_matches(['_', '<', '&', '*', '[', '(']);
    let name = name.strip_prefix("mut ").or_else(|| name.strip_prefix("dyn ")).unwrap_or(name);
    let owner = first_word(name);
    let is_path = name.strip_prefix(owner).is_some_and(|rest| rest.starts_with("::"));
    match name.split_once(" as ") {
        // A trait for all types belongs to the trait's crate.
        Some((_, of_trait)) if !is_path => first_word(of_trait),
        _ if function.contains("::") => owner,
        // Functions in C and in assembler have their crate before the first underscore.
        _ => owner.split('_').next().unwrap_or(owner),
    }
}

/// Returns the name with which a path begins.
fn first_word(path: &str) -> &str {
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_');
    path.get(..end.unwrap_or(path.len())).unwrap_or(path)
}
