//! The order of the keys: one tree, one leading byte per kind of record, numbers big-endian.
//!
//! One tree, because a batch is atomic only within a tree, and the journal position has to move
//! with the records that it vouches for.

use std::ops::Range;

use wire::{CallKey, Name, RunId, SessionId, Timestamp};

/// The first byte of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Space {
    /// The later parts of large records.
    Part = b'+',
    /// Runs.
    Run = b'R',
    /// Runs by time.
    RunAt = b'r',
    /// Runs that have not ended, with their sessions.
    Open = b'O',
    /// Calls of agents that are still to be told to end, with the sessions that tell them.
    Owed = b'A',
    /// The replies of runs.
    Reply = b'Y',
    /// Sessions.
    Session = b'S',
    /// Sessions by their last activity.
    SessionAt = b's',
    /// Open calls.
    Call = b'C',
    /// Open calls by the time since which they are open.
    CallAt = b'c',
    /// The open calls of a session.
    CallsOf = b'o',
    /// Facts.
    Fact = b'F',
    /// Facts by time.
    FactAt = b'f',
    /// Facts by word.
    Word = b'W',
    /// Traces.
    Trace = b'T',
    /// Traces by their begin, with what stands beside them.
    TraceAt = b't',
    /// Traces by a facet and their place, or the second in which they began.
    TraceBy = b'x',
    /// What models used, by day, agent and model.
    Usage = b'U',
}

/// By what traces are found besides their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Facet {
    /// An agent with a span in it.
    Agent = b'a',
    /// A tool that was called in it.
    Tool = b't',
    /// A session with a span in it.
    Session = b's',
    /// How it stands.
    Status = b'o',
}

/// Holds the schema number, raw, so that any version of this code can read it.
pub(crate) const SCHEMA: &[u8] = b"!schema";
/// Holds the position and the counts.
pub(crate) const STATE: &[u8] = b"!state";
/// Holds which segments of traces there are.
pub(crate) const SHELF: &[u8] = b"!shelf";

impl Space {
    /// Returns the key of one record, or the prefix of several.
    pub(crate) fn key(self, parts: &[&[u8]]) -> Vec<u8> {
        let mut key = Vec::with_capacity(1 + parts.iter().map(|part| part.len()).sum::<usize>());
        key.push(self as u8);
        for part in parts {
            key.extend_from_slice(part);
        }
        key
    }

    /// Returns the key under a time, so that a scan goes in the order of time.
    fn at(self, at: Timestamp, id: &[u8]) -> Vec<u8> {
        self.key(&[&at.as_micros().to_be_bytes(), id])
    }
}

/// The length of [`Space`] and time together, before the id in a key ordered by time.
const AT_LEN: usize = 9;

/// Returns the id at the end of a key ordered by time.
pub(crate) fn id_of(key: &[u8]) -> &[u8] {
    key.get(AT_LEN..).unwrap_or_default()
}

/// Returns the time of a key ordered by time.
pub(crate) fn time_of(key: &[u8]) -> Option<Timestamp> {
    let micros = key.get(1..AT_LEN)?.try_into().ok()?;
    Some(Timestamp::from_micros(u64::from_be_bytes(micros)))
}

pub(crate) fn run(run: &RunId) -> Vec<u8> {
    Space::Run.key(&[run.as_str().as_bytes()])
}

pub(crate) fn run_at(at: Timestamp, run: &RunId) -> Vec<u8> {
    Space::RunAt.at(at, run.as_str().as_bytes())
}

pub(crate) fn open(run: &RunId) -> Vec<u8> {
    Space::Open.key(&[run.as_str().as_bytes()])
}

pub(crate) fn owed(call: &CallKey) -> Vec<u8> {
    Space::Owed.key(&[call.as_str().as_bytes()])
}

pub(crate) fn reply(run: &RunId) -> Vec<u8> {
    Space::Reply.key(&[run.as_str().as_bytes()])
}

pub(crate) fn session(session: &SessionId) -> Vec<u8> {
    Space::Session.key(&[session.as_str().as_bytes()])
}

pub(crate) fn session_at(at: Timestamp, session: &SessionId) -> Vec<u8> {
    Space::SessionAt.at(at, session.as_str().as_bytes())
}

pub(crate) fn call(id: &CallKey) -> Vec<u8> {
    Space::Call.key(&[id.as_str().as_bytes()])
}

pub(crate) fn call_at(since: Timestamp, id: &CallKey) -> Vec<u8> {
    Space::CallAt.at(since, id.as_str().as_bytes())
}

pub(crate) fn calls_of(session: &SessionId) -> Vec<u8> {
    Space::CallsOf.key(&[session.as_str().as_bytes()])
}

pub(crate) fn fact(id: &CallKey) -> Vec<u8> {
    Space::Fact.key(&[id.as_str().as_bytes()])
}

pub(crate) fn fact_at(at: Timestamp, id: &CallKey) -> Vec<u8> {
    Space::FactAt.at(at, id.as_str().as_bytes())
}

/// Returns the prefix of all postings of a word. A word holds no NUL, so no word's postings stand
/// among those of another.
pub(crate) fn word(word: &str) -> Vec<u8> {
    Space::Word.key(&[word.as_bytes(), b"\0"])
}

pub(crate) fn posting(word: &str, id: &CallKey) -> Vec<u8> {
    Space::Word.key(&[word.as_bytes(), b"\0", id.as_str().as_bytes()])
}

/// Returns the key of what was used on a day; it is ordered by it as others are by time.
pub(crate) fn usage(day: u64, agent: &Name, model: &Name) -> Vec<u8> {
    let (agent, model) = (agent.as_str().as_bytes(), model.as_str().as_bytes());
    Space::Usage.key(&[&day.to_be_bytes(), agent, b"\0", model])
}

/// Returns the keys of usage from a day on.
pub(crate) fn usage_since(day: u64) -> Range<Vec<u8>> {
    Space::Usage.key(&[&day.to_be_bytes()])..vec![Space::Usage as u8 + 1]
}

/// Returns the keys of usage before a day.
pub(crate) fn usage_until(day: u64) -> Range<Vec<u8>> {
    Space::Usage.key(&[])..Space::Usage.key(&[&day.to_be_bytes()])
}

pub(crate) fn trace(trace: &[u8]) -> Vec<u8> {
    Space::Trace.key(&[trace])
}

pub(crate) fn trace_at(start: Timestamp, trace: &[u8]) -> Vec<u8> {
    Space::TraceAt.at(start, trace)
}

/// The length of a begin and a trace's id together, by which traces are ordered.
pub(crate) const PLACE_LEN: usize = 24;

/// Returns the place of a trace in the order of time.
pub(crate) fn place(start: Timestamp, trace: &[u8]) -> Vec<u8> {
    let mut place = start.as_micros().to_be_bytes().to_vec();
    place.extend_from_slice(trace);
    place
}

/// Microseconds of a second.
const SECOND_US: u64 = 1_000_000;

/// Returns the number of the second in which a trace began.
pub(crate) const fn second(start: Timestamp) -> u64 {
    start.as_micros() / SECOND_US
}

/// Returns when a second begins, unless that is after the end of time.
pub(crate) fn begin_of(second: u64) -> Option<Timestamp> {
    second.checked_mul(SECOND_US).map(Timestamp::from_micros)
}

/// Returns the prefix of all traces of a facet. A value holds no NUL, so no trace stands among
/// those of another value.
pub(crate) fn traces_by(facet: Facet, value: &str) -> Vec<u8> {
    trace_by(facet, value, &[])
}

/// Returns the key under which the trace at a place is found by a facet.
pub(crate) fn trace_by(facet: Facet, value: &str, place: &[u8]) -> Vec<u8> {
    Space::TraceBy.key(&[&[facet as u8], value.as_bytes(), b"\0", place])
}

/// Returns the key under which the traces are found by a facet that began in one second.
pub(crate) fn second_by(facet: Facet, value: &str, start: Timestamp) -> Vec<u8> {
    trace_by(facet, value, &second(start).to_be_bytes())
}

/// Returns the keys of a space ordered by time up to a time, that included.
pub(crate) fn until(space: Space, at: Timestamp) -> Range<Vec<u8>> {
    let after = Timestamp::from_micros(at.as_micros().saturating_add(1));
    space.key(&[])..space.at(after, &[])
}

/// Returns the key of a later part of a record.
pub(crate) fn part(of: &[u8], number: u32) -> Vec<u8> {
    Space::Part.key(&[of, b"\0", &number.to_be_bytes()])
}

/// Tells whether a key belongs to a record of its own, and not to a part or to the store itself.
pub(crate) fn heads_record(key: &[u8]) -> bool {
    !matches!(key.first(), None | Some(b'!' | b'+'))
}
