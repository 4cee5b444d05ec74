//! The final reply of a run as bytes, the same for everyone who asks.

use std::sync::Arc;

use bytes::Bytes;
use tokio_util::task::task_tracker::TaskTrackerToken;
use wire::{Headers, RunReply, WireError, header};

/// A reply that is ready to be handed over.
#[derive(Clone, Debug)]
pub(crate) struct Final {
    /// The serialised [`RunReply`].
    pub(crate) bytes: Bytes,
    /// Why the run did not complete.
    pub(crate) error: Option<WireError>,
    /// Says that it is on its way, for as long as anyone holds it.
    _sending: TaskTrackerToken,
}

impl Final {
    /// Makes a reply ready.
    pub(crate) fn of(reply: &Arc<RunReply>, sending: TaskTrackerToken) -> Self {
        Self::written(bytes(reply), reply, sending)
    }

    /// Makes a reply ready of which the bytes are there.
    pub(crate) fn written(bytes: Bytes, reply: &RunReply, sending: TaskTrackerToken) -> Self {
        Self { bytes, error: reply.error.clone(), _sending: sending }
    }

    /// Reads a reply that was stored.
    pub(crate) fn stored(stored: Vec<u8>, sending: TaskTrackerToken) -> Option<Self> {
        let reply: RunReply = serde_json::from_slice(&stored).ok()?;
        Some(Self { bytes: stored.into(), error: reply.error, _sending: sending })
    }

    /// Returns the headers of the reply.
    pub(crate) fn headers(&self) -> Headers {
        match &self.error {
            None => Headers::new(),
            Some(error) => Headers::new()
                .with(header::SERVICE_ERROR, error.code.title())
                .with(header::SERVICE_ERROR_CODE, error.code.as_str()),
        }
    }
}

/// Serialises a reply.
pub(crate) fn bytes(reply: &RunReply) -> Bytes {
    // A reply consists of texts, numbers and JSON values, none of which can fail to serialise.
    wire::json::to_vec(reply).unwrap_or_default().into()
}
