//! Feeds one event stream: first the past, then what happens.

use node::TeamHandle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Sender;
use tokio::time::{Duration, interval, timeout};
use tokio_util::sync::CancellationToken;
use wire::{Event, EventKind, RunId, SessionId, TraceId};

use crate::events::KEEP_ALIVE;
use crate::looks::Looks;
use crate::replay::{Position, Seen, past};
use crate::room::{Kept, Room};

/// The longest time for a client to take one event of the past.
const PAST_TIMEOUT: Duration = Duration::from_secs(30);

/// One event stream.
pub(crate) struct Stream {
    pub(crate) team: TeamHandle,
    pub(crate) session: SessionId,
    pub(crate) run: RunId,
    /// What the client saw last, if it comes again.
    pub(crate) after: Option<Position>,
    /// The trace whose events are told; absent means those of the run alone.
    pub(crate) trace_id: Option<TraceId>,
    pub(crate) live: bus::Subscription,
    pub(crate) out: Sender<Kept>,
    pub(crate) looks: Looks,
    pub(crate) room: Room,
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
    pub(crate) async fn run(mut self, past: Vec<Kept>) {
        // What the client names may still come over the bus: it is in the journal before.
        let mut seen = Seen::after(&self.session, self.after);
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
                    Some(_) if self.live.may_have_lost() => self.tell_lost(&mut seen).await,
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

    /// Tells the whole past: runs below may have ended after the run did.
    async fn tell_past(&self, seen: &mut Seen, past: Vec<Kept>) -> Flow {
        let mut flow = Flow::On;
        for kept in past {
            if !seen.is_new(&kept.event) {
                continue;
            }
            if self.is_last(&kept.event) {
                flow = Flow::Over;
            }
            let sent = timeout(PAST_TIMEOUT, self.out.send(kept)).await;
            if !matches!(sent, Ok(Ok(()))) {
                return Flow::Over;
            }
        }
        flow
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
        // A client that is behind by a whole queue, or for which there is no room, is cut off rather
        // than told with gaps.
        let Ok(kept) = self.room.keep_of(event, message.payload.len()) else { return Flow::Over };
        match self.out.try_send(kept) {
            Ok(()) if !is_last => Flow::On,
            Ok(()) | Err(_) => Flow::Over,
        }
    }

    /// Tells from the journal what the subscription lost, as while a slow client was told the past.
    async fn tell_lost(&mut self, seen: &mut Seen) -> Flow {
        // All that was told so far is durable, so the journal has it as well.
        self.live.clear();
        self.tell_since(seen, self.trace_id.is_some()).await
    }

    /// Tells what the journal has after what the client has seen.
    async fn tell_since(&self, seen: &mut Seen, tree: bool) -> Flow {
        let after = seen.position(&self.session).or(self.after);
        let (team, session, run) = (self.team.clone(), self.session.clone(), self.run.clone());
        let room = self.room.clone();
        let reading = self.looks.read(move || past(&team, &session, &run, after, tree, &room));
        match reading.await {
            Ok(Ok(past)) => self.tell_past(seen, past.events).await,
            // The client comes again, and is told why if it is still so.
            Ok(Err(_)) | Err(_) => Flow::Over,
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
        self.tell_since(seen, self.trace_id.is_some()).await;
        Flow::Over
    }

    fn is_last(&self, event: &Event) -> bool {
        event.run == self.run && matches!(event.kind, EventKind::RunEnded { .. })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use bus::{Bus, LocalLimits};
    use journal::Holder;
    use node::{Node, NodeOptions};
    use serde_json::json;
    use tokio::sync::{Semaphore, mpsc};
    use wire::entry::{Body, Entry, Input, Submitted};
    use wire::run::Budget;
    use wire::{Digest, Headers, Subjects, Timestamp, TraceContext};

    use super::*;

    /// Messages that a subscription holds here.
    const HELD_MAX: usize = 4;

    async fn start(data: &Path) -> Node {
        let teams = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/teams");
        let team = config::load(&teams.join("quickstart.toml")).unwrap();
        let holder = Holder::this_process("test", Timestamp::from_micros(1));
        let options = NodeOptions {
            data: data.to_owned(),
            holder,
            subjects: Subjects::default(),
            reserve_bytes: 0,
        };
        let limits = LocalLimits { subscription_messages_max: HELD_MAX, ..LocalLimits::default() };
        Node::start(vec![team], Bus::local_with(limits), options).await.unwrap()
    }

    /// Appends to the journal as the session's actor does, with nobody told of it.
    async fn journal(team: &TeamHandle, session: &SessionId, slot: u64, input: Input) {
        let entry = Entry::new(Timestamp::from_micros(slot + 1), Body::Session(input));
        let bytes = serde_json::to_vec(&entry).unwrap();
        team.journal().append(session, slot, vec![bytes.into()]).await.unwrap();
    }

    /// Makes the stream of a run, with that of the session of the same name.
    async fn stream(
        team: &TeamHandle,
        run: &RunId,
        live: bus::Subscription,
        out: Sender<Kept>,
    ) -> Stream {
        Stream {
            team: team.clone(),
            session: SessionId::new(run.as_str()).unwrap(),
            run: run.clone(),
            after: None,
            trace_id: None,
            live,
            out,
            looks: Looks::default(),
            room: Room::default(),
            closing: CancellationToken::new(),
            _place: Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap(),
        }
    }

    /// Makes the event of a run by which it begins or ends.
    fn event(run: &str, slot: u64, ends: bool) -> Event {
        let kind = if ends {
            json!({"event": "run_ended", "status": "cancelled", "output": "", "usage": {"input_tokens": 0, "output_tokens": 0}})
        } else {
            json!({"event": "run_accepted", "input": "x"})
        };
        let mut event = json!({
            "id": format!("{slot}.0"), "at": slot, "trace_id": "0af7651916cd43dd8448eb211c80319c",
            "session": run, "run": run, "agent": "a", "depth": 0,
        });
        event.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
        serde_json::from_value(event).unwrap()
    }

    #[tokio::test]
    async fn all_of_the_past_is_told_before_the_stream_ends() {
        let data = tempfile::tempdir().unwrap();
        let node = start(data.path()).await;
        let team = node.team("quickstart").unwrap().clone();
        let run = RunId::new("r").unwrap();
        let begun = |run| event(run, 0, false);
        let ended = |run| event(run, 1, true);
        for (past, flow) in [
            (vec![begun("r"), ended("r")], Flow::Over),
            (vec![begun("r"), begun("below"), ended("below")], Flow::On),
            (vec![begun("r"), begun("below"), ended("r"), ended("below")], Flow::Over),
            (vec![begun("below"), ended("r"), begun("last"), ended("last")], Flow::Over),
        ] {
            let live = node.bus().subscribe("none", None).await.unwrap();
            let (out, mut client) = mpsc::channel(past.len());
            let stream = stream(&team, &run, live, out).await;
            let expected = past.clone();
            let past = past.into_iter().map(|event| stream.room.keep(event).unwrap()).collect();
            assert_eq!(stream.tell_past(&mut Seen::default(), past).await, flow, "{expected:?}");
            drop(stream);
            let mut told = Vec::new();
            while let Some(kept) = client.recv().await {
                told.push(kept.event);
            }
            assert_eq!(told, expected);
        }
    }

    /// Makes the input by which a run begins.
    fn submitted(team: &TeamHandle, run: &RunId, text: &str) -> Input {
        let agent = team.team().entry.clone();
        Input::Submitted(Submitted {
            run: run.clone(),
            plan: team.team().agents[&agent].to_bytes().unwrap().0,
            agent,
            text: text.to_owned(),
            body: Digest::of(text.as_bytes()),
            deadline: Timestamp::from_micros(u64::MAX / 2),
            budget: Budget::default(),
            trace: TraceContext::root(&team.team().name, run),
            caller_span: None,
            parent: None,
            begins: false,
        })
    }

    #[tokio::test]
    async fn streams_share_the_room_for_what_they_hold() {
        let data = tempfile::tempdir().unwrap();
        let node = start(data.path()).await;
        let team = node.team("quickstart").unwrap().clone();
        let (session, run) = (SessionId::new("r").unwrap(), RunId::new("r").unwrap());
        journal(&team, &session, 0, submitted(&team, &run, &"x".repeat(10_000))).await;
        let room = Room::new(15_000);
        let read = || past(&team, &session, &run, None, true, &room);
        let held = read().unwrap();
        let refused = read().unwrap_err();
        assert_eq!(refused.code, wire::ErrorCode::Overloaded, "{refused}");

        // It is held until the client takes it.
        let live = node.bus().subscribe("none", None).await.unwrap();
        let (out, mut client) = mpsc::channel(held.events.len());
        let stream = Stream { room: room.clone(), ..stream(&team, &run, live, out).await };
        assert_eq!(stream.tell_past(&mut Seen::default(), held.events).await, Flow::On);
        assert!(read().is_err());
        let message = |run| {
            let payload = serde_json::to_vec(&event(run, 7, false)).unwrap();
            let payload = [payload, vec![b' '; 10_000]].concat();
            let (subject, headers) = ("s".to_owned(), Headers::new());
            bus::Message { subject, reply: None, headers, payload: payload.into() }
        };
        let mut seen = Seen::default();
        assert_eq!(stream.tell_live(&mut seen, &message("other")), Flow::On, "it is not told");
        assert_eq!(stream.tell_live(&mut seen, &message("r")), Flow::Over, "it finds no room");
        assert_eq!(client.recv().await.unwrap().event.run, run);
        assert!(read().is_ok());
    }

    #[tokio::test]
    async fn what_a_slow_client_lost_is_told_from_the_journal() {
        let data = tempfile::tempdir().unwrap();
        let node = start(data.path()).await;
        let team = node.team("quickstart").unwrap().clone();
        let (session, run) = (SessionId::new("r").unwrap(), RunId::new("r").unwrap());
        journal(&team, &session, 0, submitted(&team, &run, "x")).await;
        let subject = team.subjects().session_events(&team.team().name, &session);
        let live = node.bus().subscribe(&subject, None).await.unwrap();
        let (out, mut client) = mpsc::channel(1);
        let stream = stream(&team, &run, live, out).await;
        let past = past(&team, &session, &run, None, false, &stream.room).unwrap();
        assert!(past.events.len() > 1, "more than the client takes at once");
        let told = tokio::spawn(stream.run(past.events));

        // While the client takes nothing, more happens than is held for it.
        for _ in 0..HELD_MAX {
            node.bus().publish(&subject, Headers::new(), "{}".into()).await.unwrap();
        }
        let reason = "enough".to_owned();
        journal(&team, &session, 1, Input::CancelRequested { run, reason }).await;
        let expected = team.events(&session, None).await.unwrap();
        let mut found = Vec::new();
        while let Ok(Some(kept)) = timeout(Duration::from_secs(5), client.recv()).await {
            found.push(kept.event.id);
        }
        assert_eq!(found, expected.into_iter().map(|event| event.id).collect::<Vec<_>>());
        timeout(Duration::from_secs(5), told).await.unwrap().unwrap();
    }
}
