//! The tables of MCP servers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use wire::Capture;
use wire::call::EffectClass;

use super::RawValue;
use crate::bound::{self as b, COMMAND_WORDS_MAX, PREFIX_BYTES_MAX, SETTINGS_MAX, TOOLS_MAX};

/// One MCP server; either `command` or `url`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawServer {
    /// The program and its arguments, spoken to over standard input and output.
    #[schemars(length(min = 1, max = COMMAND_WORDS_MAX), inner(length(min = 1)))]
    pub(crate) command: Option<Vec<String>>,
    /// With `command`: variables of its environment: a text, or a secret.
    #[schemars(extend("maxProperties" = SETTINGS_MAX))]
    pub(crate) env: Option<BTreeMap<String, RawValue>>,
    /// The address of a server of streamable HTTP.
    pub(crate) url: Option<String>,
    /// With `url`: headers of every request: a text, or a secret.
    #[schemars(extend("maxProperties" = SETTINGS_MAX))]
    pub(crate) headers: Option<BTreeMap<String, RawValue>>,
    /// The tools that the team has of it without a table of their own, by their names on the server; `*` for all.
    #[schemars(length(max = TOOLS_MAX), inner(length(min = 1)))]
    pub(crate) tools: Option<Vec<String>>,
    /// What the names of these tools begin with in the team; the server's name and `_` if absent.
    #[schemars(length(max = PREFIX_BYTES_MAX))]
    pub(crate) prefix: Option<String>,
    /// What may be repeated of its tools; `once` if absent.
    pub(crate) effect: Option<EffectClass>,
    /// Whether its hints are believed where nothing is said of the effect of a tool.
    #[schemars(extend("default" = false))]
    pub(crate) trusted: Option<bool>,
    /// Whether results of its tools may hold words of others than the team and its users.
    #[schemars(extend("default" = true))]
    pub(crate) untrusted_output: Option<bool>,
    /// Whether results of its tools may hold what is not for everyone.
    #[schemars(extend("default" = false))]
    pub(crate) private_output: Option<bool>,
    /// Whether calls change something outside the runtime, or tell somebody there something; if absent, those whose effect is not `read`.
    pub(crate) external_effect: Option<bool>,
    /// How much of its calls traces may hold at most, whatever `[trace]` says.
    pub(crate) capture: Option<Capture>,
    /// Whether it may ask people while it works on a call.
    #[schemars(extend("default" = false))]
    pub(crate) elicitation: Option<bool>,
    /// Milliseconds that a person has to answer it.
    #[schemars(range(min = b::QUESTION_TIMEOUT_MS.min, max = b::QUESTION_TIMEOUT_MS.max), extend("default" = b::QUESTION_TIMEOUT_MS.default))]
    pub(crate) question_timeout_ms: Option<u64>,
    /// Milliseconds in which it has to start and to list its tools.
    #[schemars(range(min = b::SERVER_START_TIMEOUT_MS.min, max = b::SERVER_START_TIMEOUT_MS.max), extend("default" = b::SERVER_START_TIMEOUT_MS.default))]
    pub(crate) start_timeout_ms: Option<u64>,
    /// Milliseconds that one call of its tools may take.
    #[schemars(range(min = b::TOOL_TIMEOUT_MS.min, max = b::TOOL_TIMEOUT_MS.max), extend("default" = b::TOOL_TIMEOUT_MS.default))]
    pub(crate) timeout_ms: Option<u64>,
}
