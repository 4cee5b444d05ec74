//! The people of the world: they allow, deny, find out, and sometimes do nothing.

use agents_core::effect::CallEffect;
use serde_json::json;
use wire::run::{AnswerAction, AnswerRequest};
use wire::{
    CallOutcome, Digest, Input, OpenCall, OpenKind, Question, Resolution, SessionId, ToolReply,
};

use crate::message::Message;
use crate::team::name;
use crate::world::{Flaw, World};

/// Milliseconds after which a request that is on its way has arrived or never will, so that what
/// a person then finds out stays true.
const SURE_AFTER_MS: u64 = 4200;

impl World {
    /// Shows an open call to somebody.
    pub(crate) fn on_opened(&mut self, open: OpenCall) {
        match open.kind {
            OpenKind::Approval => self.on_leave_asked(open),
            OpenKind::Question => self.on_question(&open),
            OpenKind::Unknown => {
                let cares = if open.waits { 85 } else { 40 };
                if self.rng.percent(cares) {
                    let ms = SURE_AFTER_MS + self.rng.below(2000);
                    self.later(ms, Message::Inspected { open: Box::new(open) });
                }
            }
        }
    }

    /// Lets a tool ask a person before it does its work, if it is one that asks.
    pub(crate) fn asks_first(&mut self, session: &SessionId, call: &CallEffect) -> bool {
        if !matches!(call.name.as_str(), "survey" | "poll") || self.rng.percent(20) {
            return false;
        }
        self.questions += 1;
        let id = name(&format!("q{}", self.questions));
        self.asking.insert(id.clone(), (session.clone(), call.clone()));
        if self.rng.percent(10) {
            let ms = self.rng.below(3000);
            self.later(ms, Message::Ends { question: id.clone() });
        }
        let form = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let question = Question { id, text: "how many?".to_owned(), form };
        let (session, key, attempt) = (session.clone(), call.call.clone(), call.attempt);
        let reply = ToolReply::Asks { question };
        // The answer to a request is heard once.
        self.send(Message::ToolReplied { session, call: key, attempt, reply }, false);
        true
    }

    /// Answers what a call under way asks, or turns away.
    fn on_question(&mut self, open: &OpenCall) {
        if open.form.is_none() {
            return;
        }
        let (action, content) = match self.rng.below(100) {
            0..60 => (AnswerAction::Accept, Some(json!({"n": 7}))),
            60..75 => (AnswerAction::Decline, None),
            75..80 => (AnswerAction::Cancel, None),
            _ => return,
        };
        let (call, question_id) = (Some(open.call.clone()), open.question_id.clone());
        let said = AnswerRequest { call, question_id, action, text: None, content };
        let machine = self.session_machine(&open.session);
        match machine.map(|machine| machine.answer(&open.run, &said)) {
            Some(Ok(input)) => {
                let decided = Message::Decided { session: open.session.clone(), input };
                let ms = self.rng.below(2500);
                if self.rng.percent(10) {
                    self.later(ms + 500, decided.clone());
                }
                self.later(ms, decided);
            }
            // By a shell that performs first and writes then.
            Some(Err(_)) | None if self.flaw.is_some() => {}
            Some(Err(error)) => self.fail(&format!("a question takes no answer: {error}")),
            None => {}
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
    pub(crate) fn on_probe_asked(&mut self, session: SessionId, of: wire::CallKey, number: u32) {
        let outcome = if self.rng.percent(20) {
            CallOutcome::text("no idea")
        } else {
            let done = self.ledger.probe(&of);
            CallOutcome::Ok { output: json!({"done": done, "result": "found"}) }
        };
        let input = Input::CallProbed { call: of, probe: number, outcome, tainted: false };
        self.send(Message::Decided { session, input }, true);
    }
}
