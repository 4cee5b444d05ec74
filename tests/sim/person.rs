//! The people of the world: they allow, deny, find out, and sometimes do nothing.

use serde_json::json;
use wire::{CallOutcome, Digest, Input, OpenCall, OpenKind, Resolution};

use crate::message::Message;
use crate::world::{Flaw, World};

/// Milliseconds after which a request that is on its way has arrived or never will, so that what
/// a person then finds out stays true.
const SURE_AFTER_MS: u64 = 4200;

impl World {
    /// Shows an open call to somebody.
    pub(crate) fn on_opened(&mut self, open: OpenCall) {
        match open.kind {
            OpenKind::Approval => self.on_leave_asked(open),
            OpenKind::Question => {}
            OpenKind::Unknown => {
                let cares = if open.waits { 85 } else { 40 };
                if self.rng.percent(cares) {
                    let ms = SURE_AFTER_MS + self.rng.below(2000);
                    self.later(ms, Message::Inspected { open: Box::new(open) });
                }
            }
        }
    }

    fn on_leave_asked(&mut self, open: OpenCall) {
        if self.flaw == Some(Flaw::SkipsLeave) {
            self.make_without_leave(&open);
            return;
        }
        let call = open.call.clone();
        let input = match self.rng.below(100) {
            0..60 => Input::CallApproved { call, digest: open.digest },
            60..70 => Input::CallApproved { call, digest: Digest::of(b"something else") },
            70..88 => Input::CallDenied { call, reason: "no".to_owned() },
            _ => return,
        };
        let ms = self.rng.below(4000);
        let decided = Message::Decided { session: open.session, input };
        if self.rng.percent(10) {
            self.later(ms + 2000, decided.clone());
        }
        self.later(ms, decided);
    }

    /// Says what came of a call, as it is found.
    pub(crate) fn on_inspected(&mut self, open: &OpenCall) {
        let resolution = if self.ledger.did(&open.call) {
            Resolution::Done { result: json!("found") }
        } else {
            Resolution::NotDone
        };
        let (call, attempt) = (open.call.clone(), open.attempt);
        let input = Input::CallResolved { call, attempt, resolution };
        self.send(Message::Decided { session: open.session.clone(), input }, true);
    }

    /// Says what a probe finds.
    pub(crate) fn on_probe_asked(
        &mut self,
        session: wire::SessionId,
        of: wire::CallKey,
        number: u32,
    ) {
        let outcome = if self.rng.percent(20) {
            CallOutcome::text("no idea")
        } else {
            let done = self.ledger.probe(&of);
            CallOutcome::Ok { output: json!({"done": done, "result": "found"}) }
        };
        let input = Input::CallProbed { call: of, probe: number, outcome };
        self.send(Message::Decided { session, input }, true);
    }
}
