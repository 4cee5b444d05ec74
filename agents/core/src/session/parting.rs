//! A run that was ended from outside, until the agents that it had called know that they are to end.

use wire::plan::Target;
use wire::{CallKey, RunId};

use crate::effect::{Aborted, Effect};

/// Who is still to be told of a run that is over. Runs of called agents outlive the process, so each
/// stands here until it is known to have been told; a call of a tool ends with the process, or by its
/// own time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parting {
    run: RunId,
    /// Calls of agents that were under way at its end.
    aborted: Vec<Aborted>,
}

impl Parting {
    /// Makes one of the calls that were under way, if any was of an agent.
    pub(super) fn of(run: &RunId, mut aborted: Vec<Aborted>) -> Option<Self> {
        aborted.retain(|aborted| aborted.target == Target::Agent);
        (!aborted.is_empty()).then(|| Self { run: run.clone(), aborted })
    }

    /// Tells whether a called agent is still to be told.
    pub(super) fn aborts(&self, call: &CallKey) -> bool {
        self.aborted.iter().any(|aborted| aborted.call == *call)
    }

    /// Tells whether this is what is left of a run.
    pub(super) fn is_of(&self, run: &RunId) -> bool {
        self.run == *run
    }

    pub(super) fn on_told(&mut self, call: &CallKey) {
        self.aborted.retain(|aborted| aborted.call != *call);
    }

    /// Tells whether nobody is left to be told.
    pub(super) const fn is_over(&self) -> bool {
        self.aborted.is_empty()
    }

    /// Says again what is to be done.
    pub(super) fn effect(&self) -> Effect {
        Effect::Abort { run: self.run.clone(), calls: self.aborted.clone() }
    }
}
