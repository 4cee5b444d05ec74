//! The model turns of a run: who is asked, what is done about the reply, and when to give up.

use wire::entry::{ModelOutcome, ReadCall, Reading, TurnReport, Unread};
use wire::event::EventKind;
use wire::{
    ErrorCode, FinishReason, ModelRole, Name, Planned, RunStatus, SharedText, Usage, WireError,
};

use super::{Phase, Run, late};
use crate::dialect::{Act, RESPOND_TO_USER, Step, continued, shown_again};
use crate::effect::{Effect, Effects, Rejected};
use crate::spans;

impl Run {
    pub(crate) fn on_model_replied(
        &mut self,
        turn: u32,
        outcome: &ModelOutcome,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let role = self.awaited_role().ok_or(Rejected::StaleTurn { turn })?;
        if self.turns.checked_sub(1) != Some(turn) {
            return Err(Rejected::StaleTurn { turn });
        }
        let (reading, unread, reasoning, report) = match outcome {
            ModelOutcome::Failed { error } => {
                let lost = self.lost_on_turn(role, &error.lost);
                let error = &WireError { lost: Vec::new(), ..error.clone() };
                self.report_turn(role, None, lost, Err(error), None, effects);
                // Its reply may be written all the same.
                let is_late = error.code == ErrorCode::DeadlineExceeded;
                let unheard = if is_late { self.unheard_turn() } else { Usage::default() };
                self.usage.add(if unheard.total() > lost.total() { unheard } else { lost });
                if self.is_late(effects.now()) {
                    self.stop(RunStatus::Deadline, error.clone(), effects);
                } else {
                    self.fail(error.clone(), effects);
                }
                return Ok(());
            }
            ModelOutcome::Read { reading, unread, reasoning, turn } => {
                (reading, unread, reasoning, turn)
            }
        };
        if !self.fits(role, reading) {
            return Err(Rejected::OutOfPlace);
        }
        self.resumes = 0;
        let usage = self.spend_on_turn(role, report);
        let report_of = Some((&**report, usage));
        self.report_turn(role, report_of, Usage::default(), Ok(reading), unread.as_ref(), effects);
        if report.finish == FinishReason::ContentFilter {
            self.on_withheld(report, reading, effects);
            return Ok(());
        }
        match reading.clone() {
            Reading::Thought { text } => self.on_thought(text, effects),
            Reading::Planned(planned) => self.on_planned(planned, effects),
            Reading::Calls { text, calls } => {
                self.on_calls(text, calls, reasoning.clone(), effects);
            }
            Reading::Continued { text } => self.on_continued(text, effects),
            Reading::Final { text } => {
                if !self.on_overtaken(&text, effects) {
                    self.complete(text, effects);
                }
            }
            Reading::Cut { text } => self.on_cut(&text, report, effects),
            Reading::Fault { feedback, raw } => {
                let step = self.step();
                effects.tell(
                    &self.submitted,
                    EventKind::FeedbackGiven { step, feedback: feedback.clone() },
                );
                let again = shown_again(&raw);
                self.prompts.grow(if self.plan.edition >= 2 { &again } else { &raw });
                self.prompts.grow(&feedback.to_text());
                if let Some(step) = self.steps.last_mut() {
                    step.acts.push(Act::Feedback { raw: again, feedback: feedback.clone() });
                }
                self.ask_again(role, &feedback.message, &raw, effects);
            }
        }
        Ok(())
    }

    /// Ends the run, since a reply whose rest is withheld is neither an answer nor to be acted on.
    fn on_withheld(&mut self, report: &TurnReport, reading: &Reading, effects: &mut Effects) {
        let message =
            format!("the provider of model {} withheld its reply (content filter)", report.model);
        let error = WireError::new(ErrorCode::ModelRefused, message);
        let said = match reading {
            Reading::Thought { text }
            | Reading::Calls { text, .. }
            | Reading::Continued { text } => self.shown(text),
            Reading::Final { text } | Reading::Cut { text } => self.shown(text),
            Reading::Planned(_) | Reading::Fault { .. } => String::new(),
        };
        self.end(RunStatus::Refused, said, Some(error), effects);
    }

    /// Ends the run with what there is of an answer, since another one would be cut as well; unless
    /// a message has overtaken it.
    fn on_cut(&mut self, text: &SharedText, report: &TurnReport, effects: &mut Effects) {
        if self.on_overtaken(text, effects) {
            return;
        }
        let error = WireError::new(ErrorCode::AnswerCut, self.cut(text.is_empty(), report));
        if let Some(step) = self.steps.last_mut() {
            step.acts.push(Act::Continued { text: text.to_string() });
        }
        self.stop(RunStatus::Partial, error, effects);
    }

    /// Says where a reply was cut, and what to do about it.
    fn cut(&self, is_silent: bool, report: &TurnReport) -> String {
        let model = report.served_by.as_ref().unwrap_or_else(|| self.model(ModelRole::Actor));
        let (written, most) = (report.usage.output_tokens, self.turn_tokens);
        let is_short = (1..most).contains(&written);
        let tokens =
            if is_short { format!("{written} of at most {most}") } else { most.to_string() };
        let silence = match report.detail.reasoning_tokens {
            _ if !is_silent => String::new(),
            Some(thought) if thought > 0 => {
                format!(" before it said anything: {thought} of them are hidden reasoning")
            }
            Some(_) | None => " before it said anything: hidden reasoning counts too".to_owned(),
        };
        let is_least = most < self.plan.limits.reply_tokens_max;
        let help = match (is_short, is_least) {
            (true, true) => "the model or its server has a lower limit; raise that",
            (true, false) => {
                "raise `reply_tokens_max`, or the limit of the model or its server if that is lower"
            }
            (false, true) => {
                "no more were left; raise `tokens_max` or `cost_max`, or the request's budget"
            }
            (false, false) => "raise `reply_tokens_max`",
        };
        format!("the reply of model {model} was cut at {tokens} tokens{silence}; {help}")
    }

    /// Tells whether a reading is one that the awaited turn can have.
    fn fits(&self, role: ModelRole, reading: &Reading) -> bool {
        let plans = self.plan.planner.is_some();
        let tool = self.planned().map(|planned| planned.tool.as_str());
        match (role, reading) {
            (ModelRole::Thinker, Reading::Thought { .. }) => !plans,
            (ModelRole::Thinker, Reading::Planned(Planned { tool, .. })) => {
                plans && (tool == RESPOND_TO_USER || self.plan.offer(tool).is_some())
            }
            (ModelRole::Actor, Reading::Calls { calls, .. }) => {
                let is_planned = |call: &ReadCall| tool.is_none_or(|tool| call.name == tool);
                calls.iter().all(|call| call.fault.is_some() || is_planned(call))
            }
            (ModelRole::Actor, Reading::Final { .. } | Reading::Cut { .. }) => {
                tool.is_none_or(|tool| tool == RESPOND_TO_USER)
            }
            (ModelRole::Actor, Reading::Continued { .. }) => tool.is_none(),
            (_, Reading::Fault { .. }) => true,
            (
                ModelRole::Thinker,
                Reading::Calls { .. }
                | Reading::Continued { .. }
                | Reading::Final { .. }
                | Reading::Cut { .. },
            )
            | (ModelRole::Actor, Reading::Thought { .. } | Reading::Planned(_)) => false,
        }
    }

    /// Returns what the planner wants done in the step in work.
    pub(super) fn planned(&self) -> Option<&Planned> {
        self.steps.last().and_then(|step| step.planned.as_ref())
    }

    /// Asks a model for a turn, if there are time and tokens left.
    pub(super) fn ask(&mut self, role: ModelRole, effects: &mut Effects) {
        if self.is_late(effects.now()) {
            self.stop(RunStatus::Deadline, late(), effects);
            return;
        }
        self.phase = match role {
            ModelRole::Thinker => Phase::Thinking,
            ModelRole::Actor => Phase::Acting,
        };
        if let Err(error) = self.reply_tokens(role) {
            self.stop(RunStatus::Budget, error, effects);
            return;
        }
        self.show_joined(effects);
        self.turns += 1;
        self.turn_asked = effects.now();
        self.turn_tokens = self.reply_tokens(role).unwrap_or(1);
        self.note_extent();
        self.prompts.on_asked();
        let model = self.model(role).clone();
        effects.tell(&self.submitted, EventKind::ModelAsked { step: self.step(), role, model });
        effects.push(self.ask_effect(role));
    }

    pub(super) fn ask_again(
        &mut self,
        role: ModelRole,
        fault: &str,
        raw: &str,
        effects: &mut Effects,
    ) {
        self.feedback += 1;
        self.feedback_total = self.feedback_total.saturating_add(1);
        if self.feedback <= self.plan.limits.feedback_max {
            let leads = role == ModelRole::Thinker || self.plan.thinking_model().is_none();
            if self.is_steered() && !leads {
                // What is to be done about a message is for the model that begins the steps.
                self.begin_step(effects);
            } else {
                self.ask(role, effects);
            }
            return;
        }
        let message = format!(
            "{} replies in step {} cannot be used; the last is of model {}: {fault}; it wrote: {}",
            self.feedback,
            self.step(),
            self.model(role),
            if raw.is_empty() { "nothing".to_owned() } else { self.shown(raw) },
        );
        self.fail(WireError::new(ErrorCode::ReplyUnusable, message), effects);
    }

    pub(super) fn model(&self, role: ModelRole) -> &Name {
        match role {
            ModelRole::Thinker => self.plan.thinking_model().unwrap_or(&self.plan.actor),
            ModelRole::Actor => self.plan.acting_model(self.planned()).0,
        }
    }

    pub(super) fn ask_effect(&self, role: ModelRole) -> Effect {
        let limits = &self.plan.limits;
        let turn = self.turns.saturating_sub(1);
        Effect::AskModel {
            run: self.id().clone(),
            turn,
            step: self.step(),
            role,
            model: self.model(role).clone(),
            max_tokens: self.turn_tokens,
            deadline: self.submitted.deadline.min(self.turn_asked.plus_ms(limits.model_timeout_ms)),
            trace: self.trace.of_turn(self.id(), turn),
        }
    }

    fn on_thought(&mut self, text: String, effects: &mut Effects) {
        let kind = EventKind::Thought { step: self.step(), text: self.shown(&text) };
        effects.tell(&self.submitted, kind);
        self.prompts.grow(&text);
        self.on_led(effects, |step| step.thought = Some(text));
    }

    /// Lets the actor model carry out a thought or a plan, unless a message has overtaken it: then
    /// the model that made it is asked again.
    fn on_led(&mut self, effects: &mut Effects, keep: impl FnOnce(&mut Step)) {
        let is_overtaken = self.is_steered();
        if let Some(step) = self.steps.last_mut() {
            // Feedback until here was for the thinker or planner; the actor model has no use for it.
            step.acts.retain(|act| matches!(act, Act::Steered { .. }));
            let acts = step.acts.len();
            if !is_overtaken {
                keep(step);
            }
            self.cut_extent(acts);
        }
        self.ask(if is_overtaken { ModelRole::Thinker } else { ModelRole::Actor }, effects);
    }

    /// Keeps a text that is not the answer yet, and lets the model go on in a further step.
    fn on_continued(&mut self, text: String, effects: &mut Effects) {
        self.prompts.grow(&text);
        if let Some(step) = self.steps.last_mut() {
            step.acts.push(Act::Continued { text });
        }
        self.begin_step(effects);
    }

    /// Returns a model's text as people may see it.
    pub(super) fn shown(&self, text: &str) -> String {
        match &self.plan.continue_word {
            Some(word) => continued::without(word, text),
            None => text.to_owned(),
        }
    }

    fn on_planned(&mut self, planned: Planned, effects: &mut Effects) {
        let Planned { tool, task, thoughts, .. } = planned.clone();
        let kind = EventKind::Planned { step: self.step(), tool, task, thoughts };
        effects.tell(&self.submitted, kind);
        self.prompts.grow(&planned.task);
        self.prompts.grow(&planned.thoughts);
        self.on_led(effects, |step| step.planned = Some(planned));
    }

    /// Returns the part of the model that is asked, if one is.
    pub(super) const fn awaited_role(&self) -> Option<ModelRole> {
        match self.phase {
            Phase::Thinking => Some(ModelRole::Thinker),
            Phase::Acting => Some(ModelRole::Actor),
            Phase::Calling | Phase::Replying => None,
        }
    }

    /// Tells of a turn that ends with its run.
    pub(super) fn report_unheard(&self, error: &WireError, effects: &mut Effects) {
        // Where in its entry a span is told of older runs is noted already.
        if let Some(role) = self.awaited_role()
            && self.turns > 0
            && self.plan.edition >= 3
        {
            self.report_turn(role, None, Usage::default(), Err(error), None, effects);
        }
    }

    fn report_turn(
        &self,
        role: ModelRole,
        report: Option<(&TurnReport, Usage)>,
        lost: Usage,
        outcome: Result<&Reading, &WireError>,
        unread: Option<&Unread>,
        effects: &mut Effects,
    ) {
        let planned = match outcome {
            Ok(Reading::Planned(planned)) => Some(planned),
            Ok(_) | Err(_) => self.planned(),
        };
        let facts = self.facts(effects);
        let span = spans::model_span(
            &facts,
            &spans::TurnFacts {
                turn: self.turns.saturating_sub(1),
                step: self.step(),
                role,
                model: self.model(role),
                max_tokens: self.turn_tokens,
                planned,
                rounds: self.feedback,
                start: self.turn_asked,
                end: effects.now(),
                report,
                lost,
                told: &self.told(),
                outcome,
                unread,
            },
        );
        self.trace(span, effects);
    }
}
