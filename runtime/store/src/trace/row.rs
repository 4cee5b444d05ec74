//! What is known of a trace as a whole: its row, and by what it is found.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use wire::{Name, RunId, SessionId, Timestamp, Usage};

use crate::key::{self, Facet};
use crate::trace::ended::EndedSpan;

/// The most agents, and the most tools, by which one trace is found; a team has rarely more.
pub const NAMES_FOUND_MAX: usize = 64;
/// The most sessions by which one trace is found: its own, and the first of the called agents'.
pub const SESSIONS_FOUND_MAX: usize = 16;

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Tokens of its model turns.
    pub usage: Usage,
    /// How many spans came beyond what a trace may have and are not kept.
    #[serde(default)]
    pub spans_dropped: u32,
}

/// A trace as stored: the row, by what its root was chosen, and by what it is found.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) row: TraceRow,
    root: Rank,
    /// When the first span that came of it began: its spans are filed under that time, since a
    /// tree takes what comes in the order of its keys for much less than what does not.
    pub(crate) filed: Timestamp,
    /// The bytes of its spans.
    pub(crate) bytes: u64,
    /// How many records its spans have made so far.
    pub(crate) records: u32,
    agents: BTreeSet<String>,
    tools: BTreeSet<String>,
    sessions: BTreeSet<String>,
    /// The runs that have spans and are not over.
    open: BTreeSet<RunId>,
}

/// Orders spans by how likely they are the root; the least is it. Children end, and so arrive,
/// before their parents, and a parent outside leaves no span without a parent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Rank {
    has_parent: bool,
    start: Timestamp,
    end: Reverse<Timestamp>,
    span: String,
}

impl Rank {
    fn of(span: &EndedSpan) -> Self {
        Self {
            has_parent: span.has_parent,
            start: span.start,
            end: Reverse(span.end),
            span: span.context.span_id(),
        }
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
            filed: span.start,
            bytes: 0,
            records: 0,
            agents: BTreeSet::new(),
            tools: BTreeSet::new(),
            sessions: BTreeSet::new(),
            open: BTreeSet::new(),
        }
    }

    pub(crate) fn add(&mut self, span: &EndedSpan, bytes: usize) {
        let rank = Rank::of(span);
        if rank < self.root || rank.span == self.root.span {
            self.row.name.clone_from(&span.name);
            self.row.run.clone_from(&span.run);
            self.row.agent.clone_from(&span.agent);
            self.row.session.clone_from(&span.session);
            self.row.error.clone_from(&span.error);
            self.root = rank;
        }
        note(&mut self.agents, span.agent.as_str(), NAMES_FOUND_MAX);
        note(&mut self.sessions, span.session.as_str(), SESSIONS_FOUND_MAX);
        if let Some(tool) = &span.tool {
            note(&mut self.tools, tool, NAMES_FOUND_MAX);
        }
        self.bytes = self.bytes.saturating_add(bytes as u64);
        let row = &mut self.row;
        row.start = row.start.min(span.start);
        row.end = row.end.max(span.end);
        row.spans = row.spans.saturating_add(1);
        row.errors = row.errors.saturating_add(u32::from(span.error.is_some()));
        row.usage.add(span.used);
    }

    /// Takes back what a span counted for, before another of the same id is added. The time that
    /// it spanned stays.
    pub(crate) fn take_back(&mut self, span: &EndedSpan) {
        let (row, used) = (&mut self.row, span.used);
        row.spans = row.spans.saturating_sub(1);
        row.errors = row.errors.saturating_sub(u32::from(span.error.is_some()));
        row.usage.input_tokens = row.usage.input_tokens.saturating_sub(used.input_tokens);
        row.usage.output_tokens = row.usage.output_tokens.saturating_sub(used.output_tokens);
        row.usage.cost_nano_usd = row.usage.cost_nano_usd.saturating_sub(used.cost_nano_usd);
    }

    /// Notes where the run of a span stands; `is_over` tells whether the span of the run is there.
    pub(crate) fn note_run(&mut self, run: &RunId, is_over: bool) {
        if is_over {
            self.open.remove(run);
        } else {
            self.open.insert(run.clone());
        }
        self.row.status = match (self.open.is_empty(), self.row.errors) {
            (false, _) => TraceStatus::Running,
            (true, 0) => TraceStatus::Ok,
            (true, _) => TraceStatus::Error,
        };
    }

    /// Returns the keys under which the trace is found besides its id and its time.
    pub(crate) fn keys(&self) -> BTreeSet<Vec<u8>> {
        let row = &self.row;
        let place = hex(&row.trace_id).map(|trace| key::place(row.start, &trace));
        let Some(place) = place else { return BTreeSet::new() };
        let of = |facet: Facet, value: &str| {
            let mut key = key::traces_by(facet, value);
            key.extend_from_slice(&place);
            key
        };
        let own = [
            of(Facet::Status, row.status.as_str()),
            of(Facet::Agent, row.agent.as_str()),
            of(Facet::Session, row.session.as_str()),
        ];
        let agents = self.agents.iter().map(|agent| of(Facet::Agent, agent));
        let tools = self.tools.iter().map(|tool| of(Facet::Tool, tool));
        let sessions = self.sessions.iter().map(|session| of(Facet::Session, session));
        own.into_iter().chain(agents).chain(tools).chain(sessions).collect()
    }
}

/// Reads the id of a trace.
fn hex(trace_id: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        trace_id.chars().map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
    let (pairs, _) = digits.as_deref()?.as_chunks::<2>();
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

fn note(names: &mut BTreeSet<String>, name: &str, max: usize) {
    if names.len() < max && !name.contains('\0') && !names.contains(name) {
        names.insert(name.to_owned());
    }
}
