//! The models that stand in for others.

use std::collections::{BTreeMap, BTreeSet};

use wire::Name;
use wire::plan::{Dialect, Plan};

use super::Compiler;
use super::circle::{Calls, circles};
use crate::bound::MODEL_TIMEOUT_MS;
use crate::team::Model;

impl Compiler<'_> {
    /// Gives each model those that stand in for it, and reports what cannot be.
    pub(super) fn fallbacks(
        &mut self,
        written: &BTreeMap<String, Vec<String>>,
        models: &mut BTreeMap<Name, Model>,
    ) {
        for (text, listed) in written {
            for (index, named) in self.listed(&["models", text], "fallback", listed) {
                let at = ["models", text, "fallback", &index];
                self.reference("models", &named, &at);
            }
        }
        let calls: Calls = written
            .iter()
            .map(|(text, listed)| (text.as_str(), listed.iter().map(String::as_str).collect()))
            .collect();
        let found = circles(&calls);
        for circle in &found {
            let [.., last, first] = circle.as_slice() else { continue };
            let index = calls
                .get(last)
                .and_then(|listed| listed.iter().position(|name| name == first))
                .unwrap_or_default();
            let message =
                format!("models stand in for each other in a circle: {}", circle.join(" -> "));
            let at = ["models", last, "fallback", &index.to_string()];
            self.fault(&at, message, "remove one of them from its `fallback`");
        }
        if !found.is_empty() {
            return;
        }
        let chains: Vec<(Name, Vec<Name>)> = models
            .keys()
            .map(|name| {
                let mut chain = Vec::new();
                follow(name.as_str(), &calls, models, &mut chain);
                (name.clone(), chain)
            })
            .collect();
        for (name, chain) in chains {
            if let Some(model) = models.get_mut(&name) {
                model.fallback = chain;
            }
        }
    }
}

impl Compiler<'_> {
    /// Holds those that stand in for the models of all plans against what they would be sent.
    pub(super) fn stand_ins(
        &mut self,
        plans: &BTreeMap<Name, Plan>,
        models: &BTreeMap<Name, Model>,
    ) {
        let sent: BTreeSet<(&Name, Sent)> = plans.values().flat_map(sent).collect();
        for (name, sent) in sent {
            let chain = models.get(name).map(|model| model.fallback.as_slice()).unwrap_or_default();
            for other in chain.iter().filter_map(|other| models.get(other)) {
                if sent.is_known_to(other.dialect) {
                    continue;
                }
                let (its, other) = (other.dialect.as_str(), &other.name);
                let message = format!(
                    "model `{other}` of dialect `{its}` cannot stand in for `{name}`, {}",
                    sent.said()
                );
                let help = format!(
                    "the prompt is made for `{name}`: give both a dialect that both know, or name another model"
                );
                // One that a fallback names stands in as well.
                let own = self.document.texts(&["models", name.as_str(), "fallback"]);
                let index = own.iter().position(|own| *own == other.as_str());
                let index = index.map(|index| index.to_string());
                let path = ["models", name.as_str(), "fallback"];
                let at: Vec<&str> = path.into_iter().chain(index.as_deref()).collect();
                self.fault(&at, message, help);
            }
        }
    }
}

/// What is asked of a model that not every model can be asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sent {
    /// Calls, by the dialect of the model.
    Calls(Asked),
    /// A plan under a schema.
    Plan,
}

/// The dialects of which something has to be known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Native,
    Schema,
}

/// Returns what the models of a plan are sent, as far as not every model takes it.
fn sent(plan: &Plan) -> Vec<(&Name, Sent)> {
    let acts = |(name, dialect): (_, Dialect)| Some((name, Sent::Calls(asked(dialect)?)));
    let mut all: Vec<(&Name, Sent)> = acts((&plan.actor, plan.dialect)).into_iter().collect();
    if let Some(planner) = &plan.planner {
        all.extend(asked(planner.dialect).map(|_| (&planner.model, Sent::Plan)));
        // The actor of a tool makes the arguments of what a planner selected.
        let own = plan.tools.iter().filter_map(|offer| offer.actor.as_ref());
        all.extend(own.filter_map(|own| acts((&own.model, own.dialect))));
    }
    all
}

/// Adds the fallbacks of a model to a chain, each followed by its own.
fn follow(name: &str, calls: &Calls<'_>, models: &BTreeMap<Name, Model>, chain: &mut Vec<Name>) {
    for named in calls.get(name).into_iter().flatten() {
        let known = models.get_key_value(*named).map(|(name, _)| name.clone());
        if let Some(named) = known.filter(|named| !chain.contains(named)) {
            chain.push(named.clone());
            follow(named.as_str(), calls, models, chain);
        }
    }
}

const fn asked(dialect: Dialect) -> Option<Asked> {
    match dialect {
        Dialect::Native => Some(Asked::Native),
        Dialect::Schema => Some(Asked::Schema),
        Dialect::Json | Dialect::React => None,
    }
}

impl Sent {
    /// Tells whether a model of this dialect can be sent it: one that is usually asked by less is
    /// taken to know no more.
    const fn is_known_to(self, own: Dialect) -> bool {
        match self {
            Self::Calls(Asked::Native) => matches!(own, Dialect::Native),
            Self::Calls(Asked::Schema) | Self::Plan => {
                matches!(own, Dialect::Native | Dialect::Schema)
            }
        }
    }

    const fn said(self) -> &'static str {
        match self {
            Self::Calls(Asked::Native) => "whose agents ask by `native`",
            Self::Calls(Asked::Schema) => "whose agents ask by `schema`",
            Self::Plan => "whose plans are held to a schema",
        }
    }
}

/// Returns the time for one turn of a model and of all that stand in for it, in milliseconds.
pub(super) fn chain_timeout_ms(name: &Name, models: &BTreeMap<Name, Model>) -> Option<u64> {
    let model = models.get(name)?;
    let others = model.fallback.iter().filter_map(|name| models.get(name));
    let sum = others.fold(model.timeout_ms, |sum, other| sum.saturating_add(other.timeout_ms));
    Some(sum.min(MODEL_TIMEOUT_MS.max))
}
