//! What must hold of a world that has come to rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use agents_core::effect::{CallEffect, Effect};
use agents_core::invariant::{self, Record};
use wire::entry::Body;
use wire::run::{RunStatus, Source};
use wire::{CallKey, EffectClass, Input, RunId, RunReply, SessionId};

use crate::message::Answer;
use crate::team::name;
use crate::world::World;

/// Returns the first rule that is broken.
pub(crate) fn check(world: &World) -> Result<(), String> {
    if let Some(broken) = &world.broken {
        return Err(broken.clone());
    }
    for (session, records) in &world.disk {
        session_holds(world, session, records).map_err(|text| format!("{session}: {text}"))?;
    }
    acceptances_are_durable(world)?;
    askers_see_one_reply(world)?;
    effects_have_entries(world)?;
    children_answer_their_calls(world)?;
    children_end_with_their_parents(world)
}

fn session_holds(world: &World, session: &SessionId, records: &[Record]) -> Result<(), String> {
    let told = |violation: invariant::Violation| violation.to_string();
    invariant::check(records, &world.team.plans).map_err(told)?;
    invariant::check_at_rest(records).map_err(told)?;
    let replayed = invariant::replayed(name("team"), session.clone(), records, &world.team.plans)
        .map_err(told)?;
    let live = world.session_machine(session).ok_or("the session is not in memory")?;
    if replayed != *live {
        return Err("the fold differs from the live machine".to_owned());
    }
    for slot in snapshots(records) {
        if world.fold_from(session, slot)? != *live {
            return Err(format!("the fold from slot {slot} differs from the live machine"));
        }
    }
    if !live.is_idle() {
        return Err(format!("it is not at rest: {:?}", live.outstanding()));
    }
    Ok(())
}

/// Returns the slots at which a session may be read.
pub(crate) fn snapshots(records: &[Record]) -> impl Iterator<Item = usize> {
    let begins = |(slot, record): (usize, &Record)| record.entry.body.begins().then_some(slot);
    records.iter().enumerate().filter_map(begins)
}

fn acceptances_are_durable(world: &World) -> Result<(), String> {
    for (session, run) in &world.acknowledged {
        let records = world.disk.get(session).map(Vec::as_slice).unwrap_or_default();
        if !invariant::accepted(records).any(|submitted| submitted.run == *run) {
            return Err(format!("run {run} was acknowledged and is not in the journal"));
        }
    }
    Ok(())
}

fn askers_see_one_reply(world: &World) -> Result<(), String> {
    for client in &world.clients {
        let run = &client.ask.run;
        if client.answers.len() < 2 {
            return Err(format!("a client of run {run} has no answer"));
        }
        let decided = reply_of(world, &client.ask.session, run);
        let records = world.disk.get(&client.ask.session).map(Vec::as_slice).unwrap_or_default();
        let accepted = invariant::accepted(records).find(|submitted| submitted.run == *run);
        let is_own = accepted.is_some_and(|accepted| accepted.text == client.ask.text);
        let bytes = |reply: &RunReply| serde_json::to_string(reply).unwrap();
        for answer in &client.answers {
            let fine = match answer {
                Answer::Conflict => !is_own,
                Answer::Reply(reply) => {
                    is_own && decided.is_some_and(|decided| bytes(decided) == bytes(reply))
                }
            };
            if !fine {
                return Err(format!("run {run} was answered {answer:?}, not {decided:?}"));
            }
        }
    }
    Ok(())
}

/// Returns the reply that a session decided for a run.
pub(crate) fn reply_of<'a>(
    world: &'a World,
    session: &SessionId,
    run: &RunId,
) -> Option<&'a Arc<RunReply>> {
    let records = world.disk.get(session)?;
    records.iter().flat_map(|record| &record.effects).find_map(|effect| match effect {
        Effect::Publish { reply } if reply.run == *run => Some(reply),
        _ => None,
    })
}

fn effects_have_entries(world: &World) -> Result<(), String> {
    let decided: BTreeMap<&CallKey, &CallEffect> = world
        .disk
        .values()
        .flat_map(|records| invariant::calls(records))
        .map(|call| (&call.call, call))
        .collect();
    for (key, hit) in &world.ledger.hits {
        let call =
            decided.get(key).ok_or_else(|| format!("call {key} was made without an entry"))?;
        if hit.mixed || hit.tool != call.name || hit.arguments != call.arguments {
            return Err(format!("call {key} was made with what its entry does not say"));
        }
        if hit.effects > 1 {
            return Err(format!("call {key} took effect {} times", hit.effects));
        }
        let source = source_of(world, &hit.session, call).ok_or("a call is in no reply")?;
        if hit.class == EffectClass::Once && hit.effects == 1 && source.status == "error" {
            return Err(format!("call {key} took effect and is told as an error"));
        }
    }
    Ok(())
}

fn source_of<'a>(world: &'a World, session: &SessionId, call: &CallEffect) -> Option<&'a Source> {
    reply_of(world, session, &call.run)?.sources.iter().find(|source| source.call == call.call)
}

fn children_answer_their_calls(world: &World) -> Result<(), String> {
    for (session, records) in &world.disk {
        for submitted in invariant::accepted(records) {
            let Some(parent) = &submitted.parent else { continue };
            let run = &submitted.run;
            let above = world.disk.get(&parent.session).map(Vec::as_slice).unwrap_or_default();
            let call = invariant::calls(above)
                .find(|call| RunId::of_call(&call.call) == *run)
                .ok_or_else(|| format!("run {run} was asked for by no entry"))?;
            let asking = invariant::accepted(above)
                .find(|above| above.run == parent.run)
                .ok_or_else(|| format!("run {run} was asked for by no run"))?;
            if submitted.deadline > asking.deadline {
                return Err(format!("run {run} may outlast the run that asks for it"));
            }
            if submitted.budget != call.budget || parent.depth != call.depth {
                return Err(format!("run {run} was not given what its call says"));
            }
            let reply = reply_of(world, session, run).ok_or("a child has no reply")?;
            let source = source_of(world, &parent.session, call).ok_or("a call is in no reply")?;
            let fits = match source.status.as_str() {
                "ok" => reply.status == RunStatus::Completed && reply.output == source.output,
                "error" if source.output.contains("E3006") => reply.status != RunStatus::Completed,
                status => status == "error",
            };
            if !fits {
                return Err(format!("call {} is told as {source:?}, not as {reply:?}", call.call));
            }
        }
    }
    Ok(())
}

/// What a session says of a called agent that it told to end must be so: its run is over then, or
/// never begins.
fn children_end_with_their_parents(world: &World) -> Result<(), String> {
    for record in world.disk.values().flatten() {
        let Body::Session(Input::CancelDelivered { call }) = &record.entry.body else { continue };
        let run = RunId::of_call(call);
        let below =
            world.disk.get(&SessionId::of_call(call)).map(Vec::as_slice).unwrap_or_default();
        let ends =
            |effect: &Effect| matches!(effect, Effect::Publish { reply } if reply.run == run);
        let end = below.iter().find(|record| record.effects.iter().any(ends));
        let begun = invariant::accepted(below).any(|submitted| submitted.run == run);
        if begun && end.is_none_or(|end| end.entry.at > record.entry.at) {
            return Err(format!("run {run} goes on although it is said to know of its end"));
        }
    }
    Ok(())
}
