//! The calls of a run: which are made, what each may use, and what came of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use wire::entry::ReadCall;
use wire::event::EventKind;
use wire::hop::HopReport;
use wire::plan::{Offer, Permission, Target};
use wire::run::{Budget, Source};
use wire::trace::SpanEvent;
use wire::{
    CallKey, CallOutcome, Digest, EffectClass, ErrorCode, ModelRole, Name, OpenKind, Question,
    Reasoning, RunStatus, Timestamp, Usage, WireError, call_digest,
};

use super::budget::Share;
use super::{Phase, Run};
use crate::dialect::{Act, Called};
use crate::effect::{Aborted, CallEffect, Earlier, Effect, Effects, Rejected};
use crate::permission::{decide, may_go_out};
use crate::spans;

/// A call without an outcome.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pending {
    pub(super) key: CallKey,
    /// Its place in the last act of the last step.
    pub(super) index: usize,
    /// Its place among the sources.
    pub(super) source: usize,
    /// Its offer's place in the plan.
    pub(super) offer: usize,
    pub(super) started: Timestamp,
    pub(super) deadline: Timestamp,
    /// What is set aside for it, if it spends.
    pub(super) reserve: Share,
    /// How many steps of the run asked for the same, this one included.
    pub(super) repeat: u32,
    pub(super) stage: Stage,
    /// The digest of what it asks for.
    pub(super) digest: Digest,
    /// How often it was made, or waited for anew.
    pub(super) attempt: u32,
    /// What is known of the attempts before the last one, which was not made anew if the outcome of
    /// one of them is waited for.
    pub(super) earlier: Earlier,
    /// The attempts of which a person said that nothing came of them; they no longer count.
    pub(super) attempts_before: u32,
    /// When the first attempt that counts was made.
    pub(super) made: Timestamp,
    /// How often its probe was asked; the number of the last one.
    pub(super) probes: u32,
    /// When the attempt that is under way was made, until its trace tells of its end.
    pub(super) attempted: Option<Timestamp>,
    /// What is noted on the call's span.
    pub(super) events: Vec<SpanEvent>,
    /// Questions of the last attempt.
    pub(super) questions: u32,
    /// What is counted already of what its attempts used.
    pub(super) spent: Usage,
    /// The model that answered, if it stood in for the one that the tool asks.
    pub(super) served_by: Option<Name>,
}

/// Where a call without an outcome stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// It is under way, or was when the process ended.
    Made,
    /// It waits for a person's leave, and was not made.
    Approval {
        until: Timestamp,
        since: Timestamp,
        /// Whether it would have been made in a run that is not tainted.
        for_taint: bool,
    },
    /// It is under way and goes on when a person has answered.
    Asking {
        question: Question,
        since: Timestamp,
        until: Timestamp,
        /// The time that the call has left then.
        left_ms: u64,
    },
    /// Its tool asked a person; the answer is the outcome.
    Question { question: String, since: Timestamp },
    /// No answer came, and the tool's probe is asked what came of it.
    Probing { unclear: u32, missed: String, deadline: Timestamp },
    /// No answer came, and a person has to say what came of it.
    Unknown { note: String, since: Timestamp },
}

/// A call as a model asked for it, and what it asks for, if that is offered.
struct Wanted {
    read: ReadCall,
    found: Option<Found>,
}

#[derive(Clone, Copy)]
struct Found {
    /// The offer's place in the plan.
    offer: usize,
    /// The digest of what is asked for.
    digest: Digest,
}

/// The least time that a parent keeps for itself when it gives a called agent a deadline.
const PARENT_RESERVE_MS_MIN: u64 = 200;

/// The share of its remaining time that a parent keeps for itself, as a divisor.
const PARENT_RESERVE_SHARE: u64 = 20;

impl Run {
    pub(super) fn effect_of(&self, pending: &Pending) -> EffectClass {
        // A called agent runs under the call's key, so asking it again begins nothing new.
        match self.plan.tools.get(pending.offer) {
            Some(Offer { target: Target::Agent, .. }) => EffectClass::Idempotent,
            Some(offer) => offer.effect,
            None => EffectClass::Once,
        }
    }

    pub(super) fn on_calls(
        &mut self,
        text: String,
        calls: Vec<ReadCall>,
        reasoning: Option<Arc<Reasoning>>,
        effects: &mut Effects,
    ) {
        let wanted: Vec<Wanted> = calls.into_iter().map(|read| self.wanted(read)).collect();
        if let Some(error) = self.circle(&wanted) {
            self.act(Act::Calls { text, calls: Vec::new(), reasoning: None });
            self.stop(RunStatus::Partial, error, effects);
            return;
        }
        self.prompts.grow(&text);
        if let Some(reasoning) = &reasoning {
            self.prompts.grow_by(reasoning.bytes());
        }
        let share = self.share_of(&wanted, effects.now());
        let mut called = Vec::with_capacity(wanted.len());
        let mut fault = None;
        for (index, wanted) in wanted.into_iter().enumerate() {
            let refusal = self.refusal(&wanted, index, share, effects.now());
            let Wanted { read, found } = wanted;
            if read.fault.is_some() {
                fault = fault.or_else(|| refusal.clone().map(|text| (text, read.raw.clone())));
            }
            let key = match (&refusal, found) {
                (None, Some(found)) => Some(self.begin_call(&read, index, found, share, effects)),
                _ => None,
            };
            self.prompts.grow(&read.raw);
            self.prompts.grow(refusal.as_deref().unwrap_or_default());
            called.push(Called { read, key, result: refusal });
        }
        self.act(Act::Calls { text, calls: called, reasoning });
        match (self.pending.is_empty(), fault) {
            (false, _) => {
                self.phase = Phase::Calling;
                let begun: Vec<Effect> =
                    self.pending.iter().filter_map(|pending| self.stage_effect(pending)).collect();
                effects.extend(begun);
            }
            (true, Some((text, raw))) => {
                self.ask_again(ModelRole::Actor, &text, &raw, effects);
            }
            (true, None) => self.begin_step(effects),
        }
    }

    fn wanted(&self, read: ReadCall) -> Wanted {
        let mut offers = self.plan.tools.iter().enumerate();
        let offer = offers.find(|(_, offer)| offer.spec.name.as_str() == read.name);
        let found = offer.map(|(index, offer)| Found {
            offer: index,
            digest: call_digest(&offer.spec.name, &read.arguments),
        });
        Wanted { read, found }
    }

    fn act(&mut self, act: Act) {
        if let Some(step) = self.steps.last_mut() {
            step.acts.push(act);
        }
    }

    /// Returns what each of the spending calls of one reply may use.
    fn share_of(&self, wanted: &[Wanted], now: Timestamp) -> Share {
        let offer = |wanted: &Wanted| self.plan.tools.get(wanted.found?.offer);
        let sound = wanted.iter().enumerate().filter(|(_, wanted)| wanted.read.fault.is_none());
        let mut made: Vec<(usize, &Wanted, &Offer)> =
            sound.filter_map(|(index, wanted)| Some((index, wanted, offer(wanted)?))).collect();
        let spends = |(_, _, offer): &(usize, &Wanted, &Offer)| offer.spends();
        if self.plan.edition >= 2 && made.iter().any(spends) {
            made.retain(|(index, wanted, _)| {
                self.refusal(wanted, *index, Share::UNBOUNDED, now).is_none()
            });
            made.truncate(usize::try_from(self.calls_left()).unwrap_or(usize::MAX));
        }
        let spending = made.iter().filter(|made| spends(made)).count();
        self.share(spending as u64, made.len() as u64)
    }

    /// Counts what is asked for, and returns why the run has to stop if it is the same as in too
    /// many steps before.
    fn circle(&mut self, wanted: &[Wanted]) -> Option<WireError> {
        let (most, at_once) = (self.plan.limits.repeats_max, self.plan.limits.calls_per_step_max);
        // What is to be asked for again in the next step is not asked for in this one, and what is in
        // two replies of a step is so once.
        let is_by_step = self.plan.edition >= 1;
        let counted = if is_by_step { at_once as usize } else { usize::MAX };
        let before = if is_by_step { self.asked_in_step(counted) } else { BTreeSet::new() };
        let asked: BTreeSet<(Digest, &str)> = wanted
            .iter()
            .take(counted)
            .filter(|wanted| wanted.read.fault.is_none())
            .filter_map(|wanted| Some((wanted.found?.digest, wanted.read.name.as_str())))
            .filter(|(digest, _)| !before.contains(digest))
            .collect();
        let mut circle = None;
        for (digest, name) in asked {
            let times = self.asked.entry(digest).or_default();
            *times = times.saturating_add(1);
            if *times >= most {
                let message = format!(
                    "{name} was asked for with the same arguments in {times} steps of the run, \
                     and told so; raise `repeats_max` if that is meant"
                );
                circle = Some(WireError::new(ErrorCode::LoopDetected, message));
            }
        }
        circle
    }

    /// Returns what earlier replies of the present step asked for, of each so many calls at most.
    fn asked_in_step(&self, counted: usize) -> BTreeSet<Digest> {
        let acts = self.steps.last().map(|step| step.acts.as_slice()).unwrap_or_default();
        let called = acts.iter().flat_map(|act| match act {
            Act::Calls { calls, .. } => calls.get(..counted).unwrap_or(calls),
            Act::Continued { .. }
            | Act::Answered { .. }
            | Act::Steered { .. }
            | Act::Feedback { .. } => &[],
        });
        let sound = called.map(|called| &called.read).filter(|read| read.fault.is_none());
        let offered = |read: &ReadCall| Some(&self.plan.offer(&read.name)?.spec.name);
        sound.filter_map(|read| Some(call_digest(offered(read)?, &read.arguments))).collect()
    }

    /// Returns the text that a model is given in place of a result, if a call must not be made.
    fn refusal(
        &self,
        wanted: &Wanted,
        index: usize,
        share: Share,
        now: Timestamp,
    ) -> Option<String> {
        let Wanted { read, found } = wanted;
        if let Some(fault) = &read.fault {
            return Some(fault.to_text());
        }
        let refuse = |code, message: String| Some(CallOutcome::error(code, message).to_text());
        let found = found.and_then(|found| Some((self.plan.tools.get(found.offer)?, found.digest)));
        let Some((offer, digest)) = found else {
            return refuse(ErrorCode::UnknownTool, format!("no tool {:?} is offered", read.name));
        };
        if self.call_deadline(now, offer.timeout_ms) <= now {
            return Some(CallOutcome::Error { error: no_time() }.to_text());
        }
        let limits = &self.plan.limits;
        if index >= limits.calls_per_step_max as usize {
            let message = format!(
                "at most {} calls are made at once; ask for this one again in the next step",
                limits.calls_per_step_max
            );
            return refuse(ErrorCode::CallLimit, message);
        }
        let decision = decide(&self.plan.permissions, offer, &read.arguments, self.tainted);
        if decision.permission == Permission::Deny {
            let message = format!(
                "the team does not permit this call ({:?} is denied); do not ask for it again",
                decision.pattern.unwrap_or(&read.name)
            );
            return refuse(ErrorCode::CallDenied, message);
        }
        if let Some(text) = self.barred(&digest) {
            return Some(text);
        }
        if offer.target == Target::Agent && self.depth() >= limits.depth_max {
            let message = format!("agents are called at most {} deep", limits.depth_max);
            return refuse(ErrorCode::DepthExceeded, message);
        }
        if self.calls_left() == 0 {
            let message = format!(
                "all {} calls of the run are made; answer with what is there",
                self.calls_max()
            );
            return refuse(ErrorCode::BudgetExceeded, message);
        }
        if offer.spends() && self.is_spent(offer, share) {
            let message = "too little of the run's budget is left for this call".to_owned();
            return refuse(ErrorCode::BudgetExceeded, message);
        }
        None
    }

    fn begin_call(
        &mut self,
        read: &ReadCall,
        index: usize,
        found: Found,
        share: Share,
        effects: &mut Effects,
    ) -> CallKey {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let key = CallKey::derive(&self.team, effects.session(), effects.slot(), number);
        let now = effects.now();
        let Some(offer) = self.plan.tools.get(found.offer) else { return key };
        let is_agent = offer.target == Target::Agent;
        let decision = decide(&self.plan.permissions, offer, &read.arguments, self.tainted);
        let asks = match decision.permission {
            Permission::Ask => true,
            // What is denied does not come this far.
            Permission::Allow | Permission::Deny => false,
        };
        let stage = if asks {
            let until = self.call_deadline(now, self.plan.limits.approval_timeout_ms);
            Stage::Approval { until, since: now, for_taint: decision.for_taint }
        } else {
            Stage::Made
        };
        let reserve = self.reserve(offer, share);
        self.usage.calls = self.usage.calls.saturating_add(1);
        self.pending.push(Pending {
            key: key.clone(),
            index,
            source: self.sources.len(),
            offer: found.offer,
            started: now,
            deadline: self.call_deadline(now, offer.timeout_ms),
            reserve,
            repeat: self.asked.get(&found.digest).copied().unwrap_or_default(),
            stage,
            digest: found.digest,
            attempt: u32::from(!asks),
            earlier: Earlier::Nothing,
            attempts_before: 0,
            made: now,
            probes: 0,
            attempted: (!asks).then_some(now),
            events: Vec::new(),
            questions: 0,
            spent: Usage::default(),
            served_by: None,
        });
        self.sources.push(Source {
            call: key.clone(),
            tool: offer.spec.name.clone(),
            arguments: read.arguments.clone(),
            status: "pending".to_owned(),
            output: String::new(),
        });
        let kind = EventKind::CallStarted {
            call: key.clone(),
            tool: offer.spec.name.clone(),
            arguments: read.arguments.clone(),
            is_agent,
        };
        effects.tell(&self.submitted, kind);
        if asks {
            self.open(self.pending.len().saturating_sub(1), OpenKind::Approval, effects);
        }
        key
    }

    /// Returns when a call that is made now must have its outcome: before the run is over.
    pub(super) fn call_deadline(&self, now: Timestamp, timeout_ms: u64) -> Timestamp {
        let deadline = self.submitted.deadline;
        let kept = (deadline.ms_since(now) / PARENT_RESERVE_SHARE).max(PARENT_RESERVE_MS_MIN);
        let latest = deadline.as_micros().saturating_sub(kept.saturating_mul(1000));
        Timestamp::from_micros(latest).max(now).min(now.plus_ms(timeout_ms))
    }

    /// Says what a call waits for, as far as somebody has to do something about it.
    pub(super) fn stage_effect(&self, pending: &Pending) -> Option<Effect> {
        match &pending.stage {
            Stage::Made => self.call_effect(pending).map(Effect::Call),
            Stage::Probing { deadline, .. } => self.probe_effect(pending, *deadline),
            Stage::Approval { until, .. } => Some(self.expire_effect(pending, None, *until)),
            Stage::Asking { question, until, .. } => {
                Some(self.expire_effect(pending, Some(&question.id), *until))
            }
            Stage::Question { .. } | Stage::Unknown { .. } => None,
        }
    }

    pub(super) fn call_effect(&self, pending: &Pending) -> Option<CallEffect> {
        let offer = self.plan.tools.get(pending.offer)?;
        let source = self.sources.get(pending.source)?;
        Some(CallEffect {
            run: self.id().clone(),
            agent: self.submitted.agent.clone(),
            call: pending.key.clone(),
            name: offer.spec.name.clone(),
            target: offer.target,
            internal: offer.is_internal(),
            arguments: source.arguments.clone(),
            task: offer.task.clone(),
            deadline: pending.deadline,
            effect: self.effect_of(pending),
            attempt: pending.attempt,
            earlier: pending.earlier,
            tainted: self.tainted,
            may_go_out: may_go_out(&self.plan.permissions, offer, &source.arguments, self.tainted),
            reader: self.plan.reader().cloned(),
            budget: if offer.spends() { self.budget_below(pending) } else { Budget::default() },
            depth: self.depth().saturating_add(1),
            trace: self.attempt_trace(pending),
        })
    }

    pub(crate) fn on_call_settled(
        &mut self,
        call: &CallKey,
        outcome: &CallOutcome,
        usage: Usage,
        tainted: bool,
        hop: Option<&HopReport>,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        // A late answer is taken whatever is done meanwhile to find out about it.
        let made = |pending: &Pending| {
            pending.key == *call && !matches!(pending.stage, Stage::Approval { .. })
        };
        let position = self.position(call, made)?;
        self.resumes = 0;
        self.tainted |= tainted;
        self.note_answer(position, effects.now());
        self.end_settled_attempt(position, hop, outcome, effects);
        let usage = self.settled_usage(position, outcome, usage, hop);
        if let Some(pending) = self.pending.get_mut(position) {
            pending.served_by = hop.and_then(|hop| hop.served_by.clone());
        }
        self.spend(position, usage);
        match outcome {
            CallOutcome::Unknown { note } => self.on_unknown(position, note, effects),
            CallOutcome::Ok { .. } | CallOutcome::Error { .. } | CallOutcome::Ended { .. } => {
                self.settle(position, outcome, effects);
            }
        }
        self.go_on(effects);
        Ok(())
    }

    /// Finds a pending call.
    pub(super) fn position(
        &self,
        call: &CallKey,
        is: impl Fn(&Pending) -> bool,
    ) -> Result<usize, Rejected> {
        let found = self.pending.iter().position(is);
        found.ok_or_else(|| Rejected::UnknownCall { call: call.clone() })
    }

    /// Begins the next step if all calls of this one have their outcome.
    pub(super) fn go_on(&mut self, effects: &mut Effects) {
        if self.pending.is_empty() && self.reply.is_none() {
            self.begin_step(effects);
        }
    }

    /// Returns what is to be ended of a pending call; one that was not allowed yet was never made.
    pub(super) fn aborts(&self, pending: &Pending) -> Option<Aborted> {
        if matches!(pending.stage, Stage::Approval { .. }) {
            return None;
        }
        let offer = self.plan.tools.get(pending.offer)?;
        Some(Aborted {
            call: pending.key.clone(),
            name: offer.spec.name.clone(),
            target: offer.target,
            deadline: pending.deadline,
        })
    }

    /// Gives a pending call its outcome.
    pub(super) fn settle(&mut self, position: usize, outcome: &CallOutcome, effects: &mut Effects) {
        self.end_settled_attempt(position, None, outcome, effects);
        let waited = self.pending.get(position).is_some_and(Pending::is_open);
        let pending = self.pending.remove(position);
        let output = outcome.to_text();
        let mut told = output.clone();
        if pending.repeat >= self.plan.limits.repeats_max.div_ceil(2) {
            told.push_str(&repeated(pending.repeat, self.plan.limits.repeats_max));
        }
        self.prompts.grow(&told);
        if let Some(Act::Calls { calls, .. }) =
            self.steps.last_mut().and_then(|step| step.acts.last_mut())
            && let Some(called) = calls.get_mut(pending.index)
        {
            called.result = Some(told);
        }
        let Some(offer) = self.plan.tools.get(pending.offer) else { return };
        // Errors tell what the other side said, as results do. What was never made tells nothing.
        self.tainted |= offer.labels.untrusted && !matches!(pending.stage, Stage::Approval { .. });
        let kind = EventKind::CallEnded {
            call: pending.key.clone(),
            tool: offer.spec.name.clone(),
            status: outcome.as_str().to_owned(),
            output: output.clone(),
            duration_us: effects.now().as_micros().saturating_sub(pending.started.as_micros()),
        };
        effects.tell(&self.submitted, kind);
        let facts = self.facts(effects);
        let source = self.sources.get(pending.source);
        let span = spans::call_span(
            &facts,
            &spans::CallFacts {
                call: &pending.key,
                offer,
                arguments: source.map_or(&Value::Null, |source| source.arguments.as_ref()),
                turn: self.turns.saturating_sub(1),
                step: self.step(),
                attempts: pending.attempt,
                start: pending.started,
                end: effects.now(),
                outcome,
                usage: pending.spent,
                served_by: pending.served_by.as_ref(),
                events: &pending.events,
            },
        );
        self.trace(span, effects);
        if let Some(source) = self.sources.get_mut(pending.source) {
            outcome.as_str().clone_into(&mut source.status);
            source.output = output;
        }
        match outcome {
            CallOutcome::Unknown { note } => self.bar_unknown(&pending, note, effects),
            CallOutcome::Ok { .. } | CallOutcome::Error { .. } | CallOutcome::Ended { .. } => {
                if waited {
                    self.close(&pending.key, effects);
                }
            }
        }
    }
}

impl Pending {
    /// Tells whether a person has something to say about it.
    fn is_open(&self) -> bool {
        match self.stage {
            Stage::Approval { .. }
            | Stage::Asking { .. }
            | Stage::Question { .. }
            | Stage::Unknown { .. } => true,
            Stage::Made | Stage::Probing { .. } => false,
        }
    }
}

/// Returns what a model reads below the result of a call that it asks for again and again.
fn repeated(times: u32, most: u32) -> String {
    format!(
        "\n(The same call was asked for in {times} steps now, and {most} end the run. Do not ask \
         for it again: use the results, or do something else.)"
    )
}

/// Returns what a model is told of a call for which no time is left but its run's own answer.
fn no_time() -> WireError {
    WireError::new(
        ErrorCode::DeadlineExceeded,
        "the time of the run is nearly over and the call was not made; answer with what is there",
    )
}
