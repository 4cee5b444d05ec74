//! Questions of calls that are under way: who asks, until when, and how the call goes on.

use wire::event::EventKind;
use wire::question::{QUESTIONS_MAX, QuestionEnd};
use wire::run::{AnswerAction, AnswerRequest};
use wire::{
    CallKey, CallOutcome, ErrorCode, Input, Name, OpenKind, Question, RunId, Said, Timestamp,
    Usage, WireError,
};

use super::Run;
use super::call::{Pending, Stage};
use crate::effect::{Effect, Effects, Rejected};
use crate::form;

impl Run {
    pub(crate) fn on_call_asked(
        &mut self,
        call: &CallKey,
        attempt: u32,
        question: Question,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let made = |pending: &Pending| pending.key == *call && pending.stage == Stage::Made;
        let position = self.position(call, made)?;
        if self.pending.get(position).is_some_and(|pending| pending.attempt != attempt) {
            return Err(Rejected::Superseded { call: call.clone() });
        }
        self.resumes = 0;
        let now = effects.now();
        let offer = self.pending.get(position).and_then(|p| self.plan.tools.get(p.offer));
        let time = offer.and_then(|offer| offer.question_timeout_ms);
        let until = time.map_or(now, |ms| self.call_deadline(now, ms));
        let Some(pending) = self.pending.get_mut(position) else { return Ok(()) };
        pending.questions += 1;
        let id = question.id.clone();
        let left_ms = pending.deadline.ms_since(now);
        let too_many = pending.questions > QUESTIONS_MAX;
        pending.stage = Stage::Asking { question, since: now, until, left_ms };
        if until <= now || too_many {
            // Nobody is asked who could not answer any more.
            self.say(position, Said::Cancel, effects);
            return Ok(());
        }
        self.open(position, OpenKind::Question, effects);
        let expiry = self.pending.get(position).map(|p| self.expire_effect(p, Some(&id), until));
        effects.extend(expiry);
        Ok(())
    }

    pub(crate) fn on_answered(
        &mut self,
        call: &CallKey,
        question: &Name,
        said: Said,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let position = self.asking(call, question)?;
        self.end_question(position, said.end(), effects);
        self.say(position, said, effects);
        Ok(())
    }

    pub(crate) fn on_question_expired(
        &mut self,
        call: &CallKey,
        question: &Name,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let position = self.asking(call, question)?;
        self.end_question(position, QuestionEnd::Expired, effects);
        self.say(position, Said::Cancel, effects);
        Ok(())
    }

    /// Ends the question of a call that is lost, if it has one.
    pub(super) fn void(&mut self, position: usize, effects: &mut Effects) {
        let asks = |pending: &Pending| matches!(pending.stage, Stage::Asking { .. });
        if self.pending.get(position).is_some_and(asks) {
            self.end_question(position, QuestionEnd::Lost, effects);
            if let Some(pending) = self.pending.get_mut(position) {
                pending.stage = Stage::Made;
            }
        }
    }

    fn asking(&self, call: &CallKey, question: &Name) -> Result<usize, Rejected> {
        self.position(call, |pending| {
            let asks = |stage: &Stage| match stage {
                Stage::Asking { question: open, .. } => open.id == *question,
                Stage::Made
                | Stage::Approval { .. }
                | Stage::Question { .. }
                | Stage::Probing { .. }
                | Stage::Unknown { .. } => false,
            };
            pending.key == *call && asks(&pending.stage)
        })
    }

    fn end_question(&mut self, position: usize, end: QuestionEnd, effects: &mut Effects) {
        let Some(pending) = self.pending.get(position) else { return };
        self.resumes = 0;
        let call = pending.key.clone();
        self.close(&call, effects);
        effects.tell(&self.submitted, EventKind::QuestionEnded { call, end });
    }

    /// Lets a call go on with what was said, in the time that it had left when it asked.
    fn say(&mut self, position: usize, said: Said, effects: &mut Effects) {
        let Some(Pending { stage: Stage::Asking { question, left_ms, .. }, .. }) =
            self.pending.get(position)
        else {
            return;
        };
        let (question, left_ms) = (question.id.clone(), *left_ms);
        let deadline = self.call_deadline(effects.now(), left_ms);
        let Some(pending) = self.pending.get_mut(position) else { return };
        pending.stage = Stage::Made;
        pending.deadline = deadline;
        let (run, call) = (self.submitted.run.clone(), pending.key.clone());
        effects.push(Effect::Say { run, call, question, said, deadline });
    }

    pub(super) fn expire_effect(
        &self,
        pending: &Pending,
        question: Option<&Name>,
        at: Timestamp,
    ) -> Effect {
        let question = question.cloned();
        Effect::Expire { run: self.id().clone(), call: pending.key.clone(), question, at }
    }

    /// Returns the input that a person's answer comes to, or why it is none.
    pub(crate) fn read_answer(
        &self,
        id: &RunId,
        request: &AnswerRequest,
    ) -> Result<Input, WireError> {
        // What was said to an earlier question of the call is no answer to its present one.
        let is_meant = |pending: &&Pending| {
            pending.asks()
                && request.call.as_ref().is_none_or(|call| *call == pending.key)
                && request.question_id.as_ref().is_none_or(|id| pending.question_id() == Some(id))
        };
        let pending = self.pending.iter().find(is_meant);
        let bad = |text: String| WireError::new(ErrorCode::BadRequest, text);
        let Some(pending) = pending else { return Err(not_asked(id)) };
        let call = pending.key.clone();
        match &pending.stage {
            Stage::Asking { question, .. } => {
                let said = form::said(&question.form, request).map_err(bad)?;
                Ok(Input::QuestionAnswered { call, question: question.id.clone(), said })
            }
            Stage::Question { .. } => match request {
                AnswerRequest {
                    action: AnswerAction::Accept,
                    text: Some(text),
                    content: None,
                    ..
                } => {
                    let outcome = CallOutcome::text(text);
                    Ok(Input::CallSettled {
                        call,
                        outcome,
                        usage: Usage::default(),
                        tainted: false,
                        hop: None,
                    })
                }
                _ => Err(bad("this question is answered in words, by `text` alone".to_owned())),
            },
            Stage::Made
            | Stage::Approval { .. }
            | Stage::Probing { .. }
            | Stage::Unknown { .. } => Err(not_asked(id)),
        }
    }
}

impl Pending {
    /// Tells whether it is under way, with a question or without one.
    pub(super) const fn is_under_way(&self) -> bool {
        matches!(self.stage, Stage::Made | Stage::Asking { .. })
    }

    /// Tells whether it waits for an answer.
    pub(super) const fn asks(&self) -> bool {
        matches!(self.stage, Stage::Asking { .. } | Stage::Question { .. })
    }

    /// Returns the question with whose answer it goes on, if it asks one.
    fn question_id(&self) -> Option<&Name> {
        let Stage::Asking { question, .. } = &self.stage else { return None };
        Some(&question.id)
    }
}

/// Returns what is told to somebody who answers a run that does not ask.
pub(crate) fn not_asked(run: &RunId) -> WireError {
    let text = format!("run {run} does not wait for this answer");
    WireError::new(ErrorCode::NotWaiting, text)
}
