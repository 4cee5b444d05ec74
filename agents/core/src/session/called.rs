//! Sessions of called agents: which runs ask for them, and whose they are.

use wire::CallKey;
use wire::entry::Submitted;

use super::SessionMachine;
use crate::effect::CallEffect;

impl SessionMachine {
    /// Returns how the run in work asks for the run of a called agent, if it does: not while a person
    /// has still to allow that.
    pub fn called(&self, call: &CallKey) -> Option<CallEffect> {
        self.run.as_ref()?.called(call)
    }

    /// Tells whether a called run must not have the session, since somebody else began it: its name
    /// follows from the call, so that others can know it ahead, and what they said or did there is
    /// nothing that the calling run asked for.
    ///
    /// It is asked before a message is accepted, and no journal is judged by it.
    pub fn is_of_others(&self, submitted: &Submitted) -> bool {
        let is_begun = self.activity.as_ref().is_some_and(|activity| !activity.is_called);
        submitted.parent.is_some() && is_begun
    }
}
