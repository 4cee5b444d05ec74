//! Changes: what the journal has decided, as far as it can be looked up.

use bytes::Bytes;
use wire::entry::Fact;
use wire::{CallKey, Name, OpenCall, RunId, RunStatus, SessionId, Timestamp};

use crate::error::Error;
use crate::pending::Pending;
use crate::rows::Rows;
use crate::run::{Run, RunBegun, RunEnd};
use crate::session::SessionRow;
use crate::trace::ended::EndedSpan;
use crate::usage::{Tally, TurnUsed};
use crate::{call, fact, key, run, session};

/// One change. Making it twice is the same as making it once.
///
/// Thousands of them wait at once, most of them spans, so what takes much is in a box.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A session was active.
    SessionSeen {
        /// The session.
        session: SessionId,
        /// The agent that it is held with.
        agent: Name,
        /// When.
        at: Timestamp,
        /// How many entries its journal has.
        slots: u64,
    },
    /// A session was forgotten; its runs go when they are old enough.
    SessionForgotten(SessionId),
    /// A run was accepted.
    RunBegun(Box<RunBegun>),
    /// A run ended.
    RunEnded {
        /// The run.
        run: RunId,
        /// When.
        at: Timestamp,
        /// How.
        status: RunStatus,
        /// The reply, byte for byte as it is given to whoever asks again.
        reply: Bytes,
    },
    /// A called agent is to be told that the run which asked for it is over.
    CancelOwed {
        /// The call.
        call: CallKey,
        /// The session that tells it.
        session: SessionId,
    },
    /// A called agent needs no telling any more.
    CancelDelivered {
        /// The call.
        call: CallKey,
    },
    /// A fact was remembered.
    Fact(Box<Fact>),
    /// Facts were forgotten.
    Forgot(Vec<CallKey>),
    /// There are no other facts than these: what forgot the others need not be told any more.
    OnlyFacts(Vec<CallKey>),
    /// A person has something to say about a call.
    CallOpened(Box<OpenCall>),
    /// Nobody has anything to say about it any more.
    CallClosed(CallKey),
    /// A span ended.
    Span(Box<EndedSpan>),
    /// A turn of a model ended whose span is not kept.
    Turn(Box<TurnUsed>),
}

/// Whether changes may have been told before, and what came of them dropped since. Times do not tell
/// it: a clock may have been set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// They were decided a moment ago.
    First,
    /// The journal tells them, maybe again.
    Again,
}

/// What changes of one batch write together at its end.
#[derive(Default)]
pub(crate) struct Gathered<'s> {
    sessions: Rows<'s, SessionRow>,
    runs: Rows<'s, Run>,
    tally: Tally<'s>,
}

impl Gathered<'_> {
    /// Writes it.
    pub(crate) fn put(self, pending: &mut Pending) -> Result<(), Error> {
        self.sessions.put(pending)?;
        self.runs.put(pending)?;
        self.tally.put(pending)
    }
}

impl Change {
    /// Returns the span that ended, which goes to the traces and not to the database of the others.
    pub(crate) fn span(&self) -> Option<&EndedSpan> {
        if let Self::Span(span) = self { Some(span) } else { None }
    }

    pub(crate) fn make<'s>(
        &'s self,
        pending: &mut Pending,
        gathered: &mut Gathered<'s>,
    ) -> Result<(), Error> {
        let Gathered { sessions, runs, tally } = gathered;
        match self {
            Self::SessionSeen { session, agent, at, slots } => {
                session::see(pending, sessions, session, agent, *at, *slots)
            }
            Self::SessionForgotten(session) => session::forget(pending, sessions, session),
            Self::RunBegun(begun) => run::begin(pending, runs, begun),
            Self::RunEnded { run, at, status, reply } => {
                run::end(pending, runs, run, RunEnd { at: *at, status: *status }, reply)
            }
            Self::CancelOwed { call, session } => pending.put_row(key::owed(call), session),
            Self::CancelDelivered { call } => pending.remove(&key::owed(call)),
            Self::Fact(fact) => fact::remember(pending, fact),
            Self::Forgot(ids) => ids.iter().try_for_each(|id| fact::forget(pending, id)),
            Self::OnlyFacts(ids) => fact::forget_others(pending, ids),
            Self::CallOpened(open) => call::open(pending, open),
            Self::CallClosed(key) => call::close(pending, key),
            Self::Span(span) => {
                span.counted().map_or(Ok(()), |counted| tally.count(pending, runs, counted))
            }
            Self::Turn(turn) => tally.count(pending, runs, turn.counted()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_takes_no_more_than_the_end_of_a_run() {
        assert!(size_of::<Change>() <= 72, "{} bytes", size_of::<Change>());
    }
}
