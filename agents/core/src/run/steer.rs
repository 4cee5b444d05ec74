//! Messages that join a run in work: when its models are shown them, and how those who sent them
//! are answered.

use std::sync::Arc;

use wire::entry::Submitted;
use wire::event::EventKind;
use wire::run::{RunReply, RunStatus};
use wire::{ErrorCode, RunId, RunTrace, SharedText, Timestamp, Usage, WireError, semconv};

use super::Run;
use crate::dialect::Act;
use crate::effect::{Effect, Effects};
use crate::spans::{self, event, note};

/// A message that joined the run, and has its reply still to come.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Joined {
    submitted: Submitted,
    accepted: Timestamp,
    is_shown: bool,
}

impl Run {
    /// Takes a message for one of the user's that the models of this run are still to be shown.
    pub(crate) fn join(&mut self, submitted: Submitted, effects: &mut Effects) {
        effects.tell(&submitted, EventKind::RunJoined { joined: self.id().clone() });
        self.joins += 1;
        self.prompts.grow(&submitted.text);
        self.joined.push(Joined { submitted, accepted: effects.now(), is_shown: false });
    }

    /// Counts the messages that ever joined the run.
    pub(crate) const fn joins(&self) -> u32 {
        self.joins
    }

    /// Tells whether a run waits for the reply of this one.
    pub(crate) fn is_joined_by(&self, id: &RunId) -> bool {
        self.joined.iter().any(|joined| joined.submitted.run == *id)
    }

    /// Ends the waiting of a message that joined. One that was not shown yet will not be.
    pub(crate) fn leave(
        &mut self,
        id: &RunId,
        status: RunStatus,
        error: &WireError,
        effects: &mut Effects,
    ) -> Option<Arc<RunReply>> {
        let position = self.joined.iter().position(|joined| joined.submitted.run == *id)?;
        let joined = self.joined.remove(position);
        let reply = RunReply {
            run: joined.submitted.run.clone(),
            session: effects.session().clone(),
            status,
            output: SharedText::default(),
            sources: Vec::new(),
            usage: Usage::default(),
            trace_id: joined.submitted.trace.trace_id(),
            error: Some(error.clone()),
            joined: Some(self.id().clone()),
            tainted: false,
        };
        Some(self.answer(&joined, reply, effects))
    }

    /// Gives every message that joined the reply of this run, which is over.
    pub(crate) fn answer_joined(&mut self, effects: &mut Effects) -> Vec<Arc<RunReply>> {
        let Some(own) = self.reply.clone() else { return Vec::new() };
        let joined = std::mem::take(&mut self.joined);
        let left_over = self.exhausted(effects.now());
        let replies = joined.iter().map(|joined| {
            let reply = RunReply {
                run: joined.submitted.run.clone(),
                trace_id: joined.submitted.trace.trace_id(),
                // What was used counts once.
                usage: Usage::default(),
                joined: Some(own.run.clone()),
                ..RunReply::clone(&own)
            };
            let reply = match &left_over {
                // An answer that was given without knowledge of a message is none to it.
                Some((status, error)) if own.status == RunStatus::Completed && !joined.is_shown => {
                    RunReply {
                        status: *status,
                        output: SharedText::default(),
                        sources: Vec::new(),
                        error: Some(error.clone()),
                        ..reply
                    }
                }
                Some(_) | None => reply,
            };
            self.answer(joined, reply, effects)
        });
        replies.collect()
    }

    fn answer(&self, joined: &Joined, reply: RunReply, effects: &mut Effects) -> Arc<RunReply> {
        let kind = EventKind::RunEnded {
            status: reply.status,
            output: reply.output.clone(),
            usage: reply.usage,
            error: reply.error.clone().map(Box::new),
        };
        effects.tell(&joined.submitted, kind);
        let (run, trace) = (&joined.submitted.run, RunTrace::new(joined.submitted.trace));
        let facts = spans::RunFacts { run, trace: &trace, ..self.facts(effects) };
        let span = spans::run_span(
            &facts,
            &spans::EndFacts {
                caller: joined.submitted.caller_span.as_ref(),
                start: joined.accepted,
                end: effects.now(),
                input: &joined.submitted.text,
                reply: &reply,
                steps: 0,
                resumes: 0,
                feedback: 0,
                history_shown: 0,
                history_left_out: 0,
                events: &[],
                joined: Some(&self.submitted.trace),
            },
        );
        self.trace(span, effects);
        Arc::new(reply)
    }

    /// Says what times are to be watched for messages that joined.
    pub(super) fn joined_timers(&self) -> impl Iterator<Item = Effect> {
        self.joined.iter().map(|joined| Effect::SetTimer {
            run: joined.submitted.run.clone(),
            at: joined.submitted.deadline,
        })
    }

    /// Tells whether there are messages that no model was shown.
    pub(super) fn is_steered(&self) -> bool {
        self.joined_unseen().next().is_some()
    }

    /// Returns the messages that no model was shown.
    pub(super) fn joined_unseen(&self) -> impl Iterator<Item = &str> {
        let unseen = self.joined.iter().filter(|joined| !joined.is_shown);
        unseen.map(|joined| joined.submitted.text.as_str())
    }

    /// Puts the messages that no model was shown before the turn that is asked for next.
    pub(super) fn show_joined(&mut self, effects: &mut Effects) {
        let number = self.step();
        let Some(step) = self.steps.last_mut() else { return };
        for joined in self.joined.iter_mut().filter(|joined| !joined.is_shown) {
            joined.is_shown = true;
            let Submitted { run, text, .. } = &joined.submitted;
            step.acts.push(Act::Steered { text: text.clone() });
            let kind = EventKind::Steered { step: number, by: run.clone(), input: text.clone() };
            effects.tell(&self.submitted, kind);
            let by = [(semconv::JOINED, run.as_str())];
            note(&mut self.events, event(semconv::event::STEERED, effects.now(), by));
        }
    }

    /// Returns why no further step can be taken, if so.
    fn exhausted(&self, now: Timestamp) -> Option<(RunStatus, WireError)> {
        let (status, code) = if self.is_late(now) {
            (RunStatus::Deadline, ErrorCode::DeadlineExceeded)
        } else if self.reply_tokens(self.first_role()).is_err() {
            (RunStatus::Budget, ErrorCode::BudgetExceeded)
        } else if self.step() >= self.steps_max() {
            (RunStatus::Partial, ErrorCode::StepLimit)
        } else {
            return None;
        };
        let message = format!(
            "run {} had its answer, and nothing was left to go on with this message; send it again",
            self.id()
        );
        Some((status, WireError::new(code, message)))
    }

    /// Keeps an answer that a message has overtaken, and goes on. Returns whether it does: an answer
    /// holds that nothing overtook, or after which no more can be done.
    pub(super) fn on_overtaken(&mut self, text: &SharedText, effects: &mut Effects) -> bool {
        if !self.is_steered() {
            return false;
        }
        self.prompts.grow(text);
        if self.exhausted(effects.now()).is_some() {
            return false;
        }
        if let Some(step) = self.steps.last_mut().filter(|_| !text.is_empty()) {
            step.acts.push(Act::Answered { text: text.clone() });
        }
        self.begin_step(effects);
        true
    }
}
