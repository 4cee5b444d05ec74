//! The JSON shapes of look-ups, built from what the store holds.
//!
//! Whoever reads a store itself and whoever asks a daemon over HTTP has the same values in hand.
//! The functions here block on the disk.

use std::collections::HashMap;

use node::{Gathered, Unready};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{RunRow, SessionRow, Store, TraceQuery, TraceRow, TraceStatus, UsageRow};
use wire::entry::Fact;
use wire::look::NodeStats;
use wire::plan::{Dialect, Plan};
use wire::{
    EffectClass, Event, EventKind, Name, RunId, RunReply, RunStatus, SessionId, SpanRecord,
    Timestamp, Usage, WireError,
};

/// Tells whether runs are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// Whether they are.
    pub ready: bool,
    /// Why they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Unready>,
    /// Whether the node is on its way to its end.
    pub draining: bool,
    /// Whether messages can leave at present.
    pub bus_connected: bool,
    /// The teams.
    pub teams: Vec<Name>,
}

/// Whether a client has to sign in, and has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInView {
    /// Whether the doors ask for a token.
    pub required: bool,
    /// Whether this client may come in.
    pub signed_in: bool,
}

/// Says that something happened in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The team.
    pub team: Name,
    /// What happened, by the word of the event.
    pub event: String,
    /// When.
    pub at: Timestamp,
    /// The session.
    pub session: SessionId,
    /// The run.
    pub run: RunId,
    /// The agent.
    pub agent: Name,
    /// How many runs stand above.
    pub depth: u32,
}

/// The teams of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeamList {
    /// By name.
    pub teams: Vec<TeamView>,
}

/// One team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeamView {
    /// Its name.
    pub name: Name,
    /// What it does.
    pub description: String,
    /// The agent that is asked unless another is named.
    pub entry: Name,
    /// Its agents.
    pub agents: Vec<AgentView>,
    /// Its tools.
    pub tools: Vec<ToolView>,
    /// Its models.
    pub models: Vec<Name>,
    /// What others describe and cannot be offered, each with the reason, and what the team file
    /// names that no tool is called at present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Why its tools are not as those say who describe them, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentView {
    /// Its name.
    pub name: Name,
    /// What it does.
    pub description: String,
    /// The model that thinks, if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinker: Option<Name>,
    /// The model that plans, if it has one; it then has no thinker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planner: Option<Name>,
    /// The model that acts.
    pub actor: Name,
    /// How that model is asked.
    pub dialect: Dialect,
    /// The tools and agents that it may call.
    pub calls: Vec<Name>,
}

/// One tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolView {
    /// Its name.
    pub name: Name,
    /// What it does.
    pub description: String,
    /// What may be repeated.
    pub effect: EffectClass,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// Runs, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunList {
    /// The runs.
    pub runs: Vec<RunSummary>,
}

/// One run in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
    /// The agent that was asked.
    pub agent: Name,
    /// When it was accepted.
    pub at: Timestamp,
    /// When it ended; absent while it is in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// How it ended; absent while it is in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// The input, cut to [`store::INPUT_PREVIEW_CHARS_MAX`] characters.
    pub input: String,
    /// Its trace.
    pub trace_id: String,
    /// What it and the runs below it used; absent while it is in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The run that asked for it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// The run that its message joined, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<RunId>,
}

/// Sessions, the one active last first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<SessionSummary>,
}

/// One session in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// The session.
    pub session: SessionId,
    /// The agent that it is held with.
    pub agent: Name,
    /// When it was first seen.
    pub begun: Timestamp,
    /// When it was last active.
    pub at: Timestamp,
    /// How many entries its journal has.
    pub slots: u64,
}

/// One session with what was said in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// The session.
    #[serde(flatten)]
    pub summary: SessionSummary,
    /// What was said, the oldest first.
    pub exchanges: Vec<Exchange>,
    /// Whether more was said before, which together has more than [`SESSION_BYTES_MAX`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// Bytes of the inputs, answers and errors that are shown of a session: more than a person reads. The
/// newest run is shown whatever it has.
pub const SESSION_BYTES_MAX: usize = 8 << 20;

/// One run of a session: what was asked, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The run.
    #[serde(flatten)]
    pub run: RunSummary,
    /// The answer; absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<WireError>,
}

/// Traces, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceList {
    /// The traces.
    pub traces: Vec<TraceSummary>,
    /// Where to go on, as `after` of the next look-up; absent if there are no more. A list may be
    /// shorter than its limit and yet have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How many traces went so that all take no more than they may.
    #[serde(default)]
    pub dropped: u64,
}

/// One trace in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceSummary {
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
    /// How that run ended; absent while it is in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// How the trace stands: whether a run of it is in work, and else whether a span failed.
    pub trace_status: TraceStatus,
    /// The input of that run, cut to [`store::INPUT_PREVIEW_CHARS_MAX`] characters.
    pub input: String,
    /// When its first span began.
    pub start: Timestamp,
    /// When its last span ended.
    pub end: Timestamp,
    /// How many spans it has.
    pub spans: u32,
    /// How many more it had that are not kept.
    pub spans_dropped: u32,
    /// How many of them failed.
    pub errors: u32,
    /// Why the root span failed; absent means that it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Tokens of its model turns.
    pub usage: Usage,
}

/// One trace with its spans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceView {
    /// The trace id as 32 hex digits.
    pub trace_id: String,
    /// The spans by their begin.
    pub spans: Vec<SpanRecord>,
    /// How many more there are that do not fit into what nodes send each other.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The nodes that are there and did not answer in time, each with its teams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// How nodes fare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeList {
    /// The nodes.
    pub nodes: Vec<NodeStats>,
    /// The nodes that are there and did not answer in time, each with its teams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
}

/// Facts, the best match first, or the newest if nothing was looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactList {
    /// The facts.
    pub facts: Vec<Fact>,
}

/// What models used, the oldest day first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageList {
    /// By day, agent and model.
    pub usage: Vec<UsageRow>,
}

/// What a check of a store found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCheck {
    /// How many records there are; absent if the store is damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// What is damaged; absent if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// Sessions that are set aside, since the journal is damaged where they stand.
    pub sessions_damaged: Vec<SessionId>,
}

impl From<&Plan> for AgentView {
    fn from(plan: &Plan) -> Self {
        Self {
            name: plan.agent.clone(),
            description: plan.description.clone(),
            thinker: plan.thinker.clone(),
            planner: plan.planner.as_ref().map(|planner| planner.model.clone()),
            actor: plan.actor.clone(),
            dialect: plan.dialect,
            calls: plan.tools.iter().map(|offer| offer.spec.name.clone()).collect(),
        }
    }
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
            usage: None,
            parent: begun.parent.map(|parent| parent.run),
            joined: begun.joined,
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
    pub fn new(row: TraceRow, root: Option<RunRow>) -> Self {
        let ended = root.as_ref().and_then(|root| root.ended);
        Self {
            trace_id: row.trace_id,
            name: row.name,
            run: row.run,
            agent: row.agent,
            session: row.session,
            status: ended.map(|end| end.status),
            trace_status: row.status,
            input: root.map(shown_in_traces).unwrap_or_default(),
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

fn shown_in_traces(RunRow { begun, .. }: RunRow) -> String {
    begun.traced.unwrap_or(begun.input)
}

impl TraceView {
    /// Takes what all nodes have of a trace; nothing if none of them knows it.
    pub fn gathered(found: Gathered) -> Option<Self> {
        let Gathered { trace_id, spans, left_out, silent, .. } = found;
        Some(Self { trace_id: trace_id?, spans, left_out, silent })
    }
}

impl Exchange {
    fn bytes(&self) -> usize {
        let error = self.error.as_ref().map_or(0, |error| error.message.len());
        self.run.input.len() + self.output.as_ref().map_or(0, String::len) + error
    }
}

impl SessionView {
    /// Puts the inputs as they were sent in the place of their first characters, out of the events
    /// that `tell` hands over, and leaves out the oldest runs for which there is then no room.
    pub fn complete<E>(
        &mut self,
        tell: impl FnOnce(&mut dyn FnMut(Event)) -> Result<(), E>,
    ) -> Result<(), E> {
        let places = self.exchanges.iter().enumerate();
        let places: HashMap<RunId, usize> =
            places.map(|(place, exchange)| (exchange.run.run.clone(), place)).collect();
        let mut bytes: usize = self.exchanges.iter().map(Exchange::bytes).sum();
        let mut first = 0;
        tell(&mut |event| {
            let EventKind::RunAccepted { input } = event.kind else { return };
            let Some(place) = places.get(&event.run).filter(|place| **place >= first) else {
                return;
            };
            let Some(exchange) = self.exchanges.get_mut(*place) else { return };
            bytes = bytes.saturating_sub(exchange.run.input.len()).saturating_add(input.len());
            exchange.run.input = input;
            // Left out at once, so that never more is held.
            while bytes > SESSION_BYTES_MAX && first + 1 < self.exchanges.len() {
                if let Some(oldest) = self.exchanges.get_mut(first) {
                    bytes = bytes.saturating_sub(oldest.bytes());
                    (oldest.run.input, oldest.output, oldest.error) = (String::new(), None, None);
                }
                first += 1;
            }
        })?;
        self.more |= first > 0;
        self.exchanges.drain(..first);
        Ok(())
    }
}

/// Lists the newest runs.
pub fn runs(store: &Store, limit: usize) -> Result<RunList, store::Error> {
    let mut runs = Vec::new();
    for row in store.runs(limit)? {
        let usage = match row.ended {
            Some(_) => used(store, &row.begun.run)?,
            None => None,
        };
        runs.push(RunSummary { usage, ..row.into() });
    }
    Ok(RunList { runs })
}

/// Returns what a run used, by its reply.
fn used(store: &Store, run: &RunId) -> Result<Option<Usage>, store::Error> {
    /// What is read of a reply; the rest may be large.
    #[derive(Deserialize)]
    struct Used {
        usage: Usage,
    }
    let reply = store.reply(run)?;
    let used = reply.and_then(|bytes| serde_json::from_slice::<Used>(&bytes).ok());
    Ok(used.map(|used| used.usage))
}

/// Lists the sessions that were active last.
pub fn sessions(store: &Store, limit: usize) -> Result<SessionList, store::Error> {
    let rows = store.sessions(limit)?;
    Ok(SessionList { sessions: rows.into_iter().map(SessionSummary::from).collect() })
}

/// Looks up a session and its newest runs, as far as they are among the newest [`store::LIST_MAX`] of
/// the team and have no more than [`SESSION_BYTES_MAX`].
pub fn session(store: &Store, session: &SessionId) -> Result<Option<SessionView>, store::Error> {
    let Some(row) = store.session(session)? else { return Ok(None) };
    let (mut exchanges, mut bytes, mut more) = (Vec::new(), 0, false);
    for row in store.runs(store::LIST_MAX)? {
        if row.begun.session != *session {
            continue;
        }
        let reply = store.reply(&row.begun.run)?;
        let reply = reply.and_then(|bytes| serde_json::from_slice::<RunReply>(&bytes).ok());
        let usage = reply.as_ref().map(|reply| reply.usage);
        let exchange = Exchange {
            run: RunSummary { usage, ..row.into() },
            output: reply.as_ref().map(|reply| reply.output.to_string()),
            error: reply.and_then(|reply| reply.error),
        };
        bytes += exchange.bytes();
        more = bytes > SESSION_BYTES_MAX && !exchanges.is_empty();
        if more {
            break;
        }
        exchanges.push(exchange);
    }
    exchanges.reverse();
    Ok(Some(SessionView { summary: row.into(), exchanges, more }))
}

/// Finds traces, the newest first.
pub fn traces(store: &Store, query: &TraceQuery, limit: usize) -> Result<TraceList, store::Error> {
    let page = store.traces(query, limit)?;
    let mut traces = Vec::with_capacity(page.rows.len());
    for row in page.rows {
        let root = store.run(&row.run)?;
        traces.push(TraceSummary::new(row, root));
    }
    let dropped = store.trace_usage().dropped.traces;
    Ok(TraceList { traces, next: page.next.map(|next| next.to_string()), dropped })
}

/// Looks up a trace by its id, by four or more of the id's first digits, or by a run in it.
pub fn trace(store: &Store, name: &str) -> Result<Option<TraceView>, store::Error> {
    let spans = store.trace(name)?;
    let trace_id = spans.first().map(|span| span.context.trace_id());
    let whole = |trace_id| TraceView { trace_id, spans, left_out: 0, silent: Vec::new() };
    Ok(trace_id.map(whole))
}

/// Finds facts by words; a query without words lists the newest.
pub fn memory(store: &Store, query: &str, limit: usize) -> Result<FactList, store::Error> {
    Ok(FactList { facts: store.recall(query, limit)? })
}

/// Lists what models used from the day of a time on.
pub fn usage(store: &Store, since: Timestamp) -> Result<UsageList, store::Error> {
    Ok(UsageList { usage: store.usage(since)? })
}

/// Reads and counts every record of a store.
pub fn check(store: &Store, sessions_damaged: Vec<SessionId>) -> Result<StoreCheck, store::Error> {
    match store.verify() {
        Ok(records) => Ok(StoreCheck { records: Some(records), damage: None, sessions_damaged }),
        Err(store::Error::Damaged { reason, .. }) => {
            Ok(StoreCheck { records: None, damage: Some(reason), sessions_damaged })
        }
        Err(error) => Err(error),
    }
}
