//! What observers of a run were told before, put together from the journal.

use std::collections::{HashMap, VecDeque};

use node::TeamHandle;
use wire::event::EventId;
use wire::{CallKey, Event, EventKind, RunId, SessionId, Timestamp, TraceId, WireError};

use crate::room::{Kept, Room};

/// Runs below a run whose past is told. A tree that is larger is watched from its traces.
const CHILDREN_MAX: usize = 256;

/// Sessions whose position is remembered; what more there are may be told of twice.
const POSITIONS_MAX: usize = 4096;

/// A position in the events of a session.
pub(crate) type Position = EventId;

/// The past of a run.
#[derive(Debug)]
pub(crate) struct Past {
    /// What the client has not seen yet, in order.
    pub(crate) events: Vec<Kept>,
    /// Whether the run is over.
    pub(crate) ended: bool,
    /// Its trace; absent if the session does not know the run.
    pub(crate) trace_id: Option<TraceId>,
}

/// Reads the past of a run after a position, with that of the runs below it if asked for, as far as
/// there is room for it. Blocks on the disk.
///
/// Of those, the ones whose call had not ended at the position are told from their begin.
pub(crate) fn past(
    team: &TeamHandle,
    session: &SessionId,
    run: &RunId,
    after: Option<Position>,
    tree: bool,
    room: &Room,
) -> Result<Past, WireError> {
    let own = of_run(team, session, run, room)?;
    let mut children = HashMap::new();
    let mut asked = if tree { calls_open_after(&own, after) } else { Vec::new() };
    while let Some(call) = asked.pop() {
        if children.len() == CHILDREN_MAX {
            break;
        }
        let events = of_run(team, &SessionId::of_call(&call), &RunId::of_call(&call), room)?;
        asked.extend(calls_open_after(&events, None));
        children.insert(call, events);
    }
    let is_end = |kept: &Kept| matches!(kept.event.kind, EventKind::RunEnded { .. });
    Ok(Past {
        ended: own.iter().any(is_end),
        trace_id: own.first().map(|kept| kept.event.trace_id),
        events: merge(own, after, children),
    })
}

fn of_run(
    team: &TeamHandle,
    session: &SessionId,
    run: &RunId,
    room: &Room,
) -> Result<Vec<Kept>, WireError> {
    let mut kept = Ok(Vec::new());
    team.each_event_of(session, run, |event| {
        if let Ok(events) = &mut kept {
            match room.keep(event) {
                Ok(event) => events.push(event),
                Err(error) => kept = Err(error),
            }
        }
    })?;
    kept
}

/// Lists the calls of agents that had not ended at a position.
fn calls_open_after(events: &[Kept], after: Option<Position>) -> Vec<CallKey> {
    let mut open = Vec::new();
    for Kept { event, .. } in events {
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
    after.is_none_or(|after| event.id.is_some_and(|id| id > after))
}

/// Orders the events of several sessions by time, each session's own order kept and no run told of
/// before its call.
fn merge(
    own: Vec<Kept>,
    after: Option<Position>,
    mut children: HashMap<CallKey, Vec<Kept>>,
) -> Vec<Kept> {
    let mut merged = Vec::new();
    let mut queues = vec![(after, VecDeque::from(own))];
    loop {
        let earliest = queues
            .iter_mut()
            .filter(|(_, queue)| !queue.is_empty())
            .min_by_key(|(_, queue)| queue.front().map(|kept| kept.event.at));
        let Some((after, queue)) = earliest else { return merged };
        let after = *after;
        let Some(kept) = queue.pop_front() else { return merged };
        if let EventKind::CallStarted { call, is_agent: true, .. } = &kept.event.kind
            && let Some(events) = children.remove(call)
        {
            queues.push((None, events.into()));
        }
        if is_after(&kept.event, after) {
            merged.push(kept);
        }
    }
}

/// Knows what a client was told, to tell it nothing twice.
#[derive(Debug, Default)]
pub(crate) struct Seen(HashMap<SessionId, (Position, Timestamp)>);

impl Seen {
    /// Begins with what a client says that it was told of a session before.
    pub(crate) fn after(session: &SessionId, position: Option<Position>) -> Self {
        let told = position.map(|position| (session.clone(), (position, Timestamp::default())));
        Self(told.into_iter().collect())
    }

    /// Notes an event, and tells whether the client has not seen it.
    ///
    /// A delta has no position; one from before the last event of its session belongs to a reply
    /// that the client knows as a whole.
    pub(crate) fn is_new(&mut self, event: &Event) -> bool {
        let last = self.0.get(&event.session).copied();
        let Some(position) = event.id else {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Makes an event out of the fields that differ.
    fn event(session: &str, id: Option<&str>, at: u64, kind: &Value) -> Event {
        let mut event = json!({
            "at": at, "trace_id": "0af7651916cd43dd8448eb211c80319c", "session": session, "run": session, "agent": "a", "depth": 0,
        });
        let fields = event.as_object_mut().unwrap();
        fields.extend(kind.as_object().unwrap().clone());
        fields.extend(id.map(|id| ("id".to_owned(), id.into())));
        serde_json::from_value(event).unwrap()
    }

    fn started(call: &str) -> Value {
        json!({"event": "call_started", "call": call, "tool": "x", "arguments": {}, "is_agent": true})
    }

    fn ended(call: &str) -> Value {
        json!({
            "event": "call_ended", "call": call, "tool": "x", "status": "ok", "output": "",
            "duration_us": 1,
        })
    }

    fn plain() -> Value {
        json!({"event": "run_started"})
    }

    fn kept(events: Vec<Event>) -> Vec<Kept> {
        let room = Room::default();
        events.into_iter().map(|event| room.keep(event).unwrap()).collect()
    }

    /// A run that calls `c` and `d` at once, and `e` after both.
    fn tree() -> (Vec<Kept>, HashMap<CallKey, Vec<Kept>>) {
        let own = vec![
            event("r", Some("0.0"), 1, &plain()),
            event("r", Some("1.0"), 2, &started("c")),
            event("r", Some("1.1"), 2, &started("d")),
            event("r", Some("2.0"), 7, &ended("c")),
            event("r", Some("3.0"), 9, &ended("d")),
            event("r", Some("3.1"), 9, &started("e")),
        ];
        let child = |call: &str, times: [u64; 2]| {
            let [first, second] = times;
            let events = vec![
                event(call, Some("0.0"), first, &plain()),
                event(call, Some("1.0"), second, &plain()),
            ];
            (CallKey::new(call).unwrap(), kept(events))
        };
        // The clock of `e` lags; it is told of after its call all the same.
        (kept(own), HashMap::from([child("c", [3, 6]), child("d", [4, 8]), child("e", [0, 10])]))
    }

    #[test]
    fn a_tree_is_told_in_the_order_of_time() {
        let (own, children) = tree();
        let merged = merge(own, None, children);
        let events = merged.iter().map(|kept| &kept.event);
        let told: Vec<String> =
            events.map(|event| format!("{}{}", event.session, event.id.unwrap())).collect();
        let expected = [
            "r0.0", "r1.0", "r1.1", "c0.0", "d0.0", "c1.0", "r2.0", "d1.0", "r3.0", "r3.1", "e0.0",
            "e1.0",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn calls_that_had_ended_are_not_told_again() {
        let cases = [
            (None, vec!["c", "d", "e"]),
            (Some("1.1"), vec!["c", "d", "e"]),
            (Some("2.0"), vec!["d", "e"]),
            (Some("3.0"), vec!["e"]),
        ];
        let (own, _) = tree();
        for (after, expected) in cases {
            let after = after.map(|id| id.parse().unwrap());
            let open = calls_open_after(&own, after);
            let open: Vec<&str> = open.iter().map(CallKey::as_str).collect();
            assert_eq!(open, expected, "{after:?}");
        }
    }

    #[test]
    fn nothing_is_new_twice() {
        let delta = json!({"event": "delta", "step": 1, "role": "actor", "text": "x"});
        let steps = [
            (event("r", Some("1.0"), 5, &plain()), true),
            (event("r", Some("1.0"), 5, &plain()), false),
            (event("r", Some("0.9"), 4, &plain()), false),
            (event("r", Some("1.1"), 5, &plain()), true),
            (event("r", Some("10.0"), 6, &plain()), true),
            (event("r", Some("9.0"), 6, &plain()), false),
            (event("c", Some("0.0"), 6, &plain()), true),
            (event("r", None, 5, &delta), false),
            (event("r", None, 6, &delta), true),
            (event("d", None, 1, &delta), true),
        ];
        let mut seen = Seen::default();
        for (n, (event, expected)) in steps.iter().enumerate() {
            assert_eq!(seen.is_new(event), *expected, "step {n}");
        }
        let session = SessionId::new("r").unwrap();
        let last = seen.position(&session);
        assert_eq!(last, Some("10.0".parse().unwrap()));
        // Who comes again was told what it names.
        let mut seen = Seen::after(&session, last);
        let [before, named, delta, next] = [
            event("r", Some("9.0"), 6, &plain()),
            event("r", Some("10.0"), 6, &plain()),
            event("r", None, 6, &delta),
            event("r", Some("10.1"), 6, &plain()),
        ]
        .map(|event| seen.is_new(&event));
        assert_eq!([before, named, delta, next], [false, false, true, true]);
        assert_eq!(Seen::after(&session, None).position(&session), None);
    }
}
