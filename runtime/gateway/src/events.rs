//! The events of a run as a stream that a client can leave and re-attach to.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use node::TeamHandle;
use serde::Deserialize;
use tokio::sync::mpsc;
use wire::event::EventId;
use wire::{ErrorCode, Event, RunId, SessionId};

use crate::refusal::Refusal;
use crate::replay;
use crate::room::Kept;
use crate::sign_in::Known;
use crate::state::{Doors, Query, Segments, run_id, shown};
use crate::stream::Stream;

/// Event streams that are open at once. Each holds a subscription and may hold
/// [`EVENTS_QUEUED_MAX`] events, so they are fewer than connections.
pub const STREAMS_MAX: usize = 256;

/// Events that wait for a slow reader. One that falls further behind is cut off; it re-attaches
/// and gets what it missed out of the journal.
pub const EVENTS_QUEUED_MAX: usize = 256;

/// The pause after which a comment is sent, so that nobody between takes the connection for dead.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// When a client whose stream was cut is to come again.
pub(crate) const COME_AGAIN: Duration = Duration::from_secs(1);

/// What keeps a proxy from holding events back until many have come together.
pub(crate) const UNHELD: [(HeaderName, &str); 1] =
    [(HeaderName::from_static("x-accel-buffering"), "no")];

/// The header by which a client says what it saw last.
const LAST_EVENT_ID: &str = "last-event-id";

/// The query of a request for events.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scope {
    #[serde(default)]
    tree: bool,
}

pub(crate) async fn stream(
    State(doors): State<Doors>,
    Segments((team, run)): Segments<(String, String)>,
    Query(scope): Query<Scope>,
    Extension(Known(stay)): Extension<Known>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let team = doors.team(&team)?;
    let run = run_id(&run)?;
    let after = last_event_id(&headers)?;
    let place = doors.stream_place()?;
    let session = session_of(team, &run).await?;
    // Subscribed before the journal is read, so that nothing falls in between.
    let name = &team.team().name.clone();
    let subject = if scope.tree {
        team.subjects().all_session_events(name)
    } else {
        team.subjects().session_events(name, &session)
    };
    let live = doors.node.bus().subscribe(&subject, None).await?;
    doors.node.bus().flush().await?;
    let (look, room) = ((team.clone(), session.clone(), run.clone()), doors.room.clone());
    let reading = doors.looks.read(move || {
        let (team, session, run) = look;
        replay::past(&team, &session, &run, after, scope.tree, &room)
    });
    let past = reading.await??;
    let Some(trace_id) = past.trace_id else { return Err(unknown_run(&run)) };
    if past.ended && past.events.is_empty() {
        // By the rules of event streams, what tells a browser not to come again.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let (out, queue) = mpsc::channel(EVENTS_QUEUED_MAX);
    let closing = doors.closing.clone();
    let stream = Stream {
        team: team.clone(),
        trace_id: scope.tree.then_some(trace_id),
        session: session.clone(),
        run,
        after,
        live,
        out,
        looks: doors.looks.clone(),
        room: doors.room.clone(),
        closing,
        _place: place,
    };
    tokio::spawn(stay.bound(stream.run(past.events)));
    let first = stream::once(async { sse::Event::default().retry(COME_AGAIN) });
    let queued = stream::unfold(queue, async |mut queue: mpsc::Receiver<Kept>| {
        queue.recv().await.map(|kept| (kept, queue))
    });
    let events = queued.filter_map(move |kept| {
        let written = write(&kept.event, &session);
        async move { written }
    });
    let body = first.chain(events).map(Ok::<_, Infallible>);
    let answer = Sse::new(body).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    Ok((UNHELD, answer).into_response())
}

/// Writes an event. Only those of the run's own session have an id to re-attach after.
fn write(event: &Event, session: &SessionId) -> Option<sse::Event> {
    let written = sse::Event::default().json_data(event).ok()?;
    Some(match &event.id {
        Some(id) if event.session == *session => written.id(id.to_string()),
        _ => written,
    })
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<EventId>, Refusal> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let text = format!("Last-Event-ID {} is not of the form <slot>.<n>", shown(text));
        Refusal::new(ErrorCode::BadRequest, text)
    })
}

/// Finds the session of a run that may have been accepted a moment ago.
async fn session_of(team: &TeamHandle, run: &RunId) -> Result<SessionId, Refusal> {
    team.settle().await;
    if let Some(session) = team.session_of_run(run).await? {
        return Ok(session);
    }
    let session = SessionId::of_run(run);
    if team.journal().slots(&session) == 0 { Err(unknown_run(run)) } else { Ok(session) }
}

fn unknown_run(run: &RunId) -> Refusal {
    Refusal::new(ErrorCode::UnknownRun, format!("no run {run} is known"))
}
