//! `remember`, `recall` and `forget`: facts that are kept across sessions.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use wire::entry::{Fact, MemoryChange};
use wire::{CallKey, CallOutcome, ToolReply, Usage};

use super::TEXT_BYTES_MAX;
use super::clock::rfc3339;
use crate::argument;
use crate::memory::Memory;
use crate::tool::{Tool, ToolContext};

/// The longest fact, in bytes. A fact is a sentence that many prompts will carry.
pub(super) const FACT_BYTES_MAX: usize = 4096;

/// The most facts that one recall returns, so that the answer fits into a prompt.
pub(super) const RECALL_LIMIT_MAX: usize = 50;

/// The number of facts that a recall returns if it does not say how many.
const RECALL_LIMIT_DEFAULT: usize = 10;

/// The most facts that one call forgets; it bounds the journal entry.
const FORGET_IDS_MAX: usize = 100;

pub(super) struct Remember {
    pub(super) memory: Arc<dyn Memory>,
}

pub(super) struct Recall {
    pub(super) memory: Arc<dyn Memory>,
}

pub(super) struct Forget {
    pub(super) memory: Arc<dyn Memory>,
}

impl Tool for Remember {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(async { settled(self.remember(context, arguments).await) })
    }
}

impl Tool for Recall {
    fn call<'a>(&'a self, _: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolReply> {
        Box::pin(async {
            match self.recall(arguments).await {
                Ok(facts) => {
                    let tainted = facts.iter().any(|fact| fact.tainted);
                    let outcome = CallOutcome::Ok { output: facts.iter().map(shown).collect() };
                    ToolReply::Settled { outcome, usage: Usage::default(), tainted, hop: None }
                }
                Err(outcome) => ToolReply::settled(outcome),
            }
        })
    }
}

impl Tool for Forget {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(async { settled(self.forget(context, arguments).await) })
    }
}

fn settled(result: Result<Value, CallOutcome>) -> ToolReply {
    let outcome = result.map_or_else(|outcome| outcome, |output| CallOutcome::Ok { output });
    ToolReply::settled(outcome)
}

fn failed(error: wire::WireError) -> CallOutcome {
    CallOutcome::Error { error }
}

/// Returns a fact as a model is told of it.
fn shown(fact: &Fact) -> Value {
    json!({"id": fact.id, "text": fact.text, "at": rfc3339(fact.at)})
}

impl Remember {
    async fn remember(
        &self,
        context: &ToolContext,
        arguments: &Value,
    ) -> Result<Value, CallOutcome> {
        let text = argument::text(arguments, "text", FACT_BYTES_MAX)?;
        let fact = Fact {
            id: context.call.clone(),
            text: text.to_owned(),
            at: context.now,
            agent: context.agent.clone(),
            session: context.session.clone(),
            tainted: context.tainted,
        };
        let known = self.memory.change(MemoryChange::Remembered(fact)).await.map_err(failed)?;
        Ok(json!({"id": known.as_ref().unwrap_or(&context.call)}))
    }
}

impl Recall {
    async fn recall(&self, arguments: &Value) -> Result<Vec<Fact>, CallOutcome> {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        if query.len() > TEXT_BYTES_MAX {
            return Err(argument::invalid(format!(
                "argument \"query\" has {} bytes, more than {TEXT_BYTES_MAX}",
                query.len()
            )));
        }
        let limit = match arguments.get("limit") {
            None | Some(Value::Null) => RECALL_LIMIT_DEFAULT,
            Some(limit) => limit
                .as_u64()
                .and_then(|limit| usize::try_from(limit).ok())
                .filter(|limit| (1..=RECALL_LIMIT_MAX).contains(limit))
                .ok_or_else(|| {
                    argument::invalid(format!(
                        "argument \"limit\" has to be an integer from 1 to {RECALL_LIMIT_MAX}"
                    ))
                })?,
        };
        self.memory.recall(query, limit).await.map_err(failed)
    }
}

impl Forget {
    async fn forget(&self, context: &ToolContext, arguments: &Value) -> Result<Value, CallOutcome> {
        let ids = fact_ids(arguments)?;
        let known = self.memory.facts(&ids).await.map_err(failed)?;
        let known: Vec<CallKey> = known.into_iter().map(|fact| fact.id).collect();
        let unknown: Vec<&CallKey> = ids.iter().filter(|id| !known.contains(id)).collect();
        let output = json!({"forgotten": known.len(), "unknown": unknown});
        if !known.is_empty() {
            let change = MemoryChange::Forgotten { facts: known, by: context.call.clone() };
            self.memory.change(change).await.map_err(failed)?;
        }
        Ok(output)
    }
}

/// Takes the ids, each once.
fn fact_ids(arguments: &Value) -> Result<Vec<CallKey>, CallOutcome> {
    let texts = arguments.get("ids").and_then(Value::as_array).map(Vec::as_slice);
    let texts = texts.unwrap_or_default();
    if texts.is_empty() || texts.len() > FORGET_IDS_MAX {
        return Err(argument::invalid(format!(
            "argument \"ids\" has to be a list of 1 to {FORGET_IDS_MAX} ids"
        )));
    }
    let mut ids = Vec::with_capacity(texts.len());
    for text in texts {
        let id = text.as_str().and_then(|text| CallKey::new(text).ok()).ok_or_else(|| {
            argument::invalid(format!("{text} is no id of a fact; take the ids that recall gives"))
        })?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}
