//! The models that stand in for others.

use std::collections::{BTreeMap, BTreeSet};

use wire::Name;
use wire::plan::Dialect;

use super::Compiler;
use super::circle::{Calls, circles};
use crate::bound::MODEL_TIMEOUT_MS;
use crate::raw::RawAgent;
use crate::team::Model;

impl Compiler<'_> {
    /// Gives each model those that stand in for it, and reports what cannot be.
    pub(super) fn fallbacks(
        &mut self,
        written: &BTreeMap<String, Vec<String>>,
        agents: &BTreeMap<String, RawAgent>,
        models: &mut BTreeMap<Name, Model>,
    ) {
        let acting: BTreeSet<&str> = agents
            .values()
            .filter_map(|agent| agent.actor.as_deref().or(agent.model.as_deref()))
            .collect();
        for (text, listed) in written {
            for (index, named) in self.listed(&["models", text], "fallback", listed) {
                let at = ["models", text, "fallback", &index];
                let Some(named) = self.reference("models", &named, &at) else { continue };
                let (Some(model), Some(other)) = (models.get(text.as_str()), models.get(&named))
                else {
                    continue;
                };
                if acting.contains(text.as_str()) && !can_stand_in(other.dialect, model.dialect) {
                    let (its, wanted) = (other.dialect.as_str(), model.dialect.as_str());
                    let message = format!(
                        "model `{named}` of dialect `{its}` cannot stand in for `{text}`, whose agents ask by `{wanted}`"
                    );
                    let help = format!(
                        "the prompt is made for `{text}`: give both a dialect that both know, or name another model"
                    );
                    self.fault(&at, message, help);
                }
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

/// Tells whether a model whose own dialect is `own` can be asked by `asked`: a model that is
/// usually asked by less is taken to know no more.
const fn can_stand_in(own: Dialect, asked: Dialect) -> bool {
    match asked {
        Dialect::Native => matches!(own, Dialect::Native),
        Dialect::Schema => matches!(own, Dialect::Native | Dialect::Schema),
        Dialect::Json | Dialect::React => true,
    }
}

/// Returns the time for one turn of a model and of all that stand in for it, in milliseconds.
pub(super) fn chain_timeout_ms(name: &Name, models: &BTreeMap<Name, Model>) -> Option<u64> {
    let model = models.get(name)?;
    let others = model.fallback.iter().filter_map(|name| models.get(name));
    let sum = others.fold(model.timeout_ms, |sum, other| sum.saturating_add(other.timeout_ms));
    Some(sum.min(MODEL_TIMEOUT_MS.max))
}
