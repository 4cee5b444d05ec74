//! What models used is counted by day, agent and model, and no turn twice.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "house/told.rs"]
mod told;

use serde_json::json;
use store::{Change, LIST_MAX, RunBegun, Store, TurnUsed, USAGE_DAYS_MAX};
use wire::trace::SpanKind;
use wire::{
    Attributes, Digest, Name, RunId, RunStatus, SessionId, SpanRecord, Timestamp, TraceContext,
    Usage,
};

use told::spanned;

const DAY_US: u64 = 86_400_000_000;

/// Makes the change of a turn whose span is kept.
fn turn(run: &str, number: u64, agent: &str, model: &str, at: u64) -> Change {
    spanned(&turn_span(run, number, agent, model, at))
}

/// Makes the span of a turn.
fn turn_span(run: &str, number: u64, agent: &str, model: &str, at: u64) -> SpanRecord {
    let run = RunId::new(run).unwrap();
    let root = TraceContext::root(&Name::new("team").unwrap(), &run);
    let mut attributes = Attributes::new();
    attributes.set("gen_ai.operation.name", json!("chat"));
    attributes.set("callboard.model", json!(model));
    attributes.set("callboard.turn", json!(number));
    attributes.set("gen_ai.usage.input_tokens", json!(10));
    attributes.set("gen_ai.usage.output_tokens", json!(2));
    attributes.set("callboard.usage.cost_nano_usd", json!(5));
    SpanRecord {
        context: root.child("turn", &number.to_string()),
        parent: Some(root),
        name: format!("chat {model}"),
        kind: SpanKind::Client,
        start: Timestamp::from_micros(at),
        end: Timestamp::from_micros(at + 5),
        session: SessionId::new("s").unwrap(),
        run,
        agent: Name::new(agent).unwrap(),
        attributes,
        error: None,
        links: Vec::new(),
        events: Vec::new(),
    }
}

fn rows(store: &Store, since: u64) -> Vec<(u64, String, String, u64, Usage)> {
    let rows = store.usage(Timestamp::from_micros(since)).unwrap().into_iter();
    rows.map(|row| {
        let day = row.day.as_micros() / DAY_US;
        (day, row.agent.to_string(), row.model.to_string(), row.turns, row.usage)
    })
    .collect()
}

fn used(turns: u64) -> Usage {
    let tokens = Usage::of_tokens(10 * turns, 2 * turns);
    Usage { cost_nano_usd: 5 * turns, ..tokens }
}

fn row(day: u64, agent: &str, model: &str, turns: u64) -> (u64, String, String, u64, Usage) {
    (day, agent.to_owned(), model.to_owned(), turns, used(turns))
}

#[test]
fn a_turn_counts_for_the_model_that_answered() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = told::open(&dir.path().join("store"));
    let mut stood_in = turn_span("r", 1, "a", "large", 7);
    stood_in.attributes.set("callboard.served_by", json!("small"));
    let changes = [turn("r", 0, "a", "large", 1), spanned(&stood_in)];
    store.apply(&changes, None).unwrap();
    assert_eq!(rows(&store, 0), [row(0, "a", "large", 1), row(0, "a", "small", 1)]);
}

#[test]
fn turns_are_counted_once_by_day_agent_and_model() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = told::open(&dir.path().join("store"));
    let changes = [
        turn("r-1", 0, "lead", "large", DAY_US * 3),
        turn("r-1", 1, "lead", "small", DAY_US * 3 + 7),
        turn("r-1", 2, "lead", "large", DAY_US * 3 + 9),
        turn("r-2", 0, "writer", "large", DAY_US * 4 - 1),
        turn("r-1", 3, "lead", "large", DAY_US * 4),
    ];
    store.apply(&changes, Some(1)).unwrap();
    store.apply(&changes, Some(2)).unwrap();
    let expected = [
        row(3, "lead", "large", 2),
        row(3, "lead", "small", 1),
        row(3, "writer", "large", 1),
        row(4, "lead", "large", 1),
    ];
    assert_eq!(rows(&store, 0), expected);
    assert_eq!(rows(&store, DAY_US * 4 + 5), expected[3..], "from the day of a time on");
    assert!(store.verify().is_ok());
}

/// Makes the span of a call whose tool asked a model, after a turn.
fn call_span(run: &str, turn: u64, call: &str, model: &str, at: u64) -> SpanRecord {
    let mut span = turn_span(run, turn, "lead", model, at);
    span.attributes.set("gen_ai.operation.name", json!("execute_tool"));
    span.attributes.set("gen_ai.tool.name", json!("ask"));
    SpanRecord { context: span.context.child("call", call), ..span }
}

#[test]
fn calls_of_tools_that_ask_a_model_count_once_with_the_turns() {
    let unkept = |span: &SpanRecord| Change::Turn(TurnUsed::of(span).unwrap().into());
    let call = |turn, call| call_span("r", turn, call, "small", DAY_US * 3);
    let turn = |number| turn("r", number, "lead", "large", DAY_US * 3);
    let changes = [
        turn(0),
        spanned(&call(0, "a")),
        unkept(&call(0, "b")),
        turn(1),
        turn(2),
        unkept(&call(2, "c")),
        spanned(&call(2, "d")),
    ];
    let expected = [row(3, "lead", "large", 3), row(3, "lead", "small", 4)];
    // Wherever a commit ended, what is told again from any place before counts once.
    for end in 0..=changes.len() {
        for begin in 0..=end {
            let dir = tempfile::tempdir().unwrap();
            let (store, _) = told::open(&dir.path().join("store"));
            store.apply(&changes[..end], Some(1)).unwrap();
            store.apply(&changes[begin..], Some(2)).unwrap();
            assert_eq!(rows(&store, 0), expected, "{begin}..{end}");
        }
    }
}

#[test]
fn the_newest_days_are_listed_where_there_are_too_many() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = told::open(&dir.path().join("store"));
    let many = (0..LIST_MAX as u64).map(|number| {
        let span = turn_span("r", number, "lead", &format!("m{number}"), DAY_US * 3);
        Change::Turn(TurnUsed::of(&span).unwrap().into())
    });
    let last = turn("r", LIST_MAX as u64, "lead", "large", DAY_US * 4);
    store.apply_new(&many.chain([last]).collect::<Vec<_>>()).unwrap();
    let rows = rows(&store, 0);
    assert_eq!(rows.len(), LIST_MAX);
    assert_eq!((rows[0].0, rows.last()), (3, Some(&row(4, "lead", "large", 1))));
}

/// A run with two turns that ends at a time.
fn whole(run: &str, end: u64) -> [Change; 4] {
    let id = RunId::new(run).unwrap();
    let begun = RunBegun {
        run: id.clone(),
        session: SessionId::new("s").unwrap(),
        agent: Name::new("lead").unwrap(),
        body: Digest::of(b"x"),
        at: Timestamp::from_micros(end - 20),
        input: "x".into(),
        traced: None,
        slot: None,
        trace: TraceContext::root(&Name::new("team").unwrap(), &id),
        parent: None,
        joined: None,
    };
    let at = Timestamp::from_micros(end);
    [
        Change::RunBegun(begun.into()),
        turn(run, 0, "lead", "large", end - 15),
        turn(run, 1, "lead", "large", end - 5),
        Change::RunEnded { run: id, at, status: RunStatus::Completed, reply: "{}".into() },
    ]
}

#[test]
fn a_run_that_was_dropped_and_is_told_again_neither_counts_nor_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let store_dir = dir.path().join("store");
    let (store, _) = told::open(&store_dir);
    let end = DAY_US * 3;
    let all = [whole("dropped", end), whole("kept", end + 100)].concat();
    store.apply(&all, Some(1)).unwrap();
    let before = rows(&store, 0);
    assert_eq!(before, [row(2, "lead", "large", 2), row(3, "lead", "large", 2)]);
    assert_eq!(store.drop_runs_until(Timestamp::from_micros(end)).unwrap(), 1);
    let check = |store: &Store| {
        // Each change by itself, as when a commit ends between them, and all at once.
        for change in &all {
            store.apply(std::slice::from_ref(change), None).unwrap();
        }
        store.apply(&all, None).unwrap();
        assert_eq!(rows(store, 0), before);
        let left = store.runs(10).unwrap();
        let left: Vec<&str> = left.iter().map(|row| row.begun.run.as_str()).collect();
        assert_eq!(left, ["kept"]);
        assert_eq!(store.unfinished().unwrap(), []);
        assert_eq!(store.reply(&RunId::new("dropped").unwrap()).unwrap(), None);
        store.verify().unwrap();
    };
    check(&store);
    drop(store);
    check(&told::open(&store_dir).0);

    // New runs are no such runs, whatever the clock says.
    let (store, _) = told::open(&store_dir);
    store.apply_new(&whole("late", end - 5)).unwrap();
    assert_eq!(rows(&store, 0), [row(2, "lead", "large", 4), before[1].clone()]);
    let late = RunId::new("late").unwrap();
    assert!(store.run(&late).unwrap().unwrap().ended.is_some());
    assert_eq!(store.reply(&late).unwrap().as_deref(), Some(&b"{}"[..]));
    store.verify().unwrap();

    // A store that is filled anew has counted nothing before.
    let (fresh, _) = told::open(&dir.path().join("fresh"));
    fresh.apply(&all, None).unwrap();
    assert_eq!(rows(&fresh, 0), before);
    assert_eq!(fresh.runs(10).unwrap().len(), 2);
}

#[test]
fn an_earlier_run_of_the_same_id_is_told_again_without_a_trace() {
    let (end, later) = (DAY_US * 3, DAY_US * 4);
    let mut first = whole("r", end).to_vec();
    // It had more turns than the one after it, and the last of them ended with it.
    first.push(turn("r", 2, "lead", "large", end - 5));
    let second = whole("r", later);
    // How much of the later run the journal holds.
    for held in [1, 2, 3, 4] {
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = told::open(&dir.path().join("store"));
        store.apply_new(&first).unwrap();
        assert_eq!(store.drop_runs_until(Timestamp::from_micros(end)).unwrap(), 1);
        store.apply_new(&second[..held]).unwrap();
        let before = rows(&store, 0);
        let id = RunId::new("r").unwrap();
        let row = store.run(&id).unwrap();
        let all = [&first, &second[..held]].concat();
        for round in 0..2 {
            for change in &all {
                store.apply(std::slice::from_ref(change), None).unwrap();
                assert_eq!(store.run(&id).unwrap(), row, "{held} {round}: {change:?}");
                assert_eq!(store.reply(&id).unwrap().is_some(), held == 4, "{held} {round}");
            }
            store.apply(&all, None).unwrap();
            assert_eq!(rows(&store, 0), before, "{held} {round}");
        }
        assert_eq!(store.unfinished().unwrap().is_empty(), held == 4);
        store.verify().unwrap();
    }
}

#[test]
fn days_that_are_long_ago_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = told::open(&dir.path().join("store"));
    let newest = 20_000;
    let days = [newest - USAGE_DAYS_MAX - 1, newest - USAGE_DAYS_MAX, newest];
    let changes: Vec<Change> = (0..)
        .zip(days)
        .map(|(number, day)| turn("r-1", number, "lead", "large", day * DAY_US))
        .collect();
    store.apply(&changes, Some(1)).unwrap();
    let ahead = newest + 2 * USAGE_DAYS_MAX;
    let row = |day| row(day, "lead", "large", 1);
    let all = days.map(row).to_vec();
    // What is too long ago is so before what was used last, on whatever day that is looked at, but
    // for days of a clock that was ahead.
    let later = vec![turn("r-2", 0, "lead", "large", ahead * DAY_US)];
    for (told, now, kept) in [
        (vec![], newest - 1, all.clone()),
        (vec![], newest + 10_000, all[1..].to_vec()),
        (later, newest, [&all[1..], &[row(ahead)]].concat()),
        (vec![], newest + 1, [&all[2..], &[row(ahead)]].concat()),
        (vec![], ahead, vec![row(ahead)]),
    ] {
        store.apply(&told, None).unwrap();
        store.drop_old_usage(Timestamp::from_micros(now * DAY_US + 1)).unwrap();
        assert_eq!(rows(&store, 0), kept, "{now}");
    }
    assert!(store.verify().is_ok());
}

#[test]
fn a_turn_counts_once_whether_its_span_is_kept_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = told::open(&dir.path().join("store"));
    let spans = [0, 1, 2].map(|number| turn_span("r-1", number, "lead", "large", DAY_US * 3));
    let unkept = |span| Change::Turn(TurnUsed::of(span).unwrap().into());
    let changes = [unkept(&spans[0]), spanned(&spans[1]), unkept(&spans[1]), unkept(&spans[2])];
    for position in [1, 2] {
        store.apply(&changes, Some(position)).unwrap();
        assert_eq!(rows(&store, 0), [row(3, "lead", "large", 3)]);
    }
    let whole = SpanRecord { attributes: Attributes::new(), ..spans[0].clone() };
    assert_eq!(TurnUsed::of(&whole), None, "no turn");
}
