//! Traces are found by all that is known of them, and the oldest make room for the newest.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "house/told.rs"]
mod told;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use store::{
    Change, Opened, RUN_SPANS_SPARE, RunBegun, SPANS_MAX, SpanSource, Store, TRACE_BYTES_MIN,
    TracePart, TraceQuery, TraceRow, TraceSpans, TraceStatus, Untold,
};
use tempfile::TempDir;
use wire::trace::SpanKind;
use wire::{Attributes, Digest, Name, RunId, SessionId, SpanRecord, Timestamp, TraceContext};

use told::spanned;

fn open() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = told::open(&dir.path().join("store"));
    (dir, store)
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn root(run: &str) -> TraceContext {
    TraceContext::root(&name("team"), &RunId::new(run).unwrap())
}

/// The span of a whole run.
fn run(run: &str, agent: &str, start: u64, end: u64) -> SpanRecord {
    let mut attributes = Attributes::new();
    attributes.set("gen_ai.operation.name", json!("invoke_agent"));
    SpanRecord {
        context: root(run),
        parent: None,
        name: format!("invoke_agent {agent}"),
        kind: SpanKind::Internal,
        start: at(start),
        end: at(end),
        session: SessionId::new(&format!("s-{run}")).unwrap(),
        run: RunId::new(run).unwrap(),
        agent: name(agent),
        attributes,
        links: Vec::new(),
        events: Vec::new(),
        error: None,
    }
}

/// The span of a call in it.
fn call(of: &SpanRecord, tool: &str, start: u64, end: u64) -> SpanRecord {
    let mut span = SpanRecord {
        context: of.context.child("call", tool),
        parent: Some(of.context),
        name: format!("execute_tool {tool}"),
        start: at(start),
        end: at(end),
        ..of.clone()
    };
    span.attributes.set("gen_ai.operation.name", json!("execute_tool"));
    span.attributes.set("gen_ai.tool.name", json!(tool));
    span
}

fn apply(store: &Store, spans: &[SpanRecord]) {
    let changes: Vec<Change> = spans.iter().map(spanned).collect();
    store.apply(&changes, None).unwrap();
}

fn found(store: &Store, query: &TraceQuery) -> Vec<String> {
    let rows = store.traces(query, usize::MAX).unwrap().rows;
    rows.into_iter().map(|row| row.run.to_string()).collect()
}

/// Four traces: `a` and `b` are over, `c` failed, `d` is in work.
fn fill(store: &Store) {
    let a = run("a", "lead", 100, 200);
    let b = run("b", "clerk", 300, 2_000_300);
    let c = run("c", "lead", 500, 600);
    let d = run("d", "lead", 700, 800);
    let failed = SpanRecord { error: Some("boom".into()), ..call(&c, "post", 510, 520) };
    let helped = SpanRecord { agent: name("helper"), ..call(&b, "get", 310, 320) };
    let spans = [call(&a, "get", 110, 120), a, helped, b, failed, c, call(&d, "post", 700, 750)];
    apply(store, &spans);
    store.apply(&[begun("b", 300)], None).unwrap();
}

/// The begin of a run.
fn begun(run: &str, time: u64) -> Change {
    let begun = RunBegun {
        run: RunId::new(run).unwrap(),
        session: SessionId::new(&format!("s-{run}")).unwrap(),
        agent: name("clerk"),
        body: Digest::of(run.as_bytes()),
        at: at(time),
        input: "x".into(),
        trace: root(run),
        parent: None,
        joined: None,
    };
    Change::RunBegun(begun.into())
}

#[test]
fn traces_are_found_by_what_is_known_of_them() {
    let (_dir, store) = open();
    fill(&store);
    let all = TraceQuery::default;
    let micros = |n| Some(Duration::from_micros(n));
    let cases: Vec<(TraceQuery, &[&str])> = vec![
        (all(), &["d", "c", "b", "a"]),
        (TraceQuery { agent: Some(name("lead")), ..all() }, &["d", "c", "a"]),
        (TraceQuery { agent: Some(name("helper")), ..all() }, &["b"]),
        (TraceQuery { agent: Some(name("lea")), ..all() }, &[]),
        (TraceQuery { tool: Some("get".into()), ..all() }, &["b", "a"]),
        (TraceQuery { session: SessionId::new("s-c").ok(), ..all() }, &["c"]),
        (TraceQuery { status: Some(TraceStatus::Ok), ..all() }, &["b", "a"]),
        (TraceQuery { status: Some(TraceStatus::Error), ..all() }, &["c"]),
        (TraceQuery { status: Some(TraceStatus::Running), ..all() }, &["d"]),
        (TraceQuery { duration_min: micros(100), ..all() }, &["c", "b", "a"]),
        (TraceQuery { duration_max: micros(99), ..all() }, &["d"]),
        (TraceQuery { duration_min: micros(60), duration_max: micros(100), ..all() }, &["c", "a"]),
        (TraceQuery { since: Some(at(300)), ..all() }, &["d", "c", "b"]),
        (TraceQuery { until: Some(at(300)), ..all() }, &["b", "a"]),
        (TraceQuery { since: Some(at(301)), until: Some(at(699)), ..all() }, &["c"]),
        (TraceQuery { since: Some(at(600)), until: Some(at(500)), ..all() }, &[]),
        (TraceQuery { run: RunId::new("b").ok(), ..all() }, &["b"]),
        (TraceQuery { run: RunId::new("none").ok(), ..all() }, &[]),
    ];
    for (query, expected) in &cases {
        assert_eq!(found(&store, query), *expected, "{query:?}");
    }
    // Whatever is asked together is found where each is found alone.
    for (one, _) in &cases {
        for (other, _) in &cases {
            let both = TraceQuery {
                run: one.run.clone().or(other.run.clone()),
                agent: one.agent.clone().or(other.agent.clone()),
                tool: one.tool.clone().or(other.tool.clone()),
                session: one.session.clone().or(other.session.clone()),
                status: one.status.or(other.status),
                duration_min: one.duration_min.max(other.duration_min),
                duration_max: one.duration_max.or(other.duration_max),
                since: one.since.max(other.since),
                until: one.until.or(other.until),
                after: None,
            };
            let parts = [
                TraceQuery { run: both.run.clone(), ..all() },
                TraceQuery { agent: both.agent.clone(), ..all() },
                TraceQuery { tool: both.tool.clone(), ..all() },
                TraceQuery { session: both.session.clone(), ..all() },
                TraceQuery { status: both.status, ..all() },
                TraceQuery { duration_min: both.duration_min, ..all() },
                TraceQuery { duration_max: both.duration_max, ..all() },
                TraceQuery { since: both.since, ..all() },
                TraceQuery { until: both.until, ..all() },
            ];
            let parts = parts.map(|part| found(&store, &part).into_iter().collect());
            let expected: BTreeSet<String> =
                parts.into_iter().reduce(|a: BTreeSet<String>, b| &a & &b).unwrap();
            let together: BTreeSet<String> = found(&store, &both).into_iter().collect();
            assert_eq!(together, expected, "{both:?}");
        }
    }
}

#[test]
fn a_run_is_over_with_its_span_in_whatever_order_spans_come() {
    let (_dir, store) = open();
    let whole = run("a", "lead", 100, 200);
    let (late, later) = (call(&whole, "late", 150, 900), call(&whole, "later", 150, 950));
    let status = || store.traces(&TraceQuery::default(), 1).unwrap().rows[0].status;
    for (span, expected) in [
        (call(&whole, "get", 110, 120), TraceStatus::Running),
        (whole.clone(), TraceStatus::Ok),
        (late.clone(), TraceStatus::Ok),
        // Told again it changes nothing.
        (late, TraceStatus::Ok),
        (SpanRecord { error: Some("late".into()), ..later }, TraceStatus::Error),
    ] {
        apply(&store, &[span]);
        assert_eq!(status(), expected);
        let known = TraceQuery { status: Some(expected), ..TraceQuery::default() };
        assert_eq!(found(&store, &known), ["a"]);
        store.verify().unwrap();
    }
}

#[test]
fn the_span_of_the_run_is_told_however_many_there_are() {
    let (_dir, store) = open();
    let whole = run("a", "lead", 1, 9_000);
    let calls = (0..SPANS_MAX + 7).map(|n| call(&whole, &format!("t{n}"), u64::from(n), 8_000));
    let spans: Vec<SpanRecord> = calls.chain([whole.clone()]).collect();
    apply(&store, &spans);
    let row = store.traces(&TraceQuery::default(), 1).unwrap().rows.remove(0);
    assert_eq!((row.spans, row.spans_dropped), (SPANS_MAX + 1, 7));
    assert_eq!((row.status, row.name.as_str()), (TraceStatus::Ok, "invoke_agent lead"));
    let told = store.trace(&row.trace_id).unwrap();
    assert_eq!(told.len(), SPANS_MAX as usize + 1);
    assert!(told.contains(&whole));
}

#[test]
fn a_trace_of_many_sessions_names_no_more_of_them_than_it_has_spans() {
    let (_dir, store) = open();
    let whole = run("a", "lead", 1, 90_000);
    let most = SPANS_MAX + RUN_SPANS_SPARE;
    // Each called agent has a run and a session of its own in the trace.
    let called = (0..most + 50).map(|n| {
        let mut span = run(&format!("c{n}"), "helper", u64::from(n) + 2, 80_000);
        span.parent = Some(whole.context);
        span.context = whole.context.of_run(&span.run);
        span.session = SessionId::new(&format!("s{n}")).unwrap();
        span
    });
    apply(&store, &called.chain([whole.clone()]).collect::<Vec<_>>());
    let row = store.traces(&TraceQuery::default(), 1).unwrap().rows.remove(0);
    assert_eq!((row.spans, row.spans_dropped), (most, 51));
    assert_eq!(row.status, TraceStatus::Ok);
    assert_eq!(store.trace(&row.trace_id).unwrap().len(), most as usize);
    store.verify().unwrap();
}

#[test]
fn a_list_goes_on_where_it_ended() {
    let (_dir, store) = open();
    let spans: Vec<SpanRecord> = (0..500)
        // Ten of them begin at the same time.
        .map(|n| run(&format!("r{n}"), if n % 3 == 0 { "lead" } else { "clerk" }, n / 10, n))
        .collect();
    apply(&store, &spans);
    for (query, count) in [
        (TraceQuery::default(), 500),
        (TraceQuery { agent: Some(name("lead")), ..TraceQuery::default() }, 167),
    ] {
        let all = store.traces(&query, usize::MAX).unwrap();
        assert_eq!((all.rows.len(), all.next), (count, None));
        for limit in [1, 7, 100, count, count + 1] {
            let (mut rows, mut after): (Vec<TraceRow>, _) = (Vec::new(), None);
            loop {
                let page = store.traces(&TraceQuery { after, ..query.clone() }, limit).unwrap();
                assert!(page.rows.len() <= limit);
                rows.extend(page.rows);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(rows, all.rows, "{limit}");
        }
    }
    let none = store.traces(&TraceQuery::default(), 0).unwrap();
    assert_eq!((none.rows.len(), none.scanned), (0, 0));
}

/// Bytes of all files below a directory.
fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let sizes = entries.map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() { bytes_below(&path) } else { path.metadata().map_or(0, |m| m.len()) }
    });
    sizes.sum()
}

/// A trace of one span that failed with a long text.
fn large(number: u64) -> SpanRecord {
    let mut span = run(&format!("r{number}"), "lead", number * 10, number * 10 + 5);
    let text: String =
        (0..300).map(|n| Digest::of(format!("{number}/{n}").as_bytes()).to_string()).collect();
    span.error = Some(text);
    span
}

#[test]
fn the_oldest_traces_make_room_in_whatever_order_they_come() {
    const TRACES: u64 = 4_000;
    let order = |n: u64| [n, TRACES - 1 - n, n.wrapping_mul(1_237) % TRACES];
    for way in 0..3 {
        let (dir, store) = open();
        store.set_trace_bytes_max(TRACE_BYTES_MIN).unwrap();
        let mut most = 0;
        for batch in (0..TRACES).collect::<Vec<_>>().chunks(50) {
            let spans: Vec<SpanRecord> =
                batch.iter().map(|number| large(order(*number)[way])).collect();
            apply(&store, &spans);
            most = most.max(bytes_below(&dir.path().join("store/traces")));
        }
        let usage = store.trace_usage();
        assert!(most <= TRACE_BYTES_MIN, "{way}: {most}");
        assert!(usage.bytes > TRACE_BYTES_MIN / 2, "{way}: {usage:?}");
        assert!(usage.dropped.traces > 0 && usage.traces > 500, "{way}: {usage:?}");
        // What is left is the newest, without a gap.
        let left = store.traces(&TraceQuery::default(), usize::MAX).unwrap().rows;
        assert_eq!(left.len() as u64, usage.traces);
        for (row, number) in left.iter().zip((0..TRACES).rev()) {
            assert_eq!(row.run.as_str(), format!("r{number}"), "{way}");
        }
        let oldest = left.last().unwrap().start;
        assert!(usage.dropped.before.is_some_and(|before| before <= oldest), "{way}: {usage:?}");
        // What was dropped does not come back when it is told again.
        apply(&store, &[large(0)]);
        assert_eq!(store.trace("r0").unwrap(), []);
        assert_eq!(store.trace_usage().traces, usage.traces);
        store.verify().unwrap();
        drop(store);
        let (store, opened) = told::open(&dir.path().join("store"));
        assert_eq!((opened, store.trace_usage().traces), (Opened::Ready, usage.traces));
        assert_eq!(store.trace(&left[3].trace_id).unwrap().len(), 1);
    }
}

#[test]
fn old_traces_go_one_by_one_and_their_segments_at_last() {
    let (dir, store) = open();
    store.set_trace_bytes_max(TRACE_BYTES_MIN).unwrap();
    let spans: Vec<SpanRecord> = (0..600).map(large).collect();
    spans.chunks(50).for_each(|batch| apply(&store, batch));
    let before = store.trace_usage();
    assert_eq!((before.traces, before.dropped.traces), (600, 0));
    let drop_until = |cutoff| while store.drop_traces_until(at(cutoff)).unwrap() > 0 {};
    drop_until(2_995);
    let left = store.traces(&TraceQuery::default(), usize::MAX).unwrap().rows;
    assert_eq!((left.len(), left[299].run.as_str()), (300, "r300"));
    assert!(store.trace_usage().bytes < before.bytes, "segments went");
    store.verify().unwrap();
    drop_until(u64::MAX);
    assert_eq!((store.trace_usage().traces, store.verify().unwrap()), (0, 0));
    apply(&store, &[large(9)]);
    assert_eq!(found(&store, &TraceQuery::default()), ["r9"]);
    drop(store);
    assert_eq!(told::open(&dir.path().join("store")).1, Opened::Ready);
}

/// Copies a directory as it is.
#[test]
fn the_trace_of_a_run_in_work_stays_and_goes_on() {
    let (_dir, store) = open();
    let (waits, gone) = (run("waits", "lead", 100, 2_000), run("gone", "lead", 100, 2_000));
    let (first, lost) = (call(&waits, "get", 110, 120), call(&gone, "get", 110, 120));
    store.apply(&[begun("waits", 100), spanned(&first), spanned(&lost)], None).unwrap();
    let drop_until = |cutoff| while store.drop_traces_until(at(cutoff)).unwrap() > 0 {};
    drop_until(1_000);
    // Nobody will say that a run is over of which nothing is known.
    assert_eq!(found(&store, &TraceQuery::default()), ["waits"]);
    apply(&store, std::slice::from_ref(&waits));
    assert_eq!(store.trace("waits").unwrap(), [waits, first]);
    let rows = store.traces(&TraceQuery::default(), usize::MAX).unwrap().rows;
    assert_eq!((rows[0].status, rows[0].spans), (TraceStatus::Ok, 2));
    store.verify().unwrap();
    drop_until(1_999);
    assert_eq!(found(&store, &TraceQuery::default()), ["waits"]);
    drop_until(2_000);
    assert_eq!(store.trace_usage().traces, 0);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

#[test]
fn the_position_of_a_process_that_died_is_not_ahead_of_its_spans() {
    let (dir, store) = open();
    let live = dir.path().join("store");
    let mut moved = false;
    for batch in 1..=200_u64 {
        let numbers = (batch - 1) * 100..batch * 100;
        let spans = numbers.map(|n| spanned(&run(&format!("r{n}"), "lead", n, n + 1)));
        store.apply(&spans.collect::<Vec<_>>(), Some(batch * 100)).unwrap();
        assert_eq!(store.position(), batch * 100);
        if batch % 40 != 0 {
            continue;
        }
        // What is on the disk of an open store is what a killed process leaves.
        let died = dir.path().join(format!("died-{batch}"));
        copy(&live, &died);
        let (died, opened) = told::open(&died);
        assert_eq!(opened, Opened::Ready);
        moved |= died.position() > 0;
        for number in (0..died.position()).step_by(37) {
            assert_eq!(died.trace(&root(&format!("r{number}")).trace_id()).unwrap().len(), 1);
        }
        assert!(died.trace_usage().traces >= died.position());
    }
    assert!(moved);
    store.flush().unwrap();
    let died = dir.path().join("flushed");
    copy(&live, &died);
    assert_eq!(told::open(&died).0.position(), 20_000);
}

#[test]
fn a_segment_that_is_gone_or_damaged_is_noticed() {
    type Damage = fn(&Path);
    let ways: [Damage; 3] = [
        |segment| std::fs::remove_dir_all(segment).unwrap(),
        |segment| std::fs::remove_file(segment.join("db")).unwrap(),
        |segment| {
            let mut bytes = std::fs::read(segment.join("db")).unwrap();
            for byte in bytes.iter_mut().skip(4_096).take(60_000) {
                *byte ^= 0x55;
            }
            std::fs::write(segment.join("db"), bytes).unwrap();
        },
    ];
    for (way, damage) in ways.iter().enumerate() {
        let (dir, store) = open();
        fill(&store);
        store.apply(&[], Some(7)).unwrap();
        drop(store);
        let home = dir.path().join("store");
        // What is not on the list of segments is left of a process that died.
        std::fs::create_dir_all(home.join("traces/77")).unwrap();
        let (store, opened) = told::open(&home);
        assert_eq!((opened, store.position()), (Opened::Ready, 7));
        assert!(!home.join("traces/77").exists());
        drop(store);
        damage(&home.join("traces/0"));
        let (store, opened) = told::open(&home);
        assert!(matches!(opened, Opened::Replaced { .. }), "{way}: {opened:?}");
        assert_eq!(store.position(), 0);
        fill(&store);
        assert_eq!(found(&store, &TraceQuery::default()).len(), 4);
    }
}

#[test]
fn a_span_that_is_told_again_is_counted_once() {
    let whole = run("r", "lead", 10, 90);
    let (one, two) = (call(&whole, "search", 20, 30), call(&whole, "fetch", 50, 60));
    let failed = SpanRecord { error: Some("boom".into()), ..call(&whole, "post", 70, 80) };
    let told = [&one, &two, &failed, &whole];
    let cases: [(&str, &[&[&SpanRecord]]); 4] = [
        ("in one batch", &[&[&one, &two, &failed, &one, &two, &failed, &whole]]),
        ("in the next batch", &[&told[..3], &told]),
        ("all from the begin", &[&told, &told, &told]),
        ("one after another", &[&told[..1], &told[..2], &told[..3], &told]),
    ];
    for is_opened_again in [false, true] {
        for (what, batches) in cases {
            // Slots are given in the order in which spans come.
            for span in told {
                spanned(span);
            }
            let (dir, mut store) = open();
            for batch in batches {
                apply(&store, &batch.iter().map(|span| (*span).clone()).collect::<Vec<_>>());
                if is_opened_again {
                    drop(store);
                    (store, _) = told::open(&dir.path().join("store"));
                }
            }
            let spans = store.trace(&whole.context.trace_id()).unwrap();
            assert_eq!(spans, [&whole, &one, &two, &failed].map(Clone::clone), "{what}");
            let rows = store.traces(&TraceQuery::default(), 10).unwrap().rows;
            let [row] = rows.as_slice() else { panic!("{what}: {rows:?}") };
            assert_eq!((row.spans, row.errors), (4, 1), "{what}");
            assert_eq!(row.status, TraceStatus::Error, "{what}");
            store.verify().unwrap();
        }
    }
}

#[test]
fn what_cannot_be_told_again_is_left_out() {
    struct Fails;
    impl SpanSource for Fails {
        fn tell(&self, _: &TracePart, _: &mut TraceSpans) -> Result<(), Untold> {
            Err("the session is damaged".into())
        }
    }
    let (_dir, store) = open();
    fill(&store);
    assert_eq!(store.trace("b").unwrap().len(), 2);
    store.set_spans(std::sync::Arc::new(Fails));
    assert_eq!(store.trace("b").unwrap(), []);
    assert_eq!(found(&store, &TraceQuery::default()).len(), 4);
}
