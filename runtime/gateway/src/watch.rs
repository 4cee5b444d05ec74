//! Notices of what happens in all teams, for those who show lists and want to know when to look.

use std::convert::Infallible;

use axum::Extension;
use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use wire::{Name, RunId, SessionId, Timestamp};

use crate::events::{COME_AGAIN, EVENTS_QUEUED_MAX, KEEP_ALIVE, UNHELD};
use crate::refusal::Refusal;
use crate::sign_in::Known;
use crate::state::Doors;
use crate::view::Notice;

/// The events of which there is a notice: those that change what a list shows.
const NOTICED: [&str; 9] = [
    "run_accepted",
    "run_joined",
    "run_started",
    "run_ended",
    "call_suspended",
    "question_ended",
    "call_repeated",
    "call_resolved",
    "call_ended",
];

/// What is read of an event; the rest may be large.
#[derive(Deserialize)]
struct Head {
    event: String,
    at: Timestamp,
    session: SessionId,
    run: RunId,
    agent: Name,
    depth: u32,
}

/// What a subscription brings.
enum Live {
    /// An event of a team.
    Happened(Name, bus::Message),
    /// Some events may have found no room.
    Lost,
}

/// The notices of one client.
struct Watch {
    out: mpsc::Sender<Notice>,
    closing: CancellationToken,
    /// Given back when the stream ends.
    _place: OwnedSemaphorePermit,
}

pub(crate) async fn stream(
    State(doors): State<Doors>,
    Extension(Known(stay)): Extension<Known>,
) -> Result<Response, Refusal> {
    let place = doors.stream_place()?;
    let bus = doors.node.bus();
    // From before the subscriptions are made, so that no connection is lost unnoticed.
    let mended = bus.mended();
    let mut live = Vec::new();
    for team in doors.node.teams() {
        let name = team.team().name.clone();
        let events = bus.subscribe(&team.subjects().all_session_events(&name), None).await?;
        live.push(whole(name, events));
    }
    bus.flush().await?;
    let (out, queue) = mpsc::channel(EVENTS_QUEUED_MAX);
    let watch = Watch { out, closing: doors.closing.clone(), _place: place };
    tokio::spawn(stay.bound(watch.run(stream::select_all(live), mended)));
    let first = stream::once(async { sse::Event::default().retry(COME_AGAIN) });
    let queued = stream::unfold(queue, async |mut queue: mpsc::Receiver<Notice>| {
        queue.recv().await.map(|notice| (notice, queue))
    });
    let notices = queued.filter_map(async |notice| sse::Event::default().json_data(notice).ok());
    let body = first.chain(notices).map(Ok::<_, Infallible>);
    let answer = Sse::new(body).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    Ok((UNHELD, answer).into_response())
}

impl Watch {
    /// Tells what happens until the client goes, something may be missing, or the doors close.
    ///
    /// A client that is cut off comes again and looks at the lists as they are then.
    async fn run(
        self,
        mut live: impl Stream<Item = Live> + Unpin,
        mut mended: impl Future<Output = ()> + Unpin,
    ) {
        loop {
            let (team, message) = tokio::select! {
                () = self.out.closed() => return,
                () = self.closing.cancelled() => return,
                () = &mut mended => return,
                next = live.next() => match next {
                    Some(Live::Happened(team, message)) => (team, message),
                    Some(Live::Lost) | None => return,
                },
            };
            let Some(notice) = notice(team, &message.payload) else { continue };
            if self.out.try_send(notice).is_err() {
                return;
            }
        }
    }
}

/// Brings the events of a team, and says where some may be missing.
fn whole(team: Name, events: bus::Subscription) -> impl Stream<Item = Live> + Unpin {
    let next = async |(team, mut events): (Name, bus::Subscription)| {
        let message = events.next().await?;
        let is_whole = !events.may_have_lost();
        let live = if is_whole { Live::Happened(team.clone(), message) } else { Live::Lost };
        Some((live, (team, events)))
    };
    Box::pin(stream::unfold((team, events), next))
}

fn notice(team: Name, event: &[u8]) -> Option<Notice> {
    let Head { event, at, session, run, agent, depth } = serde_json::from_slice(event).ok()?;
    let is_noticed = NOTICED.contains(&event.as_str());
    is_noticed.then_some(Notice { team, event, at, session, run, agent, depth })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bus::{Bus, LocalLimits};
    use futures_util::future;
    use serde_json::json;
    use tokio::sync::Semaphore;
    use wire::Headers;

    use super::*;

    #[tokio::test]
    async fn where_an_event_may_be_missing_a_client_is_told_so() {
        let limits = LocalLimits { subscription_messages_max: 4, ..LocalLimits::default() };
        for (held, is_whole) in [(1, true), (3, true), (4, false), (5, false)] {
            let bus = Bus::local_with(limits);
            let events = bus.subscribe("a.b", None).await.unwrap();
            for _ in 0..held {
                bus.publish("a.b", Headers::new(), "{}".into()).await.unwrap();
            }
            let mut live = whole(Name::new("crew").unwrap(), events);
            let first = live.next().await.unwrap();
            assert_eq!(matches!(first, Live::Happened(..)), is_whole, "{held}");
        }
    }

    #[tokio::test]
    async fn a_client_is_cut_off_when_the_connection_was_made_anew() {
        let (out, mut notices) = mpsc::channel(1);
        let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let watch = Watch { out, closing: CancellationToken::new(), _place: place };
        watch.run(stream::pending(), future::ready(())).await;
        assert!(notices.recv().await.is_none());
    }

    #[test]
    fn what_changes_a_list_is_noticed() {
        let cases =
            [("run_accepted", true), ("call_suspended", true), ("delta", false), ("x", false)];
        for (event, expected) in cases {
            let whole = json!({
                "id": "0.0", "at": 7, "trace_id": "0af7651916cd43dd8448eb211c80319c", "session": "s", "run": "r", "agent": "a",
                "depth": 0, "event": event, "input": "a long one",
            });
            let found = notice(Name::new("crew").unwrap(), whole.to_string().as_bytes());
            let found = found.map(|notice| serde_json::to_value(notice).unwrap());
            let notice = json!({
                "team": "crew", "event": event, "at": 7, "session": "s", "run": "r", "agent": "a",
                "depth": 0,
            });
            assert_eq!(found, expected.then_some(notice), "{event}");
        }
    }
}
