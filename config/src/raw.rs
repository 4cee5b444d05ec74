//! The shape of a team file, one struct per table.
//!
//! The JSON Schema, the check of keys, types and ranges, and the reading itself all come from
//! these structs. Meaning is checked in `compile`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::bound::{
    self as b, AGENTS_MAX, DATABASES_MAX, DISCOVERIES_MAX, EVENT_SOURCES_MAX, MODELS_MAX,
    SERVERS_MAX, TOOLS_MAX,
};

mod agents;
mod databases;
mod discover;
mod eventtypes;
mod interfaces;
mod labels;
mod models;
mod prompts;
mod servers;
mod team;
mod tools;
mod trace;
mod values;

pub(crate) use agents::{RawAgent, RawLimits, RawPermissions};
pub(crate) use databases::{RawDatabase, RawDatabaseKind};
pub(crate) use discover::RawDiscover;
pub(crate) use eventtypes::{RawEventTypes, RawMode, RawReplyWay};
pub(crate) use interfaces::RawInterface;
pub(crate) use labels::RawLabels;
pub(crate) use models::{RawModel, RawPrice, RawProvider, RawThink};
pub(crate) use prompts::{RawForm, RawPrompts, RawText};
pub(crate) use servers::RawServer;
pub(crate) use team::{RawRetention, RawTeam};
pub(crate) use tools::{RawKind, RawTool};
pub(crate) use trace::RawTrace;
pub(crate) use values::{
    RawBody, RawBodyForm, RawBodyWord, RawOutput, RawRow, RawSandbox, RawSecret, RawStdin,
    RawStdinWord, RawValue,
};

/// A team of agents.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Callboard team file")]
pub(crate) struct RawFile {
    /// The team as a whole.
    pub(crate) team: RawTeam,
    /// The models, by the names that agents use for them.
    #[schemars(extend("maxProperties" = MODELS_MAX))]
    pub(crate) models: BTreeMap<String, RawModel>,
    /// The agents by name; at least one.
    #[schemars(extend("maxProperties" = AGENTS_MAX))]
    pub(crate) agents: BTreeMap<String, RawAgent>,
    /// The databases by the names that tools use for them.
    #[schemars(extend("maxProperties" = DATABASES_MAX))]
    pub(crate) databases: BTreeMap<String, RawDatabase>,
    /// The MCP servers by the names that tools use for them.
    #[schemars(extend("maxProperties" = SERVERS_MAX))]
    pub(crate) mcp: BTreeMap<String, RawServer>,
    /// The sources of event types by the names that tools use for them.
    #[schemars(extend("maxProperties" = EVENT_SOURCES_MAX))]
    pub(crate) eventtypes: BTreeMap<String, RawEventTypes>,
    /// The OpenAPI files whose operations are tools, by the names with which those begin.
    #[schemars(extend("maxProperties" = b::INTERFACES_MAX))]
    pub(crate) openapi: BTreeMap<String, RawInterface>,
    /// The NATS services whose endpoints are tools, by names of the team.
    #[schemars(extend("maxProperties" = DISCOVERIES_MAX))]
    pub(crate) discover: BTreeMap<String, RawDiscover>,
    /// The tools by name. Tools that come with the runtime and need no settings may be left out.
    #[schemars(extend("maxProperties" = TOOLS_MAX))]
    pub(crate) tools: BTreeMap<String, RawTool>,
    /// Limits of all agents that do not set their own.
    pub(crate) limits: RawLimits,
    /// Texts of all agents that do not set their own.
    pub(crate) prompts: RawPrompts,
    /// Which calls of all agents are made, need a person's leave, or are refused.
    pub(crate) permissions: RawPermissions,
    /// How long what happened is kept.
    pub(crate) retention: RawRetention,
    /// How much of what is said traces hold.
    pub(crate) trace: RawTrace,
}
