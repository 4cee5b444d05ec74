//! Holds what clients were told against what happened outside.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tests::ledger::Hit;
use tests::trade;

use crate::load::Answered;

/// What a comparison came to.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) keys: usize,
    pub(crate) repeated: u32,
    pub(crate) unknown: usize,
    pub(crate) missing: usize,
    /// Runs that ended with an error.
    pub(crate) failed: usize,
}

/// Holds what clients were told against the ledger.
pub(crate) fn compare(answered: &[Answered], hits: &HashMap<String, Hit>) -> Found {
    let mut found = Found::default();
    let mut keys: HashSet<String> = HashSet::new();
    for run in answered {
        let reply: Value = serde_json::from_slice(&run.reply).unwrap();
        let sources = reply["sources"].as_array().unwrap();
        if reply["status"] == "completed" {
            assert_eq!(reply["output"], trade::ANSWER, "{reply}");
            assert_eq!(sources.len(), 3, "{reply}");
        } else {
            found.failed += 1;
        }
        for source in sources {
            let key = source["call"].as_str().unwrap();
            assert!(keys.insert(key.to_owned()), "key {key} is used twice");
            let tool = format!("/{}", source["tool"].as_str().unwrap());
            let hit = hits.get(key).cloned().unwrap_or_default();
            assert!(hit.count == 0 || hit.path == tool && !hit.is_mixed, "{hit:?}: {source}");
            match source["status"].as_str().unwrap() {
                "ok" => assert!(hit.count > 0, "told as done and did not happen: {source}"),
                "unknown" => {
                    assert_ne!(tool, trade::READ, "{source}");
                    found.unknown += 1;
                    found.missing += usize::from(hit.count == 0);
                }
                // A read is given up after three attempts, and another call if nobody took it.
                "error" => assert!(tool == trade::READ || hit.count == 0, "{source}, {hit:?}"),
                status => panic!("{status}: {source}"),
            }
        }
    }
    for (key, hit) in hits {
        // The calls of a run that failed in its first step are not told of.
        assert!(keys.contains(key) || found.failed > 0, "call {key} is in no reply: {hit:?}");
        if hit.path == trade::ONCE {
            found.repeated += hit.count - 1;
        }
    }
    assert_eq!(found.repeated, 0, "calls that must not be repeated were");
    found.keys = keys.len();
    found
}
