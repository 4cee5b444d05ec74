//! What a plan bounds.

use serde::{Deserialize, Serialize};

/// What a run may use at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Model steps of one run.
    pub steps_max: u32,
    /// Calls asked for in one step; the rest is refused with an error to the model.
    pub calls_per_step_max: u32,
    /// Runs that may stand above a run.
    pub depth_max: u32,
    /// Tokens of a run and of the runs that it asks for, input and output together.
    pub tokens_max: u64,
    /// Tokens that one model reply may have.
    pub reply_tokens_max: u64,
    /// Unusable replies that are answered with feedback in one step, before the run fails.
    pub feedback_max: u32,
    /// Times that a run is taken up again at one and the same point before it fails.
    pub resumes_max: u32,
    /// Milliseconds from acceptance to reply.
    pub deadline_ms: u64,
    /// Milliseconds that one model turn may take, retries included.
    pub model_timeout_ms: u64,
    /// Runs of a session that wait behind the one in work, and messages that join one run.
    pub queue_max: u32,
    /// Messages of earlier runs that a model is shown.
    pub history_messages_max: u32,
    /// Tokens of these messages, by an estimate that is rather too high. Whatever it says, they get
    /// no more than a share of what the run may read. Absent in older plans, by which messages were
    /// shown whatever they take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_tokens_max: Option<u64>,
    /// Milliseconds that a person has to allow a call, before it counts as denied.
    #[serde(default = "approval_timeout_ms")]
    pub approval_timeout_ms: u64,
    /// Calls of a run and of the runs that it asks for.
    #[serde(default = "unbounded_calls")]
    pub calls_max: u64,
    /// Steps of one run that may ask for the same tool with the same arguments, before it is
    /// stopped.
    #[serde(default = "super::unbounded")]
    pub repeats_max: u32,
    /// Money of a run and of the runs that it asks for, in billionths of a US dollar; absent means
    /// that only tokens are bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_max_nano_usd: Option<u64>,
}

/// Plans of an earlier format did not bound calls.
const fn unbounded_calls() -> u64 {
    u64::MAX
}

/// Plans of an earlier format let no call wait for leave, so no run depends on this value.
const fn approval_timeout_ms() -> u64 {
    300_000
}
