//! Open calls as people are shown them: those of the store, and of what it could not be told.

use std::collections::BTreeMap;

use store::{LIST_MAX, Store};
use wire::open::OpenCallList;
use wire::{CallKey, OpenCall, OpenKind};

/// Calls that were opened, or closed, while the disk was full and the store took no changes.
pub(crate) type HeldCalls = BTreeMap<CallKey, Option<OpenCall>>;

/// Lists the open calls of a store, all or those of a kind, those for which a run waits before the
/// others, each the oldest first.
pub fn open_calls(
    store: &Store,
    kind: Option<OpenKind>,
    limit: usize,
) -> Result<OpenCallList, store::Error> {
    list(store, &HeldCalls::new(), kind, limit)
}

/// Lists open calls as the store has them or, where they are held, as these are.
pub(crate) fn list(
    store: &Store,
    held: &HeldCalls,
    kind: Option<OpenKind>,
    limit: usize,
) -> Result<OpenCallList, store::Error> {
    let limit = limit.min(LIST_MAX);
    let mut calls = store.open_calls(kind, (limit + 1).saturating_add(held.len()))?;
    // Of so many the store tells of no more.
    let is_cut = calls.len() == LIST_MAX;
    calls.retain(|open| !held.contains_key(&open.call));
    let opened = held.values().flatten();
    calls.extend(opened.filter(|open| kind.is_none_or(|kind| open.kind == kind)).cloned());
    calls.sort_by_key(|open| (!open.waits, open.since));
    let more = is_cut || calls.len() > limit;
    calls.truncate(limit);
    Ok(OpenCallList { calls, more })
}

/// Lists those alone for which a run waits, the oldest first: a store may have many others.
pub(crate) fn waiting(store: &Store, held: &HeldCalls) -> Result<Vec<OpenCall>, store::Error> {
    let mut calls = store.waiting_calls()?;
    calls.retain(|open| !held.contains_key(&open.call));
    calls.extend(held.values().flatten().filter(|open| open.waits).cloned());
    calls.sort_by_key(|open| open.since);
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use OpenKind::{Approval, Question};
    use serde_json::json;
    use store::Change;

    use super::*;

    fn open(call: &str, kind: OpenKind, waits: bool, since: u64) -> OpenCall {
        let open = json!({
            "call": call, "kind": kind, "run": "r", "session": "s", "agent": "lead", "tool": "pay",
            "arguments": {}, "digest": "ab".repeat(32), "attempt": 1, "question": "?",
            "waits": waits, "since": since,
        });
        serde_json::from_value(open).unwrap()
    }

    #[test]
    fn what_the_store_was_not_told_of_is_shown_beside_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(&dir.path().join("store")).unwrap();
        let opened = |open| Change::CallOpened(Box::new(open));
        let changes = [
            opened(open("a", Approval, true, 1)),
            opened(open("b", Question, true, 2)),
            opened(open("c", Approval, true, 4)),
        ];
        store.apply(&changes, None).unwrap();
        let key = |call: &str| CallKey::new(call).unwrap();
        let held = HeldCalls::from([
            (key("a"), None),
            (key("b"), Some(open("b", Question, false, 2))),
            (key("d"), Some(open("d", Approval, true, 3))),
        ]);
        let none = HeldCalls::new();
        // What is held, the kind and the number that are asked for, and what is listed.
        let cases = [
            (&none, None, 3, "a b c", false),
            (&none, None, 2, "a b", true),
            (&held, None, 3, "d c b", false),
            (&held, None, 2, "d c", true),
            (&held, Some(Approval), 1, "d", true),
            (&held, Some(Question), usize::MAX, "b", false),
        ];
        for (held, kind, limit, expected, more) in cases {
            let found = list(&store, held, kind, limit).unwrap();
            let calls: Vec<&str> = found.calls.iter().map(|open| open.call.as_str()).collect();
            assert_eq!(
                (calls.join(" "), found.more),
                (expected.to_owned(), more),
                "{kind:?} {limit}"
            );
        }
        for (held, expected) in [(&none, "a b c"), (&held, "d c")] {
            let found = waiting(&store, held).unwrap();
            let calls: Vec<&str> = found.iter().map(|open| open.call.as_str()).collect();
            assert_eq!(calls.join(" "), expected);
        }
    }
}
