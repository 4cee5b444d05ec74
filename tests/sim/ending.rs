//! Runs that end with the run that asked for them: how they are told, and how that is known.

use agents_core::effect::Effect;
use wire::{CallKey, Input, RunId, SessionId};

use crate::message::Message;
use crate::node::Own;
use crate::world::{Flaw, World};

/// Milliseconds after which a called agent is told again that it is to end.
const AGAIN_MS: u64 = 900;

impl World {
    /// Tells a called agent that the run which asked for it is over.
    pub(crate) fn tell_end(&mut self, parent: &SessionId, call: &CallKey) {
        if self.flaw == Some(Flaw::TellsNobody) {
            let call = call.clone();
            self.input(parent, Input::CancelDelivered { call });
            return;
        }
        let (session, run) = (SessionId::of_call(call), RunId::of_call(call));
        self.send(Message::Cancel { session, run, parent: Some(parent.clone()) }, true);
        if self.flaw != Some(Flaw::TellsOnce) {
            self.own(AGAIN_MS, Own::TellAgain(parent.clone(), call.clone()));
        }
    }

    /// Tells whether a session has still to tell a called agent that it is to end.
    pub(crate) fn owes(&mut self, session: &SessionId, call: &CallKey) -> bool {
        let outstanding = self.shell(session).map(|shell| shell.machine.outstanding());
        outstanding.into_iter().flatten().any(|effect| match effect {
            Effect::Abort { calls, .. } => calls.iter().any(|aborted| aborted.call == *call),
            _ => false,
        })
    }

    /// Takes the request to end a run. It is answered when the end is durable; whoever waits for
    /// that asks until then.
    pub(crate) fn on_cancel(&mut self, session: &SessionId, run: RunId, by: Option<SessionId>) {
        let known = self.shell(session).is_some_and(|shell| shell.machine.view(&run).is_some());
        let ended = self.disk.get(session).into_iter().flatten().any(|record| {
            let ends =
                |effect: &Effect| matches!(effect, Effect::Publish { reply } if reply.run == run);
            record.effects.iter().any(ends)
        });
        if let (Some(parent), true) = (by, ended || (!known && self.node.is_some())) {
            let Ok(call) = CallKey::new(run.as_str()) else { return };
            self.send(Message::CancelDelivered { session: parent, call }, true);
            return;
        }
        if known {
            let reason = "enough".to_owned();
            self.input(session, Input::CancelRequested { run, reason });
        }
    }
}
