//! One run: submitted → thinking → acting → calling → … → replying.
//!
//! A step is a thought or a plan (if the agent has a thinker or planner), one reply of the actor
//! model that can be acted on, and the calls it asks for. The run ends with a reply, which its session keeps until
//! it is known to be handed over.

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::entry::Submitted;
use wire::event::EventKind;
use wire::plan::Target;
use wire::run::{RunReply, RunState, RunStatus, Source};
use wire::trace::{RunTrace, SpanEvent};
use wire::{
    CallKey, Digest, ErrorCode, ModelRole, Name, Plan, RunId, SharedText, SpanRecord, Timestamp,
    Usage, WireError, semconv,
};

use crate::dialect::{Act, Exchange, Step, Transcript};
use crate::effect::{Aborted, CallEffect, Effect, Effects, Traced};
use crate::spans::{self, event, note};

mod attempt;
mod budget;
mod call;
mod history;
mod hop;
mod person;
mod question;
mod steer;
mod told;
mod turn;

pub(crate) use attempt::Missed;
use budget::Prompts;
use call::{Pending, Stage};
use person::Bar;
pub(crate) use question::not_asked;
use steer::Joined;
use told::Extent;

/// One run of an agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    team: Name,
    submitted: Submitted,
    /// The span that came with it, and the names of those below.
    trace: RunTrace,
    plan: Arc<Plan>,
    accepted: Timestamp,
    phase: Phase,
    steps: Vec<Step>,
    /// Model turns asked for so far; the one that is awaited has this number minus one.
    turns: u32,
    turn_asked: Timestamp,
    /// The most tokens that the reply to the awaited turn may have.
    turn_tokens: u64,
    /// How far the steps went when the awaited turn was asked for, and when the one before was.
    told: [Extent; 2],
    /// Unusable replies in this step.
    feedback: u32,
    /// Unusable replies in all steps.
    feedback_total: u32,
    /// Times that the run was taken up again since it last moved on.
    resumes: u32,
    resumes_total: u32,
    pending: Vec<Pending>,
    sources: Vec<Source>,
    usage: Usage,
    /// Whether words of others than the team and its users may have come into it.
    tainted: bool,
    prompts: Prompts,
    /// How many of the newest exchanges of the session its models are shown.
    exchanges_shown: usize,
    /// How many it had beside these when the run began.
    exchanges_left_out: usize,
    /// How many steps asked for the same call.
    asked: BTreeMap<Digest, u32>,
    reply: Option<Arc<RunReply>>,
    /// Calls that were under way when the run was ended from outside.
    aborted: Vec<Aborted>,
    /// What stands in the way of a call that asks for the same as an earlier one.
    bars: Vec<Bar>,
    /// Messages that joined the run, in order, of which each gets its reply.
    joined: Vec<Joined>,
    /// How many ever did.
    joins: u32,
    /// Whether a further message of the user ended it.
    is_interrupted: bool,
    /// What is noted on the run's span.
    events: Vec<SpanEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Thinking,
    Acting,
    Calling,
    Replying,
}

impl Run {
    pub(crate) fn new(
        team: Name,
        submitted: Submitted,
        plan: Arc<Plan>,
        accepted: Timestamp,
        now: Timestamp,
    ) -> Self {
        let tainted = submitted.parent.as_ref().is_some_and(|parent| parent.tainted);
        Self {
            team,
            trace: RunTrace::new(submitted.trace),
            submitted,
            plan,
            accepted,
            phase: Phase::Acting,
            steps: Vec::new(),
            turns: 0,
            turn_asked: now,
            turn_tokens: 0,
            told: [Extent::default(); 2],
            feedback: 0,
            feedback_total: 0,
            resumes: 0,
            resumes_total: 0,
            pending: Vec::new(),
            sources: Vec::new(),
            usage: Usage::default(),
            tainted,
            prompts: Prompts::default(),
            exchanges_shown: 0,
            exchanges_left_out: 0,
            asked: BTreeMap::new(),
            reply: None,
            aborted: Vec::new(),
            bars: Vec::new(),
            joined: Vec::new(),
            joins: 0,
            is_interrupted: false,
            events: Vec::new(),
        }
    }

    pub(crate) const fn id(&self) -> &RunId {
        &self.submitted.run
    }

    pub(crate) fn text(&self) -> &str {
        &self.submitted.text
    }

    pub(crate) const fn submitted(&self) -> &Submitted {
        &self.submitted
    }

    pub(crate) const fn reply(&self) -> Option<&Arc<RunReply>> {
        self.reply.as_ref()
    }

    pub(crate) fn aborted(&self) -> &[Aborted] {
        &self.aborted
    }

    pub(crate) fn awaits(&self, call: &CallKey) -> bool {
        self.pending.iter().any(|pending| pending.key == *call)
    }

    /// Returns how it asks for the run of a called agent, if it does: not while a person has still to
    /// allow that.
    pub(crate) fn called(&self, call: &CallKey) -> Option<CallEffect> {
        let is_made = |pending: &&Pending| pending.key == *call && pending.stage == Stage::Made;
        let made = self.call_effect(self.pending.iter().find(is_made)?)?;
        (made.target == Target::Agent).then_some(made)
    }

    pub(crate) fn transcript<'a>(&'a self, exchanges: &'a [Exchange]) -> Transcript<'a> {
        Transcript {
            plan: &self.plan,
            history: history::newest(exchanges, self.exchanges_shown),
            request: &self.submitted.text,
            steps: &self.steps,
        }
    }

    pub(crate) fn state(&self) -> RunState {
        if let Some(waiting) = self.waiting() {
            return waiting;
        }
        let phase = match self.phase {
            Phase::Thinking => "thinking",
            Phase::Acting => "acting",
            Phase::Calling => "calling",
            Phase::Replying => "replying",
        };
        RunState::Running { step: self.step(), phase: phase.to_owned() }
    }

    /// Says again what the run waits for.
    pub(crate) fn outstanding(&self) -> Vec<Effect> {
        let mut effects =
            vec![Effect::SetTimer { run: self.id().clone(), at: self.submitted.deadline }];
        effects.extend(self.joined_timers());
        match self.phase {
            Phase::Thinking => effects.push(self.ask_effect(ModelRole::Thinker)),
            Phase::Acting => effects.push(self.ask_effect(ModelRole::Actor)),
            Phase::Calling => {
                effects
                    .extend(self.pending.iter().filter_map(|pending| self.stage_effect(pending)));
            }
            Phase::Replying => {}
        }
        effects
    }

    pub(crate) fn start(&mut self, effects: &mut Effects) {
        effects.tell(&self.submitted, EventKind::RunStarted);
        self.begin_step(effects);
    }

    /// Takes the run up again; `innocent` if it cannot be what ended the process.
    pub(crate) fn on_resumed(&mut self, innocent: bool, effects: &mut Effects) {
        self.resumes_total += 1;
        effects.tell(&self.submitted, EventKind::RunResumed);
        let count = [(semconv::RESUMES, self.resumes_total)];
        note(&mut self.events, event(semconv::event::RESUMED, effects.now(), count));
        if self.is_late(effects.now()) {
            self.end_early(RunStatus::Deadline, late(), effects);
            return;
        }
        // A run that does nothing but wait is not what ended the process; a called agent may be, and
        // counts it in its own run. Neither is one whose process was drained. What older programs
        // wrote says nothing of agents and of drains, and is decided about as they did.
        if !innocent && !self.waits_for_people_only() {
            self.resumes += 1;
        }
        if self.resumes > self.plan.limits.resumes_max {
            let message = format!(
                "the run was taken up {} times at step {} and each time the process ended there",
                self.resumes - 1,
                self.step()
            );
            let error = WireError::new(ErrorCode::ResumedTooOften, message);
            self.end_early(RunStatus::Failed, error, effects);
            return;
        }
        self.resume_calls(effects);
        if self.reply.is_some() {
            return;
        }
        if self.phase == Phase::Calling && self.pending.is_empty() {
            self.begin_step(effects);
            return;
        }
        // What is asked again gets its time again: the old one may have passed while nobody worked.
        self.turn_asked = effects.now();
    }

    /// Ends the run before its answer: every call gets an outcome, and the reply says why.
    pub(crate) fn end_early(&mut self, status: RunStatus, error: WireError, effects: &mut Effects) {
        self.aborted = self.pending.iter().filter_map(|pending| self.aborts(pending)).collect();
        effects.push(Effect::Abort { run: self.id().clone(), calls: self.aborted.clone() });
        // What nobody heard of is a bound and no measure, so it stands on no span of a turn or a call.
        self.usage.add(self.unheard_turn());
        self.report_unheard(&error, effects);
        while let Some(pending) = self.pending.first() {
            let outcome = self.outcome_at_end(pending, &error);
            self.usage.add(self.unheard(pending));
            self.settle(0, &outcome, effects);
        }
        self.stop(status, error, effects);
    }

    fn step(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }

    fn depth(&self) -> u32 {
        self.submitted.parent.as_ref().map_or(0, |parent| parent.depth)
    }

    fn steps_max(&self) -> u32 {
        let limit = self.plan.limits.steps_max;
        self.submitted.budget.steps.map_or(limit, |steps| steps.min(limit))
    }

    /// Tells whether the deadline is past, so that nothing more may be begun.
    fn is_late(&self, now: Timestamp) -> bool {
        now >= self.submitted.deadline
    }

    fn begin_step(&mut self, effects: &mut Effects) {
        if self.step() >= self.steps_max() {
            let message = format!(
                "no answer within {} steps; raise steps_max if the task needs more",
                self.steps_max()
            );
            let error = WireError::new(ErrorCode::StepLimit, message);
            self.stop(RunStatus::Partial, error, effects);
            return;
        }
        self.feedback = 0;
        self.steps.push(Step::default());
        self.ask(self.first_role(), effects);
    }

    /// Returns the part that begins a step.
    fn first_role(&self) -> ModelRole {
        match self.plan.thinking_model() {
            Some(_) => ModelRole::Thinker,
            None => ModelRole::Actor,
        }
    }

    fn complete(&mut self, text: SharedText, effects: &mut Effects) {
        self.end(RunStatus::Completed, text, None, effects);
    }

    fn fail(&mut self, error: WireError, effects: &mut Effects) {
        self.stop(RunStatus::Failed, error, effects);
    }

    /// Ends the run without an answer.
    fn stop(&mut self, status: RunStatus, error: WireError, effects: &mut Effects) {
        let output = if status.hands_over() { self.said_last() } else { String::new() };
        self.end(status, output, Some(error), effects);
    }

    /// Returns the last text of a model that was more than the arguments of calls.
    fn said_last(&self) -> String {
        let said = self.steps.iter().rev().find_map(|step| {
            let acts = step.acts.iter().rev().filter_map(|act| match act {
                Act::Calls { text, .. } | Act::Continued { text } => Some(text.as_str()),
                Act::Answered { text } => Some(text.as_str()),
                Act::Steered { .. } | Act::Feedback { .. } => None,
            });
            let thought = step.thought.iter().map(String::as_str);
            let planned = step.planned.iter().map(|planned| planned.thoughts.as_str());
            acts.chain(thought).chain(planned).find(|text| !text.trim().is_empty())
        });
        said.map(|text| self.shown(text)).unwrap_or_default()
    }

    fn end(
        &mut self,
        status: RunStatus,
        output: impl Into<SharedText>,
        error: Option<WireError>,
        effects: &mut Effects,
    ) {
        self.phase = Phase::Replying;
        let output = output.into();
        let reply = RunReply {
            run: self.id().clone(),
            session: effects.session().clone(),
            status,
            output: output.clone(),
            sources: self.sources.clone(),
            usage: self.usage,
            trace_id: self.submitted.trace.trace_id(),
            error: error.clone(),
            joined: None,
            tainted: self.tainted,
        };
        let kind =
            EventKind::RunEnded { status, output, usage: self.usage, error: error.map(Box::new) };
        effects.tell(&self.submitted, kind);
        let facts = self.facts(effects);
        let span = spans::run_span(
            &facts,
            &spans::EndFacts {
                caller: self.submitted.caller_span.as_ref(),
                start: self.accepted,
                end: effects.now(),
                input: &self.submitted.text,
                reply: &reply,
                steps: self.step(),
                resumes: self.resumes_total,
                feedback: self.feedback_total,
                history_shown: self.exchanges_shown,
                history_left_out: self.exchanges_left_out,
                events: &self.events,
                joined: None,
            },
        );
        self.trace(span, effects);
        self.reply = Some(Arc::new(reply));
    }

    fn trace(&self, record: SpanRecord, effects: &mut Effects) {
        let levels = self.plan.traces;
        effects.push(Effect::Span(Box::new(Traced { record, levels })));
    }

    fn facts<'a>(&'a self, effects: &'a Effects) -> spans::RunFacts<'a> {
        spans::RunFacts {
            plan: &self.plan,
            session: effects.session(),
            run: &self.submitted.run,
            trace: &self.trace,
            sink: effects.sink(),
            left: self.left(),
        }
    }
}

/// Returns what a run ends with whose time is over.
pub(crate) fn late() -> WireError {
    WireError::new(
        ErrorCode::DeadlineExceeded,
        "the time of the run was over before there was an answer",
    )
}
