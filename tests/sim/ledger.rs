//! What the tools did outside, by the key of the call. It outlives every crash.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agents_core::effect::CallEffect;
use serde_json::Value;
use wire::{CallKey, CallOutcome, EffectClass, ErrorCode, Name, SessionId, ToolReply};

use crate::rng::Rng;

/// What one key did.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) session: SessionId,
    pub(crate) tool: Name,
    pub(crate) arguments: Arc<Value>,
    pub(crate) class: EffectClass,
    /// Times that something changed outside.
    pub(crate) effects: u32,
    /// A request under this key differed from the first.
    pub(crate) mixed: bool,
    outcome: CallOutcome,
}

/// All that the tools did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) hits: BTreeMap<CallKey, Hit>,
    /// Keys that were refused; they stay so.
    refused: BTreeSet<CallKey>,
    /// The last attempt that was sent under a key.
    pub(crate) sent: BTreeMap<CallKey, u32>,
    /// The last attempt under a key of which a probe said that nothing came of it; what arrives
    /// of it later does nothing any more.
    fenced: BTreeMap<CallKey, u32>,
}

impl Ledger {
    /// Does what a call asks for and says what the tool answers.
    pub(crate) fn perform(
        &mut self,
        rng: &mut Rng,
        session: &SessionId,
        call: &CallEffect,
    ) -> ToolReply {
        if self.fenced.get(&call.call).is_some_and(|fence| call.attempt <= *fence) {
            return ToolReply::lost(ErrorCode::ToolUnavailable, "it came too late");
        }
        let approval = call.effect == EffectClass::Once && rng.percent(10);
        if approval || call.name.as_str() == "ask" {
            return ToolReply::Suspended { question: "may I?".to_owned() };
        }
        let refuses = !self.hits.contains_key(&call.call) && rng.percent(10);
        if refuses || self.refused.contains(&call.call) {
            self.refused.insert(call.call.clone());
            let outcome = CallOutcome::error(ErrorCode::ToolFailed, "nothing was done");
            return ToolReply::settled(outcome);
        }
        let serial = self.hits.len();
        let hit = self.hits.entry(call.call.clone()).or_insert_with(|| Hit {
            session: session.clone(),
            tool: call.name.clone(),
            arguments: call.arguments.clone(),
            class: call.effect,
            effects: 0,
            mixed: false,
            outcome: CallOutcome::text(format!("done {serial}")),
        });
        hit.mixed |= hit.tool != call.name || hit.arguments != call.arguments;
        match call.effect {
            EffectClass::Read => {}
            EffectClass::Idempotent => hit.effects = 1,
            EffectClass::Once => hit.effects += 1,
        }
        if rng.percent(5) {
            return ToolReply::lost(ErrorCode::ToolUnavailable, "the connection broke");
        }
        ToolReply::settled(hit.outcome.clone())
    }

    /// Says whether something was done under a key, and keeps to it.
    pub(crate) fn probe(&mut self, call: &CallKey) -> bool {
        let done = self.did(call);
        if let (false, Some(sent)) = (done, self.sent.get(call)) {
            self.fenced.insert(call.clone(), *sent);
        }
        done
    }

    /// Tells whether something was done under a key.
    pub(crate) fn did(&self, call: &CallKey) -> bool {
        self.hits.get(call).is_some_and(|hit| hit.effects > 0)
    }
}
