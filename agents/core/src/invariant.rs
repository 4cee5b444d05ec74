//! What holds of every session, stated once for tests and simulation.
//!
//! The functions judge a recorded session: its entries in order, each with the effects that were
//! decided from it. They know nothing of how the machine works.

use std::collections::{HashMap, HashSet};

use wire::entry::{Body, Entry, Input, ModelOutcome, Submitted};
use wire::run::RunReply;
use wire::{CallKey, EffectClass, EventKind, Name, RunId, SessionId, Timestamp};

use crate::effect::Effect;
use crate::session::{FoldError, Plans, SessionMachine};

/// One entry of a session's journal and what was decided from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The accepted input.
    pub entry: Entry,
    /// Its effects, in order.
    pub effects: Vec<Effect>,
}

/// How a session broke a rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Violation {
    /// A run got two replies, or two that differ in a byte.
    #[error("run {run} ended more than once")]
    EndedTwice {
        /// The run.
        run: RunId,
    },
    /// A run that was accepted has no reply, or one that was not handed over.
    #[error("run {run} was accepted and its reply was never handed over")]
    Unanswered {
        /// The run.
        run: RunId,
    },
    /// A run that was never accepted has effects.
    #[error("something was done for run {run}, which was never accepted")]
    NotAccepted {
        /// The run.
        run: RunId,
    },
    /// Something was begun for a run after its end.
    #[error("slot {slot} begins something for run {run}, which is over")]
    AfterEnd {
        /// The run.
        run: RunId,
        /// Where.
        slot: usize,
    },
    /// A call was asked for that no entry began, or began twice.
    #[error("call {call} was not begun exactly once before it was made")]
    NotBegun {
        /// The call.
        call: CallKey,
    },
    /// A call got no outcome, or two.
    #[error("call {call} was answered {times} times")]
    AnsweredNotOnce {
        /// The call.
        call: CallKey,
        /// How often.
        times: usize,
    },
    /// A call that must not be repeated was made twice.
    #[error("call {call} must not be repeated and was made again")]
    OnceRepeated {
        /// The call.
        call: CallKey,
    },
    /// A run used or set aside more than it has.
    #[error(
        "slot {slot} takes run {run} over its {limit} tokens: {used} used, {reserved} set aside"
    )]
    OverBudget {
        /// The run.
        run: RunId,
        /// Where.
        slot: usize,
        /// Tokens that it may use.
        limit: u64,
        /// Tokens used.
        used: u64,
        /// Tokens set aside for called agents.
        reserved: u64,
    },
    /// Something may last longer than the run that asks for it.
    #[error("slot {slot} gives something time beyond the deadline of run {run}")]
    Outlasts {
        /// The run.
        run: RunId,
        /// Where.
        slot: usize,
    },
    /// A replay does not come to what was decided live.
    #[error("slot {slot} decides something else when it is replayed")]
    ReplayDiffers {
        /// Where.
        slot: usize,
    },
    /// The journal cannot be folded.
    #[error(transparent)]
    Unfoldable(#[from] FoldError),
}

/// Checks all that holds of a session at any time.
pub fn check(records: &[Record], plans: &dyn Plans) -> Result<(), Violation> {
    one_reply(records)?;
    nothing_after_end(records)?;
    calls_answered_once(records)?;
    once_made_once(records)?;
    within_budget(records, plans)?;
    within_deadline(records)
}

/// Checks what holds besides when a session has come to rest: every run has its reply (I1).
pub fn check_at_rest(records: &[Record]) -> Result<(), Violation> {
    let published: HashSet<&RunId> = records
        .iter()
        .filter_map(|record| match input(record) {
            Some(Input::ReplyPublished { run }) => Some(run),
            _ => None,
        })
        .collect();
    match accepted(records).find(|submitted| !published.contains(&submitted.run)) {
        Some(submitted) => Err(Violation::Unanswered { run: submitted.run.clone() }),
        None => Ok(()),
    }
}

/// Checks that a run ends once and that its reply has the same bytes whenever it is said (I1, I12).
pub fn one_reply(records: &[Record]) -> Result<(), Violation> {
    let mut ended: HashSet<&RunId> = HashSet::new();
    let mut replies: HashMap<&RunId, &RunReply> = HashMap::new();
    for effect in records.iter().flat_map(|record| &record.effects) {
        let (run, fine) = match effect {
            Effect::Tell(event) if matches!(event.kind, EventKind::RunEnded { .. }) => {
                (&event.run, ended.insert(&event.run))
            }
            Effect::Publish { reply } => {
                let first = replies.entry(&reply.run).or_insert(reply);
                (&reply.run, **first == **reply)
            }
            _ => continue,
        };
        if !fine {
            return Err(Violation::EndedTwice { run: run.clone() });
        }
    }
    Ok(())
}

/// Checks that nothing is begun for a run before it is accepted or after its end (I6).
pub fn nothing_after_end(records: &[Record]) -> Result<(), Violation> {
    let mut accepted: HashSet<&RunId> = HashSet::new();
    let mut ended: HashSet<&RunId> = HashSet::new();
    for (slot, record) in records.iter().enumerate() {
        if let Some(Input::Submitted(submitted)) = input(record) {
            accepted.insert(&submitted.run);
        }
        for effect in &record.effects {
            let (run, begins) = match effect {
                Effect::AskModel { run, .. } | Effect::SetTimer { run, .. } => (run, true),
                Effect::Call(call) => (&call.run, true),
                Effect::Abort { run, .. } => (run, false),
                Effect::Publish { reply } => (&reply.run, false),
                Effect::Tell(event) => {
                    let begins = !ended.contains(&event.run);
                    if matches!(event.kind, EventKind::RunEnded { .. }) {
                        ended.insert(&event.run);
                    }
                    (&event.run, !begins)
                }
                Effect::Span(span) => (&span.run, false),
            };
            if !accepted.contains(run) {
                return Err(Violation::NotAccepted { run: run.clone() });
            }
            if begins && ended.contains(run) {
                return Err(Violation::AfterEnd { run: run.clone(), slot });
            }
        }
    }
    Ok(())
}

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

/// Checks that a call that must not be repeated is made at most once, restarts included (I3).
pub fn once_made_once(records: &[Record]) -> Result<(), Violation> {
    let mut made: HashSet<&CallKey> = HashSet::new();
    for call in calls(records) {
        if call.effect == EffectClass::Once && !made.insert(&call.call) {
            return Err(Violation::OnceRepeated { call: call.call.clone() });
        }
    }
    Ok(())
}

/// What is known of the tokens of a run.
struct Account {
    limit: u64,
    used: u64,
    reserved: HashMap<CallKey, u64>,
}

/// Checks that nothing is begun that the run cannot pay: at each beginning, what is used and what
/// is set aside lie within the limit (I7). What a model turn costs is only known after it, so a
/// called agent may use more than was set aside for it by what its last turn reads.
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

/// Checks that nothing is given time beyond its run's, and nothing is begun after it (I8).
pub fn within_deadline(records: &[Record]) -> Result<(), Violation> {
    let mut deadlines: HashMap<&RunId, Timestamp> = HashMap::new();
    for (slot, record) in records.iter().enumerate() {
        if let Some(Input::Submitted(submitted)) = input(record) {
            deadlines.insert(&submitted.run, submitted.deadline);
        }
        for effect in &record.effects {
            let (run, until) = match effect {
                Effect::AskModel { run, deadline, .. } => (run, *deadline),
                Effect::Call(call) => (&call.run, call.deadline),
                _ => continue,
            };
            if deadlines.get(run).is_none_or(|deadline| until > *deadline) {
                return Err(Violation::Outlasts { run: run.clone(), slot });
            }
        }
    }
    Ok(())
}

/// Checks that a replay of the entries decides what was decided live, and returns its machine.
pub fn replayed(
    team: Name,
    session: SessionId,
    records: &[Record],
    plans: &dyn Plans,
) -> Result<SessionMachine, Violation> {
    let mut differs = None;
    let mut live = records.iter().enumerate();
    let entries = records.iter().map(|record| &record.entry);
    let machine = SessionMachine::fold(team, session, entries, plans, |_, _, effects| {
        if let Some((slot, record)) = live.next()
            && record.effects != effects
        {
            differs.get_or_insert(slot);
        }
    })?;
    match differs {
        Some(slot) => Err(Violation::ReplayDiffers { slot }),
        None => Ok(machine),
    }
}

/// Returns the messages that the session accepted.
pub fn accepted(records: &[Record]) -> impl Iterator<Item = &Submitted> {
    records.iter().filter_map(|record| match input(record) {
        Some(Input::Submitted(submitted)) => Some(submitted),
        _ => None,
    })
}

/// Returns every call that an entry decided, repetitions included. A call that was made without
/// being among them broke the rule of journal before effect (I2).
pub fn calls(records: &[Record]) -> impl Iterator<Item = &crate::effect::CallEffect> {
    records.iter().flat_map(|record| &record.effects).filter_map(|effect| match effect {
        Effect::Call(call) => Some(call),
        _ => None,
    })
}

fn input(record: &Record) -> Option<&Input> {
    match &record.entry.body {
        Body::Session(input) => Some(input),
        Body::Memory(_) => None,
    }
}
