//! What the memory tools need: facts that are kept across sessions.

mod volatile;

use futures_util::future::BoxFuture;
use wire::entry::{Fact, MemoryChange};
use wire::{CallKey, WireError};

pub use volatile::{CHANGES_MAX, InMemory};

/// Tells whether two facts say the same, and are to be trusted alike.
pub fn says_the_same(one: &Fact, other: &Fact) -> bool {
    one.text.trim() == other.text.trim() && one.tainted == other.tainted
}

/// The memory of one team.
pub trait Memory: Send + Sync {
    /// Makes a change durable. A change that was made before, by its call key, is made once.
    ///
    /// What a fact says already is not remembered a second time, and the id of that fact is
    /// returned: one of the same text but for blanks around it, and tainted as the new one is. So a
    /// call that is repeated gets its own id back. A text of which some runs are sure and which
    /// others had from strangers is kept as the fact of each.
    ///
    /// Among very many facts not all are looked through for that: a memory may stop after so many
    /// that have the longest word of the text, and for a text without words after so many of the
    /// newest. What an older one says is remembered again then.
    fn change(&self, change: MemoryChange) -> BoxFuture<'_, Result<Option<CallKey>, WireError>>;

    /// Finds facts whose words match a query, best first; an empty query returns the newest.
    fn recall<'a>(
        &'a self,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fact>, WireError>>;

    /// Returns facts by their ids, those that exist.
    fn facts<'a>(&'a self, ids: &'a [CallKey]) -> BoxFuture<'a, Result<Vec<Fact>, WireError>>;
}
