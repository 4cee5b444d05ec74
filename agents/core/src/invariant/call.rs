//! Rules of calls: one outcome each, and no repetition of what must not be repeated.

use std::collections::{HashMap, HashSet};

use wire::{CallKey, CallOutcome, EffectClass, EventKind, Input, Resolution, RunId};

use super::{Record, Violation, calls, input};
use crate::effect::Effect;

/// Checks that every call is begun once, made after that, and answered once by the end of its run.
pub fn calls_answered_once(records: &[Record]) -> Result<(), Violation> {
    // How often each call that is under way, or was, has been answered.
    let mut answers: HashMap<&CallKey, (&RunId, usize)> = HashMap::new();
    for effect in records.iter().flat_map(|record| &record.effects) {
        match effect {
            Effect::Call(made) if !answers.contains_key(&made.call) => {
                return Err(Violation::NotBegun { call: made.call.clone() });
            }
            Effect::Tell(event) => match &event.kind {
                EventKind::CallStarted { call, .. } => {
                    let begun = answers.insert(call, (&event.run, 0));
                    if begun.is_some() {
                        return Err(Violation::NotBegun { call: call.clone() });
                    }
                }
                EventKind::CallEnded { call, .. } => match answers.get_mut(call) {
                    Some((_, times @ 0)) => *times = 1,
                    Some(_) | None => {
                        return Err(Violation::AnsweredNotOnce { call: call.clone(), times: 2 });
                    }
                },
                EventKind::RunEnded { .. } => {
                    let open = answers.iter().find(|(_, (run, n))| *run == &event.run && *n == 0);
                    if let Some((call, _)) = open {
                        return Err(Violation::AnsweredNotOnce { call: (*call).clone(), times: 0 });
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
    Ok(())
}

/// Checks that a call that must not be repeated is made at most once, restarts included (I3),
/// unless somebody who knows says before that nothing came of it.
pub fn once_made_once(records: &[Record]) -> Result<(), Violation> {
    let mut made: HashSet<&CallKey> = HashSet::new();
    for record in records {
        if let Some(call) = said_not_done(record) {
            made.remove(call);
        }
        for call in calls(std::slice::from_ref(record)) {
            if call.effect != EffectClass::Once {
                continue;
            }
            let is_first = made.insert(&call.call);
            if is_first && call.is_awaited() {
                return Err(Violation::NotBegun { call: call.call.clone() });
            }
            if !is_first && !call.is_awaited() {
                return Err(Violation::OnceRepeated { call: call.call.clone() });
            }
        }
    }
    Ok(())
}

/// Returns the call of which a person or a probe says that nothing came of it.
fn said_not_done(record: &Record) -> Option<&CallKey> {
    match input(record)? {
        Input::CallResolved { call, resolution: Resolution::NotDone, .. } => Some(call),
        Input::CallProbed { call, outcome: CallOutcome::Ok { output }, .. } => {
            (output.get("done") == Some(&serde_json::Value::Bool(false))).then_some(call)
        }
        _ => None,
    }
}

/// Checks that no run makes a call again whose outcome it knows to be unknown.
pub fn unknown_not_repeated(records: &[Record]) -> Result<(), Violation> {
    let mut made = HashMap::new();
    let mut unknown = Vec::new();
    for effect in records.iter().flat_map(|record| &record.effects) {
        let Effect::Tell(event) = effect else { continue };
        match &event.kind {
            EventKind::CallStarted { call, tool, arguments, .. } => {
                let what = (&event.run, tool, arguments);
                if unknown.contains(&what) {
                    return Err(Violation::UnknownRepeated { call: call.clone() });
                }
                made.insert(call, what);
            }
            EventKind::CallEnded { call, status, .. } if status == "unknown" => {
                unknown.extend(made.get(call).copied());
            }
            EventKind::CallResolved { call, done: false } => {
                let resolved = made.get(call);
                unknown.retain(|what| Some(what) != resolved);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that where a planner selects a tool no other one is called until it selects again.
pub fn called_as_planned(records: &[Record]) -> Result<(), Violation> {
    let mut selected: HashMap<&RunId, &str> = HashMap::new();
    for effect in records.iter().flat_map(|record| &record.effects) {
        let Effect::Tell(event) = effect else { continue };
        match &event.kind {
            EventKind::Planned { tool, .. } => {
                selected.insert(&event.run, tool);
            }
            EventKind::CallStarted { call, tool, .. }
                if selected.get(&event.run).is_some_and(|selected| *selected != tool.as_str()) =>
            {
                return Err(Violation::NotPlanned { call: call.clone() });
            }
            _ => {}
        }
    }
    Ok(())
}
