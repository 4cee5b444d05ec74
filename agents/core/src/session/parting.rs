//! A run that is over: its reply until it is handed over, and the agents that it had called until
//! they know that they are to end.

use std::sync::Arc;

use wire::plan::Target;
use wire::run::RunReply;
use wire::{CallKey, RunId};

use crate::effect::{Aborted, Effect};

/// What is still to be said of a run that is over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parting {
    reply: Arc<RunReply>,
    published: bool,
    /// Calls that were under way when the run was ended from outside. The runs of called agents
    /// outlive the process, so each stands here until it is known to have been told.
    aborted: Vec<Aborted>,
}

impl Parting {
    pub(super) const fn new(reply: Arc<RunReply>, aborted: Vec<Aborted>) -> Self {
        Self { reply, published: false, aborted }
    }

    /// Tells whether this is a run whose reply is not known to be handed over.
    pub(super) fn waits_for(&self, run: &RunId) -> bool {
        !self.published && self.reply.run == *run
    }

    pub(super) fn on_published(&mut self) {
        self.published = true;
        // A call of a tool ends with the process, or by its own time.
        self.aborted.retain(|aborted| aborted.target == Target::Agent);
    }

    /// Tells whether a called agent is still to be told.
    pub(super) fn aborts(&self, call: &CallKey) -> bool {
        self.aborted.iter().any(|aborted| aborted.target == Target::Agent && aborted.call == *call)
    }

    /// Tells whether this is a run whose called agents are still to be told.
    pub(super) fn is_telling(&self, run: &RunId) -> bool {
        let agents = self.aborted.iter().any(|aborted| aborted.target == Target::Agent);
        agents && self.reply.run == *run
    }

    pub(super) fn on_told(&mut self, call: &CallKey) {
        self.aborted.retain(|aborted| aborted.call != *call);
    }

    /// Tells whether nobody is left to be told.
    pub(super) const fn is_over(&self) -> bool {
        self.published && self.aborted.is_empty()
    }

    /// Says again what is to be done.
    pub(super) fn effects(&self) -> impl Iterator<Item = Effect> {
        let run = &self.reply.run;
        let abort = (!self.aborted.is_empty())
            .then(|| Effect::Abort { run: run.clone(), calls: self.aborted.clone() });
        let publish = (!self.published).then(|| Effect::Publish { reply: self.reply.clone() });
        abort.into_iter().chain(publish)
    }
}
