//! Feeds one event stream: first the past, then what happens.

use node::TeamHandle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Sender;
use tokio::time::{Duration, interval, timeout};
use tokio_util::sync::CancellationToken;
use wire::{Event, EventKind, RunId, SessionId};

use crate::events::KEEP_ALIVE;
use crate::replay::{Seen, past};

/// The longest time for a client to take one event of the past.
const PAST_TIMEOUT: Duration = Duration::from_secs(30);

/// One event stream.
pub(crate) struct Stream {
    pub(crate) team: TeamHandle,
    pub(crate) session: SessionId,
    pub(crate) run: RunId,
    /// The trace whose events are told; absent means those of the run alone.
    pub(crate) trace_id: Option<String>,
    pub(crate) live: bus::Subscription,
    pub(crate) out: Sender<Event>,
    pub(crate) closing: CancellationToken,
    /// Given back when the stream ends.
    pub(crate) _place: OwnedSemaphorePermit,
}

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Over,
}

impl Stream {
    /// Tells the past and then what happens, until the run ends, the client goes or falls behind,
    /// or the doors close.
    pub(crate) async fn run(mut self, past: Vec<Event>) {
        let mut seen = Seen::default();
        if self.tell_past(&mut seen, past).await == Flow::Over {
            return;
        }
        let mut look = interval(KEEP_ALIVE);
        look.reset();
        loop {
            let flow = tokio::select! {
                () = self.out.closed() => Flow::Over,
                () = self.closing.cancelled() => Flow::Over,
                message = self.live.next() => match message {
                    Some(message) => self.tell_live(&mut seen, &message),
                    None => Flow::Over,
                },
                _ = look.tick() => self.tell_missed_end(&mut seen).await,
            };
            if flow == Flow::Over {
                return;
            }
        }
    }

    async fn tell_past(&self, seen: &mut Seen, past: Vec<Event>) -> Flow {
        for event in past {
            if !seen.is_new(&event) {
                continue;
            }
            let is_last = self.is_last(&event);
            let sent = timeout(PAST_TIMEOUT, self.out.send(event)).await;
            if is_last || !matches!(sent, Ok(Ok(()))) {
                return Flow::Over;
            }
        }
        Flow::On
    }

    fn tell_live(&self, seen: &mut Seen, message: &bus::Message) -> Flow {
        let Ok(event) = serde_json::from_slice::<Event>(&message.payload) else { return Flow::On };
        let is_told = match &self.trace_id {
            Some(trace_id) => event.trace_id == *trace_id,
            None => event.run == self.run,
        };
        if !is_told || !seen.is_new(&event) {
            return Flow::On;
        }
        let is_last = self.is_last(&event);
        // A client that is behind by a whole queue is cut off rather than told with gaps.
        match self.out.try_send(event) {
            Ok(()) if !is_last => Flow::On,
            Ok(()) | Err(_) => Flow::Over,
        }
    }

    /// Tells the end of the run if it came to pass and the bus did not bring it, as happens to an
    /// event that is too large for a message.
    async fn tell_missed_end(&self, seen: &mut Seen) -> Flow {
        self.team.settle().await;
        let (store, run) = (self.team.store().clone(), self.run.clone());
        let found = tokio::task::spawn_blocking(move || store.run(&run)).await;
        let has_ended = matches!(found, Ok(Ok(Some(row))) if row.ended.is_some());
        if !has_ended {
            return Flow::On;
        }
        let after = seen.position(&self.session);
        match past(&self.team, &self.session, &self.run, after, false).await {
            Ok(past) => {
                self.tell_past(seen, past.events).await;
                Flow::Over
            }
            Err(_) => Flow::Over,
        }
    }

    fn is_last(&self, event: &Event) -> bool {
        event.run == self.run && matches!(event.kind, EventKind::RunEnded { .. })
    }
}
