//! What is kept of a session when the entries before are dropped.

use serde::{Deserialize, Serialize};

use crate::id::{Digest, Name, RunId};
use crate::open::OpenCall;
use crate::run::RunStatus;
use crate::shared::SharedText;
use crate::time::Timestamp;
use crate::trace::TraceContext;

/// All that a session at rest goes on with. A machine that is given it stands where the one that
/// made it stood, less the runs that ended too long ago.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Runs that ended at this time or before are forgotten.
    pub cutoff: Timestamp,
    /// The agent that was asked last.
    pub agent: Name,
    /// Whether the session was begun by a call of another agent; no client goes on with it.
    #[serde(default)]
    pub is_called: bool,
    /// When the first run was accepted.
    pub begun: Timestamp,
    /// When a run was last accepted or ended.
    pub seen: Timestamp,
    /// What models may be shown of earlier runs, oldest first.
    pub exchanges: Vec<KeptExchange>,
    /// How many exchanges there were, those that are out of reach included; 0 where that was not
    /// counted, and then they count as those that are kept.
    #[serde(default, skip_serializing_if = "crate::chat::is_zero")]
    pub exchanges_total: u64,
    /// The runs that ended after the cutoff, in the order in which they ended.
    pub runs: Vec<KeptRun>,
    /// Calls of runs that are over whose outcome nobody knows, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unresolved: Vec<OpenCall>,
}

/// A message and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptExchange {
    /// The user's message.
    pub user: String,
    /// The final answer, or what stands for it.
    pub answer: SharedText,
    /// Whether either may hold untrusted words.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tainted: bool,
}

/// A run that ended, as far as is needed to know it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptRun {
    /// The run.
    pub run: RunId,
    /// The agent.
    pub agent: Name,
    /// Hash of what the client sent, to tell a repetition from a conflict.
    pub body: Digest,
    /// The span of the run in its trace.
    pub trace: TraceContext,
    /// How it ended.
    pub status: RunStatus,
    /// When it ended.
    pub ended: Timestamp,
    /// The run that its message joined, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<RunId>,
}
