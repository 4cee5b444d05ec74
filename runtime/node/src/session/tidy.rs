//! Drops what a session need not keep.

use agents_core::session::SessionMachine;
use wire::entry::Input;

use super::SessionState;
use crate::error::Error;
use crate::retention::{self, Cutoffs, Due};

/// What became of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tidied {
    Unchanged,
    Shortened,
    Forgotten,
}

impl SessionState {
    /// Does what is due about the session, if it is at rest.
    pub(super) async fn tidy(
        &mut self,
        cutoffs: &Cutoffs,
        is_asked: bool,
    ) -> Result<Tidied, Error> {
        let Ok(machine) = &self.machine else { return Ok(Tidied::Unchanged) };
        let tidied = match cutoffs.decide(machine, is_asked) {
            Due::Nothing => Tidied::Unchanged,
            Due::TooLarge { bytes } => {
                if self.context.too_large.note(&self.session) {
                    retention::warn_too_large(&self.session, bytes);
                }
                Tidied::Unchanged
            }
            Due::Shorten(snapshot) => {
                let taken = self.accept(Input::Snapshot(snapshot)).await?.is_ok();
                if taken { Tidied::Shortened } else { Tidied::Unchanged }
            }
            Due::Forget => self.forget().await?,
        };
        if tidied != Tidied::Unchanged {
            self.context.too_large.forget(&self.session);
        }
        Ok(tidied)
    }

    /// Forgets the session; who asks for it from here on begins it anew.
    async fn forget(&mut self) -> Result<Tidied, Error> {
        let commit = self.context.projector.begin();
        match self.context.journal.forget(&self.session).await {
            Ok(()) => {}
            Err(journal::Error::StorageFull | journal::Error::Full) => {
                commit.give_up();
                return Ok(Tidied::Unchanged);
            }
            Err(error) => return Err(error.into()),
        }
        commit.project(retention::forgotten(&self.session)).await;
        let team = self.context.team.name.clone();
        let slot = self.context.journal.next_slot(&self.session);
        let machine = SessionMachine::beginning_at(team, self.session.clone(), slot);
        self.machine = Ok(Box::new(machine.telling(self.context.sink())));
        Ok(Tidied::Forgotten)
    }
}
