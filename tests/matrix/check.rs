//! What must hold after a crash: of the journal, of the world outside, and of what clients hear.

use agents_core::effect::Effect;
use agents_core::invariant::{self, Record};
use agents_core::session::SessionMachine;
use bytes::Bytes;
use serde_json::Value;
use wire::{CallKey, Entry, RunReply, SessionId};

use crate::life::{Entries, Lived, Plans, name};
use crate::outside::{Hit, Mode, State};
use crate::scene::{Class, NOBODY_KNOWS, RUN, Scene, TEAM};

/// Attempts of an idempotent call, after which its outcome is unknown too.
const IDEMPOTENT_ATTEMPTS: u32 = 5;

/// A call that an entry decided, and its attempt.
type Made = (CallKey, u32);

/// What a crash left.
pub(crate) struct Left {
    pub(crate) entries: Entries,
    /// The calls that were under way, as the journal knows it.
    pub(crate) awaited: Vec<CallKey>,
    /// The reply that was decided, if it was.
    pub(crate) reply: Option<Bytes>,
}

/// Folds a session; returns its machine and each entry with what was decided from it.
fn fold(
    session: &SessionId,
    entries: &[Bytes],
    plans: &Plans,
) -> Result<(SessionMachine, Vec<Record>), String> {
    let entries: Result<Vec<Entry>, _> =
        entries.iter().map(|bytes| serde_json::from_slice(bytes)).collect();
    let entries = entries.map_err(|error| format!("{session}: {error}"))?;
    let mut records = Vec::new();
    let machine =
        SessionMachine::fold(name(TEAM), session.clone(), &entries, plans, |entry, _, effects| {
            records.push(Record { entry: entry.clone(), effects });
        });
    Ok((machine.map_err(|error| format!("{session}: {error}"))?, records))
}

/// Tells whether every run has its reply and nothing is left to be done.
pub(crate) fn is_at_rest(entries: &Entries, plans: &Plans) -> Result<(), String> {
    for (session, entries) in entries {
        let (machine, records) = fold(session, entries, plans)?;
        invariant::check_at_rest(&records).map_err(|broken| format!("{session}: {broken}"))?;
        if !machine.is_idle() {
            return Err(format!("{session} waits for {:?}", machine.outstanding()));
        }
    }
    Ok(())
}

fn reply_in(records: &[Record]) -> Option<Bytes> {
    records.iter().flat_map(|record| &record.effects).find_map(|effect| match effect {
        Effect::Publish { reply } if reply.run.as_str() == RUN => {
            Some(serde_json::to_vec(&**reply).unwrap().into())
        }
        _ => None,
    })
}

/// Reads what a crash left. It has to be the beginning of what the life came to that crashed, and
/// no entry may be missing that was durable.
pub(crate) fn left(
    entries: Entries,
    durable: usize,
    origin: &Entries,
    plans: &Plans,
) -> Result<Left, String> {
    let count: usize = entries.values().map(Vec::len).sum();
    if count < durable {
        return Err(format!("{count} entries are left of {durable} durable ones"));
    }
    let (mut awaited, mut reply) = (Vec::new(), None);
    for (session, entries) in &entries {
        if !origin.get(session).is_some_and(|origin| origin.starts_with(entries)) {
            return Err(format!("{session} is not what it was before the crash"));
        }
        let (machine, records) = fold(session, entries, plans)?;
        let replayed = invariant::replayed(name(TEAM), session.clone(), &records, plans);
        if replayed.map_err(|broken| broken.to_string())? != machine {
            return Err(format!("{session} folds to another state each time"));
        }
        let calls = invariant::calls(&records).map(|call| call.call.clone());
        awaited.extend(calls.filter(|call| machine.awaits(call)));
        reply = reply.or_else(|| reply_in(&records));
    }
    Ok(Left { entries, awaited, reply })
}

/// Checks a life that went on after a crash. `in_flight` are the calls that were under way in this
/// crash or one before it.
pub(crate) fn after(
    scene: Scene,
    left: &Left,
    in_flight: &[CallKey],
    lived: &Lived,
    outside: &State,
) -> Result<(), String> {
    let mut calls = Vec::new();
    let mut decided = None;
    for (session, entries) in &lived.entries {
        let before = left.entries.get(session).map(Vec::as_slice).unwrap_or_default();
        if !entries.starts_with(before) {
            return Err(format!("{session} lost entries of before the crash"));
        }
        let (_, records) = fold(session, entries, &lived.plans)?;
        invariant::check(&records, &lived.plans)
            .map_err(|broken| format!("{session}: {broken}"))?;
        calls.extend(invariant::calls(&records).map(|call| (call.call.clone(), call.attempt)));
        decided = decided.or_else(|| reply_in(&records));
    }
    is_at_rest(&lived.entries, &lived.plans)?;

    let [first, second] = &lived.replies;
    if first != second {
        return Err("the reply is another when it is asked for again".to_owned());
    }
    if decided.as_ref() != Some(first) {
        return Err(format!("the client was told {first:?} and the journal says {decided:?}"));
    }
    if left.reply.as_ref().is_some_and(|decided| decided != first) {
        return Err("the reply that was decided before the crash is another after it".to_owned());
    }
    effects(scene, &calls, outside)?;
    if matches!(scene.class, Class::Cancelled | Class::Late | Class::Denied | Class::Called) {
        return Ok(());
    }
    let reply: RunReply = serde_json::from_slice(first).map_err(|error| error.to_string())?;
    outcome(scene, in_flight, &calls, &reply, outside)
}

/// Checks that every effect has an entry and came about once.
fn effects(scene: Scene, calls: &[Made], outside: &State) -> Result<(), String> {
    let of_tool = |hit: &&Hit| hit.tool == scene.class.tool();
    let keys = outside.hits.values().filter(of_tool).count();
    if keys > 1 {
        return Err(format!("one call went out under {keys} keys"));
    }
    for (key, hit) in &outside.hits {
        if hit.requests > 0 && !calls.iter().any(|(call, _)| call.as_str() == key) {
            return Err(format!("call {key} was made without an entry"));
        }
        if hit.effects > 1 {
            return Err(format!("call {key} took effect {} times", hit.effects));
        }
        // A call that must not be repeated is made again only when it is known that nothing came
        // of it: by its probe, or by a person.
        let may_repeat = matches!(scene.class, Class::Probed | Class::Asked);
        if scene.class.is_once() && !may_repeat && hit.requests > 1 {
            return Err(format!("call {key} was made {} times", hit.requests));
        }
        if scene.class == Class::Denied && hit.requests > 0 {
            return Err(format!("call {key} was made without leave"));
        }
    }
    Ok(())
}

/// Checks what the run was told of its call.
fn outcome(
    scene: Scene,
    in_flight: &[CallKey],
    calls: &[Made],
    reply: &RunReply,
    outside: &State,
) -> Result<(), String> {
    let [source] = reply.sources.as_slice() else {
        return Err(format!("a run with one call has the sources {:?}", reply.sources));
    };
    let hit = outside.hits.get(source.call.as_str()).cloned().unwrap_or_default();
    let took_effect = hit.effects == 1 || scene.class == Class::Read && hit.requests > 0;
    match source.status.as_str() {
        "ok" if took_effect => Ok(()),
        // It says that it failed, which is an answer. A read is given up after three attempts.
        "error" if scene.mode == Mode::Fault || scene.class == Class::Read => Ok(()),
        "unknown" => {
            let was_lost = scene.mode == Mode::Drop || in_flight.contains(&source.call);
            let attempts = calls.iter().filter(|(call, _)| *call == source.call);
            let attempts = attempts.map(|(_, attempt)| *attempt).max().unwrap_or_default();
            let is_spent = scene.class == Class::Idempotent && attempts >= IDEMPOTENT_ATTEMPTS;
            let may_be = matches!(scene.class, Class::Once | Class::Allowed) || is_spent;
            if !may_be || !was_lost {
                return Err(format!("the outcome is unknown of {source:?}, {hit:?}"));
            }
            // The model made the same call again, which was refused and told so.
            if reply.output == NOBODY_KNOWS {
                Ok(())
            } else {
                Err(format!("the repeat of an unknown call was not refused: {:?}", reply.output))
            }
        }
        _ => Err(format!("{source:?} is told of {hit:?}")),
    }
}

/// Describes a reply in an error.
pub(crate) fn shown(bytes: &Bytes) -> String {
    serde_json::from_slice::<Value>(bytes).map_or_else(|e| e.to_string(), |v| v.to_string())
}
