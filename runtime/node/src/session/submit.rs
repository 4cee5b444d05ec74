//! Takes runs that are sent to the session, and tells whoever sent one what becomes of it.

use agents_core::effect::{Rejected, is_outcome};
use wire::WireError;
use wire::entry::Input;
use wire::run::Accepted;

use super::accept::Refusal;
use super::work::Work;
use super::{Answer, Receipt, SessionState, Submit};
use crate::error::Error;

/// What whoever sent a run is told once it is durable.
pub(super) struct Unsaid {
    receipt: Receipt,
    answer: Answer<Receipt>,
}

impl SessionState {
    pub(super) async fn on_submit(&mut self, submit: Submit) -> Result<(), Error> {
        let Submit { submitted, unless_known, is_let_go, accepted, done } = submit;
        // Who sent it was told that nothing came of it, and may have sent it again.
        if accepted.is_closed() {
            return Ok(());
        }
        let run = submitted.run.clone();
        if let Some(refused) = unless_known
            && self.view(&run).is_err()
        {
            drop(accepted.send(Err(refused)));
            return Ok(());
        }
        if self.machine.as_ref().is_ok_and(|machine| machine.is_of_others(&submitted)) {
            drop(accepted.send(Err(Rejected::Conflict { run }.to_wire())));
            return Ok(());
        }
        let trace_id = submitted.trace.trace_id();
        let taken = Accepted::new(run.clone(), self.session.clone(), trace_id, None);
        let receipt = Receipt { accepted: taken, is_repeated: false };
        self.unsaid = Some(Box::new(Unsaid { receipt, answer: accepted }));
        // Attached before the input, since a run may end by the very input that begins it.
        let waiting = self.waiters.entry(run.clone()).or_default();
        waiting.push(done);
        let refusal = match self.accept(Input::Submitted(submitted)).await? {
            // Whoever waits for the reply needs no word before it.
            Ok(()) if is_let_go => return self.commit_held().await,
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        let Some(unsaid) = self.unsaid.take() else { return Ok(()) };
        if let Refusal::Machine(Rejected::Repeated { .. }) = refusal {
            let Unsaid { receipt, answer } = *unsaid;
            let view = self.view(&run).map(|view| (view.trace.trace_id(), view.joined));
            let (trace_id, joined) = view.unwrap_or((receipt.accepted.trace_id, None));
            let accepted = Accepted { trace_id, joined, ..receipt.accepted };
            drop(answer.send(Ok(Receipt { accepted, is_repeated: true })));
            if let Some(done) = self.detach(&run) {
                self.attach(&run, done);
            }
        } else {
            self.refuse(*unsaid, refusal.to_wire());
        }
        Ok(())
    }

    /// Tells whoever sent a run that it is durable.
    pub(super) fn say_accepted(&mut self) {
        let Some(unsaid) = self.unsaid.take() else { return };
        let Unsaid { mut receipt, answer } = *unsaid;
        let view = self.view(&receipt.accepted.run);
        receipt.accepted.joined = view.ok().and_then(|view| view.joined);
        drop(answer.send(Ok(receipt)));
    }

    /// Gives up the run that was to become durable and found no room on the disk, if one was, and tells
    /// whoever sent it. Sent again it is another one, so that nothing of this one may come to that.
    /// `has_replies` says that it was held with replies of its models.
    pub(super) fn give_up_run(&mut self, has_replies: bool) {
        let Some(unsaid) = self.unsaid.take() else { return };
        if has_replies {
            // No other run of the session was in work, or it would not have been held.
            for (_, task) in self.tasks.extract_if(|work, _| matches!(work, Work::Call(_))) {
                task.abort();
            }
            self.outcomes.retain(|input| !is_outcome(input));
            self.given_up += 1;
        }
        self.refuse(*unsaid, journal::Error::StorageFull.to_wire());
    }

    fn refuse(&mut self, unsaid: Unsaid, why: WireError) {
        drop(unsaid.answer.send(Err(why)));
        self.detach(&unsaid.receipt.accepted.run);
    }
}
