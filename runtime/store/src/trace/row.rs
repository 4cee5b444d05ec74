//! What is known of a trace as a whole: its row, and by what it is found.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wire::{Name, RunId, SessionId, Timestamp, Usage};

use crate::key::{self, Facet};
use crate::trace::beside::{Beside, Marks};
use crate::trace::ended::{EndedSpan, Told};
use crate::trace::told::TracePart;
use crate::trace::walk::Index;
use crate::trace::{RUN_SPANS_SPARE, SPANS_MAX};

/// The most agents, and the most tools, by which one trace is found; a team has rarely more.
pub const NAMES_FOUND_MAX: usize = 64;
/// The most sessions by which one trace is found: its own, and the first of the called agents'.
pub const SESSIONS_FOUND_MAX: usize = 16;
/// About what a row takes without its notes, and each note of a session, a run or a name.
const ROW_BYTES: usize = 1024;
const NOTE_BYTES: usize = 96;

/// How a trace stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceStatus {
    /// A run of it is in work.
    Running,
    /// All its runs are over, and none of its spans failed.
    Ok,
    /// All its runs are over, and some of its spans failed.
    Error,
}

impl TraceStatus {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Running, Self::Ok, Self::Error];

    /// Returns the word used in queries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ok => "ok",
            Self::Error => "error",
        }
    }
}

/// One trace in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// The trace id as 32 hex digits.
    pub trace_id: String,
    /// The name of its root span.
    pub name: String,
    /// The run that the root span stands for.
    pub run: RunId,
    /// The agent of that run.
    pub agent: Name,
    /// The session of that run.
    pub session: SessionId,
    /// How it stands.
    pub status: TraceStatus,
    /// When its first span began.
    pub start: Timestamp,
    /// When its last span ended.
    pub end: Timestamp,
    /// How many spans it has.
    pub spans: u32,
    /// How many of them failed.
    pub errors: u32,
    /// Why the root span failed; absent means that it did not.
    pub error: Option<String>,
    /// Tokens of its model turns.
    pub usage: Usage,
    /// How many spans came beyond what a trace may have, and are not told.
    pub spans_dropped: u32,
}

/// What is known of a trace: the row, by what its root was chosen, and by what it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) row: TraceRow,
    pub(super) root: Rank,
    /// The entries that tell of it, by session.
    pub(super) parts: BTreeMap<SessionId, Part>,
    pub(super) agents: BTreeSet<String>,
    pub(super) tools: BTreeSet<String>,
    pub(super) sessions: BTreeSet<String>,
    /// The runs that have spans and are in work, and those that are over.
    pub(super) open: BTreeSet<RunId>,
    pub(super) over: BTreeSet<RunId>,
}

/// What a session tells of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) first_slot: u64,
    pub(super) last: Told,
}

/// Orders spans by how likely they are the root; the least is it. Children end, and so arrive,
/// before their parents, and a parent outside leaves no span without a parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) has_parent: bool,
    pub(super) start: Timestamp,
    pub(super) end: Reverse<Timestamp>,
    pub(super) span: SpanNumber,
}

/// The id of a span as a number, stored as its digits: both are ordered alike, and a number is
/// quick to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpanNumber(u64);

impl SpanNumber {
    const fn of(span: &EndedSpan) -> Self {
        Self(u64::from_be_bytes(span.context.span_bytes()))
    }
}

impl Serialize for SpanNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for SpanNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        u64::from_str_radix(&digits, 16).map(Self).map_err(D::Error::custom)
    }
}

impl Rank {
    fn of(span: &EndedSpan) -> Self {
        Self {
            has_parent: span.has_parent,
            start: span.start,
            end: Reverse(span.end),
            span: SpanNumber::of(span),
        }
    }

    /// Tells whether a span is more likely the root, or is this one told again.
    fn yields_to(&self, span: &EndedSpan) -> bool {
        let id = SpanNumber::of(span);
        let rank = (span.has_parent, span.start, Reverse(span.end), id);
        id == self.span || rank < (self.has_parent, self.start, self.end, self.span)
    }
}

impl Summary {
    pub(crate) fn of(span: &EndedSpan) -> Self {
        let row = TraceRow {
            trace_id: span.context.trace_id(),
            name: span.name.clone(),
            run: span.run.clone(),
            agent: span.agent.clone(),
            session: span.session.clone(),
            status: TraceStatus::Running,
            start: span.start,
            end: span.end,
            spans: 0,
            errors: 0,
            error: span.error.clone(),
            usage: Usage::default(),
            spans_dropped: 0,
        };
        Self {
            row,
            root: Rank::of(span),
            parts: BTreeMap::new(),
            agents: BTreeSet::new(),
            tools: BTreeSet::new(),
            sessions: BTreeSet::new(),
            open: BTreeSet::new(),
            over: BTreeSet::new(),
        }
    }

    /// Adds a span. One that was added before changes nothing, and one beyond what a trace may have
    /// is only counted, so that it notes no more runs and sessions than it has spans.
    pub(crate) fn add(&mut self, span: &EndedSpan) {
        let ends_run = span.ends_run();
        let spare = if ends_run { RUN_SPANS_SPARE } else { 0 };
        let has_room = self.row.spans < SPANS_MAX + spare;
        if !self.is_new(span, has_room) {
            return;
        }
        if has_room {
            self.count(span);
        } else {
            self.row.spans_dropped = self.row.spans_dropped.saturating_add(1);
        }
        self.note_run(&span.run, ends_run, has_room);
    }

    /// Notes who tells of a span, and returns whether it comes for the first time: a session tells
    /// its spans in one order, however often. Of a session that is not noted, because there was no
    /// room, it always seems so.
    fn is_new(&mut self, span: &EndedSpan, has_room: bool) -> bool {
        let told = span.told;
        if let Some(part) = self.parts.get_mut(&span.session) {
            let is_new = told > part.last;
            part.last = part.last.max(told);
            return is_new;
        }
        if has_room {
            self.parts.insert(span.session.clone(), Part { first_slot: told.slot, last: told });
        }
        true
    }

    /// Returns about how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let found = self.agents.len() + self.tools.len() + self.sessions.len();
        let noted = self.parts.len() + self.open.len() + self.over.len() + found;
        ROW_BYTES + noted * NOTE_BYTES
    }

    fn count(&mut self, span: &EndedSpan) {
        if self.root.yields_to(span) {
            self.row.name.clone_from(&span.name);
            self.row.run.clone_from(&span.run);
            self.row.agent.clone_from(&span.agent);
            self.row.session.clone_from(&span.session);
            self.row.error.clone_from(&span.error);
            self.root = Rank::of(span);
        }
        note(&mut self.agents, span.agent.as_str(), NAMES_FOUND_MAX);
        note(&mut self.sessions, span.session.as_str(), SESSIONS_FOUND_MAX);
        if let Some(tool) = &span.tool {
            note(&mut self.tools, tool, NAMES_FOUND_MAX);
        }
        let row = &mut self.row;
        row.start = row.start.min(span.start);
        row.end = row.end.max(span.end);
        row.spans = row.spans.saturating_add(1);
        row.errors = row.errors.saturating_add(u32::from(span.error.is_some()));
        row.usage.add(span.used);
    }

    /// Notes where the run of a span stands: its own span says that it is over.
    fn note_run(&mut self, run: &RunId, is_over: bool, has_room: bool) {
        if is_over {
            let was_open = self.open.remove(run);
            if was_open || has_room {
                self.over.insert(run.clone());
            }
        } else if has_room && !self.over.contains(run) && !self.open.contains(run) {
            self.open.insert(run.clone());
        }
        self.row.status = match (self.open.is_empty(), self.row.errors) {
            (false, _) => TraceStatus::Running,
            (true, 0) => TraceStatus::Ok,
            (true, _) => TraceStatus::Error,
        };
    }

    /// Returns the runs that have spans and are in work.
    pub(crate) fn open(&self) -> impl Iterator<Item = &RunId> {
        self.open.iter()
    }

    /// Returns who tells of it.
    pub(crate) fn parts(&self) -> Vec<TracePart> {
        let part = |(session, part): (&SessionId, &Part)| TracePart {
            session: session.clone(),
            first_slot: part.first_slot,
            last_slot: part.last.slot,
        };
        self.parts.iter().map(part).collect()
    }

    /// Returns the values by which it is found; one may come twice.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Facet, &str)> {
        let row = &self.row;
        let own = [
            (Facet::Status, row.status.as_str()),
            (Facet::Agent, row.agent.as_str()),
            (Facet::Session, row.session.as_str()),
        ];
        own.into_iter()
            .chain(noted(Facet::Agent, &self.agents))
            .chain(noted(Facet::Tool, &self.tools))
            .chain(noted(Facet::Session, &self.sessions))
    }

    /// Returns what stands beside it in the order of time.
    pub(crate) fn beside(&self) -> Beside {
        Beside { end: self.row.end, marks: Marks::of(self.values()) }
    }

    /// Returns the keys under which it is found by its place, besides its id and its time.
    pub(crate) fn keys(&self, trace: &[u8]) -> BTreeSet<Vec<u8>> {
        let place = key::place(self.row.start, trace);
        self.found_by(Index::Place)
            .map(|(facet, value)| key::trace_by(facet, value, &place))
            .collect()
    }

    /// Returns the keys under which it is found by the second in which it began.
    pub(crate) fn seconds(&self) -> impl Iterator<Item = Vec<u8>> {
        let start = self.row.start;
        self.found_by(Index::Second).map(move |(facet, value)| key::second_by(facet, value, start))
    }

    fn found_by(&self, index: Index) -> impl Iterator<Item = (Facet, &str)> {
        self.values().filter(move |(facet, value)| Index::of(*facet, value) == index)
    }

    /// Tells how many agents and tools are noted; none of them goes again.
    pub(crate) fn names(&self) -> usize {
        self.agents.len() + self.tools.len()
    }
}

fn noted(facet: Facet, names: &BTreeSet<String>) -> impl Iterator<Item = (Facet, &str)> {
    names.iter().map(move |name| (facet, name.as_str()))
}

fn note(names: &mut BTreeSet<String>, name: &str, max: usize) {
    if names.len() < max && !names.contains(name) && !name.contains('\0') {
        names.insert(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use wire::TraceContext;

    use super::*;

    #[test]
    fn the_root_is_the_least_by_parent_start_end_and_digits_of_the_id() {
        let base = TraceContext::root(&Name::new("t").unwrap(), &RunId::new("r").unwrap());
        let mut spans = Vec::new();
        for has_parent in [false, true] {
            for (start, end) in [(1, 5), (1, 4), (2, 5)] {
                for key in ["a", "b", "c", "d"] {
                    spans.push(ended(base.child("x", key), has_parent, start, end));
                }
            }
        }
        for one in &spans {
            let root = Rank::of(one);
            for other in &spans {
                let of = |rank: &Rank| (rank.has_parent, rank.start, rank.end, rank.span);
                let rank = Rank::of(other);
                let expected = of(&rank) < of(&root) || rank.span == root.span;
                assert_eq!(root.yields_to(other), expected, "{rank:?} instead of {root:?}");
            }
        }
    }

    #[test]
    fn the_id_of_a_span_is_stored_as_its_digits() {
        let base = TraceContext::root(&Name::new("t").unwrap(), &RunId::new("r").unwrap());
        for key in ["a", "b", "c", "d"] {
            let span = ended(base.child("x", key), false, 1, 2);
            let stored = serde_json::to_value(SpanNumber::of(&span)).unwrap();
            assert_eq!(stored, span.context.span_id());
            let read: SpanNumber = serde_json::from_value(stored).unwrap();
            assert_eq!(read, SpanNumber::of(&span));
        }
        for (id, digits) in [(0, "0000000000000000"), (10, "000000000000000a")] {
            assert_eq!(serde_json::to_value(SpanNumber(id)).unwrap(), digits);
        }
        assert!(serde_json::from_str::<SpanNumber>("\"x\"").is_err());
    }

    fn ended(context: TraceContext, has_parent: bool, start: u64, end: u64) -> EndedSpan {
        let name = Name::new("a").unwrap();
        EndedSpan {
            context,
            has_parent,
            name: String::new(),
            start: Timestamp::from_micros(start),
            end: Timestamp::from_micros(end),
            session: SessionId::new("s").unwrap(),
            run: RunId::new("r").unwrap(),
            agent: name,
            error: None,
            tool: None,
            turn: None,
            used: Usage::default(),
            told: Told { slot: 0, number: 0 },
        }
    }
}
