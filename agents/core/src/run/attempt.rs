//! The attempts of a call: when one without an answer is made again, when somebody else is asked
//! what came of it, and when nobody knows.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};
use wire::event::EventKind;
use wire::hop::HopReport;
use wire::plan::{OnUnknown, Target};
use wire::run::Budget;
use wire::{
    CallKey, CallOutcome, EffectClass, ErrorCode, Name, OpenKind, RunStatus, Timestamp, Usage,
    WireError, semconv,
};

use super::Run;
use super::call::{Pending, Stage};
use crate::effect::{CallEffect, Earlier, Effect, Effects, Rejected};
use crate::spans::{event, note};

/// Probes in a row without a usable answer, after which the outcome counts as unknown: one that is
/// down for a moment is asked again, one that is down for good holds up nobody.
const PROBES_MAX: u32 = 3;

/// What follows from an attempt of which no answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The call is made again, under its key.
    Again,
    /// The tool's probe is asked.
    Probe,
    /// The outcome is unknown.
    Unknown,
    /// The call failed: it changes nothing, so nothing is unknown.
    Failed,
}

/// What a probe says.
#[derive(Clone, Debug, PartialEq)]
enum Finding {
    Done(Value),
    NotDone,
    Unclear(String),
}

/// What is known of an attempt of which no answer came.
pub(crate) struct Missed<'a> {
    pub(crate) error: &'a WireError,
    pub(crate) usage: Usage,
    /// Whether it holds untrusted words, whatever the run knows of the tool.
    pub(crate) tainted: bool,
    pub(crate) hop: Option<&'a HopReport>,
}

impl Run {
    pub(crate) fn on_call_lost(
        &mut self,
        call: &CallKey,
        attempt: u32,
        missed: &Missed<'_>,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let Missed { error, usage, tainted, hop } = *missed;
        let made = |pending: &Pending| {
            pending.key == *call && pending.is_under_way() && pending.attempt == attempt
        };
        let position = self.position(call, made)?;
        self.resumes = 0;
        self.tainted |= tainted;
        self.spend_unanswered(position, usage);
        self.end_failed_attempt(position, hop, error, effects);
        self.note_earlier(position, Earlier::Doubtful);
        self.void(position, effects);
        self.on_missed(position, error, effects);
        self.go_on(effects);
        Ok(())
    }

    /// Decides about the calls that were under way when the process ended.
    pub(super) fn resume_calls(&mut self, effects: &mut Effects) {
        let made: Vec<CallKey> = self
            .pending
            .iter()
            .filter(|pending| pending.is_under_way())
            .map(|pending| pending.key.clone())
            .collect();
        let message = "the runtime was restarted while this call was under way";
        let error = WireError::new(ErrorCode::ToolUnavailable, message);
        for key in made {
            // An outcome that ends the run has ended the others with it.
            let found = self.pending.iter().position(|pending| pending.key == key);
            let Some(position) = found else { continue };
            self.end_failed_attempt(position, None, &error, effects);
            self.void(position, effects);
            let earlier = self.pending.get(position).map(|pending| pending.earlier);
            self.note_earlier(position, Earlier::Doubtful);
            if self.may_rejoin(position, effects.now()) {
                let alone = [Earlier::Nothing, Earlier::Awaited { doubtful: false }];
                let doubtful = earlier.is_some_and(|earlier| !alone.contains(&earlier));
                self.note_earlier(position, Earlier::Awaited { doubtful });
                self.rejoin(position, effects);
            } else {
                self.on_missed(position, &error, effects);
            }
        }
        let now = effects.now();
        for position in 0..self.pending.len() {
            self.renew_probe_deadline(position, now);
        }
    }

    pub(crate) fn on_call_probed(
        &mut self,
        call: &CallKey,
        probe: u32,
        outcome: &CallOutcome,
        tainted: bool,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        let asked = |pending: &Pending| {
            pending.key == *call
                && pending.probes == probe
                && matches!(pending.stage, Stage::Probing { .. })
        };
        let position = self.position(call, asked)?;
        self.resumes = 0;
        self.tainted |= tainted;
        let found = finding(outcome, self.plan.edition);
        self.note_probe(position, &found, effects.now());
        match found {
            Finding::Done(result) => {
                let outcome = CallOutcome::Ok { output: result };
                self.settle(position, &outcome, effects);
            }
            Finding::NotDone if self.may_try_again(position, effects.now()) => {
                self.note_earlier(position, Earlier::Nothing);
                self.make(position, "its probe says that it was not done", effects);
            }
            Finding::NotDone => {
                let why = "its probe says that it was not done, and it may not be made again";
                self.on_unknown(position, why, effects);
            }
            Finding::Unclear(why) => self.on_unclear(position, &why, effects),
        }
        self.go_on(effects);
        Ok(())
    }

    /// Notes what is known of what was tried so far.
    pub(super) fn note_earlier(&mut self, position: usize, earlier: Earlier) {
        if let Some(pending) = self.pending.get_mut(position) {
            pending.earlier = earlier;
        }
    }

    fn note_probe(&mut self, position: usize, found: &Finding, at: Timestamp) {
        let done = match found {
            Finding::Done(_) => Some(true),
            Finding::NotDone => Some(false),
            Finding::Unclear(_) => None,
        };
        if let Some(pending) = self.pending.get_mut(position) {
            let done = done.map(|done| (semconv::DONE, done));
            note(&mut pending.events, event(semconv::event::PROBED, at, done));
        }
    }

    fn on_unclear(&mut self, position: usize, why: &str, effects: &mut Effects) {
        let late = self.is_late(effects.now());
        let Some(pending) = self.pending.get_mut(position) else { return };
        let Stage::Probing { unclear, missed, .. } = &mut pending.stage else { return };
        *unclear += 1;
        if *unclear < PROBES_MAX && !late {
            self.probe(position, effects);
            return;
        }
        let note = format!("{missed}, and its probe does not know what came of it: {why}");
        self.on_unknown(position, &note, effects);
    }

    /// Decides about an attempt of which no answer came.
    fn on_missed(&mut self, position: usize, error: &WireError, effects: &mut Effects) {
        match self.next(position, effects.now()) {
            Some(Next::Again) => self.make(position, &error.message, effects),
            Some(Next::Probe) => {
                let missed = error.message.clone();
                if let Some(pending) = self.pending.get_mut(position) {
                    pending.stage =
                        Stage::Probing { unclear: 0, missed, deadline: Timestamp::default() };
                }
                self.probe(position, effects);
            }
            Some(Next::Unknown) => self.on_unknown(position, &error.message, effects),
            Some(Next::Failed) => {
                let outcome = CallOutcome::Error { error: error.clone() };
                self.settle(position, &outcome, effects);
            }
            None => {}
        }
    }

    fn next(&self, position: usize, now: Timestamp) -> Option<Next> {
        let pending = self.pending.get(position)?;
        let offer = self.plan.tools.get(pending.offer)?;
        let again = self.may_try_again(position, now);
        let known = self.known_until(pending).is_none_or(|until| now < until);
        let may_ask = offer.probe.is_some() && !self.is_late(now);
        let asked = if may_ask { Next::Probe } else { Next::Unknown };
        Some(match self.effect_of(pending) {
            EffectClass::Read if again => Next::Again,
            EffectClass::Read => Next::Failed,
            EffectClass::Idempotent if again && known => Next::Again,
            EffectClass::Idempotent | EffectClass::Once => asked,
        })
    }

    /// Returns until when the tool knows the key of a call that was made, unless it does for ever.
    fn known_until(&self, pending: &Pending) -> Option<Timestamp> {
        let ttl_ms = self.plan.tools.get(pending.offer)?.key_ttl_ms?;
        // By the older rules the millisecond after that counted as well.
        let more_ms = u64::from(self.plan.edition < 3);
        Some(pending.made.plus_ms(ttl_ms.saturating_add(more_ms)))
    }

    /// Tells whether attempts and time are left.
    fn may_try_again(&self, position: usize, now: Timestamp) -> bool {
        let Some(pending) = self.pending.get(position) else { return false };
        let Some(offer) = self.plan.tools.get(pending.offer) else { return false };
        match offer.target {
            // A called agent has its own limits, and asking it again begins nothing new.
            Target::Agent => true,
            Target::Tool => {
                let tried = pending.attempt.saturating_sub(pending.attempts_before);
                tried < offer.attempts_max && self.call_deadline(now, offer.timeout_ms) > now
            }
        }
    }

    /// Tells whether the outcome of a call that is not made again may still come.
    fn may_rejoin(&self, position: usize, now: Timestamp) -> bool {
        let offer = self.pending.get(position).and_then(|p| self.plan.tools.get(p.offer));
        let rejoins = offer
            .is_some_and(|offer| offer.rejoins && self.call_deadline(now, offer.timeout_ms) > now);
        rejoins
            && match self.next(position, now) {
                Some(Next::Probe | Next::Unknown) => true,
                Some(Next::Again | Next::Failed) | None => false,
            }
    }

    /// Waits anew for the outcome of a call that was made.
    fn rejoin(&mut self, position: usize, effects: &mut Effects) {
        let now = effects.now();
        let Some(offer) = self.pending.get(position).map(|pending| pending.offer) else { return };
        let timeout_ms = self.plan.tools.get(offer).map_or(0, |offer| offer.timeout_ms);
        let deadline = self.call_deadline(now, timeout_ms);
        let Some(pending) = self.pending.get_mut(position) else { return };
        // Its number tells its end from that of the attempt that was interrupted.
        pending.attempt += 1;
        pending.attempted = Some(now);
        pending.deadline = deadline;
        let joined = self.pending.get(position).and_then(|pending| self.stage_effect(pending));
        effects.extend(joined);
    }

    /// Makes a call, or makes it again.
    pub(super) fn make(&mut self, position: usize, reason: &str, effects: &mut Effects) {
        let now = effects.now();
        let Some(offer) = self.pending.get(position).map(|pending| pending.offer) else { return };
        let timeout_ms = self.plan.tools.get(offer).map_or(0, |offer| offer.timeout_ms);
        let mut deadline = self.call_deadline(now, timeout_ms);
        // An attempt may wait to begin for as long as it has time, and one that begins once the key of
        // those before it is forgotten is a second call.
        let doubtful = self.pending.get(position).filter(|p| p.earlier != Earlier::Nothing);
        if let Some(until) = doubtful.and_then(|pending| self.known_until(pending)) {
            deadline = deadline.min(until);
        }
        let Some(pending) = self.pending.get_mut(position) else { return };
        if pending.attempt == pending.attempts_before {
            pending.made = now;
        }
        pending.stage = Stage::Made;
        pending.questions = 0;
        pending.attempt += 1;
        pending.attempted = Some(now);
        pending.deadline = deadline;
        let kind = EventKind::CallRepeated {
            call: pending.key.clone(),
            attempt: pending.attempt,
            reason: reason.to_owned(),
        };
        effects.tell(&self.submitted, kind);
        let made = self.pending.get(position).and_then(|pending| self.stage_effect(pending));
        effects.extend(made);
    }

    fn probe(&mut self, position: usize, effects: &mut Effects) {
        if let Some(pending) = self.pending.get_mut(position) {
            pending.probes += 1;
        }
        self.renew_probe_deadline(position, effects.now());
        let asked = self.pending.get(position).and_then(|pending| self.stage_effect(pending));
        effects.extend(asked);
    }

    fn renew_probe_deadline(&mut self, position: usize, now: Timestamp) {
        let Some(pending) = self.pending.get(position) else { return };
        let offer = self.plan.tools.get(pending.offer);
        let Some(probe) = offer.and_then(|offer| offer.probe.as_ref()) else { return };
        let until = self.call_deadline(now, probe.timeout_ms);
        if let Some(Pending { stage: Stage::Probing { deadline, .. }, .. }) =
            self.pending.get_mut(position)
        {
            *deadline = until;
        }
    }

    /// Decides what follows from an outcome that nobody knows.
    pub(super) fn on_unknown(&mut self, position: usize, why: &str, effects: &mut Effects) {
        let Some(pending) = self.pending.get_mut(position) else { return };
        let Some(offer) = self.plan.tools.get(pending.offer) else { return };
        let note = format!("{why}; it may have taken effect");
        match offer.on_unknown {
            OnUnknown::Tell => {
                let note = format!("{note}; do not repeat it; verify, or ask the user");
                let outcome = CallOutcome::Unknown { note };
                self.settle(position, &outcome, effects);
            }
            OnUnknown::Ask => {
                pending.stage = Stage::Unknown { note, since: effects.now() };
                self.open(position, OpenKind::Unknown, effects);
            }
            OnUnknown::Fail => {
                let message = format!(
                    "call {} of {} ended the run: {note}; find out whether it did, say so with \
                     `callboard calls resolve`, and ask anew",
                    pending.key, offer.spec.name
                );
                let outcome = CallOutcome::Unknown { note };
                self.settle(position, &outcome, effects);
                let error = WireError::new(ErrorCode::OutcomeUnknown, message);
                self.end_early(RunStatus::Failed, error, effects);
            }
        }
    }

    /// Returns the outcome of a call whose run ends without it.
    pub(super) fn outcome_at_end(&self, pending: &Pending, error: &WireError) -> CallOutcome {
        let note = match &pending.stage {
            Stage::Unknown { note, .. } => note.clone(),
            Stage::Probing { missed, .. } => format!("{missed}; it may have taken effect"),
            Stage::Made | Stage::Asking { .. } if self.effect_of(pending) == EffectClass::Once => {
                "the run ended while this call was under way; it may have taken effect".to_owned()
            }
            Stage::Made
            | Stage::Asking { .. }
            | Stage::Approval { .. }
            | Stage::Question { .. } => {
                return CallOutcome::Error { error: error.clone() };
            }
        };
        CallOutcome::Unknown { note }
    }

    pub(super) fn probe_effect(&self, pending: &Pending, deadline: Timestamp) -> Option<Effect> {
        let made = self.call_effect(pending)?;
        let probe = self.plan.tools.get(pending.offer)?.probe.as_ref()?;
        let mut arguments = json!({"key": pending.key});
        if let (true, Some(fields)) = (probe.takes_arguments, arguments.as_object_mut()) {
            fields.insert("arguments".to_owned(), Value::clone(&made.arguments));
        }
        let key = CallKey::of_probe(&pending.key, pending.probes);
        let name: Name = probe.tool.clone();
        Some(Effect::Probe {
            of: pending.key.clone(),
            number: pending.probes,
            call: CallEffect {
                call: key,
                name,
                arguments: Arc::new(arguments),
                deadline,
                effect: EffectClass::Read,
                attempt: 1,
                earlier: Earlier::Nothing,
                // No probe needs leave, wherever it asks.
                may_go_out: true,
                budget: Budget::default(),
                trace: self.trace.of_call(&pending.key),
                ..made
            },
        })
    }
}

/// Reads what a probe says: `{"done": true, "result": ..}` or `{"done": false}`.
///
/// Some kinds of tools return nothing but texts or rows, and some databases have no truth values.
fn finding(outcome: &CallOutcome, edition: u32) -> Finding {
    let output = match outcome {
        CallOutcome::Ok { output } => output,
        CallOutcome::Error { error } | CallOutcome::Ended { error, .. } => {
            return Finding::Unclear(error.message.clone());
        }
        CallOutcome::Unknown { note } => return Finding::Unclear(note.clone()),
    };
    let output = if edition >= 2 { answer(output) } else { Cow::Borrowed(output) };
    let is_done = output.get("done").and_then(|done| match done {
        Value::Bool(done) => Some(*done),
        Value::Number(number) if edition >= 2 => match number.as_u64()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        _ => None,
    });
    match is_done {
        Some(true) => Finding::Done(output.get("result").cloned().unwrap_or_else(|| json!("done"))),
        Some(false) => Finding::NotDone,
        None => Finding::Unclear("it does not answer with `done`: true or false".to_owned()),
    }
}

/// Returns the object that an output stands for: one that is written as a text, or the only one of
/// a list.
fn answer(output: &Value) -> Cow<'_, Value> {
    let read: Option<Value> = output.as_str().and_then(|text| serde_json::from_str(text).ok());
    let read = read.map_or(Cow::Borrowed(output), Cow::Owned);
    match read.as_array().map(Vec::as_slice) {
        Some([row]) => Cow::Owned(row.clone()),
        _ => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_says_done_or_not_done_and_nothing_else() {
        let ok = |output: Value| CallOutcome::Ok { output };
        let unclear = |text: &str| Finding::Unclear(text.to_owned());
        let no_answer = unclear("it does not answer with `done`: true or false");
        let text = |text: &str| ok(json!(text));
        let done = Finding::Done(json!("done"));
        let cases = [
            (ok(json!({"done": true, "result": {"id": 7}})), Finding::Done(json!({"id": 7}))),
            (ok(json!({"done": true})), done.clone()),
            (ok(json!({"done": false, "result": 1})), Finding::NotDone),
            (ok(json!({"done": "true"})), no_answer.clone()),
            (ok(json!({"done": null})), no_answer.clone()),
            (ok(json!({})), no_answer.clone()),
            (text("done"), no_answer.clone()),
            (ok(json!([])), no_answer.clone()),
            (ok(json!([{"done": true}, {"done": true}])), no_answer.clone()),
            (CallOutcome::error(ErrorCode::ToolFailed, "404"), unclear("404")),
            (CallOutcome::Unknown { note: "late".to_owned() }, unclear("late")),
        ];
        let since_2 = [
            (text(r#"{"done": true, "result": "x"}"#), Finding::Done(json!("x"))),
            (text(r#" {"done": false} "#), Finding::NotDone),
            (text(r#"[{"done": 1}]"#), done.clone()),
            (ok(json!([{"done": true, "result": 7}])), Finding::Done(json!(7))),
            (ok(json!([{"done": 0, "result": null}])), Finding::NotDone),
            (ok(json!({"done": 1})), done),
        ];
        let odd = [json!({"done": 2}), json!([{"done": -1}]), json!({"done": 1.0})];
        let odd = odd.map(|output| (ok(output), no_answer.clone()));
        for (outcome, expected) in cases.iter().chain(&odd) {
            for edition in [0, 1, 2] {
                assert_eq!(finding(outcome, edition), *expected, "{edition}: {outcome:?}");
            }
        }
        for (outcome, expected) in since_2 {
            assert_eq!(finding(&outcome, 1), no_answer, "{outcome:?}");
            assert_eq!(finding(&outcome, 2), expected, "{outcome:?}");
        }
    }
}
