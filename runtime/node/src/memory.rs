//! The memory of a team, as its tools see it: changes go through the journal, look-ups to the store.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::spawn_blocking;
use tools::Memory;
use tools::memory::says_the_same;
use wire::entry::{Body, Entry, Fact, MemoryChange};
use wire::{CallKey, WireError};

use crate::clock;
use crate::context::TeamContext;
use crate::error::Error;

/// Memory over journal and store.
pub(crate) struct TeamMemory {
    context: Arc<TeamContext>,
}

impl TeamMemory {
    pub(crate) fn new(context: Arc<TeamContext>) -> Self {
        Self { context }
    }
}

async fn make(
    context: Arc<TeamContext>,
    change: MemoryChange,
) -> Result<Option<CallKey>, WireError> {
    let mut slot = context.memory_slot.lock().await;
    if let MemoryChange::Remembered(fact) = &change {
        let fact = fact.clone();
        let known = look_up(context.clone(), move |store| match store.fact(&fact.id)? {
            Some(known) => Ok(Some(known)),
            None => store.fact_like(&fact.text, |known| says_the_same(known, &fact)),
        });
        if let Some(known) = known.await? {
            return Ok(Some(known.id));
        }
    }
    let entry = Entry::new(clock::now(), Body::Memory(change));
    context.remember(*slot, entry).await.map_err(|error| error.to_wire())?;
    *slot += 1;
    Ok(None)
}

async fn look_up<T: Send + 'static>(
    context: Arc<TeamContext>,
    find: impl FnOnce(&store::Store) -> Result<T, store::Error> + Send + 'static,
) -> Result<T, WireError> {
    let found = spawn_blocking(move || find(&context.store)).await;
    found.map_err(|_| Error::Ending.to_wire())?.map_err(|error| Error::from(error).to_wire())
}

impl Memory for TeamMemory {
    fn change(&self, change: MemoryChange) -> BoxFuture<'_, Result<Option<CallKey>, WireError>> {
        async move {
            // A caller whose time is over drops what it waits for. In a task of its own the change
            // is made all the same, and its slot is counted.
            let made = tokio::spawn(make(self.context.clone(), change));
            made.await.map_err(|_| Error::Ending.to_wire())?
        }
        .boxed()
    }

    fn recall<'a>(
        &'a self,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fact>, WireError>> {
        let query = query.to_owned();
        look_up(self.context.clone(), move |store| store.recall(&query, limit)).boxed()
    }

    fn facts<'a>(&'a self, ids: &'a [CallKey]) -> BoxFuture<'a, Result<Vec<Fact>, WireError>> {
        let ids = ids.to_vec();
        look_up(self.context.clone(), move |store| {
            let mut facts = Vec::new();
            for id in &ids {
                facts.extend(store.fact(id)?);
            }
            Ok(facts)
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use wire::entry::memory_session;

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn a_change_that_its_caller_gave_up_takes_its_slot() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let memory = TeamMemory::new(context.clone());
        let forget = |call: &str| {
            let by = CallKey::new(call).unwrap();
            memory.change(MemoryChange::Forgotten { facts: Vec::new(), by })
        };
        let mut given_up = forget("c0");
        assert!(poll!(&mut given_up).is_pending());
        while context.journal.slots(&memory_session()) == 0 {
            tokio::task::yield_now().await;
        }
        drop(given_up);
        assert_eq!(forget("c1").await, Ok(None));
        assert_eq!(context.journal.slots(&memory_session()), 2);
    }

    /// A call, the text of the fact that it remembers and whether that is tainted, or nothing if it
    /// forgets the first fact; the fact that said the same already; and what is remembered then.
    type Step =
        (&'static str, Option<(&'static str, bool)>, Option<&'static str>, &'static [&'static str]);

    const STEPS: &[Step] = &[
        ("a", Some(("Ada likes green tea.", false)), None, &["a"]),
        ("a", Some(("Ada likes green tea.", false)), Some("a"), &["a"]),
        ("b", Some(("Ada likes green tea.", false)), Some("a"), &["a"]),
        ("c", Some((" \nAda likes green tea. ", false)), Some("a"), &["a"]),
        ("d", Some(("Ada likes green tea.", true)), None, &["a", "d"]),
        ("e", Some(("Ada likes green tea.", true)), Some("d"), &["a", "d"]),
        // The same words, in other letters or in another order.
        ("f", Some(("ada likes green tea.", false)), None, &["a", "d", "f"]),
        ("g", Some(("Green tea likes Ada.", false)), None, &["a", "d", "f", "g"]),
        ("h", Some(("?!", false)), None, &["a", "d", "f", "g", "h"]),
        ("i", Some(("?!", false)), Some("h"), &["a", "d", "f", "g", "h"]),
        ("j", None, None, &["d", "f", "g", "h"]),
        ("k", Some(("Ada likes green tea.", false)), None, &["d", "f", "g", "h", "k"]),
    ];

    #[tokio::test]
    async fn what_a_fact_says_already_is_not_remembered_again() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let memories: [(&str, &dyn Memory); 2] = [
            ("in memory", &tools::memory::InMemory::default()),
            ("stored", &TeamMemory::new(context.clone())),
        ];
        let key = |id: &str| CallKey::new(id).unwrap();
        for (kind, memory) in memories {
            for (at, (call, said, same, left)) in (1..).zip(STEPS) {
                let change = match said {
                    Some((text, tainted)) => MemoryChange::Remembered(Fact {
                        id: key(call),
                        text: (*text).to_owned(),
                        at: wire::Timestamp::from_micros(at),
                        agent: context.team.entry.clone(),
                        session: wire::SessionId::new("s").unwrap(),
                        tainted: *tainted,
                    }),
                    None => MemoryChange::Forgotten { facts: vec![key("a")], by: key(call) },
                };
                let known = memory.change(change).await.unwrap();
                assert_eq!(known, same.map(key), "{kind}: {call}");
                let facts = memory.recall("", 20).await.unwrap();
                let mut ids: Vec<&str> = facts.iter().map(|fact| fact.id.as_str()).collect();
                ids.sort_unstable();
                assert_eq!(ids, *left, "{kind}: {call}");
            }
        }
    }
}
