//! The segments in which traces stand: the oldest go, those that nobody uses are closed, and what a
//! process that died leaves of them is told from what is damaged.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "house/spans.rs"]
mod spans;
#[path = "house/told.rs"]
mod told;

use std::path::Path;
use std::time::{Duration, Instant};

use store::{Opened, Store, TRACE_BYTES_MIN, TraceQuery, TraceStatus};
use tempfile::TempDir;
use wire::{Digest, SessionId, SpanRecord};

use spans::{apply, at, call, fill, found, name, open, root, run};
use told::spanned;

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
        // A new one is none of those that were dropped, whatever the clock says.
        store.set_trace_bytes_max(2 * TRACE_BYTES_MIN).unwrap();
        apply(&store, &[run("again", "lead", 1, 2)]);
        assert_eq!(store.trace_usage().traces, usage.traces, "{way}");
        store.apply_new(&[spanned(&run("new", "lead", 1, 2))]).unwrap();
        assert_eq!(store.trace_usage().traces, usage.traces + 1, "{way}");
    }
}

#[test]
fn old_traces_go_one_by_one_and_their_segments_at_last() {
    let (dir, store, _) = filled();
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

/// How long sled may take to let go of a file, on a busy machine.
const LETS_GO_MAX: Duration = Duration::from_secs(20);

/// How many segments are held open, once they are no more than expected: sled lets go of a file a
/// moment after its database is closed.
#[expect(clippy::disallowed_methods, reason = "sled's own threads take real time")]
fn open_segments(store: &Path, expected: usize) -> usize {
    let is_held = |path: &Path| std::fs::File::open(path.join("db")).unwrap().try_lock().is_err();
    let held = || {
        let segments = std::fs::read_dir(store.join("traces")).unwrap();
        segments.filter(|segment| is_held(&segment.as_ref().unwrap().path())).count()
    };
    let end = Instant::now() + LETS_GO_MAX;
    while held() > expected && Instant::now() < end {
        std::thread::yield_now();
    }
    held()
}

/// What somebody finds of a trace.
type Look = fn(&Store, &str) -> Vec<String>;

/// How many segments there are.
fn segments(home: &Path) -> usize {
    std::fs::read_dir(home.join("traces")).unwrap().count()
}

/// A store with several segments of 600 traces, and how many they are.
fn filled() -> (TempDir, Store, usize) {
    let (dir, store) = open();
    store.set_trace_bytes_max(TRACE_BYTES_MIN).unwrap();
    let spans: Vec<SpanRecord> = (0..600).map(large).collect();
    spans.chunks(50).for_each(|batch| apply(&store, batch));
    let all = segments(&dir.path().join("store"));
    assert!(all > 4, "{all}");
    (dir, store, all)
}

/// The same with one more trace, `w`, that is in work. It begins with `r299`, so that both are in one
/// segment wherever one ends and the next begins, which depends on what sled has written by then.
fn filled_and_in_work() -> (TempDir, Store, usize) {
    let (dir, store, all) = filled();
    apply(&store, &[call(&run("w", "lead", 2_990, 9_000), "get", 2_990, 2_991)]);
    (dir, store, all)
}

/// Has all segments closed that may be. Twice, since what was used lately stays open.
fn rest(store: &Store, home: &Path) {
    (0..2).for_each(|_| store.rest().unwrap());
    assert_eq!(open_segments(home, 1), 1);
}

#[test]
fn segments_that_nobody_uses_are_closed_until_somebody_does() {
    let (dir, store, all) = filled_and_in_work();
    let home = dir.path().join("store");
    let first = large(0).context.trace_id();
    let looks: [(&str, usize, Look); 5] = [
        ("by its id", 2, |store, id| told_of(store, id)),
        ("by digits of it", 2, |store, id| told_of(store, id.get(..12).unwrap())),
        ("by another id", 1, |store, id| told_of(store, id.get(1..).unwrap())),
        ("by an agent's name", 1, |store, _| told_of(store, "lead")),
        ("the newest", 1, |store, _| {
            let page = store.traces(&TraceQuery::default(), 3).unwrap();
            page.rows.into_iter().map(|row| row.run.to_string()).collect()
        }),
    ];
    for (what, opened, look) in looks {
        let before = look(&store, &first);
        rest(&store, &home);
        assert_eq!(look(&store, &first), before, "{what}");
        assert!(open_segments(&home, opened) <= 2, "{what}");
    }
    for (query, opened) in [
        (TraceQuery { since: Some(at(5_900)), ..TraceQuery::default() }, 2),
        (TraceQuery { until: Some(at(100)), ..TraceQuery::default() }, 2),
        (TraceQuery { since: Some(at(9_000)), ..TraceQuery::default() }, 1),
        (TraceQuery { status: Some(TraceStatus::Running), ..TraceQuery::default() }, 2),
        (TraceQuery { agent: Some(name("lead")), ..TraceQuery::default() }, all),
    ] {
        let before = found(&store, &query);
        rest(&store, &home);
        assert_eq!(found(&store, &query), before, "{query:?}");
        assert!(open_segments(&home, opened) <= opened, "{query:?}");
    }
}

#[test]
fn a_list_goes_on_through_segments_that_are_closed() {
    let (dir, store, _) = filled_and_in_work();
    let home = dir.path().join("store");
    let lead = TraceQuery { agent: Some(name("lead")), ..TraceQuery::default() };
    for query in [TraceQuery::default(), lead] {
        let all = store.traces(&query, usize::MAX).unwrap().rows;
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            rest(&store, &home);
            let page = store.traces(&TraceQuery { after, ..query.clone() }, 23).unwrap();
            rows.extend(page.rows);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!((rows.len(), rows == all), (601, true), "{query:?}");
    }
}

#[test]
fn traces_in_segments_that_are_closed_go_on_and_go() {
    let (dir, store, all) = filled_and_in_work();
    let home = dir.path().join("store");
    rest(&store, &home);
    // One that is in work goes on, and an old one that was never told of comes to its time.
    apply(&store, &[run("w", "lead", 2_990, 9_000), run("late", "lead", 55, 56)]);
    let session = SessionId::new("s-w").ok();
    let over = TraceQuery { session, status: Some(TraceStatus::Ok), ..TraceQuery::default() };
    assert_eq!(found(&store, &over), ["w"]);
    let old = TraceQuery { since: Some(at(50)), until: Some(at(60)), ..TraceQuery::default() };
    rest(&store, &home);
    assert_eq!(found(&store, &old), ["r6", "late", "r5"]);
    assert_eq!(store.trace_usage().traces, 602);
    store.verify().unwrap();
    assert_eq!(open_segments(&home, all), all);
    // What is over goes, without being opened where all of it is; `w` is not, in one segment.
    rest(&store, &home);
    while store.drop_traces_until(at(2_995)).unwrap() > 0 {}
    assert!(open_segments(&home, 2) <= 2);
    assert_eq!(found(&store, &TraceQuery::default()).len(), 301);
    drop(store);
    let (store, opened) = told::open(&home);
    assert_eq!((opened, store.trace_usage().traces), (Opened::Ready, 301));
    store.verify().unwrap();
}

#[test]
fn a_closed_segment_is_opened_as_it_was_closed_or_damaged() {
    type Damage = fn(&Path);
    let ways: [(bool, Damage); 4] = [
        // An opening that did not come to its end.
        (true, |segment| {
            std::fs::write(segment.join("snap.FFFFFFFFFFFFFFFF.generating"), b"").unwrap();
        }),
        (false, |segment| std::fs::remove_dir_all(segment).unwrap()),
        (false, |segment| std::fs::remove_file(segment.join("db")).unwrap()),
        (false, |segment| {
            let db = std::fs::OpenOptions::new().write(true).open(segment.join("db")).unwrap();
            db.set_len(512 << 10).unwrap();
        }),
    ];
    for (way, (is_sound, damage)) in ways.into_iter().enumerate() {
        let (dir, store, _) = filled();
        let home = dir.path().join("store");
        rest(&store, &home);
        damage(&home.join("traces/0"));
        let trace = store.trace(&large(0).context.trace_id());
        let is_damaged = matches!(trace, Err(store::Error::Damaged { .. }));
        assert_eq!((trace.is_ok(), is_damaged), (is_sound, !is_sound), "{way}: {trace:?}");
        drop(store);
        let (_, opened) = told::open(&home);
        assert_eq!(opened == Opened::Ready, is_sound, "{way}: {opened:?}");
    }
}

#[test]
fn segments_that_are_full_are_closed_while_others_fill() {
    let (dir, store, before) = filled();
    let home = dir.path().join("store");
    // A segment that has just begun has room for all calls of a trace that begins in it. One that they
    // fill is still used when another has begun, and stays open as that one does.
    let mut traces = 600;
    while segments(&home) == before {
        apply(&store, &[large(traces)]);
        traces += 1;
    }
    let start = traces * 10;
    let busy = run("busy", "lead", start, start + 3_000);
    let calls: Vec<SpanRecord> =
        (1..=10_000).map(|n| call(&busy, &format!("t{}", n % 50), start, start + n)).collect();
    calls.chunks(500).for_each(|batch| apply(&store, batch));
    assert_eq!(segments(&home), before + 1, "the calls filled a segment");
    let after = open_segments(&home, 1);
    assert!(before > 4 && after == 1, "{before}, then {after}");
    assert_eq!(store.trace_usage().traces, traces + 1);
    store.verify().unwrap();
}

/// The runs of a trace's spans.
fn told_of(store: &Store, name: &str) -> Vec<String> {
    store.trace(name).unwrap().iter().map(|span| span.run.to_string()).collect()
}

/// Copies a directory as it is.
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
    let works = run("works", "lead", 0, 90_000);
    for batch in 1..=200_u64 {
        let numbers = (batch - 1) * 100..batch * 100;
        let spans = numbers.map(|n| spanned(&run(&format!("r{n}"), "lead", n, n + 1)));
        // A run in work has a call in each batch, and is not written with those that are over.
        let worked = spanned(&call(&works, &format!("t{batch}"), batch, batch + 1));
        store.apply(&spans.chain([worked]).collect::<Vec<_>>(), Some(batch * 100)).unwrap();
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
        let worked = died.trace(&works.context.trace_id()).unwrap().len();
        assert!(worked as u64 >= died.position() / 100);
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
            // A few short rows stand at the beginning of the file.
            for byte in bytes.iter_mut().skip(512).take(60_000) {
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
