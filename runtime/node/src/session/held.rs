//! Inputs that wait to be made durable together with the next.
//!
//! A sync of the disk is most of what a step costs beside its model. The reply of a model that asks
//! for nothing but calls that change nothing is therefore held while they are made, and becomes
//! durable in one commit with what comes of them. A crash takes it with all that followed from it,
//! none of which anybody has seen.

use std::collections::HashSet;
use std::time::Duration;

use agents_core::effect::{CallEffect, Effect};
use wire::CallKey;
use wire::entry::{Entry, Input};

/// How long an input is held at most: far less than a model takes to say the same again.
pub(super) const HELD_TIME_MAX: Duration = Duration::from_millis(2);

/// Inputs that are held at once: the outcomes of a turn with many calls.
const HELD_MAX: usize = 16;

/// Inputs that the machine has taken and the journal has not.
#[derive(Default)]
pub(super) struct Held {
    inputs: Vec<Taken>,
    /// The calls that were made because of them.
    calls: HashSet<CallKey>,
}

/// An input that the machine has taken, and what is still to be done because of it.
pub(super) struct Taken {
    pub(super) slot: u64,
    pub(super) entry: Entry,
    pub(super) effects: Vec<Effect>,
}

impl Held {
    /// Tells whether an input may be held, by what follows from it.
    pub(super) fn may_take(&self, input: &Input, effects: &[Effect]) -> bool {
        let waits = match input {
            // Without a call nothing would follow that it could wait for.
            Input::ModelReplied(_) => {
                effects.iter().any(|effect| matches!(effect, Effect::Call(_)))
            }
            // Others of the turn are still under way.
            Input::CallSettled { call, .. } => self.calls.contains(call),
            _ => false,
        };
        waits && self.inputs.len() < HELD_MAX && effects.iter().all(Effect::is_harmless)
    }

    /// Holds an input, and returns the calls that are to be made at once.
    pub(super) fn take(&mut self, mut taken: Taken) -> Vec<CallEffect> {
        let calls = taken.effects.extract_if(.., |effect| matches!(effect, Effect::Call(_)));
        let calls: Vec<CallEffect> = calls
            .filter_map(|effect| if let Effect::Call(call) = effect { Some(call) } else { None })
            .collect();
        self.calls.extend(calls.iter().map(|call| call.call.clone()));
        self.inputs.push(taken);
        calls
    }

    /// Gives up what is held.
    pub(super) fn give(&mut self) -> Vec<Taken> {
        self.calls.clear();
        std::mem::take(&mut self.inputs)
    }
}
