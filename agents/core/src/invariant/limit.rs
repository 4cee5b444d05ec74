//! Rules of what a run may use: tokens, calls, time, depth.

use std::collections::{HashMap, HashSet};

use wire::entry::ModelOutcome;
use wire::plan::Target;
use wire::{CallKey, Input, RunId, Timestamp};

use super::{Record, Violation, accepted, calls, input};
use crate::effect::Effect;
use crate::session::Plans;

/// What is known of the tokens of a run.
struct Account {
    limit: u64,
    used: u64,
    reserved: HashMap<CallKey, u64>,
}

/// Checks that nothing is begun that the run cannot pay: at each beginning, what is used and what
/// is set aside lie within the limit (I7). What a model reads is estimated before and known after,
/// so a provider that counts far more than the estimate can go beyond it once.
pub fn within_budget(records: &[Record], plans: &dyn Plans) -> Result<(), Violation> {
    let mut accounts: HashMap<&RunId, Account> = HashMap::new();
    for (slot, record) in records.iter().enumerate() {
        match input(record) {
            Some(Input::Submitted(submitted)) => {
                let limit = plans.plan(&submitted.plan).map_or(0, |plan| plan.limits.tokens_max);
                let limit = submitted.budget.tokens.map_or(limit, |tokens| tokens.min(limit));
                let account = Account { limit, used: 0, reserved: HashMap::new() };
                accounts.insert(&submitted.run, account);
            }
            Some(Input::ModelReplied(replied)) => {
                if let (Some(account), ModelOutcome::Read { turn, .. }) =
                    (accounts.get_mut(&replied.run), &replied.outcome)
                {
                    account.used += turn.usage.total();
                }
            }
            Some(Input::CallSettled { call, usage, .. }) => {
                for account in accounts.values_mut() {
                    if account.reserved.remove(call).is_some() {
                        account.used += usage.total();
                    }
                }
            }
            // What is counted of an attempt is not set aside for the next one as well.
            Some(Input::CallLost { call, usage, .. }) => {
                for account in accounts.values_mut() {
                    if let Some(reserved) = account.reserved.get_mut(call) {
                        account.used += usage.total();
                        *reserved = reserved.saturating_sub(usage.total());
                    }
                }
            }
            _ => {}
        }
        for effect in &record.effects {
            let (run, asked) = match effect {
                Effect::AskModel { run, max_tokens, .. } => (run, *max_tokens),
                Effect::Call(call) => (&call.run, 0),
                _ => continue,
            };
            let Some(account) = accounts.get_mut(run) else {
                return Err(Violation::NotAccepted { run: run.clone() });
            };
            let begins = match effect {
                Effect::Call(call) => call.budget.tokens.is_some_and(|tokens| {
                    account.reserved.insert(call.call.clone(), tokens).is_none()
                }),
                _ => true,
            };
            let reserved = account.reserved.values().sum::<u64>();
            let fits = !begins || account.used + reserved + asked <= account.limit;
            if !fits {
                let Account { limit, used, .. } = *account;
                return Err(Violation::OverBudget {
                    run: run.clone(),
                    slot,
                    limit,
                    used,
                    reserved,
                });
            }
        }
    }
    Ok(())
}

/// What is known of the calls of a run.
struct Calls {
    limit: u64,
    made: HashSet<CallKey>,
    /// Those of the runs that it asked for.
    below: u64,
    reserved: HashMap<CallKey, u64>,
}

/// Checks that a run and the runs below it make no more calls than they may: what is made and what
/// is set aside for called agents lie within the limit (I7).
pub fn within_calls(records: &[Record], plans: &dyn Plans) -> Result<(), Violation> {
    let mut runs: HashMap<&RunId, Calls> = HashMap::new();
    for (slot, record) in records.iter().enumerate() {
        match input(record) {
            Some(Input::Submitted(submitted)) => {
                let limit = plans.plan(&submitted.plan).map_or(0, |plan| plan.limits.calls_max);
                let limit = submitted.budget.calls.map_or(limit, |calls| calls.min(limit));
                let calls =
                    Calls { limit, made: HashSet::new(), below: 0, reserved: HashMap::new() };
                runs.insert(&submitted.run, calls);
            }
            Some(Input::CallSettled { call, usage, .. }) => {
                for calls in runs.values_mut() {
                    if calls.reserved.remove(call).is_some() {
                        calls.below += usage.calls;
                    }
                }
            }
            _ => {}
        }
        for effect in &record.effects {
            let Effect::Call(call) = effect else { continue };
            let Some(calls) = runs.get_mut(&call.run) else {
                return Err(Violation::NotAccepted { run: call.run.clone() });
            };
            if calls.made.insert(call.call.clone()) {
                calls.reserved.insert(call.call.clone(), call.budget.calls.unwrap_or_default());
            }
            let made = calls.made.len() as u64 + calls.below;
            let reserved = calls.reserved.values().sum::<u64>();
            if made + reserved > calls.limit {
                let run = call.run.clone();
                return Err(Violation::TooManyCalls { run, slot, limit: calls.limit });
            }
        }
    }
    Ok(())
}

/// Checks that nothing is given time beyond its run's, and that nothing is asked for after it (I8).
pub fn within_deadline(records: &[Record]) -> Result<(), Violation> {
    let mut deadlines: HashMap<&RunId, Timestamp> = HashMap::new();
    for (slot, record) in records.iter().enumerate() {
        if let Some(Input::Submitted(submitted)) = input(record) {
            deadlines.insert(&submitted.run, submitted.deadline);
        }
        for effect in &record.effects {
            let (run, until) = match effect {
                Effect::AskModel { run, deadline, .. } | Effect::Say { run, deadline, .. } => {
                    (run, *deadline)
                }
                Effect::Call(call) | Effect::Probe { call, .. } => (&call.run, call.deadline),
                Effect::Expire { run, at, .. } => (run, *at),
                _ => continue,
            };
            let in_time = |deadline: &Timestamp| record.entry.at < *deadline && until <= *deadline;
            if !deadlines.get(run).is_some_and(in_time) {
                return Err(Violation::Outlasts { run: run.clone(), slot });
            }
        }
    }
    Ok(())
}

/// Checks that no agent is called deeper than the plan of the calling run allows.
pub fn within_depth(records: &[Record], plans: &dyn Plans) -> Result<(), Violation> {
    let depths: HashMap<&RunId, u32> = accepted(records)
        .filter_map(|submitted| {
            let plan = plans.plan(&submitted.plan)?;
            Some((&submitted.run, plan.limits.depth_max))
        })
        .collect();
    let mut agents = calls(records).filter(|call| call.target == Target::Agent);
    match agents.find(|call| depths.get(&call.run).is_none_or(|most| call.depth > *most)) {
        Some(call) => Err(Violation::TooDeep { call: call.call.clone() }),
        None => Ok(()),
    }
}
