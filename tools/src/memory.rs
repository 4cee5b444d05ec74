//! What the memory tools need: facts that are kept across sessions.

mod volatile;

use futures_util::future::BoxFuture;
use wire::entry::{Fact, MemoryChange};
use wire::{CallKey, WireError};

pub use volatile::{CHANGES_MAX, InMemory};

/// The memory of one team.
pub trait Memory: Send + Sync {
    /// Makes a change durable. A change that was made before, by its call key, is made once.
    fn change(&self, change: MemoryChange) -> BoxFuture<'_, Result<(), WireError>>;

    /// Finds facts whose words match a query, best first; an empty query returns the newest.
    fn recall<'a>(
        &'a self,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fact>, WireError>>;

    /// Returns facts by their ids, those that exist.
    fn facts<'a>(&'a self, ids: &'a [CallKey]) -> BoxFuture<'a, Result<Vec<Fact>, WireError>>;
}
