//! Agents as those who call them see them: tools with parameters, of which a task is made.

use std::collections::{BTreeMap, BTreeSet};

use ::tools::Template;
use serde_json::{Value, json};
use wire::plan::{Offer, Plan, Target};
use wire::{EffectClass, Name, ToolSpec};

use super::Compiler;
use crate::raw::RawAgent;

impl Compiler<'_> {
    /// Makes the offer of an agent to those who may call it.
    pub(super) fn offer_of(&mut self, name: &Name, agent: &RawAgent, timeout_ms: u64) -> Offer {
        let (parameters, task) = self.task(name, agent).unwrap_or_else(|| (one_task(), None));
        let spec = ToolSpec {
            name: name.clone(),
            description: agent.description.clone().unwrap_or_default(),
            parameters,
        };
        // The key of the call is the id of the run, so that asking again finds the same run.
        Offer { task, ..Offer::new(spec, Target::Agent, EffectClass::Idempotent, timeout_ms) }
    }

    /// Returns the parameters of an agent and the text that is made of them, if it has its own.
    fn task(&mut self, name: &Name, agent: &RawAgent) -> Option<(Value, Option<String>)> {
        let path = ["agents", name.as_str()];
        let [table, own] = path;
        let parameters = match &agent.parameters {
            Some(written) => self.object_schema(&path, "parameters", written)?,
            // What is there but of the wrong type has been reported.
            None if self.document.has(&[table, own, "parameters"]) => return None,
            None => one_task(),
        };
        let what = "what the agent is told, with `{parameter}` for arguments";
        let task = match &agent.task {
            None if agent.parameters.is_none() => return None,
            task => self.needed(&path, "task", task.clone(), what)?,
        };
        for fault in Template::parse(&task).faults(&parameters, "task") {
            self.fault(
                &[table, own, "task"],
                format!("agent `{name}`: {fault}"),
                "change `task`, or `parameters`",
            );
        }
        Some((parameters, Some(task)))
    }
}

/// The parameters of an agent that says nothing of them.
fn one_task() -> Value {
    json!({
        "type": "object",
        "properties": {
            "task": {
                "type": "string",
                "description": "What the agent is to do, with all that it needs to know.",
            },
        },
        "required": ["task"],
        "additionalProperties": false,
    })
}

/// Returns an agent and all that it can call, directly or not.
pub(crate) fn reachable(agent: &Name, plans: &BTreeMap<Name, Plan>) -> BTreeSet<Name> {
    reachable_without(&BTreeSet::new(), agent, plans)
}

/// Returns an agent and all that it can call, directly or not, where some others are not there.
pub(super) fn reachable_without(
    others: &BTreeSet<&Name>,
    agent: &Name,
    plans: &BTreeMap<Name, Plan>,
) -> BTreeSet<Name> {
    let mut found = BTreeSet::from([agent.clone()]);
    let mut next = vec![agent.clone()];
    while let Some(plan) = next.pop().and_then(|name| plans.get(&name)) {
        let offers = plan.tools.iter().filter(|offer| offer.target == Target::Agent);
        for offer in offers.filter(|offer| !others.contains(&offer.spec.name)) {
            if found.insert(offer.spec.name.clone()) {
                next.push(offer.spec.name.clone());
            }
        }
    }
    found
}
