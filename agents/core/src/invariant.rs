//! What holds of every session, stated once for tests and simulation.
//!
//! The functions judge a recorded session: its entries in order, each with the effects that were
//! decided from it. They know nothing of how the machine works.

use std::collections::HashSet;

use wire::entry::{Body, Entry, Input, Submitted};
use wire::{CallKey, Name, RunId, SessionId};

use crate::effect::{CallEffect, Effect};
use crate::session::{FoldError, Plans, SessionMachine};

mod call;
mod limit;
mod person;
mod run;
mod steer;

pub use call::{called_as_planned, calls_answered_once, once_made_once, unknown_not_repeated};
pub use limit::{within_budget, within_calls, within_deadline, within_depth};
pub use person::{open_calls_are_kept, permitted};
pub use run::{nothing_after_end, one_at_a_time, one_reply, spans_told_once};
pub use steer::joined_are_heard;

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
    /// A span was told twice, so that what it stands for is counted twice.
    #[error("span {span} of run {run} was told more than once")]
    SpanToldTwice {
        /// The span's name.
        span: String,
        /// The run.
        run: RunId,
    },
    /// A run that was accepted has no reply.
    #[error("run {run} was accepted and no reply of it is to be handed over")]
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
    /// A run stands still, or is worked on although another comes first.
    #[error("after slot {slot} run {run} waits for nothing, or for something out of order")]
    OutOfOrder {
        /// The run.
        run: RunId,
        /// Where.
        slot: usize,
    },
    /// A call was made again in a run that knows its outcome to be unknown.
    #[error("call {call} repeats one whose outcome is unknown")]
    UnknownRepeated {
        /// The call.
        call: CallKey,
    },
    /// A call was made that is not of the tool that the planner selected.
    #[error("call {call} is of another tool than the planner of its run selected")]
    NotPlanned {
        /// The call.
        call: CallKey,
    },
    /// A call was made that the plan does not permit, or without the leave that it needs.
    #[error("call {call} was made without the leave that it needs")]
    NotPermitted {
        /// The call.
        call: CallKey,
    },
    /// A call waits for a person and is not among the open ones, or is among them for nothing.
    #[error("after slot {slot} call {call} is open for people and not kept so, or the reverse")]
    OpenNotKept {
        /// The call.
        call: CallKey,
        /// Where.
        slot: usize,
    },
    /// An agent was called too deep.
    #[error("call {call} goes deeper than the plan allows")]
    TooDeep {
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
    /// A run and those below it made or set aside more calls than they may make.
    #[error("slot {slot} takes run {run} over its {limit} calls")]
    TooManyCalls {
        /// The run.
        run: RunId,
        /// Where.
        slot: usize,
        /// Calls that it may make.
        limit: u64,
    },
    /// Something may last longer than the run that asks for it, or is asked for after its time.
    #[error("slot {slot} asks for something beyond the deadline of run {run}")]
    Outlasts {
        /// The run.
        run: RunId,
        /// Where.
        slot: usize,
    },
    /// A message joined a run and was swallowed, shown out of place, or answered otherwise than the
    /// run that it joined.
    #[error("slot {slot} treats message {run}, which joined another run, otherwise than it must")]
    NotHeard {
        /// The run of the message.
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
    spans_told_once(records)?;
    nothing_after_end(records)?;
    calls_answered_once(records)?;
    one_at_a_time(records)?;
    joined_are_heard(records)?;
    once_made_once(records)?;
    unknown_not_repeated(records)?;
    called_as_planned(records)?;
    permitted(records, plans)?;
    open_calls_are_kept(records)?;
    within_budget(records, plans)?;
    within_calls(records, plans)?;
    within_deadline(records)?;
    within_depth(records, plans)
}

/// Checks what holds besides when a session has come to rest: every run has its reply (I1).
pub fn check_at_rest(records: &[Record]) -> Result<(), Violation> {
    let published: HashSet<&RunId> = records
        .iter()
        .flat_map(|record| &record.effects)
        .filter_map(|effect| match effect {
            Effect::Publish { reply } => Some(&reply.run),
            _ => None,
        })
        .collect();
    match accepted(records).find(|submitted| !published.contains(&submitted.run)) {
        Some(submitted) => Err(Violation::Unanswered { run: submitted.run.clone() }),
        None => Ok(()),
    }
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
pub fn calls(records: &[Record]) -> impl Iterator<Item = &CallEffect> {
    records.iter().flat_map(|record| &record.effects).filter_map(|effect| match effect {
        Effect::Call(call) => Some(call),
        _ => None,
    })
}

/// Returns the input of a session that an entry holds.
fn input(record: &Record) -> Option<&Input> {
    match &record.entry.body {
        Body::Session(input) => Some(input),
        Body::Memory(_) => None,
    }
}
