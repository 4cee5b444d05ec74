//! What the models of an agent cost, and whether its bound of money can be kept.

use std::collections::{BTreeMap, BTreeSet};

use wire::Name;
use wire::money::{ModelPrice, NANO_USD, Price};
use wire::plan::Plan;

use super::Compiler;
use super::called::reachable;
use crate::raw::RawPrice;
use crate::team::Model;

impl Compiler<'_> {
    /// Fills the prices of all plans, and reports models without a price where money is bounded.
    pub(super) fn prices(
        &mut self,
        plans: &mut BTreeMap<Name, Plan>,
        models: &BTreeMap<Name, Model>,
    ) {
        for plan in plans.values_mut() {
            plan.prices = answering(plan, models)
                .into_iter()
                .filter_map(|name| Some((name.clone(), price_of(models.get(&name)?, models)?)))
                .collect();
        }
        let mut reported = BTreeSet::new();
        for (agent, plan) in
            plans.iter().filter(|(_, plan)| plan.limits.cost_max_nano_usd.is_some())
        {
            let below = reachable(agent, plans);
            let unpriced = below
                .iter()
                .filter_map(|name| plans.get(name))
                .flat_map(|plan| answering(plan, models))
                .filter(|name| models.get(name).is_some_and(|model| model.price.is_none()));
            for model in unpriced {
                if !reported.insert(model.clone()) {
                    continue;
                }
                let message = format!(
                    "model {model} has no `price`, so the `cost_max` of agent {} cannot be kept",
                    plan.agent
                );
                let help = "write `price = { input = .., output = .. }` in US dollars for a million tokens; 0 if it costs nothing";
                self.fault(&["models", model.as_str()], message, help);
            }
        }
    }
}

/// Reads a price, which people write in US dollars.
pub(super) fn price(raw: &RawPrice) -> Price {
    Price {
        input: nano_usd(raw.input),
        output: nano_usd(raw.output),
        cache_read: raw.cache_read.map(nano_usd),
        cache_write: raw.cache_write.map(nano_usd),
    }
}

/// Turns dollars into billionths of them; bounds of the field keep the amount in range.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "amounts are not negative, and a cast that is too large saturates"
)]
pub(super) fn nano_usd(usd: f64) -> u64 {
    (usd * NANO_USD as f64).round() as u64
}

/// Returns the models that may answer in a run of an agent, those that stand in for others included.
pub(super) fn answering(plan: &Plan, models: &BTreeMap<Name, Model>) -> BTreeSet<Name> {
    let with_fallbacks = plan.models().flat_map(|name| {
        let fallback = models.get(name).map(|model| model.fallback.as_slice()).unwrap_or_default();
        [name].into_iter().chain(fallback)
    });
    with_fallbacks.cloned().collect()
}

fn price_of(model: &Model, models: &BTreeMap<Name, Model>) -> Option<ModelPrice> {
    let own = model.price?;
    let (mut highest, mut unpriced) = (own, None);
    for (name, other) in model.fallback.iter().filter_map(|name| Some((name, models.get(name)?))) {
        match other.price {
            Some(price) => highest = highest.max(price),
            None => unpriced = unpriced.or_else(|| Some(name.clone())),
        }
    }
    Some(ModelPrice { own, highest, unpriced })
}
