//! What nodes tell of themselves: their parts of a trace, and how they fare.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chat::Usage;
use crate::id::{Name, RunId, SessionId};
use crate::open::OpenKind;
use crate::time::Timestamp;
use crate::trace::SpanRecord;

/// Some of what one node has of a trace. A node whose part does not fit into one message sends
/// several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracePart {
    /// The node, by the id that its services have.
    pub node: String,
    /// The trace; absent if the node has nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Some of its spans.
    pub spans: Vec<SpanRecord>,
    /// How many spans were too large for a message.
    #[serde(default)]
    pub left_out: u64,
    /// Whether the node sends more.
    pub more: bool,
}

/// What one node tells of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStats {
    /// The node, by the id that its services have.
    pub node: String,
    /// Its version.
    pub version: String,
    /// When it started.
    pub since: Timestamp,
    /// When this was told.
    pub at: Timestamp,
    /// Whether it is on its way to its end.
    pub draining: bool,
    /// Whether messages can leave at present.
    pub bus_connected: bool,
    /// Events that wait for the bus.
    pub events_waiting: u64,
    /// Events that were dropped since the start because the bus did not take them.
    pub events_lost: u64,
    /// Its teams, by name.
    pub teams: Vec<TeamStats>,
}

/// How one team fares on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamStats {
    /// The team.
    pub team: Name,
    /// Sessions in memory.
    pub sessions: u64,
    /// Sessions in memory that have work to do by themselves.
    pub sessions_busy: u64,
    /// Runs that have not ended, those of called agents included.
    pub runs: u64,
    /// Model turns under way on this node.
    pub turns: u64,
    /// Tool calls under way on this node.
    pub calls: u64,
    /// Calls about which a person has something to say.
    pub waiting: Waiting,
    /// What happened since the node started.
    pub counts: Counts,
    /// Changes that wait for the store.
    pub store_queue: u64,
    /// Spans that wait for the receiver of traces.
    pub export_queue: u64,
    /// Spans that were dropped because that receiver did not take them.
    pub export_lost: u64,
    /// What traces take.
    pub traces: TracesKept,
    /// The oldest of the runs that have not ended.
    pub in_work: Vec<RunInWork>,
}

/// Open calls, by what they are open for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Calls that need leave.
    pub approvals: u64,
    /// Questions of tools.
    pub questions: u64,
    /// Calls whose outcome is unknown.
    pub unknown: u64,
}

impl Waiting {
    /// Counts one call.
    pub const fn add(&mut self, kind: OpenKind) {
        match kind {
            OpenKind::Approval => self.approvals += 1,
            OpenKind::Question => self.questions += 1,
            OpenKind::Unknown => self.unknown += 1,
        }
    }

    /// Returns how many calls there are.
    pub const fn total(&self) -> u64 {
        self.approvals + self.questions + self.unknown
    }
}

/// What happened in a team on a node since the node started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Runs that were accepted, those of called agents included.
    pub runs_begun: u64,
    /// Runs that ended, by how; what never happened is left out.
    pub runs_ended: BTreeMap<String, u64>,
    /// Steps that were begun.
    pub steps: u64,
    /// Model turns that are over.
    pub turns: u64,
    /// Model turns without a reply.
    pub turns_failed: u64,
    /// Replies that could not be used.
    pub feedback: u64,
    /// Calls that are over, those of agents included.
    pub calls: u64,
    /// Calls that did not end well.
    pub calls_failed: u64,
    /// Tokens and money of the model turns.
    pub usage: Usage,
    /// Actors that failed and were started again.
    pub restarts: u64,
}

impl Counts {
    /// Returns how many runs ended, however they did.
    pub fn runs_over(&self) -> u64 {
        self.runs_ended.values().sum()
    }
}

/// What the traces of a team take on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracesKept {
    /// How many there are.
    pub kept: u64,
    /// Bytes of their files on the disk.
    pub bytes: u64,
    /// The most bytes that they may take.
    pub bytes_max: u64,
    /// How many went so that the others take no more.
    pub dropped: u64,
}

/// A run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInWork {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
    /// Its agent.
    pub agent: Name,
    /// When it was accepted.
    pub since: Timestamp,
    /// The run that asked for it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// Its input, in short.
    pub input: String,
    /// What is done for it on this node.
    pub doing: Vec<Doing>,
    /// For what it waits for a person, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<OpenKind>,
}

/// A model turn or a tool call under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doing {
    /// Which of the two.
    pub kind: DoingKind,
    /// The model, or the tool.
    pub name: Name,
    /// When it began.
    pub since: Timestamp,
}

/// What kind of work is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoingKind {
    /// A model writes.
    Turn,
    /// A tool works.
    Call,
}
