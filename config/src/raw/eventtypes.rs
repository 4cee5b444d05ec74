//! The tables of event types.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Capture;
use wire::call::EffectClass;

use super::RawValue;
use crate::bound::{self as b, PREFIX_BYTES_MAX, SETTINGS_MAX, TOOLS_MAX};

/// One source of event types; either `sink` or `sink_subject`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawEventTypes {
    /// The file or the folder of YAML files that holds the event types, relative to the team file.
    pub(crate) path: Option<String>,
    /// The HTTP address that events are posted to; `reference` for that of each type's own reference.
    pub(crate) sink: Option<String>,
    /// The NATS subject that events are sent to.
    pub(crate) sink_subject: Option<String>,
    /// With `sink`: further headers of every request: a text, or a secret.
    #[schemars(extend("maxProperties" = SETTINGS_MAX))]
    pub(crate) headers: Option<BTreeMap<String, RawValue>>,
    /// Where the attributes of an event stand; `binary` with `sink`, `structured` with `sink_subject`.
    pub(crate) mode: Option<RawMode>,
    /// The attribute `source` of all events; `/callboard` if absent.
    #[schemars(length(min = 1, max = b::EVENT_SOURCE_BYTES_MAX))]
    pub(crate) source: Option<String>,
    /// How replies come.
    #[schemars(extend("default" = RawReplyWay::Response))]
    pub(crate) reply: Option<RawReplyWay>,
    /// The attribute by which a reply names the event that it answers.
    #[schemars(extend("default" = tools::cloudevent::REPLY_ATTRIBUTE))]
    pub(crate) reply_attribute: Option<String>,
    /// With `reply = "event"`: the NATS subject on which replies come, beside the team's own.
    pub(crate) reply_subject: Option<String>,
    /// The types that the team has as tools without a table of their own; `*` for all.
    #[schemars(length(max = TOOLS_MAX), inner(length(min = 1)), extend("default" = ["*"]))]
    pub(crate) types: Option<Vec<String>>,
    /// What the names of these tools begin with in the team; the table's name and `_` if absent.
    #[schemars(length(max = PREFIX_BYTES_MAX))]
    pub(crate) prefix: Option<String>,
    /// What may be repeated of its tools.
    #[schemars(extend("default" = EffectClass::Once))]
    pub(crate) effect: Option<EffectClass>,
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
    /// Milliseconds that one call of its tools may take.
    #[schemars(range(min = b::TOOL_TIMEOUT_MS.min, max = b::TOOL_TIMEOUT_MS.max), extend("default" = b::TOOL_TIMEOUT_MS.default))]
    pub(crate) timeout_ms: Option<u64>,
}

/// Where the attributes of an event stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawMode {
    /// In headers, and the data is the body.
    Binary,
    /// Beside the data in one JSON object.
    Structured,
}

/// How replies come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawReplyWay {
    /// As the answer to the request that carried the event.
    Response,
    /// As an event of their own, over HTTP or NATS.
    Event,
}
