//! A memory that ends with its process.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, ready};
use wire::entry::{Fact, MemoryChange};
use wire::{CallKey, ErrorCode, WireError};

use super::{Memory, says_the_same};

/// The most changes that an [`InMemory`] takes. It keeps the key of each, and a demo or a test that
/// makes more has gone astray.
pub const CHANGES_MAX: usize = 65_536;

/// Keeps facts until its process ends: the twin of the stored memory, for tests and demos.
#[derive(Debug, Default)]
pub struct InMemory {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    facts: BTreeMap<CallKey, Fact>,
    /// The calls whose change was made, so that none is made twice.
    made: BTreeSet<CallKey>,
}

impl InMemory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory for InMemory {
    fn change(&self, change: MemoryChange) -> BoxFuture<'_, Result<Option<CallKey>, WireError>> {
        Box::pin(ready(self.state().change(change)))
    }

    fn recall<'a>(
        &'a self,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fact>, WireError>> {
        Box::pin(ready(Ok(self.state().recall(query, limit))))
    }

    fn facts<'a>(&'a self, ids: &'a [CallKey]) -> BoxFuture<'a, Result<Vec<Fact>, WireError>> {
        let state = self.state();
        Box::pin(ready(Ok(ids.iter().filter_map(|id| state.facts.get(id).cloned()).collect())))
    }
}

impl State {
    fn change(&mut self, change: MemoryChange) -> Result<Option<CallKey>, WireError> {
        let by = match &change {
            MemoryChange::Remembered(fact) => &fact.id,
            MemoryChange::Forgotten { by, .. } => by,
            MemoryChange::Restated { facts } => {
                self.facts = facts.iter().map(|fact| (fact.id.clone(), fact.clone())).collect();
                return Ok(None);
            }
        };
        if let MemoryChange::Remembered(fact) = &change
            && let Some(known) = self.facts.values().find(|known| says_the_same(known, fact))
        {
            return Ok(Some(known.id.clone()));
        }
        if self.made.contains(by) {
            return Ok(None);
        }
        if self.made.len() == CHANGES_MAX {
            let message = format!("the memory of this process takes {CHANGES_MAX} changes");
            return Err(WireError::new(ErrorCode::Overloaded, message));
        }
        self.made.insert(by.clone());
        match change {
            MemoryChange::Remembered(fact) => {
                self.facts.insert(fact.id.clone(), fact);
            }
            MemoryChange::Forgotten { facts, .. } => {
                self.facts.retain(|id, _| !facts.contains(id));
            }
            MemoryChange::Restated { .. } => {}
        }
        Ok(None)
    }

    /// Orders by the number of words that occur in both, then the newest first.
    fn recall(&self, query: &str, limit: usize) -> Vec<Fact> {
        let wanted = words(query);
        let mut found: Vec<(usize, &Fact)> = self
            .facts
            .values()
            .map(|fact| (words(&fact.text).intersection(&wanted).count(), fact))
            .filter(|(hits, _)| *hits > 0 || wanted.is_empty())
            .collect();
        found.sort_by_key(|(hits, fact)| Reverse((*hits, fact.at)));
        found.into_iter().take(limit).map(|(_, fact)| fact.clone()).collect()
    }
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use wire::{Name, SessionId, Timestamp};

    use super::*;

    fn key(id: &str) -> CallKey {
        CallKey::new(id).unwrap()
    }

    fn fact(id: &str, at: u64, text: &str) -> Fact {
        Fact {
            id: key(id),
            text: text.to_owned(),
            at: Timestamp::from_micros(at),
            agent: Name::new("lead").unwrap(),
            session: SessionId::new("s").unwrap(),
            tainted: false,
        }
    }

    fn forgotten(id: &str, by: &str) -> MemoryChange {
        MemoryChange::Forgotten { facts: vec![key(id)], by: key(by) }
    }

    #[tokio::test]
    async fn the_best_match_comes_first_then_the_newest() {
        let memory = InMemory::default();
        for fact in [
            fact("a", 1, "Ada likes green tea."),
            fact("b", 2, "Ada lives in Graz."),
            fact("c", 3, "The tea is out."),
        ] {
            memory.change(MemoryChange::Remembered(fact)).await.unwrap();
        }
        let cases: [(&str, usize, &[&str]); 6] = [
            ("what tea does ADA like? green?", 9, &["a", "c", "b"]),
            ("tea", 9, &["c", "a"]),
            ("tea", 1, &["c"]),
            ("", 2, &["c", "b"]),
            ("?!", 9, &["c", "b", "a"]),
            ("te", 9, &[]),
        ];
        for (query, limit, expected) in cases {
            let found = memory.recall(query, limit).await.unwrap();
            let ids: Vec<&str> = found.iter().map(|fact| fact.id.as_str()).collect();
            assert_eq!(ids, expected, "{query}");
        }
    }

    #[tokio::test]
    async fn a_change_is_made_once() {
        let memory = InMemory::default();
        let remembered = MemoryChange::Remembered(fact("a", 1, "x"));
        memory.change(remembered.clone()).await.unwrap();
        memory.change(forgotten("a", "b")).await.unwrap();
        memory.change(remembered).await.unwrap();
        assert_eq!(memory.facts(&[key("a")]).await.unwrap(), []);
        memory.change(MemoryChange::Remembered(fact("c", 1, "x"))).await.unwrap();
        memory.change(forgotten("c", "b")).await.unwrap();
        assert_eq!(memory.facts(&[key("a"), key("c")]).await.unwrap().len(), 1);
    }
}
