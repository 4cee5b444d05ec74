//! What people have to say about calls: their leave, their answer, and what came of a call.

use serde_json::Value;
use wire::event::EventKind;
use wire::plan::Target;
use wire::run::{OpenQuestion, RunState};
use wire::{
    CallKey, CallOutcome, Digest, ErrorCode, Name, OpenCall, OpenKind, Resolution, Timestamp,
    semconv,
};

use super::call::{Pending, Stage};
use super::{Run, late};
use crate::effect::{Earlier, Effect, Effects, Rejected};
use crate::spans::{event, note};

/// What is said of a call that needs leave because its run is tainted.
const TAINTED: &str =
    "The run has read what others than the team and its users wrote, and may act on it.";

/// What a pending call waits for.
struct Waits {
    kind: OpenKind,
    question: String,
    notice: &'static str,
    since: Timestamp,
    until: Option<Timestamp>,
    question_id: Option<Name>,
    form: Option<Value>,
}

/// What stands in the way of a call that asks for the same as an earlier one of the run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar {
    pub(super) digest: Digest,
    pub(super) kind: BarKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum BarKind {
    /// Nobody knows whether the earlier one took effect.
    Unknown(Box<OpenCall>),
    /// The earlier one took effect, as a person says, with this result.
    Done(String),
    /// The earlier one was not allowed.
    Denied(String),
}

impl Run {
    pub(crate) fn on_call_suspended(
        &mut self,
        call: &CallKey,
        attempt: Option<u32>,
        question: String,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let made = |pending: &Pending| pending.key == *call && pending.stage == Stage::Made;
        let position = self.position(call, made)?;
        let attempt_now = self.pending.get(position).map(|pending| pending.attempt);
        // An earlier attempt may have asked before its answer was given up.
        if attempt.is_some() && attempt != attempt_now {
            return Err(Rejected::Superseded { call: call.clone() });
        }
        self.resumes = 0;
        self.end_attempt(position, None, None, effects);
        if let Some(pending) = self.pending.get_mut(position) {
            pending.stage = Stage::Question { question, since: effects.now() };
        }
        self.open(position, OpenKind::Question, effects);
        Ok(())
    }

    pub(crate) fn on_approved(
        &mut self,
        call: &CallKey,
        digest: &Digest,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let position = self.unapproved(call)?;
        let (asked, until) = match self.pending.get(position) {
            Some(Pending { digest, stage: Stage::Approval { until, .. }, .. }) => (digest, *until),
            Some(_) | None => return Err(Rejected::UnknownCall { call: call.clone() }),
        };
        if asked != digest {
            return Err(Rejected::Superseded { call: call.clone() });
        }
        if effects.now() >= until {
            return Err(Rejected::UnknownCall { call: call.clone() });
        }
        self.resumes = 0;
        self.close(call, effects);
        self.note_digest(position, semconv::event::APPROVED, effects.now());
        self.make(position, "a person allowed it", effects);
        Ok(())
    }

    pub(crate) fn on_denied(
        &mut self,
        call: &CallKey,
        reason: &str,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let position = self.unapproved(call)?;
        let message = match reason.trim() {
            "" => "a person denied this call; do not ask for it again".to_owned(),
            reason => format!("a person denied this call: {reason}; do not ask for it again"),
        };
        self.deny(position, message, effects);
        Ok(())
    }

    pub(crate) fn on_approval_expired(
        &mut self,
        call: &CallKey,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let position = self.unapproved(call)?;
        let message = "nobody allowed this call in time; do not ask for it again".to_owned();
        self.deny(position, message, effects);
        Ok(())
    }

    fn deny(&mut self, position: usize, message: String, effects: &mut Effects) {
        self.resumes = 0;
        self.note_digest(position, semconv::event::DENIED, effects.now());
        let outcome = CallOutcome::error(ErrorCode::CallDenied, message);
        if let Some(pending) = self.pending.get(position) {
            let kind = BarKind::Denied(outcome.to_text());
            self.bars.push(Bar { digest: pending.digest, kind });
        }
        self.settle(position, &outcome, effects);
        self.go_on(effects);
    }

    fn unapproved(&self, call: &CallKey) -> Result<usize, Rejected> {
        self.position(call, |pending| {
            pending.key == *call && matches!(pending.stage, Stage::Approval { .. })
        })
    }

    /// Takes what a person says of a call that waits for it, or of one that has ended as unknown.
    pub(crate) fn on_resolved(
        &mut self,
        call: &CallKey,
        attempt: u32,
        resolution: &Resolution,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let waits = |pending: &Pending| {
            pending.key == *call && matches!(pending.stage, Stage::Unknown { .. })
        };
        let Ok(position) = self.position(call, waits) else {
            return self.on_resolved_late(call, attempt, resolution, effects);
        };
        if self.pending.get(position).is_some_and(|pending| pending.attempt != attempt) {
            return Err(Rejected::Superseded { call: call.clone() });
        }
        self.resumes = 0;
        if let Some(pending) = self.pending.get_mut(position) {
            let done = [(semconv::DONE, matches!(resolution, Resolution::Done { .. }))];
            note(&mut pending.events, event(semconv::event::RESOLVED, effects.now(), done));
        }
        match resolution {
            Resolution::Done { result } => {
                let outcome = CallOutcome::Ok { output: result.clone() };
                self.settle(position, &outcome, effects);
                self.go_on(effects);
            }
            Resolution::NotDone if self.is_late(effects.now()) => {
                let outcome = CallOutcome::Error { error: late() };
                self.settle(position, &outcome, effects);
                self.go_on(effects);
            }
            Resolution::NotDone => {
                self.close(call, effects);
                if let Some(pending) = self.pending.get_mut(position) {
                    pending.attempts_before = pending.attempt;
                }
                self.note_earlier(position, Earlier::Nothing);
                self.make(position, "a person says that it was not done", effects);
            }
        }
        Ok(())
    }

    /// The model was told that the outcome is unknown, and goes on; what is said here is what it
    /// is told if it asks for the same call again.
    fn on_resolved_late(
        &mut self,
        call: &CallKey,
        attempt: u32,
        resolution: &Resolution,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let found = self.bars.iter().position(|bar| bar.is_unknown(call));
        let position = found.ok_or_else(|| Rejected::UnknownCall { call: call.clone() })?;
        let bar = self.bars.get(position);
        if bar.and_then(Bar::open).is_some_and(|open| open.attempt != attempt) {
            return Err(Rejected::Superseded { call: call.clone() });
        }
        self.close(call, effects);
        let done = matches!(resolution, Resolution::Done { .. });
        let kind = EventKind::CallResolved { call: call.clone(), done };
        effects.tell(&self.submitted, kind);
        // The span of the call is out already, so the run's own says it.
        let said = [(semconv::CALL, Value::from(call.as_str())), (semconv::DONE, done.into())];
        note(&mut self.events, event(semconv::event::RESOLVED, effects.now(), said));
        let outcome = match resolution {
            Resolution::Done { result } => CallOutcome::Ok { output: result.clone() },
            Resolution::NotDone => {
                let message = "it was not done, as a person found out";
                CallOutcome::error(ErrorCode::ToolFailed, message)
            }
        };
        match resolution {
            Resolution::Done { .. } => {
                if let Some(bar) = self.bars.get_mut(position) {
                    bar.kind = BarKind::Done(outcome.to_text());
                }
            }
            Resolution::NotDone => drop(self.bars.remove(position)),
        }
        if let Some(source) = self.sources.iter_mut().find(|source| source.call == *call) {
            outcome.as_str().clone_into(&mut source.status);
            source.output = outcome.to_text();
        }
        Ok(())
    }

    /// Returns what a model reads in place of a result, if the same call must not be made again.
    pub(super) fn barred(&self, digest: &Digest) -> Option<String> {
        let bar = self.bars.iter().find(|bar| bar.digest == *digest)?;
        Some(match &bar.kind {
            BarKind::Unknown(_) => of_unknown(),
            BarKind::Done(text) | BarKind::Denied(text) => text.clone(),
        })
    }

    /// Puts a pending call before a person.
    pub(super) fn open(&mut self, position: usize, kind: OpenKind, effects: &mut Effects) {
        let Some(open) = self.pending.get(position).and_then(|p| self.open_call(p, effects)) else {
            return;
        };
        let told = EventKind::CallSuspended {
            call: open.call.clone(),
            question: open.question.clone(),
            kind,
            question_id: open.question_id.clone(),
            form: open.form.clone(),
        };
        effects.tell(&self.submitted, told);
        if let Some(pending) = self.pending.get_mut(position) {
            let asked = [
                (semconv::OPEN_KIND, Value::from(kind.as_str())),
                (semconv::DIGEST, open.digest.to_string().into()),
            ];
            note(&mut pending.events, event(semconv::event::ASKED, effects.now(), asked));
        }
        effects.push(Effect::Opened(Box::new(open)));
    }

    /// Notes what a person decided about a call, and what exactly that was.
    fn note_digest(&mut self, position: usize, name: &str, at: Timestamp) {
        if let Some(pending) = self.pending.get_mut(position) {
            let digest = [(semconv::DIGEST, pending.digest.to_string())];
            note(&mut pending.events, event(name, at, digest));
        }
    }

    /// Notes that a person answered a call's question, if that is what it waits for.
    pub(super) fn note_answer(&mut self, position: usize, at: Timestamp) {
        if let Some(pending) = self.pending.get_mut(position)
            && matches!(pending.stage, Stage::Question { .. })
        {
            let nothing: [(&'static str, Value); 0] = [];
            note(&mut pending.events, event(semconv::event::ANSWERED, at, nothing));
        }
    }

    pub(super) fn close(&self, call: &CallKey, effects: &mut Effects) {
        effects.push(Effect::Closed { run: self.id().clone(), call: call.clone() });
    }

    /// Keeps an unknown outcome before people, and the same call from being made again.
    pub(super) fn bar_unknown(&mut self, pending: &Pending, note: &str, effects: &mut Effects) {
        let open = OpenCall {
            kind: OpenKind::Unknown,
            question: note.to_owned(),
            waits: false,
            since: effects.now(),
            until: None,
            ..self.describe(pending, effects)
        };
        effects.push(Effect::Opened(Box::new(open.clone())));
        self.bars.push(Bar { digest: pending.digest, kind: BarKind::Unknown(Box::new(open)) });
    }

    /// Returns the state of a run that waits for a person.
    pub(super) fn waiting(&self) -> Option<RunState> {
        let mut waiting = self.pending.iter().filter_map(|pending| {
            let Waits { kind, question, .. } = self.waits_for(pending)?;
            Some(OpenQuestion { call: pending.key.clone(), question, kind })
        });
        let OpenQuestion { call, question, kind } = waiting.next()?;
        Some(RunState::Waiting { call, question, kind, others: waiting.collect() })
    }

    /// Iterates over the calls that wait for an answer.
    pub(crate) fn asks(&self) -> impl Iterator<Item = &CallKey> {
        self.pending.iter().filter(|pending| pending.asks()).map(|pending| &pending.key)
    }

    /// Tells whether nothing goes on in the run until a person says something.
    pub(crate) fn waits_for_people_only(&self) -> bool {
        !self.pending.is_empty()
            && self.pending.iter().all(|pending| self.waits_for(pending).is_some())
    }

    /// Tells whether nothing goes on in the run until a person says something or a called agent is
    /// done.
    pub(crate) fn waits_for_others_only(&self) -> bool {
        let is_agent = |pending: &Pending| {
            self.plan.tools.get(pending.offer).is_some_and(|offer| offer.target == Target::Agent)
        };
        let waits = |pending: &Pending| self.waits_for(pending).is_some() || is_agent(pending);
        !self.pending.is_empty() && self.pending.iter().all(waits)
    }

    /// Returns what stands in the way of a call that waits for leave, in the words that its model
    /// would read: the same call was denied meanwhile, or made with an outcome that nobody knows.
    pub(crate) fn bar_of(&self, call: &CallKey) -> Option<String> {
        let digest = &self.pending.get(self.unapproved(call).ok()?)?.digest;
        let is_doubtful = |pending: &Pending| {
            pending.digest == *digest
                && matches!(pending.stage, Stage::Probing { .. } | Stage::Unknown { .. })
        };
        let doubtful = || self.pending.iter().any(is_doubtful).then(of_unknown);
        self.barred(digest).or_else(doubtful)
    }

    /// Returns what can be decided about a call: its digest and its attempt.
    pub(crate) fn decidable(&self, call: &CallKey) -> Option<(Digest, u32)> {
        let pending = self.pending.iter().find(|pending| pending.key == *call);
        pending.map(|pending| (pending.digest, pending.attempt)).or_else(|| {
            let open = self.bars.iter().filter_map(Bar::open).find(|open| open.call == *call)?;
            Some((open.digest, open.attempt))
        })
    }

    /// Returns the calls whose outcome nobody knows, for when the run is over.
    pub(crate) fn unresolved(&self) -> impl Iterator<Item = &OpenCall> {
        self.bars.iter().filter_map(Bar::open)
    }

    fn open_call(&self, pending: &Pending, effects: &Effects) -> Option<OpenCall> {
        let Waits { kind, question, notice, since, until, question_id, form } =
            self.waits_for(pending)?;
        Some(OpenCall {
            kind,
            question,
            notice: notice.to_owned(),
            question_id,
            form,
            waits: true,
            since,
            until,
            ..self.describe(pending, effects)
        })
    }

    fn waits_for(&self, pending: &Pending) -> Option<Waits> {
        let waits = |kind, question: &str, since: &Timestamp| Waits {
            kind,
            question: question.to_owned(),
            notice: "",
            since: *since,
            until: None,
            question_id: None,
            form: None,
        };
        match &pending.stage {
            Stage::Made | Stage::Probing { .. } => None,
            Stage::Asking { question, since, until, .. } => Some(Waits {
                until: Some(*until),
                question_id: Some(question.id.clone()),
                form: Some(question.form.clone()),
                ..waits(OpenKind::Question, &question.text, since)
            }),
            Stage::Question { question, since } => Some(waits(OpenKind::Question, question, since)),
            Stage::Unknown { note, since } => Some(waits(OpenKind::Unknown, note, since)),
            Stage::Approval { until, since, for_taint } => {
                let source = self.sources.get(pending.source)?;
                let what = format!("{} {}?", source.tool, source.arguments);
                // The arguments may be so long that nobody reads what stands behind them.
                let (notice, question) = if *for_taint {
                    (TAINTED, format!("{TAINTED} Allow {what}"))
                } else {
                    ("", format!("allow {what}"))
                };
                let until = Some(*until);
                Some(Waits { notice, until, ..waits(OpenKind::Approval, &question, since) })
            }
        }
    }

    fn describe(&self, pending: &Pending, effects: &Effects) -> OpenCall {
        let source = self.sources.get(pending.source);
        OpenCall {
            call: pending.key.clone(),
            kind: OpenKind::Unknown,
            run: self.id().clone(),
            session: effects.session().clone(),
            agent: self.submitted.agent.clone(),
            tool: source.map_or_else(|| self.plan.agent.clone(), |source| source.tool.clone()),
            arguments: source.map(|source| source.arguments.clone()).unwrap_or_default(),
            digest: pending.digest,
            attempt: pending.attempt,
            question: String::new(),
            notice: String::new(),
            question_id: None,
            form: None,
            waits: false,
            since: effects.now(),
            until: None,
            parent: self.submitted.parent.as_ref().map(|parent| parent.run.clone()),
        }
    }
}

/// Returns what a model reads in place of a result while the outcome of the same call is unknown.
fn of_unknown() -> String {
    let note = "the same call was made before and its outcome is unknown; it is not made again; \
                verify by other means, or ask the user";
    CallOutcome::Unknown { note: note.to_owned() }.to_text()
}

impl Bar {
    fn open(&self) -> Option<&OpenCall> {
        match &self.kind {
            BarKind::Unknown(open) => Some(open),
            BarKind::Done(_) | BarKind::Denied(_) => None,
        }
    }

    fn is_unknown(&self, call: &CallKey) -> bool {
        self.open().is_some_and(|open| open.call == *call)
    }
}
