//! The memory of a team, as its tools see it: changes go through the journal, look-ups to the store.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::spawn_blocking;
use tools::Memory;
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

async fn make(context: Arc<TeamContext>, change: MemoryChange) -> Result<(), WireError> {
    let mut slot = context.memory_slot.lock().await;
    if let MemoryChange::Remembered(fact) = &change {
        let id = fact.id.clone();
        let known = look_up(context.clone(), move |store| store.fact(&id)).await?;
        if known.is_some() {
            return Ok(());
        }
    }
    let entry = Entry::new(clock::now(), Body::Memory(change));
    context.remember(*slot, entry).await.map_err(|error| error.to_wire())?;
    *slot += 1;
    Ok(())
}

async fn look_up<T: Send + 'static>(
    context: Arc<TeamContext>,
    find: impl FnOnce(&store::Store) -> Result<T, store::Error> + Send + 'static,
) -> Result<T, WireError> {
    let found = spawn_blocking(move || find(&context.store)).await;
    found.map_err(|_| Error::Ending.to_wire())?.map_err(|error| Error::from(error).to_wire())
}

impl Memory for TeamMemory {
    fn change(&self, change: MemoryChange) -> BoxFuture<'_, Result<(), WireError>> {
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
        assert_eq!(forget("c1").await, Ok(()));
        assert_eq!(context.journal.slots(&memory_session()), 2);
    }
}
