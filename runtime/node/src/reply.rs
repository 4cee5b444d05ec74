//! The final reply of a run as bytes, the same for everyone who asks.

use std::sync::Arc;

use bytes::Bytes;
use store::RECORD_BYTES_MAX;
use tokio::task::spawn_blocking;
use tokio_util::task::task_tracker::TaskTrackerToken;
use wire::{ErrorCode, Headers, RunId, RunReply, WireError, header};

use crate::context::TeamContext;
use crate::error::Error;

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
    fn stored(stored: Vec<u8>, sending: TaskTrackerToken) -> Option<Self> {
        let reply: RunReply = serde_json::from_slice(&stored).ok()?;
        Some(Self { bytes: stored.into(), error: reply.error, _sending: sending })
    }

    /// Looks up the reply of a run that ended too long ago for its session to hold it.
    pub(crate) async fn look_up(context: Arc<TeamContext>, run: RunId) -> Result<Self, WireError> {
        let sending = context.replies.token();
        // The store lags behind the journal.
        context.projector.sync().await;
        let id = run.clone();
        let look = move || (context.store.reply(&id), context.journal.is_full());
        let (stored, is_behind) =
            spawn_blocking(look).await.map_err(|_| Error::Ending.to_wire())?;
        let stored = stored.map_err(|error| Error::from(error).to_wire())?;
        match stored.and_then(|stored| Self::stored(stored, sending)) {
            Some(reply) => Ok(reply),
            None if is_behind => {
                let text = format!("the reply of run {run} can be looked up when there is room");
                Err(WireError::new(ErrorCode::Unavailable, text).retry_after(1000))
            }
            None => {
                let text = format!("run {run} ended too long ago, its reply is no longer kept");
                Err(WireError::new(ErrorCode::UnknownRun, text))
            }
        }
    }

    /// Returns the bytes of the reply for an agent that called this one, which takes messages of
    /// so many bytes. What the calls of this run said is left out of one that is longer: the caller
    /// does not read it, and without an answer would take the run for lost.
    pub(crate) fn for_a_caller(&self, most: usize) -> Bytes {
        let is_long = self.bytes.len() + self.headers().wire_len() > most;
        let short = if is_long { without_sources(&self.bytes) } else { None };
        short.unwrap_or_else(|| self.bytes.clone())
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

/// Returns the bytes of a reply without the calls that were made for it.
fn without_sources(whole: &[u8]) -> Option<Bytes> {
    let reply: RunReply = serde_json::from_slice(whole).ok()?;
    Some(bytes(&RunReply { sources: Vec::new(), ..reply }))
}

/// Serialises a reply. What its calls said is left out where the store could not hold it.
pub(crate) fn bytes(reply: &RunReply) -> Bytes {
    // A reply consists of texts, numbers and JSON values, none of which can fail to serialise.
    let whole = wire::json::to_vec(reply).unwrap_or_default();
    if whole.len() > RECORD_BYTES_MAX && !reply.sources.is_empty() {
        return bytes(&RunReply { sources: Vec::new(), ..reply.clone() });
    }
    whole.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio_util::task::TaskTracker;

    use super::*;

    fn reply(said: &str) -> Arc<RunReply> {
        let source = json!({"call": "c", "tool": "t", "arguments": {}, "status": "ok",
            "output": said});
        let whole = json!({"run": "r", "session": "s", "status": "completed", "output": "done",
            "sources": [source], "usage": {"input_tokens": 1, "output_tokens": 2},
            "trace_id": "0af7651916cd43dd8448eb211c80319c"});
        Arc::new(serde_json::from_value(whole).unwrap())
    }

    #[test]
    fn a_reply_fits_into_the_store() {
        let around = bytes(&reply("")).len();
        for (bytes_said, sources) in [(RECORD_BYTES_MAX - around, 1), (RECORD_BYTES_MAX, 0)] {
            let reply = reply(&"x".repeat(bytes_said));
            let written = bytes(&reply);
            assert!(written.len() <= RECORD_BYTES_MAX, "{bytes_said}");
            let told: RunReply = serde_json::from_slice(&written).unwrap();
            assert_eq!(told.sources.len(), sources, "{bytes_said}");
        }
    }

    #[test]
    fn a_caller_is_told_what_fits_into_a_message() {
        let reply = reply(&"x".repeat(1000));
        let ready = Final::of(&reply, TaskTracker::new().token());
        let bytes = ready.bytes.len();
        for (most, sources) in [(bytes, 1), (bytes - 1, 0)] {
            let told: RunReply = serde_json::from_slice(&ready.for_a_caller(most)).unwrap();
            assert_eq!(told.sources.len(), sources, "{most} of {bytes}");
            assert_eq!(RunReply { sources: reply.sources.clone(), ..told }, *reply);
        }
    }
}
