//! Tells how a node fares.

use std::collections::HashMap;

use tokio::task::spawn_blocking;
use tracing::warn;
use wire::look::{Doing, NodeStats, RunInWork, TeamStats, TracesKept, Waiting};
use wire::{OpenCall, OpenKind, RunId, WireError};

use super::Look;
use crate::clock;
use crate::error::Error;
use crate::team_handle::TeamHandle;

/// The most runs that are told of by name; a list that long is looked at by nobody.
const IN_WORK_MAX: usize = 100;

/// The most runs that are counted, and the most open calls.
const COUNTED_MAX: usize = store::LIST_MAX;

/// The most characters of a run's input that are told.
const INPUT_CHARS_MAX: usize = 80;

impl Look {
    /// Looks at all that is counted and queued.
    pub(crate) async fn stats(&self) -> NodeStats {
        let mut teams = Vec::with_capacity(self.teams.len());
        for team in &self.teams {
            match of_team(team).await {
                Ok(stats) => teams.push(stats),
                // The others are to be seen all the more.
                Err(error) => {
                    warn!(team = %team.context().team.name, %error, "how a team fares is left out");
                }
            }
        }
        NodeStats {
            node: self.shared.node.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: self.shared.since,
            at: clock::now(),
            draining: self.teams.iter().any(TeamHandle::is_draining),
            bus_connected: self.bus.is_connected(),
            events_waiting: self.shared.herald.load().taken as u64,
            events_lost: self.shared.herald.lost(),
            teams,
        }
    }
}

async fn of_team(team: &TeamHandle) -> Result<TeamStats, WireError> {
    let context = team.context().clone();
    let (sessions, busy) = (team.sessions_in_memory().await, team.sessions_busy().await);
    team.settle().await;
    let calls_open = context.open_calls(None, COUNTED_MAX).await?.calls;
    let read = spawn_blocking(move || {
        let under_way = context.work.under_way();
        let of_kind = |kind| under_way.iter().filter(|(_, doing)| doing.kind == kind).count();
        let (turns, calls) =
            (of_kind(wire::look::DoingKind::Turn), of_kind(wire::look::DoingKind::Call));
        let mut waiting = Waiting::default();
        for open in &calls_open {
            waiting.add(open.kind);
        }
        let waits = waits(&calls_open);
        let mut doing: HashMap<RunId, Vec<Doing>> = HashMap::new();
        for (run, one) in under_way {
            if let Some(run) = run {
                doing.entry(run).or_default().push(one);
            }
        }
        let open = context.store.open_runs(COUNTED_MAX)?;
        let runs = open.len() as u64;
        let in_work = open.into_iter().take(IN_WORK_MAX).map(|row| RunInWork {
            doing: doing.remove(&row.begun.run).unwrap_or_default(),
            waits: waits.get(&row.begun.run).copied(),
            run: row.begun.run,
            session: row.begun.session,
            agent: row.begun.agent,
            since: row.begun.at,
            parent: row.begun.parent.map(|parent| parent.run),
            input: row.begun.input.chars().take(INPUT_CHARS_MAX).collect(),
        });
        let usage = context.store.trace_usage();
        let exporter = context.exporter.as_ref();
        Ok::<_, Error>(TeamStats {
            team: context.team.name.clone(),
            sessions: sessions as u64,
            sessions_busy: busy as u64,
            runs,
            turns: turns as u64,
            calls: calls as u64,
            waiting,
            counts: context.counters.counts(),
            store_queue: context.projector.load().taken as u64,
            export_queue: exporter.map_or(0, |exporter| exporter.queued() as u64),
            export_lost: exporter.map_or(0, |exporter| exporter.dropped()),
            traces: TracesKept {
                kept: usage.traces,
                bytes: usage.bytes,
                bytes_max: usage.bytes_max,
                dropped: usage.dropped.traces,
            },
            in_work: in_work.collect(),
        })
    });
    read.await.map_err(|_| Error::Ending.to_wire())?.map_err(|error| error.to_wire())
}

/// Returns what each run waits for: the first of its calls does not go on without a person. A call
/// whose outcome nobody knows may be open while its run has gone on.
fn waits(open: &[OpenCall]) -> HashMap<&RunId, OpenKind> {
    open.iter().rev().filter(|open| open.waits).map(|open| (&open.run, open.kind)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{OpenCall, OpenKind, waits};

    fn open((run, kind, waits): (&str, OpenKind, bool)) -> OpenCall {
        serde_json::from_value(json!({
            "call": "c", "kind": kind, "run": run, "session": "s", "agent": "lead", "tool": "pay",
            "arguments": {}, "digest": "ab".repeat(32), "attempt": 1, "question": "?",
            "waits": waits, "since": 0,
        }))
        .unwrap()
    }

    #[test]
    fn a_run_waits_for_the_first_call_that_holds_it() {
        use OpenKind::{Approval, Question, Unknown};
        for (calls, expected) in [
            (&[("r", Approval, true)][..], Some(Approval)),
            (&[("q", Approval, true)], None),
            (&[("r", Question, true), ("r", Approval, true)], Some(Question)),
            // The run has gone on without this outcome.
            (&[("r", Unknown, false)], None),
            (&[("r", Unknown, false), ("r", Approval, true)], Some(Approval)),
        ] {
            let open: Vec<OpenCall> = calls.iter().copied().map(open).collect();
            let found = waits(&open).into_iter().find(|(run, _)| run.as_str() == "r");
            assert_eq!(found.map(|(_, kind)| kind), expected, "{calls:?}");
        }
    }
}
