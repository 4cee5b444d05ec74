//! Spans of traces that are not there, and what a store finds of them.

#![allow(dead_code, reason = "each test uses some of it")]

use serde_json::json;
use store::{Change, RunBegun, Store, TraceQuery};
use tempfile::TempDir;
use wire::trace::SpanKind;
use wire::{Attributes, Digest, Name, RunId, SessionId, SpanRecord, Timestamp, TraceContext};

use crate::told::{self, spanned};

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

pub(crate) fn root(run: &str) -> TraceContext {
    TraceContext::root(&name("team"), &RunId::new(run).unwrap())
}

/// The span of a whole run.
pub(crate) fn run(run: &str, agent: &str, start: u64, end: u64) -> SpanRecord {
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
pub(crate) fn call(of: &SpanRecord, tool: &str, start: u64, end: u64) -> SpanRecord {
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

pub(crate) fn apply(store: &Store, spans: &[SpanRecord]) {
    let changes: Vec<Change> = spans.iter().map(spanned).collect();
    store.apply(&changes, None).unwrap();
}

pub(crate) fn found(store: &Store, query: &TraceQuery) -> Vec<String> {
    let rows = store.traces(query, usize::MAX).unwrap().rows;
    rows.into_iter().map(|row| row.run.to_string()).collect()
}

/// The begin of a run.
pub(crate) fn begun(run: &str, time: u64) -> Change {
    let begun = RunBegun {
        run: RunId::new(run).unwrap(),
        session: SessionId::new(&format!("s-{run}")).unwrap(),
        agent: name("clerk"),
        body: Digest::of(run.as_bytes()),
        at: at(time),
        input: "x".into(),
        traced: None,
        slot: None,
        trace: root(run),
        parent: None,
        joined: None,
    };
    Change::RunBegun(begun.into())
}

/// Four traces: `a` and `b` are over, `c` failed, `d` is in work.
pub(crate) fn fill(store: &Store) {
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

pub(crate) fn open() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = told::open(&dir.path().join("store"));
    (dir, store)
}
