//! What becomes of a message that comes while a run of its session is in work.
//!
//! A run that another agent asked for is a part of that agent's work: it is neither interrupted nor
//! joined, and its own message interrupts nobody and is never refused for a policy. A policy is of
//! one agent, so that it ends or joins only runs of that agent.

use std::sync::Arc;

use wire::entry::Submitted;
use wire::plan::WhenBusy;
use wire::{ErrorCode, Plan, RunStatus, WireError};

use super::{Queued, SessionMachine};
use crate::effect::{Effects, Rejected};

/// What is done about a message that is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entrance {
    /// It takes its turn, at once if no run is in work.
    Queues,
    /// The run in work ends.
    Interrupts,
    /// It joins the run in work.
    Joins,
}

impl SessionMachine {
    /// Decides how a message enters the session.
    pub(super) fn entrance(
        &self,
        submitted: &Submitted,
        plan: &Plan,
    ) -> Result<Entrance, Rejected> {
        let Some(run) = &self.run else { return Ok(Entrance::Queues) };
        let limit = plan.limits.queue_max;
        let waiting = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let room = |taken: u32| {
            if taken < limit { Ok(()) } else { Err(Rejected::QueueFull { limit }) }
        };
        let asked = run.submitted();
        let is_root = submitted.parent.is_none();
        let is_own = is_root && asked.parent.is_none() && asked.agent == submitted.agent;
        match plan.when_busy {
            WhenBusy::Reject if is_root => Err(Rejected::Busy { run: run.id().clone() }),
            // One that waits takes the place of the run that ends.
            WhenBusy::Interrupt if is_own && waiting <= limit => Ok(Entrance::Interrupts),
            WhenBusy::Steer if is_own => room(run.joins()).map(|()| Entrance::Joins),
            WhenBusy::Queue | WhenBusy::Reject | WhenBusy::Interrupt | WhenBusy::Steer => {
                room(waiting).map(|()| Entrance::Queues)
            }
        }
    }

    /// Lets an accepted message enter.
    pub(super) fn enter(
        &mut self,
        entrance: Entrance,
        submitted: Submitted,
        plan: Arc<Plan>,
        effects: &mut Effects,
    ) {
        match (entrance, &mut self.run) {
            (Entrance::Joins, Some(run)) => {
                run.join(submitted, effects);
                return;
            }
            (Entrance::Interrupts, Some(run)) => {
                let reason = format!("interrupted by run {}", submitted.run);
                let error = WireError::new(ErrorCode::Cancelled, reason);
                run.interrupt();
                run.end_early(RunStatus::Cancelled, error, effects);
            }
            (Entrance::Queues, _) | (Entrance::Joins | Entrance::Interrupts, None) => {}
        }
        self.queue.push_back(Queued { submitted, plan, at: effects.now() });
    }
}
