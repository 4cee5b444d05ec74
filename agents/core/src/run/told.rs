//! What is new to the models of a run since the turn before, for traces.
//!
//! Only how far the steps went is remembered; the texts are those that the steps hold anyway.

use super::Run;
use crate::dialect::{Act, Step};
use crate::spans::content::{Part, Said};

/// How far the steps of a run went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    steps: usize,
    /// Of the last step.
    acts: usize,
    /// Whether the last step had its thought or its plan.
    is_led: bool,
}

impl Run {
    /// Notes how far the steps went when a turn is asked for.
    pub(super) fn note_extent(&mut self) {
        let last = self.steps.last();
        let [_, before] = self.told;
        let extent = Extent {
            steps: self.steps.len(),
            acts: last.map_or(0, |step| step.acts.len()),
            is_led: last.is_some_and(Step::is_led),
        };
        self.told = [before, extent];
    }

    /// Notes that the last step has no more than so many acts of those that it had.
    pub(super) fn cut_extent(&mut self, acts: usize) {
        let [_, last] = &mut self.told;
        last.acts = last.acts.min(acts);
    }

    /// Returns what the awaited turn was told that no turn before was told: the user's messages,
    /// thoughts of the other model, results of calls, and feedback.
    pub(super) fn told(&self) -> Vec<Said<'_>> {
        let [before, asked] = self.told;
        let mut told = Vec::new();
        if before == Extent::default() {
            told.push(Said::user(&self.submitted.text));
        }
        let first = before.steps.saturating_sub(1);
        for (index, step) in self.steps.iter().enumerate().skip(first) {
            let number = index + 1;
            let is_old = number == before.steps;
            let is_last = number == asked.steps;
            if !(is_old && before.is_led) && (!is_last || asked.is_led) {
                led(step, &mut told);
            }
            let skipped = if is_old { before.acts } else { 0 };
            let known = if is_last { asked.acts } else { step.acts.len() };
            for act in step.acts.iter().take(known).skip(skipped) {
                told.extend(heard(act));
            }
        }
        told
    }
}

impl Step {
    fn is_led(&self) -> bool {
        self.thought.is_some() || self.planned.is_some()
    }
}

fn led<'a>(step: &'a Step, told: &mut Vec<Said<'a>>) {
    let thought = step.thought.iter().map(|text| Part::Text(text));
    let planned = step.planned.iter();
    let task = planned.map(|it| Part::Task { tool: it.tool.as_str(), text: &it.task });
    told.extend(thought.chain(task).map(|part| Said::model(vec![part])));
}

/// Returns what a model hears by an act; what it said itself is none of it.
fn heard(act: &Act) -> Option<Said<'_>> {
    match act {
        Act::Calls { calls, .. } => {
            let results = calls.iter().map(|call| Part::Result {
                id: &call.read.id,
                name: &call.read.name,
                text: call.result.as_deref().unwrap_or_default(),
            });
            Some(Said { role: "tool", parts: results.collect(), finish: None })
        }
        Act::Steered { text } => Some(Said::user(text)),
        Act::Feedback { feedback, .. } => Some(Said::user(&feedback.message)),
        Act::Continued { .. } | Act::Answered { .. } => None,
    }
}
