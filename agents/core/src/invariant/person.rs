//! Rules of what people have to say: leave before a call, and nothing that waits unseen.

use std::collections::{BTreeSet, HashMap, HashSet};

use wire::plan::Permission;
use wire::{CallKey, Digest, EventKind, Input, RunId, call_digest};

use super::{Record, Violation, input};
use crate::effect::Effect;
use crate::permission::decide;
use crate::session::Plans;

/// Checks that no call is made that the plan denies, and that one which needs leave is made only
/// after a person allowed exactly what it asks for. What a run read in its own calls, and what
/// asked for it, counts as taint here; what earlier runs of its session left does not.
pub fn permitted(records: &[Record], plans: &dyn Plans) -> Result<(), Violation> {
    let mut plan_of: HashMap<&RunId, &Digest> = HashMap::new();
    let mut allowed: HashMap<&CallKey, &Digest> = HashMap::new();
    let mut tainted: HashSet<&RunId> = HashSet::new();
    // The run of every call, and whether it was tainted when the call was asked for.
    let mut begun: HashMap<&CallKey, (&RunId, bool)> = HashMap::new();
    let mut reads_strangers: HashSet<&CallKey> = HashSet::new();
    for record in records {
        match input(record) {
            Some(Input::Submitted(submitted)) => {
                plan_of.insert(&submitted.run, &submitted.plan);
                if submitted.parent.as_ref().is_some_and(|parent| parent.tainted) {
                    tainted.insert(&submitted.run);
                }
            }
            Some(
                Input::CallSettled { call, tainted: true, .. }
                | Input::CallLost { call, tainted: true, .. }
                | Input::CallProbed { call, tainted: true, .. },
            ) => {
                tainted.extend(begun.get(call).map(|(run, _)| *run));
            }
            Some(Input::CallApproved { call, digest }) => {
                allowed.insert(call, digest);
            }
            _ => {}
        }
        for effect in &record.effects {
            let made = match effect {
                Effect::Call(made) => made,
                Effect::Tell(event) => {
                    match &event.kind {
                        EventKind::CallStarted { call, .. } => {
                            begun.insert(call, (&event.run, tainted.contains(&event.run)));
                        }
                        EventKind::CallEnded { call, .. } if reads_strangers.contains(call) => {
                            tainted.insert(&event.run);
                        }
                        _ => {}
                    }
                    continue;
                }
                _ => continue,
            };
            let plan = plan_of.get(&made.run).and_then(|digest| plans.plan(digest));
            let offer = plan.as_ref().and_then(|plan| plan.offer(made.name.as_str()));
            if offer.is_some_and(|offer| offer.labels.untrusted) {
                reads_strangers.insert(&made.call);
            }
            let is_tainted = begun.get(&made.call).is_some_and(|(_, tainted)| *tainted);
            let needs = plan.as_ref().zip(offer).map(|(plan, offer)| {
                decide(&plan.permissions, offer, &made.arguments, is_tainted).permission
            });
            let digest = call_digest(&made.name, &made.arguments);
            let fine = match needs {
                Some(Permission::Allow) => true,
                Some(Permission::Ask) => allowed.get(&made.call) == Some(&&digest),
                Some(Permission::Deny) | None => false,
            };
            if !fine {
                return Err(Violation::NotPermitted { call: made.call.clone() });
            }
        }
    }
    Ok(())
}

/// Checks after every entry that the calls which are kept for people are those that wait for one
/// or whose outcome nobody knows.
pub fn open_calls_are_kept(records: &[Record]) -> Result<(), Violation> {
    let mut open: BTreeSet<&CallKey> = BTreeSet::new();
    let mut kept: BTreeSet<&CallKey> = BTreeSet::new();
    // Nobody has to say what came of one: asked again it would begin nothing new.
    let mut agents: BTreeSet<&CallKey> = BTreeSet::new();
    for (slot, record) in records.iter().enumerate() {
        if let Some(Input::CallResolved { call, .. }) = input(record) {
            open.remove(call);
        }
        for effect in &record.effects {
            match effect {
                Effect::Opened(call) => drop(kept.insert(&call.call)),
                Effect::Closed { call, .. } => drop(kept.remove(call)),
                Effect::Tell(event) => match &event.kind {
                    EventKind::CallStarted { call, is_agent: true, .. } => {
                        agents.insert(call);
                    }
                    EventKind::CallSuspended { call, .. } => drop(open.insert(call)),
                    EventKind::CallEnded { call, status, .. }
                        if status == "unknown" && !agents.contains(call) =>
                    {
                        open.insert(call);
                    }
                    EventKind::CallEnded { call, .. }
                    | EventKind::CallRepeated { call, .. }
                    | EventKind::QuestionEnded { call, .. } => {
                        open.remove(call);
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        if let Some(call) = open.symmetric_difference(&kept).next() {
            return Err(Violation::OpenNotKept { call: (*call).clone(), slot });
        }
    }
    Ok(())
}
