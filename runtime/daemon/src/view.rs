//! The JSON shapes of look-ups, built from what the store holds.
//!
//! Whoever reads a store itself and whoever asks a daemon over HTTP has the same values in hand.
//! The functions here block on the disk.

use serde::{Deserialize, Serialize};
use store::{RunRow, SessionRow, Store, TraceRow};
use wire::entry::Fact;
use wire::{
    Event, EventKind, Name, RunId, RunReply, RunStatus, SessionId, SpanRecord, Timestamp, Usage,
    WireError,
};

/// Runs, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunList {
    /// The runs.
    pub(crate) runs: Vec<RunSummary>,
}

/// One run in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunSummary {
    /// The run.
    pub(crate) run: RunId,
    /// Its session.
    pub(crate) session: SessionId,
    /// The agent that was asked.
    pub(crate) agent: Name,
    /// When it was accepted.
    pub(crate) at: Timestamp,
    /// When it ended; absent while it is in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<Timestamp>,
    /// How it ended; absent while it is in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<RunStatus>,
    /// The input, cut to [`store::INPUT_PREVIEW_CHARS_MAX`] characters.
    pub(crate) input: String,
    /// Its trace.
    pub(crate) trace_id: String,
    /// The run that asked for it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<RunId>,
}

/// Sessions, the one active last first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionList {
    /// The sessions.
    pub(crate) sessions: Vec<SessionSummary>,
}

/// One session in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionSummary {
    /// The session.
    pub(crate) session: SessionId,
    /// The agent that it is held with.
    pub(crate) agent: Name,
    /// When it was first seen.
    pub(crate) begun: Timestamp,
    /// When it was last active.
    pub(crate) at: Timestamp,
    /// How many entries its journal has.
    pub(crate) slots: u64,
}

/// One session with what was said in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionView {
    /// The session.
    #[serde(flatten)]
    pub(crate) summary: SessionSummary,
    /// What was said, the oldest first.
    pub(crate) exchanges: Vec<Exchange>,
}

/// One run of a session: what was asked, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    /// The run.
    #[serde(flatten)]
    pub(crate) run: RunSummary,
    /// The answer; absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<WireError>,
    /// Tokens; absent while it is in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Usage>,
}

/// Traces, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TraceList {
    /// The traces.
    pub(crate) traces: Vec<TraceSummary>,
}

/// One trace in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TraceSummary {
    /// The trace id as 32 hex digits.
    pub(crate) trace_id: String,
    /// The name of its root span.
    pub(crate) name: String,
    /// The run that the root span stands for.
    pub(crate) run: RunId,
    /// The agent of that run.
    pub(crate) agent: Name,
    /// The session of that run.
    pub(crate) session: SessionId,
    /// How that run ended; absent while it is in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<RunStatus>,
    /// The input of that run, cut to [`store::INPUT_PREVIEW_CHARS_MAX`] characters.
    pub(crate) input: String,
    /// When its first span began.
    pub(crate) start: Timestamp,
    /// When its last span ended.
    pub(crate) end: Timestamp,
    /// How many spans it has.
    pub(crate) spans: u32,
    /// How many more it had that are not kept.
    pub(crate) spans_dropped: u32,
    /// How many of them failed.
    pub(crate) errors: u32,
    /// Why the root span failed; absent means that it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Tokens of its model turns.
    pub(crate) usage: Usage,
}

/// One trace with its spans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TraceView {
    /// The trace id as 32 hex digits.
    pub(crate) trace_id: String,
    /// The spans by their begin.
    pub(crate) spans: Vec<SpanRecord>,
}

/// Facts, the best match first, or the newest if nothing was looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FactList {
    /// The facts.
    pub(crate) facts: Vec<Fact>,
}

impl From<RunRow> for RunSummary {
    fn from(row: RunRow) -> Self {
        let RunRow { begun, ended } = row;
        Self {
            run: begun.run,
            session: begun.session,
            agent: begun.agent,
            at: begun.at,
            ended: ended.map(|end| end.at),
            status: ended.map(|end| end.status),
            input: begun.input,
            trace_id: begun.trace.trace_id(),
            parent: begun.parent.map(|parent| parent.run),
        }
    }
}

impl From<SessionRow> for SessionSummary {
    fn from(row: SessionRow) -> Self {
        let SessionRow { session, agent, begun, at, slots } = row;
        Self { session, agent, begun, at, slots }
    }
}

impl TraceSummary {
    /// Joins a trace with the run at its root.
    pub(crate) fn new(row: TraceRow, root: Option<RunRow>) -> Self {
        let ended = root.as_ref().and_then(|root| root.ended);
        Self {
            trace_id: row.trace_id,
            name: row.name,
            run: row.run,
            agent: row.agent,
            session: row.session,
            status: ended.map(|end| end.status),
            input: root.map(|root| root.begun.input).unwrap_or_default(),
            start: row.start,
            end: row.end,
            spans: row.spans,
            spans_dropped: row.spans_dropped,
            errors: row.errors,
            error: row.error,
            usage: row.usage,
        }
    }
}

impl SessionView {
    /// Puts the inputs as they were sent in the place of their first characters.
    pub(crate) fn complete(&mut self, events: &[Event]) {
        for event in events {
            let EventKind::RunAccepted { input } = &event.kind else { continue };
            let exchange = self.exchanges.iter_mut().find(|one| one.run.run == event.run);
            if let Some(exchange) = exchange {
                exchange.run.input.clone_from(input);
            }
        }
    }
}

/// Lists the newest runs.
pub(crate) fn runs(store: &Store, limit: usize) -> Result<RunList, store::Error> {
    Ok(RunList { runs: store.runs(limit)?.into_iter().map(RunSummary::from).collect() })
}

/// Lists the sessions that were active last.
pub(crate) fn sessions(store: &Store, limit: usize) -> Result<SessionList, store::Error> {
    let rows = store.sessions(limit)?;
    Ok(SessionList { sessions: rows.into_iter().map(SessionSummary::from).collect() })
}

/// Looks up a session and its runs among the newest [`store::LIST_MAX`] of the team.
pub(crate) fn session(
    store: &Store,
    session: &SessionId,
) -> Result<Option<SessionView>, store::Error> {
    let Some(row) = store.session(session)? else { return Ok(None) };
    let mut exchanges = Vec::new();
    for row in store.runs(store::LIST_MAX)?.into_iter().rev() {
        if row.begun.session != *session {
            continue;
        }
        let reply = store.reply(&row.begun.run)?;
        let reply = reply.and_then(|bytes| serde_json::from_slice::<RunReply>(&bytes).ok());
        exchanges.push(Exchange {
            run: row.into(),
            output: reply.as_ref().map(|reply| reply.output.clone()),
            usage: reply.as_ref().map(|reply| reply.usage),
            error: reply.and_then(|reply| reply.error),
        });
    }
    Ok(Some(SessionView { summary: row.into(), exchanges }))
}

/// Lists the newest traces.
pub(crate) fn traces(store: &Store, limit: usize) -> Result<TraceList, store::Error> {
    let mut traces = Vec::new();
    for row in store.traces(limit)? {
        let root = store.run(&row.run)?;
        traces.push(TraceSummary::new(row, root));
    }
    Ok(TraceList { traces })
}

/// Looks up a trace by its id, by four or more of the id's first digits, or by a run in it.
pub(crate) fn trace(store: &Store, name: &str) -> Result<Option<TraceView>, store::Error> {
    let spans = store.trace(name)?;
    let trace_id = spans.first().map(|span| span.context.trace_id());
    Ok(trace_id.map(|trace_id| TraceView { trace_id, spans }))
}

/// Finds facts by words; a query without words lists the newest.
pub(crate) fn memory(store: &Store, query: &str, limit: usize) -> Result<FactList, store::Error> {
    Ok(FactList { facts: store.recall(query, limit)? })
}
