//! Traces are found by all that is known of them.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "house/spans.rs"]
mod spans;
#[path = "house/told.rs"]
mod told;

use std::collections::BTreeSet;
use std::time::Duration;

use store::{
    NAMES_FOUND_MAX, RUN_SPANS_SPARE, SPANS_MAX, SpanSource, Store, TracePart, TraceQuery,
    TraceRow, TraceSpans, TraceStatus, Untold,
};
use wire::{RunId, SessionId, SpanRecord};

use spans::{apply, at, begun, call, fill, found, name, open, run};
use told::spanned;

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

#[test]
fn traces_of_an_agent_or_a_tool_are_found_in_whatever_second_they_began() {
    let (_dir, store) = open();
    let second = 1_000_000;
    let begins = [0, 999_999, second, second + 1, 7 * second, 9 * second];
    for (number, start) in (0..).zip(begins) {
        let whole = run(
            &format!("r{number}"),
            if number % 2 == 0 { "even" } else { "odd" },
            start,
            start + 5,
        );
        let tool = if number == 3 { "rare" } else { "usual" };
        // The call is told before its run, so this is found to have begun earlier than it seemed.
        apply(&store, &[call(&whole, tool, start + 2, start + 3)]);
        apply(&store, &[whole]);
    }
    let early = run("early", "odd", second - 2, 8 * second);
    apply(&store, &[call(&early, "rare", 5 * second, 6 * second)]);
    apply(&store, &[early]);
    apply(&store, &[run("last", "late", u64::MAX, u64::MAX)]);
    let all = TraceQuery::default;
    let agent = |text: &str| TraceQuery { agent: Some(name(text)), ..all() };
    let tool = |text: &str| TraceQuery { tool: Some(text.into()), ..all() };
    let check = |cases: &[(TraceQuery, &[&str])]| {
        for (query, expected) in cases {
            assert_eq!(found(&store, query), *expected, "{query:?}");
            for limit in 1..=expected.len() {
                let (mut rows, mut after) = (Vec::new(), None);
                while rows.len() < expected.len() {
                    let page = store.traces(&TraceQuery { after, ..query.clone() }, limit).unwrap();
                    rows.extend(page.rows.into_iter().map(|row| row.run.to_string()));
                    after = page.next;
                }
                assert_eq!(rows, *expected, "{limit} of {query:?}");
            }
        }
        store.verify().unwrap();
    };
    let (since, until) = (Some(at(second)), Some(at(second)));
    check(&[
        (agent("even"), &["r4", "r2", "r0"]),
        (agent("odd"), &["r5", "r3", "r1", "early"]),
        (agent("late"), &["last"]),
        (agent("none"), &[]),
        (tool("rare"), &["r3", "early"]),
        (TraceQuery { agent: Some(name("odd")), ..tool("usual") }, &["r5", "r1"]),
        (TraceQuery { agent: Some(name("even")), ..tool("rare") }, &[]),
        (TraceQuery { since, ..agent("odd") }, &["r5", "r3"]),
        (TraceQuery { until, ..agent("odd") }, &["r1", "early"]),
        (TraceQuery { since, until, ..agent("even") }, &["r2"]),
        (TraceQuery { status: Some(TraceStatus::Ok), ..tool("rare") }, &["r3", "early"]),
        (TraceQuery { status: Some(TraceStatus::Error), ..tool("rare") }, &[]),
    ]);
    while store.drop_traces_until(at(second + 100)).unwrap() > 0 {}
    check(&[
        (agent("even"), &["r4"]),
        (agent("odd"), &["r5", "early"]),
        (tool("rare"), &["early"]),
    ]);
}

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

#[test]
fn a_trace_in_work_is_counted_found_and_kept_before_it_is_written() {
    type Written = fn(&Store);
    let running = TraceQuery { status: Some(TraceStatus::Running), ..TraceQuery::default() };
    let whole = run("a", "lead", 100, 900);
    let calls = ["one", "two", "three"].map(|tool| call(&whole, tool, 110, 120));
    // Whoever looks sees all of it, and has nothing written.
    let look = |store: &Store, calls: usize| {
        let records = store.verify().unwrap();
        assert_eq!(found(store, &running), ["a"]);
        assert_eq!(found(store, &TraceQuery::default()), ["a", "over"]);
        let tool = TraceQuery { tool: Some("two".into()), ..TraceQuery::default() };
        assert_eq!(found(store, &tool), ["a"]);
        let digits = whole.context.trace_id().chars().take(12).collect::<String>();
        for name in ["a", &whole.context.trace_id(), &digits] {
            assert_eq!(store.trace(name).unwrap().len(), calls, "{name}");
        }
        let first = store.traces(&TraceQuery::default(), 1).unwrap();
        let later = TraceQuery { after: first.next, ..TraceQuery::default() };
        assert_eq!(
            (first.rows[0].spans, found(store, &later)),
            (u32::try_from(calls).unwrap(), vec!["over".to_owned()])
        );
        assert_eq!(store.verify().unwrap(), records);
    };
    // What has it written besides that it is over.
    let ways: [(&str, Written); 2] = [
        ("the store is written out", |store| store.flush().unwrap()),
        ("old traces go", |store| assert_eq!(store.drop_traces_until(at(1)).unwrap(), 0)),
    ];
    for (what, written) in ways {
        let (dir, store) = open();
        let path = dir.path().join("store");
        apply(&store, &[run("over", "lead", 10, 20)]);
        let records = store.verify().unwrap();
        store.apply(&[begun("a", 100)], None).unwrap();
        for span in &calls[..2] {
            apply(&store, std::slice::from_ref(span));
            let counted = (store.trace_usage().traces, store.verify().unwrap() - records);
            assert_eq!(counted, (2, 3), "{what}: its run has three records, and it has none");
        }
        look(&store, 2);
        written(&store);
        assert!(store.verify().unwrap() - records > 3, "{what}");
        assert_eq!(store.trace_usage().traces, 2, "{what}");
        apply(&store, &calls[2..]);
        look(&store, 3);
        drop(store);
        let (store, _) = told::open(&path);
        apply(&store, std::slice::from_ref(&whole));
        assert_eq!(found(&store, &running), [""; 0], "{what}");
        let rows = store.traces(&TraceQuery::default(), 10).unwrap().rows;
        assert_eq!(rows.iter().map(|row| row.spans).collect::<Vec<_>>(), [4, 1], "{what}");
        store.verify().unwrap();
    }
}

#[test]
fn more_traces_in_work_than_memory_holds_are_kept_and_go_on() {
    let (dir, store) = open();
    let runs: Vec<SpanRecord> =
        (0..2_500).map(|n| run(&format!("r{n}"), "lead", 10 * n, 90_000)).collect();
    for tool in ["first", "second"] {
        let calls = runs.iter().zip(0..).map(|(run, n)| call(run, tool, 10 * n + 1, 10 * n + 2));
        apply(&store, &calls.collect::<Vec<_>>());
        assert_eq!(store.trace_usage().traces, 2_500);
    }
    drop(store);
    let (store, _) = told::open(&dir.path().join("store"));
    apply(&store, &runs);
    let rows = store.traces(&TraceQuery::default(), usize::MAX).unwrap().rows;
    assert_eq!(rows.len(), 2_500);
    for row in rows {
        assert_eq!((row.spans, row.status), (3, TraceStatus::Ok), "{}", row.run);
    }
    store.verify().unwrap();
}

#[test]
fn nothing_is_durable_once_spans_of_traces_in_work_went_with_an_error() {
    let whole = run("a", "lead", 100, 900);
    let one = spanned(&call(&whole, "one", 110, 120));
    let other = run("b", "lead", 100, 200);
    let large = SpanRecord { name: "x".repeat(store::RECORD_BYTES_MAX), ..other.clone() };
    for (what, next, position) in [("all is well", other, 2), ("a record is too large", large, 0)] {
        let (dir, store) = open();
        store.apply(std::slice::from_ref(&one), Some(1)).unwrap();
        let applied = store.apply(&[spanned(&next)], Some(2));
        assert_eq!(applied.is_ok(), position > 0, "{what}");
        store.flush().unwrap();
        drop(store);
        let (store, _) = told::open(&dir.path().join("store"));
        assert_eq!(store.position(), position, "{what}");
        // What came before is told again.
        store.apply(std::slice::from_ref(&one), Some(1)).unwrap();
        assert_eq!(store.trace(&whole.context.trace_id()).unwrap().len(), 1, "{what}");
        store.verify().unwrap();
    }
}

#[test]
fn a_trace_of_many_agents_is_found_by_the_one_of_its_root() {
    let (_dir, store) = open();
    let whole = run("a", "root", 100, 900);
    let most = u64::try_from(NAMES_FOUND_MAX).unwrap();
    let helped = (0..most).map(|n| SpanRecord {
        agent: name(&format!("helper-{n}")),
        ..call(&whole, &format!("t{n}"), 100, 200 + n)
    });
    apply(&store, &helped.collect::<Vec<_>>());
    store.flush().unwrap();
    apply(&store, std::slice::from_ref(&whole));
    for agent in ["helper-0", "helper-63", "root"] {
        let query = TraceQuery { agent: Some(name(agent)), ..TraceQuery::default() };
        assert_eq!(found(&store, &query), ["a"], "{agent}");
    }
    store.verify().unwrap();
}

#[test]
fn seconds_whose_traces_are_gone_are_counted_as_looked_at() {
    let (_dir, store) = open();
    let second = 1_000_000;
    // One that is in work stays, and with it what tells of the seconds of all.
    store.apply(&[begun("waits", 0)], None).unwrap();
    let waits = run("waits", "lead", 0, 1);
    apply(&store, &[call(&waits, "get", 0, 1)]);
    let spans = (1..=30).map(|n| run(&format!("r{n}"), "lead", n * second, n * second + 1));
    apply(&store, &spans.collect::<Vec<_>>());
    while store.drop_traces_until(at(20 * second + 1)).unwrap() > 0 {}
    let lead = TraceQuery { agent: Some(name("lead")), ..TraceQuery::default() };
    let page = store.traces(&lead, usize::MAX).unwrap();
    let traces = 10 + 1;
    assert_eq!((page.rows.len(), page.scanned, page.next), (traces, traces + 20, None));
    let newest = store.traces(&lead, 10).unwrap();
    let rest = store.traces(&TraceQuery { after: newest.next, ..lead.clone() }, 10).unwrap();
    assert_eq!((rest.rows.len(), rest.next), (1, None));
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
