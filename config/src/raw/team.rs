//! The table of the team as a whole, and how long what happened is kept.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::bound::{
    self as b, DESCRIPTION_BYTES_MAX, RETENTION_RUNS_DEFAULT, RETENTION_SESSIONS_DEFAULT,
};

/// The team as a whole.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawTeam {
    /// The team's name, 1 to 64 characters of `A-Z a-z 0-9 _ -`; the file's name without its ending if absent.
    pub(crate) name: Option<String>,
    /// What the team does.
    #[schemars(length(max = DESCRIPTION_BYTES_MAX))]
    pub(crate) description: Option<String>,
    /// The agent that is asked unless another is named; may be absent if there is only one agent.
    pub(crate) entry: Option<String>,
    /// The team's share of the places at a server that it shares with other teams of the node.
    #[schemars(range(min = b::TEAM_WEIGHT.min, max = b::TEAM_WEIGHT.max), extend("default" = b::TEAM_WEIGHT.default))]
    pub(crate) weight: Option<u32>,
    /// The base address of an OTLP/HTTP receiver of spans, such as `http://127.0.0.1:4318`.
    pub(crate) otlp_endpoint: Option<String>,
    /// Runs that a node has in work or waiting for the team, those that its agents ask for not counted; further ones are told `overloaded`.
    #[schemars(range(min = b::RUNS_MAX.min, max = b::RUNS_MAX.max), extend("default" = b::RUNS_MAX.default))]
    pub(crate) runs_max: Option<u32>,
}

/// How long what happened is kept. Times are a number with `s`, `m`, `h` or `d`, or `forever`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawRetention {
    /// How long after its end a run is kept, with its reply and its trace.
    #[schemars(extend("default" = RETENTION_RUNS_DEFAULT))]
    pub(crate) runs: Option<String>,
    /// The most runs that are kept besides those in work, the newest; all if absent.
    #[schemars(range(min = b::RETENTION_RUNS_MAX.min, max = b::RETENTION_RUNS_MAX.max))]
    pub(crate) runs_max: Option<u64>,
    /// How long a session is kept with which nobody goes on.
    #[schemars(extend("default" = RETENTION_SESSIONS_DEFAULT))]
    pub(crate) sessions: Option<String>,
    /// How long after its end a trace is kept; as long as `runs` if absent.
    pub(crate) traces: Option<String>,
    /// The most bytes that traces take on the disk; the oldest go first.
    #[schemars(
        range(min = b::RETENTION_TRACE_BYTES.min, max = b::RETENTION_TRACE_BYTES.max),
        extend("default" = b::RETENTION_TRACE_BYTES.default)
    )]
    pub(crate) trace_bytes_max: Option<u64>,
}
