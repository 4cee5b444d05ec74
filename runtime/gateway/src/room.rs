//! Room for the events that are held for the clients of event streams, one bound for all of them.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::{Event, Scope, WireError};

/// Bytes of events that are held for all clients together, the past of a run among them: many times
/// what one run leaves, and a part of the memory of any machine that serves hundreds of streams.
pub const EVENTS_BYTES_MAX: usize = 256 << 20;

/// When a client for which there is no room may come again, in milliseconds.
const RETRY_MS: u64 = 1000;

/// The room that is left.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<Semaphore>);

/// An event that is held, with the room that it takes.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) event: Event,
    /// Given back when the event is written or dropped.
    _room: OwnedSemaphorePermit,
}

impl Default for Room {
    fn default() -> Self {
        Self::new(EVENTS_BYTES_MAX)
    }
}

impl Room {
    /// Makes room for so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes)))
    }

    /// Holds an event out of the journal.
    pub(crate) fn keep(&self, event: Event) -> Result<Kept, WireError> {
        let bytes = wire::json::measure(&event).unwrap_or(usize::MAX);
        self.keep_of(event, bytes)
    }

    /// Holds an event that takes so many bytes.
    pub(crate) fn keep_of(&self, event: Event, bytes: usize) -> Result<Kept, WireError> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let room = self.0.clone().try_acquire_many_owned(bytes).map_err(|_| {
            let text = format!(
                "the events that are held for readers have more than {EVENTS_BYTES_MAX} bytes; \
                 come again, or look at the trace of the run"
            );
            WireError::overloaded(Scope::Node, text, RETRY_MS)
        })?;
        Ok(Kept { event, _room: room })
    }
}
