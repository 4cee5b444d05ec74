//! A hundred thousand traces: found within milliseconds, and never more on the disk than allowed.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use store::{
    Change, EndedSpan, SpanSource, Store, TRACE_BYTES_MIN, TRACES_SCANNED_MAX, Told, TracePage,
    TracePart, TraceQuery, TraceSpans, TraceStatus, Untold,
};
use tests::results::{self, Row};
use tokio::time::Instant;
use wire::trace::SpanKind;
use wire::{Name, RunId, SessionId, SpanRecord, Timestamp, TraceContext};

const TRACES: u64 = 100_000;

/// Traces that are handed over at once.
const BATCH: u64 = 500;

/// Looks at a store of a hundred thousand traces that are taken for one figure.
const LOOKS: u32 = 20;

/// The time from the begin of one trace to that of the next, in microseconds.
const APART: u64 = 1_000_000;

fn agent(number: u64) -> Name {
    Name::new(&format!("agent-{}", number % 10)).unwrap()
}

fn tool(number: u64) -> String {
    // One of a thousand traces calls the rare tool.
    if number % 1_000 == 7 { "rare".to_owned() } else { format!("tool-{}", number % 5) }
}

/// A trace of a run with one call, one in a hundred of which failed.
fn trace(number: u64) -> [SpanRecord; 2] {
    let run = RunId::new(&format!("r-{number:08}")).unwrap();
    let context = TraceContext::root(&Name::new("soak").unwrap(), &run);
    let start = number * APART;
    let attributes = [
        ("gen_ai.operation.name", json!("invoke_agent")),
        ("gen_ai.agent.name", json!(agent(number))),
        ("gen_ai.conversation.id", json!(format!("s-{}", number / 20))),
        ("callboard.team", json!("soak")),
        ("callboard.run.id", json!(run)),
        ("gen_ai.provider.name", json!("callboard")),
        ("callboard.outcome", json!("completed")),
    ];
    let whole = SpanRecord {
        context,
        parent: None,
        name: format!("invoke_agent {}", agent(number)),
        kind: SpanKind::Internal,
        start: Timestamp::from_micros(start),
        // Every ten thousandth takes much longer.
        end: Timestamp::from_micros(start + if number % 10_000 == 3 { 90_000_000 } else { 40_000 }),
        session: SessionId::new(&format!("s-{}", number / 20)).unwrap(),
        run,
        agent: agent(number),
        attributes: attributes.into_iter().collect(),
        error: None,
        links: Vec::new(),
        events: Vec::new(),
    };
    let mut call = SpanRecord {
        context: context.child("call", "c"),
        parent: Some(context),
        name: format!("execute_tool {}", tool(number)),
        end: Timestamp::from_micros(start + 30_000),
        error: number.is_multiple_of(100).then(|| "E3003 tool failed".to_owned()),
        ..whole.clone()
    };
    call.attributes.set("gen_ai.operation.name", "execute_tool");
    call.attributes.set("gen_ai.tool.name", json!(tool(number)));
    [call, whole]
}

/// The slots of a trace in its session: each span has an entry.
fn slots(number: u64) -> [u64; 2] {
    [number * 2, number * 2 + 1]
}

/// Tells the spans again.
struct Retold;

impl SpanSource for Retold {
    fn tell(&self, part: &TracePart, spans: &mut TraceSpans) -> Result<(), Untold> {
        for number in part.first_slot / 2..=part.last_slot / 2 {
            for span in trace(number) {
                spans.add(span);
            }
        }
        Ok(())
    }
}

fn spanned(number: u64) -> [Change; 2] {
    let [call, whole] = trace(number);
    let [first, second] = slots(number).map(|slot| Told { slot, number: 0 });
    [EndedSpan::of(call, first), EndedSpan::of(whole, second)].map(|span| Change::Span(span.into()))
}

fn fill(store: &Store, numbers: std::ops::Range<u64>, mut after_each: impl FnMut()) {
    let mut next = numbers.start;
    while next < numbers.end {
        let until = (next + BATCH).min(numbers.end);
        let changes: Vec<Change> = (next..until).flat_map(spanned).collect();
        store.apply(&changes, Some(until)).unwrap();
        after_each();
        next = until;
    }
}

fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let size = |path: &Path| {
        if path.is_dir() {
            bytes_below(path)
        } else {
            path.metadata().map_or(0, |found| found.len())
        }
    };
    entries.map(|entry| size(&entry.unwrap().path())).sum()
}

/// The kinds of look-up, each with how many of a page of 50 it brings.
fn looks() -> Vec<(&'static str, TraceQuery, usize)> {
    let any = TraceQuery::default;
    let agent = Some(agent(4));
    let old = Some(Timestamp::from_micros(500 * APART));
    vec![
        ("the newest", any(), 50),
        ("an agent", TraceQuery { agent: agent.clone(), ..any() }, 50),
        ("a rare tool", TraceQuery { tool: Some("rare".into()), ..any() }, 50),
        ("a session", TraceQuery { session: SessionId::new("s-3").ok(), ..any() }, 20),
        ("failed", TraceQuery { status: Some(TraceStatus::Error), ..any() }, 50),
        ("none is running", TraceQuery { status: Some(TraceStatus::Running), ..any() }, 0),
        ("up to a time", TraceQuery { until: old, ..any() }, 50),
        (
            "failed, of an agent, with a tool",
            TraceQuery {
                agent: Some(Name::new("agent-0").unwrap()),
                tool: Some("tool-0".into()),
                status: Some(TraceStatus::Error),
                ..any()
            },
            50,
        ),
        (
            "long ones with any tool",
            TraceQuery { duration_min: Some(Duration::from_secs(60)), ..any() },
            2,
        ),
        (
            "long ones with a rare tool",
            TraceQuery {
                tool: Some("rare".into()),
                duration_min: Some(Duration::from_secs(60)),
                ..any()
            },
            0,
        ),
    ]
}

#[tokio::test]
async fn a_hundred_thousand_traces_are_looked_through_in_milliseconds() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(&dir.path().join("store")).unwrap();
    store.set_spans(Arc::new(Retold));
    store.set_trace_bytes_max(4 << 30).unwrap();
    let look = |query: &TraceQuery| -> (TracePage, Duration) {
        let begun = Instant::now();
        let mut page = TracePage::default();
        for _ in 0..LOOKS {
            page = store.traces(query, 50).unwrap();
        }
        (page, begun.elapsed() / LOOKS)
    };
    fill(&store, 0..1_000, || {});
    let few: Vec<TracePage> = looks().iter().map(|(_, query, _)| look(query).0).collect();
    fill(&store, 1_000..TRACES, || {});
    assert_eq!(store.trace_usage().traces, TRACES);
    let mut slowest = Duration::ZERO;
    for ((what, query, rows), few) in looks().iter().zip(few) {
        let (page, took) = look(query);
        println!("{what}: {} of {} looked at, {took:?}", page.rows.len(), page.scanned);
        assert_eq!(page.rows.len(), *rows, "{what}");
        assert!(page.scanned <= TRACES_SCANNED_MAX, "{what}");
        // What has an index touches no more of many traces than it does of few.
        let is_alone = what.split(' ').all(|word| word != "with");
        if is_alone {
            assert!(page.scanned <= 50.max(few.scanned), "{what}: {} of few", few.scanned);
        }
        slowest = slowest.max(took);
    }
    let begun = Instant::now();
    for number in 0..u64::from(LOOKS) {
        let [_, whole] = trace(number * 4_999);
        let spans = store.trace(&whole.context.trace_id()).unwrap();
        assert_eq!(spans.len(), 2);
        assert_eq!(
            store.trace(&whole.context.trace_id().chars().take(12).collect::<String>()).unwrap(),
            spans
        );
    }
    let by_id = begun.elapsed() / (LOOKS * 2);
    // A page that was cut for its length goes on to the end.
    let (mut query, mut found) = (looks()[8].1.clone(), 0);
    loop {
        let page = store.traces(&query, 50).unwrap();
        found += page.rows.len();
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(found, 10);
    let bytes = bytes_below(&dir.path().join("store")) >> 20;
    results::record(&Row {
        id: "traces, look-ups",
        what: "100,000 traces are looked through by each thing that is known of them",
        held: &format!(
            "a page of 50 within {slowest:.1?}, one by its id within {by_id:.1?}; {bytes} MiB"
        ),
        passes: "as few places looked at as of 1,000 traces, by what has an index",
        command: "cargo test -p tests --test soak looked_through -- --nocapture",
    });
}

#[tokio::test]
async fn a_hundred_thousand_traces_stay_below_their_cap() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("store");
    let (store, _) = Store::open(&home).unwrap();
    store.set_trace_bytes_max(TRACE_BYTES_MIN).unwrap();
    let (mut most, mut most_of_all) = (0, 0);
    fill(&store, 0..TRACES, || {
        most = most.max(bytes_below(&home.join("traces")));
        most_of_all = most_of_all.max(bytes_below(&home));
    });
    let usage = store.trace_usage();
    assert!(most <= TRACE_BYTES_MIN, "{most}");
    assert_eq!(usage.traces + usage.dropped.traces, TRACES, "what went is counted: {usage:?}");
    let left = store.traces(&TraceQuery::default(), 10_000).unwrap().rows;
    for (row, number) in left.iter().zip((0..TRACES).rev()) {
        assert_eq!(row.run.as_str(), format!("r-{number:08}"), "the newest are kept");
    }
    assert!(left.len() as u64 >= usage.traces.min(10_000));
    results::record(&Row {
        id: "traces, soak",
        what: "100,000 traces come to a store that may take 64 MiB for them",
        held: &format!(
            "{} MiB at most, with the rest of the store {} MiB; {} kept, {} dropped and counted",
            most >> 20,
            most_of_all >> 20,
            usage.traces,
            usage.dropped.traces
        ),
        passes: "64 MiB, sled's growth included; the newest kept",
        command: "cargo test -p tests --test soak below_their_cap -- --nocapture",
    });
}
