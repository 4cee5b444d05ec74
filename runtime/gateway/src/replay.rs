//! What observers of a run were told before, put together from the journal.

use std::collections::{HashMap, VecDeque};

use agents_core::session::parse_event_id;
use node::TeamHandle;
use wire::{CallKey, Event, EventKind, RunId, SessionId, Timestamp, WireError};

/// Runs below a run whose past is told. A tree that is larger is watched from its traces.
const CHILDREN_MAX: usize = 256;

/// Sessions whose position is remembered; what more there are may be told of twice.
const POSITIONS_MAX: usize = 4096;

/// A position in the events of a session.
pub(crate) type Position = (u64, u32);

/// The past of a run.
#[derive(Debug)]
pub(crate) struct Past {
    /// What the client has not seen yet, in order.
    pub(crate) events: Vec<Event>,
    /// Whether the run is over.
    pub(crate) ended: bool,
    /// Its trace; absent if the session does not know the run.
    pub(crate) trace_id: Option<String>,
}

/// Reads the past of a run after a position, with that of the runs below it if asked for.
///
/// Of those, the ones whose call had not ended at the position are told from their begin.
pub(crate) async fn past(
    team: &TeamHandle,
    session: &SessionId,
    run: &RunId,
    after: Option<Position>,
    tree: bool,
) -> Result<Past, WireError> {
    let own = of_run(team.events(session, None).await?, run);
    let mut children = HashMap::new();
    let mut asked = if tree { calls_open_after(&own, after) } else { Vec::new() };
    while let Some(call) = asked.pop() {
        if children.len() == CHILDREN_MAX {
            break;
        }
        let (session, run) = (SessionId::of_call(&call), RunId::of_call(&call));
        let events = of_run(team.events(&session, None).await?, &run);
        asked.extend(calls_open_after(&events, None));
        children.insert(call, events);
    }
    Ok(Past {
        ended: own.iter().any(|event| matches!(event.kind, EventKind::RunEnded { .. })),
        trace_id: own.first().map(|event| event.trace_id.clone()),
        events: merge(own, after, children),
    })
}

fn of_run(mut events: Vec<Event>, run: &RunId) -> Vec<Event> {
    events.retain(|event| event.run == *run);
    events
}

/// Lists the calls of agents that had not ended at a position.
fn calls_open_after(events: &[Event], after: Option<Position>) -> Vec<CallKey> {
    let mut open = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::CallStarted { call, is_agent: true, .. } => open.push(call.clone()),
            EventKind::CallEnded { call, .. } if !is_after(event, after) => {
                open.retain(|other| other != call);
            }
            _ => {}
        }
    }
    open
}

fn is_after(event: &Event, after: Option<Position>) -> bool {
    let position = event.id.as_deref().and_then(parse_event_id);
    after.is_none_or(|after| position.is_some_and(|position| position > after))
}

/// Orders the events of several sessions by time, each session's own order kept and no run told of
/// before its call.
fn merge(
    own: Vec<Event>,
    after: Option<Position>,
    mut children: HashMap<CallKey, Vec<Event>>,
) -> Vec<Event> {
    let mut merged = Vec::new();
    let mut queues = vec![(after, VecDeque::from(own))];
    loop {
        let earliest = queues
            .iter_mut()
            .filter(|(_, queue)| !queue.is_empty())
            .min_by_key(|(_, queue)| queue.front().map(|event| event.at));
        let Some((after, queue)) = earliest else { return merged };
        let after = *after;
        let Some(event) = queue.pop_front() else { return merged };
        if let EventKind::CallStarted { call, is_agent: true, .. } = &event.kind
            && let Some(events) = children.remove(call)
        {
            queues.push((None, events.into()));
        }
        if is_after(&event, after) {
            merged.push(event);
        }
    }
}

/// Knows what a client was told, to tell it nothing twice.
#[derive(Debug, Default)]
pub(crate) struct Seen(HashMap<SessionId, (Position, Timestamp)>);

impl Seen {
    /// Notes an event, and tells whether the client has not seen it.
    ///
    /// A delta has no position; one from before the last event of its session belongs to a reply
    /// that the client knows as a whole.
    pub(crate) fn is_new(&mut self, event: &Event) -> bool {
        let last = self.0.get(&event.session).copied();
        let Some(position) = event.id.as_deref().and_then(parse_event_id) else {
            return last.is_none_or(|(_, at)| event.at >= at);
        };
        if last.is_some_and(|(last, _)| position <= last) {
            return false;
        }
        if last.is_some() || self.0.len() < POSITIONS_MAX {
            self.0.insert(event.session.clone(), (position, event.at));
        }
        true
    }

    /// Returns the position that a client has come to in a session.
    pub(crate) fn position(&self, session: &SessionId) -> Option<Position> {
        self.0.get(session).map(|(position, _)| *position)
    }
}
