//! Open calls are found while they are open, and no longer.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use serde_json::json;
use store::{Change, Store};
use wire::{CallKey, OpenCall, OpenKind};

fn open(call: &str, kind: OpenKind, since: u64) -> OpenCall {
    let open = json!({
        "call": call, "kind": kind, "run": "r", "session": "s", "agent": "lead", "tool": "pay",
        "arguments": {"n": 1}, "digest": "ab".repeat(32), "attempt": 1, "question": "?",
        "waits": true, "since": since,
    });
    serde_json::from_value(open).unwrap()
}

fn key(call: &str) -> CallKey {
    CallKey::new(call).unwrap()
}

#[test]
fn open_calls_are_listed_by_their_age_and_kind() {
    use OpenKind::{Approval, Question, Unknown};
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(&dir.path().join("store")).unwrap();
    let opened = |call: &str, kind, since| Change::CallOpened(Box::new(open(call, kind, since)));
    let changes = [
        opened("c2", Question, 20),
        opened("c1", Approval, 10),
        opened("c3", Unknown, 30),
        opened("c4", Approval, 40),
        Change::CallClosed(key("c4")),
        Change::CallClosed(key("c9")),
    ];
    let listed = |store: &Store, kind, limit| -> Vec<String> {
        let found = store.open_calls(kind, limit).unwrap();
        found.iter().map(|open| format!("{} {}", open.call, open.since.as_micros())).collect()
    };
    // Told of twice is told of once.
    for _ in 0..2 {
        store.apply(&changes, None).unwrap();
        assert_eq!(listed(&store, None, 10), ["c1 10", "c2 20", "c3 30"]);
        assert_eq!(listed(&store, None, 2), ["c1 10", "c2 20"]);
        assert_eq!(listed(&store, Some(Unknown), 1), ["c3 30"]);
        assert_eq!(store.open_call(&key("c1")).unwrap(), Some(open("c1", Approval, 10)));
        assert_eq!(store.open_call(&key("c4")).unwrap(), None);
    }
    // What is open for something else stands once in the list.
    store.apply(&[opened("c1", Unknown, 50)], None).unwrap();
    assert_eq!(listed(&store, None, 10), ["c2 20", "c3 30", "c1 50"]);
    // What a run waits for is not hidden behind what nobody has said anything about for long.
    let told = OpenCall { waits: false, ..open("c0", Unknown, 5) };
    store.apply(&[Change::CallOpened(Box::new(told))], None).unwrap();
    assert_eq!(listed(&store, None, 10), ["c2 20", "c3 30", "c1 50", "c0 5"]);
    assert_eq!(listed(&store, None, 3), ["c2 20", "c3 30", "c1 50"]);
    assert_eq!(listed(&store, Some(Unknown), 10), ["c3 30", "c1 50", "c0 5"]);
    store.apply(&["c0", "c1", "c2", "c3"].map(|call| Change::CallClosed(key(call))), None).unwrap();
    assert_eq!(listed(&store, None, 10), [""; 0]);
    assert_eq!(store.verify().unwrap(), 0);
}
