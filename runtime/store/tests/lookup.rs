//! What was applied is found again, in order, once, by every name it has.

#![expect(clippy::unwrap_used, clippy::string_slice, reason = "a test may fail")]

#[path = "house/told.rs"]
mod told;

use serde_json::json;
use store::{
    Change, Error, Opened, RunBegun, RunEnd, RunRow, SessionRow, Store, TraceQuery, TraceRow,
};
use tempfile::TempDir;
use wire::entry::Fact;
use wire::run::Parent;
use wire::trace::SpanKind;
use wire::{
    Attributes, CallKey, Digest, Name, RunId, RunStatus, SessionId, SpanRecord, Timestamp,
    TraceContext, Usage,
};

use told::spanned;

fn open() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let (store, opened) = told::open(&dir.path().join("store"));
    assert_eq!(opened, Opened::Fresh);
    (dir, store)
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn run_id(text: &str) -> RunId {
    RunId::new(text).unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn begun(run: &str, time: u64) -> RunBegun {
    RunBegun {
        run: run_id(run),
        session: SessionId::new("s").unwrap(),
        agent: name("lead"),
        body: Digest::of(run.as_bytes()),
        at: at(time),
        input: format!("question of {run}"),
        traced: None,
        slot: None,
        trace: TraceContext::root(&name("team"), &run_id(run)),
        parent: None,
        joined: None,
    }
}

fn ended(run: &str, time: u64, reply: &[u8]) -> Change {
    Change::RunEnded {
        run: run_id(run),
        at: at(time),
        status: RunStatus::Completed,
        reply: reply.to_vec().into(),
    }
}

fn opened(call: &str, run: &str) -> Change {
    let open = json!({
        "call": call, "kind": "unknown", "run": run, "session": "s", "agent": "lead",
        "tool": "pay", "arguments": {}, "digest": "ab".repeat(32), "attempt": 1, "question": "?",
        "waits": false, "since": 3,
    });
    Change::CallOpened(serde_json::from_value(open).unwrap())
}

fn seen(session: &str, time: u64, slots: u64) -> Change {
    Change::SessionSeen {
        session: SessionId::new(session).unwrap(),
        agent: name("lead"),
        at: at(time),
        slots,
    }
}

fn fact(id: &str, time: u64, text: &str) -> Fact {
    Fact {
        id: CallKey::new(id).unwrap(),
        text: text.to_owned(),
        at: at(time),
        agent: name("lead"),
        session: SessionId::new("s").unwrap(),
        tainted: false,
    }
}

fn span(run: &str, child: Option<&str>, start: u64, end: u64) -> SpanRecord {
    let root = TraceContext::root(&name("team"), &run_id(run));
    let operation = if child.is_some() { "chat" } else { "invoke_agent" };
    let mut attributes = Attributes::new();
    attributes.set("gen_ai.operation.name", json!(operation));
    attributes.set("gen_ai.usage.input_tokens", json!(10));
    attributes.set("gen_ai.usage.output_tokens", json!(3));
    SpanRecord {
        context: child.map_or(root, |key| root.child("turn", key)),
        parent: child.map(|_| root),
        name: child.unwrap_or("invoke_agent lead").to_owned(),
        kind: SpanKind::Internal,
        start: at(start),
        end: at(end),
        session: SessionId::new("s").unwrap(),
        run: run_id(run),
        agent: name("lead"),
        attributes,
        events: Vec::new(),
        links: Vec::new(),
        error: None,
    }
}

/// The newest traces.
fn traces(store: &Store, limit: usize) -> Vec<TraceRow> {
    store.traces(&TraceQuery::default(), limit).unwrap().rows
}

/// Everything that the store says, as one text.
fn everything(store: &Store) -> String {
    let runs = store.runs(usize::MAX).unwrap();
    let replies: Vec<_> = runs.iter().map(|row| store.reply(&row.begun.run).unwrap()).collect();
    let rows = traces(store, usize::MAX);
    let spans: Vec<_> = rows.iter().map(|row| store.trace(&row.trace_id).unwrap()).collect();
    let sessions = store.sessions(usize::MAX).unwrap();
    let facts = store.facts(usize::MAX).unwrap();
    let found = store.recall("cat dog", usize::MAX).unwrap();
    let records = store.verify().unwrap();
    format!("{runs:?}{replies:?}{rows:?}{spans:?}{sessions:?}{facts:?}{found:?}{records}")
}

fn one_of_each() -> Vec<Change> {
    vec![
        seen("s", 10, 1),
        Change::RunBegun(begun("a", 10).into()),
        Change::Fact(fact("f1", 11, "the cat sleeps").into()),
        Change::Fact(fact("f2", 12, "a dog barks at the cat").into()),
        Change::Fact(fact("f3", 12, "nothing of note").into()),
        Change::Forgot(vec![CallKey::new("f3").unwrap(), CallKey::new("none").unwrap()]),
        spanned(&span("a", Some("0"), 11, 15)),
        spanned(&span("a", Some("1"), 15, 18)),
        spanned(&span("a", None, 10, 20)),
        ended("a", 20, &vec![b'x'; 100_000]),
        seen("s", 20, 9),
        Change::RunBegun(begun("b", 30).into()),
    ]
}

#[test]
fn facts_that_are_not_among_those_that_there_are_go() {
    let ids = |ids: &[&str]| ids.iter().map(|id| CallKey::new(id).unwrap()).collect();
    for (told, left) in
        [(&["f1", "f2"][..], &["f2", "f1"][..]), (&["f2", "none"], &["f2"]), (&[], &[])]
    {
        let (_dir, store) = open();
        store.apply(&one_of_each(), None).unwrap();
        let new = Change::Fact(fact("f4", 9, "the cat is new").into());
        store.apply(&[Change::OnlyFacts(ids(told)), new], None).unwrap();
        let facts = store.facts(usize::MAX).unwrap();
        let found: Vec<&str> = facts.iter().map(|fact| fact.id.as_str()).collect();
        assert_eq!(found, [left, &["f4"]].concat(), "{told:?}");
        assert_eq!(store.recall("dog", 9).unwrap().len(), usize::from(left.contains(&"f2")));
        store.verify().unwrap();
    }
}

#[test]
fn applying_twice_is_applying_once() {
    let (_dir, store) = open();
    store.apply(&one_of_each(), Some(7)).unwrap();
    let once = everything(&store);
    store.apply(&one_of_each(), Some(7)).unwrap();
    assert_eq!(everything(&store), once);
    for change in one_of_each() {
        store.apply(&[change], None).unwrap();
    }
    assert_eq!(everything(&store), once);
    assert_eq!(store.position(), 7);
}

#[test]
fn changes_come_to_the_same_in_one_batch_as_in_many() {
    let forgotten = Change::SessionForgotten(SessionId::new("s").unwrap());
    let begins = |time: u64| Change::RunBegun(Box::new(begun("r1", time)));
    let ends = |time: u64, bytes: usize| ended("r1", time, &vec![b'x'; bytes]);
    let spans = || [Some("1"), Some("2"), None].map(|child| spanned(&span("r1", child, 1, 9)));
    let (_one_dir, one) = open();
    let (_many_dir, many) = open();
    // Each goes on with what those before it left.
    for (number, changes) in (0..).zip([
        vec![seen("s", 5, 1), begins(5)],
        vec![seen("s", 5, 1), seen("s", 4, 2), seen("s", 6, 1), seen("s", 6, 3)],
        vec![forgotten.clone(), seen("s", 6, 1), forgotten.clone(), seen("s", 6, 2)],
        vec![begins(5), begins(6), begins(6), ends(9, 10), begins(6)],
        vec![ends(9, 10), ends(9, 70_000), ends(8, 40_000), ends(9, 10), begins(5)],
        spans().into_iter().chain(spans()).collect(),
        spans().into_iter().rev().collect(),
        one_of_each().into_iter().chain(one_of_each()).collect(),
        one_of_each().into_iter().rev().chain([forgotten]).collect(),
    ]) {
        one.apply(&changes, Some(number)).unwrap();
        for change in &changes {
            many.apply(std::slice::from_ref(change), None).unwrap();
        }
        many.apply(&[], Some(number)).unwrap();
        assert_eq!(everything(&one), everything(&many), "{changes:?}");
    }
}

#[test]
fn what_was_applied_is_there_after_opening_again() {
    let (dir, store) = open();
    store.apply(&one_of_each(), Some(7)).unwrap();
    let before = everything(&store);
    drop(store);
    let (store, opened) = told::open(&dir.path().join("store"));
    assert_eq!(opened, Opened::Ready);
    assert_eq!(store.position(), 7);
    assert_eq!(everything(&store), before);
}

#[test]
fn a_position_never_goes_back() {
    let (_dir, store) = open();
    for (given, expected) in [(None, 0), (Some(5), 5), (Some(3), 5), (None, 5), (Some(9), 9)] {
        store.apply(&[], given).unwrap();
        assert_eq!(store.position(), expected, "{given:?}");
    }
}

#[test]
fn a_store_has_one_holder() {
    let (dir, store) = open();
    let again = Store::open(&dir.path().join("store"));
    assert!(matches!(again, Err(Error::InUse { .. })));
    drop(store);
    assert!(Store::open(&dir.path().join("store")).is_ok());
}

#[test]
fn runs_are_found_and_listed_newest_first() {
    let (_dir, store) = open();
    let long = RunBegun { input: "ä".repeat(500), ..begun("c", 40) };
    let changes = [
        Change::RunBegun(begun("b", 30).into()),
        Change::RunBegun(begun("a", 10).into()),
        ended("a", 20, b"{\"reply\": 1}"),
        Change::RunBegun(long.clone().into()),
        // The end can be known before the begin, where a store is filled out of order.
        ended("d", 60, b"{}"),
        Change::RunBegun(begun("d", 50).into()),
    ];
    store.apply(&changes, None).unwrap();
    let end = |time| Some(RunEnd { at: at(time), status: RunStatus::Completed });
    let row = |begun, ended| RunRow { begun, ended };
    let a = row(begun("a", 10), end(20));
    let b = row(begun("b", 30), None);
    let c = row(RunBegun { input: "ä".repeat(200), ..long }, None);
    let d = row(begun("d", 50), end(60));
    let cases = [
        (usize::MAX, vec![d.clone(), c.clone(), b.clone(), a.clone()]),
        (2, vec![d.clone(), c.clone()]),
        (0, vec![]),
    ];
    for (limit, expected) in cases {
        assert_eq!(store.runs(limit).unwrap(), expected, "{limit}");
    }
    for expected in [a, b, c, d] {
        let found = store.run(&expected.begun.run).unwrap();
        assert_eq!(found, Some(expected));
    }
    assert_eq!(store.run(&run_id("x")).unwrap(), None);
    assert_eq!(store.reply(&run_id("a")).unwrap().unwrap(), b"{\"reply\": 1}");
    assert_eq!(store.reply(&run_id("b")).unwrap(), None);
}

#[test]
fn replies_of_every_size_come_back_byte_for_byte() {
    let (_dir, store) = open();
    // The same run gets replies of shrinking and growing size, so that old parts would show.
    for length in [0, 1, 32_768, 200_000, 32_769, 1_000_000, 70_000, 5] {
        let reply: Vec<u8> = (0..length).map(|n: u32| (n % 253) as u8).collect();
        store.apply(&[ended("a", 1, &reply)], None).unwrap();
        assert!(store.reply(&run_id("a")).unwrap().unwrap() == reply, "{length}");
        store.verify().unwrap();
    }
}

#[test]
fn a_record_above_the_limit_is_refused_and_changes_nothing() {
    let (_dir, store) = open();
    let large = vec![0; store::RECORD_BYTES_MAX + 1];
    let refused = store.apply(&[seen("s", 1, 1), ended("a", 1, &large)], Some(4));
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    assert_eq!((store.position(), store.sessions(9).unwrap().len()), (0, 0));
}

#[test]
fn sessions_are_listed_by_their_last_activity() {
    let (_dir, store) = open();
    let changes =
        [seen("a", 10, 1), seen("b", 20, 1), seen("a", 30, 5), seen("c", 25, 2), seen("a", 15, 3)];
    store.apply(&changes, None).unwrap();
    let row = |session: &str, begun, last, slots| SessionRow {
        session: SessionId::new(session).unwrap(),
        agent: name("lead"),
        begun: at(begun),
        at: at(last),
        slots,
    };
    let rows = [row("a", 10, 30, 5), row("c", 25, 25, 2), row("b", 20, 20, 1)];
    assert_eq!(store.sessions(10).unwrap(), rows);
    assert_eq!(store.sessions(1).unwrap(), rows[..1]);
    assert_eq!(store.session(&SessionId::new("a").unwrap()).unwrap().unwrap(), rows[0]);
    assert_eq!(store.session(&SessionId::new("x").unwrap()).unwrap(), None);
}

#[test]
fn memory_is_searched_by_words() {
    let (_dir, store) = open();
    let facts = [
        fact("1", 1, "Ada lives in Zürich and likes tea"),
        fact("2", 2, "Ada has a cat"),
        fact("3", 3, "the office is in Berlin"),
        fact("4", 4, "tea tea tea"),
        fact("5", 5, "Bob has a dog, Carl has a dog, Dora has a dog, and nobody counts them"),
        fact("6", 6, "bob"),
        fact("7", 7, "BOB"),
        fact("8", 0, "用户喜欢喝绿茶"),
        fact("9", 0, "ผู้ใช้ชอบดื่มชาเขียว"),
    ];
    store.apply(&facts.map(Box::new).map(Change::Fact), None).unwrap();
    let cases: [(&str, usize, &[&str]); 15] = [
        ("cat", 9, &["2"]),
        ("where does ada live, zürich?", 9, &["1", "2"]),
        ("ZÜRICH", 9, &["1"]),
        ("Zu\u{308}rich", 9, &["1"]),
        ("绿茶", 9, &["8"]),
        ("茶", 9, &["8"]),
        ("红茶", 9, &[]),
        ("ชาเขียว", 9, &["9"]),
        ("tea", 9, &["4", "1"]),
        ("tea", 1, &["4"]),
        // Equal facts: the newer first. Longer ones after shorter ones.
        ("bob", 9, &["7", "6", "5"]),
        ("bob", 1, &["7"]),
        ("bo", 9, &[]),
        ("", 3, &["7", "6", "5"]),
        (" ?! ", 2, &["7", "6"]),
    ];
    for (query, limit, expected) in cases {
        let found = store.recall(query, limit).unwrap();
        let ids: Vec<&str> = found.iter().map(|fact| fact.id.as_str()).collect();
        assert_eq!(ids, expected, "{query:?}");
    }
}

#[test]
fn a_forgotten_or_changed_fact_is_not_found_by_its_old_words() {
    let (_dir, store) = open();
    let id = CallKey::new("1").unwrap();
    store.apply(&[Change::Fact(fact("1", 1, "red apples").into())], None).unwrap();
    store.apply(&[Change::Fact(fact("1", 2, "green apples").into())], None).unwrap();
    assert_eq!(store.recall("red", 9).unwrap(), []);
    assert_eq!(store.recall("green", 9).unwrap(), [fact("1", 2, "green apples")]);
    assert_eq!(store.facts(9).unwrap(), [fact("1", 2, "green apples")]);
    store.apply(&[Change::Forgot(vec![id.clone()])], None).unwrap();
    assert_eq!(store.recall("green apples", 9).unwrap(), []);
    assert_eq!(store.fact(&id).unwrap(), None);
    assert_eq!(store.verify().unwrap(), 0);
}

#[test]
fn traces_are_summed_up_and_found_by_every_name() {
    let (_dir, store) = open();
    let failed = SpanRecord { error: Some("boom".into()), ..span("a", Some("1"), 14, 30) };
    let changes = [
        Change::RunBegun(begun("a", 10).into()),
        spanned(&span("a", Some("0"), 11, 14)),
        spanned(&failed),
        spanned(&span("a", None, 10, 40)),
        spanned(&span("b", None, 50, 60)),
    ];
    store.apply(&changes, None).unwrap();
    let rows = traces(&store, 10);
    let a = span("a", None, 10, 40).context.trace_id();
    let short: Vec<(&str, &str, u64, u64, u32, u32)> = rows
        .iter()
        .map(|row| {
            let (start, end) = (row.start.as_micros(), row.end.as_micros());
            (row.run.as_str(), row.name.as_str(), start, end, row.spans, row.errors)
        })
        .collect();
    let root = "invoke_agent lead";
    assert_eq!(short, [("b", root, 50, 60, 1, 0), ("a", root, 10, 40, 3, 1)]);
    assert_eq!(rows[1].usage, Usage::of_tokens(20, 6));
    assert_eq!((&rows[1].error, &rows[1].trace_id), (&None, &a));

    let spans = [span("a", None, 10, 40), span("a", Some("0"), 11, 14), failed];
    for found_by in [a.as_str(), &a[..4], &a[..7], &a.to_uppercase(), "a"] {
        assert_eq!(store.trace(found_by).unwrap(), spans, "{found_by}");
    }
    let other = if a.starts_with("0000") { "1111" } else { "0000" };
    for unknown in ["", &a[..3], "b", "zzzz", other, &format!("{a}00"), "ä"] {
        assert_eq!(store.trace(unknown).unwrap(), [], "{unknown}");
    }
}

#[test]
fn a_beginning_that_fits_two_traces_is_refused() {
    let (_dir, store) = open();
    let traced = |trace: &str| {
        let context = format!("00-{trace}-00000000000000aa-01").parse().unwrap();
        spanned(&SpanRecord { context, ..span("a", None, 1, 2) })
    };
    let ids = ["abcd1000000000000000000000000000", "abcd2000000000000000000000000000"];
    store.apply(&ids.map(traced), None).unwrap();
    let found = store.trace("abcd");
    assert!(matches!(found, Err(Error::AmbiguousTrace { .. })), "{found:?}");
    assert_eq!(store.trace("abcd1").unwrap().len(), 1);
}

#[test]
fn a_trace_keeps_a_limited_number_of_spans() {
    let (_dir, store) = open();
    let total = store::SPANS_MAX + 3;
    let spans: Vec<Change> = (0..total)
        .map(|n| spanned(&span("a", Some(&n.to_string()), u64::from(n), 9_000)))
        .collect();
    store.apply(&spans, None).unwrap();
    let row = traces(&store, 1).remove(0);
    assert_eq!((row.spans, row.spans_dropped), (store::SPANS_MAX, 3));
    assert_eq!(store.trace(&row.trace_id).unwrap().len(), store::SPANS_MAX as usize);
}

#[test]
fn thousands_of_runs_are_listed_from_the_newest() {
    let (_dir, store) = open();
    let changes: Vec<Change> = (0..5_000)
        .flat_map(|n| {
            let run = format!("r{n}");
            [Change::RunBegun(begun(&run, n).into()), ended(&run, n + 1, b"{}")]
        })
        .collect();
    store.apply(&changes, Some(5_000)).unwrap();
    let listed = store.runs(5_000).unwrap();
    assert_eq!(listed.len(), 5_000);
    assert!(listed.windows(2).all(|pair| pair[0].begun.at > pair[1].begun.at));
    assert!(listed.iter().all(|row| row.ended.is_some()));
    assert_eq!(store.runs(1).unwrap()[0].begun.run.as_str(), "r4999");
}

#[test]
fn what_ended_long_ago_is_dropped_whole() {
    let (_dir, store) = open();
    let mut changes = Vec::new();
    for number in 0..500 {
        let run = format!("r{number:03}");
        let start = number * 10;
        changes.push(Change::RunBegun(begun(&run, start).into()));
        changes.push(spanned(&span(&run, Some("0"), start, start + 4)));
        changes.push(spanned(&span(&run, None, start, start + 5)));
        if number != 7 {
            changes.push(ended(&run, start + 5, b"reply"));
        }
    }
    changes.push(seen("s", 4_995, 9));
    changes.push(seen("t", 15, 2));
    store.apply(&changes, Some(9)).unwrap();
    assert_eq!(store.newest_since(3).unwrap(), Some(at(4_970)));
    // One has not ended, and is none of those that are kept.
    assert_eq!(store.newest_since(499).unwrap(), Some(at(0)));
    assert_eq!(store.newest_since(500).unwrap(), None);
    let quiet = store.quiet_since(at(15)).unwrap();
    assert_eq!(quiet, [SessionId::new("t").unwrap()]);
    assert_eq!(store.quiet_since(at(14)).unwrap(), []);

    let mut dropped = 0;
    loop {
        let runs = store.drop_runs_until(at(3_005)).unwrap();
        match runs + store.drop_traces_until(at(3_005)).unwrap() {
            0 => break,
            some => dropped += some,
        }
    }
    assert_eq!(dropped, 300 + 301);
    let left = store.runs(usize::MAX).unwrap();
    let ids: Vec<&str> = left.iter().map(|row| row.begun.run.as_str()).collect();
    assert_eq!((ids.len(), ids[198], ids[199]), (200, "r301", "r007"), "one has not ended");
    assert_eq!(store.reply(&run_id("r300")).unwrap(), None);
    assert_eq!(store.reply(&run_id("r301")).unwrap().as_deref(), Some(b"reply".as_slice()));
    assert_eq!(traces(&store, usize::MAX).len(), 199);
    assert_eq!(store.unfinished().unwrap(), [SessionId::new("s").unwrap()]);
    store.apply(&[Change::SessionForgotten(SessionId::new("t").unwrap())], None).unwrap();
    assert_eq!(store.sessions(10).unwrap().len(), 1);
    store.verify().unwrap();
    assert_eq!(store.position(), 9);
}

/// Drops what may be dropped, and returns the runs that stay.
fn left(store: &Store) -> Vec<String> {
    while store.drop_runs_until(at(10)).unwrap() > 0 {}
    store.verify().unwrap();
    store.runs(usize::MAX).unwrap().iter().map(|row| row.begun.run.to_string()).collect()
}

#[test]
fn a_run_stays_while_one_that_asked_for_it_is_in_work() {
    let (_dir, store) = open();
    let parent = Parent {
        session: SessionId::new("s").unwrap(),
        run: run_id("parent"),
        depth: 1,
        tainted: false,
    };
    let child = RunBegun { parent: Some(parent), ..begun("child", 2) };
    let told = [Change::RunBegun(child.into()), ended("child", 3, b"reply")];
    store.apply(&[Change::RunBegun(begun("parent", 1).into())], None).unwrap();
    store.apply(&told, None).unwrap();
    store
        .apply(&[Change::RunBegun(begun("other", 4).into()), ended("other", 5, b"x")], None)
        .unwrap();
    assert_eq!(left(&store), ["child", "parent"]);
    // Also when it is told of again after others were dropped.
    store.apply(&told, None).unwrap();
    assert_eq!(left(&store), ["child", "parent"]);
    store.apply(&[ended("parent", 9, b"reply")], None).unwrap();
    assert_eq!(left(&store), [""; 0]);
}

#[test]
fn runs_stay_while_their_session_has_an_open_call() {
    let (_dir, store) = open();
    let other = RunBegun { session: SessionId::new("t").unwrap(), ..begun("other", 1) };
    let told = [
        Change::RunBegun(begun("before", 1).into()),
        ended("before", 2, b"reply"),
        Change::RunBegun(begun("asks", 3).into()),
        opened("c", "asks"),
        opened("d", "asks"),
        ended("asks", 4, b"reply"),
        Change::RunBegun(other.into()),
        ended("other", 5, b"reply"),
    ];
    let closed = |call: &str| Change::CallClosed(CallKey::new(call).unwrap());
    store.apply(&told, None).unwrap();
    assert_eq!(left(&store), ["asks", "before"]);
    // Also when they are told of again after others were dropped.
    store.apply(&told, None).unwrap();
    assert_eq!(left(&store), ["asks", "before"]);
    assert_eq!(store.reply(&run_id("asks")).unwrap().as_deref(), Some(b"reply".as_slice()));
    store.apply(&[closed("c")], None).unwrap();
    assert_eq!(left(&store), ["asks", "before"]);
    store.apply(&[closed("d"), closed("d")], None).unwrap();
    assert_eq!(left(&store), [""; 0]);
    assert_eq!(store.reply(&run_id("asks")).unwrap(), None);
}

#[test]
fn a_session_is_unfinished_while_a_run_or_a_called_agent_needs_it() {
    let (_dir, store) = open();
    let owed = |call: &str, session: &str| Change::CancelOwed {
        call: CallKey::new(call).unwrap(),
        session: SessionId::new(session).unwrap(),
    };
    let told = |call: &str| Change::CancelDelivered { call: CallKey::new(call).unwrap() };
    let steps: [(Vec<Change>, &[&str]); 6] = [
        (vec![Change::RunBegun(begun("r", 1).into())], &["s"]),
        (vec![owed("c1", "s"), owed("c2", "s"), owed("c3", "t")], &["s", "t"]),
        (vec![ended("r", 2, b"reply"), owed("c1", "s")], &["s", "t"]),
        (vec![told("c1"), told("c3"), told("c3")], &["s"]),
        (vec![told("c2")], &[]),
        (vec![told("unknown")], &[]),
    ];
    for (n, (changes, expected)) in steps.into_iter().enumerate() {
        store.apply(&changes, None).unwrap();
        let unfinished = store.unfinished().unwrap();
        let names: Vec<&str> = unfinished.iter().map(SessionId::as_str).collect();
        assert_eq!(names, expected, "step {n}");
        store.verify().unwrap();
    }
}
