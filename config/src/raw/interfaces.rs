//! The tables of OpenAPI files.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use wire::Capture;
use wire::call::EffectClass;

use super::RawValue;
use crate::bound::{self as b, HOSTS_MAX, PREFIX_BYTES_MAX, SETTINGS_MAX, TOOLS_MAX};

/// One OpenAPI file, whose operations become tools.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawInterface {
    /// The file, in YAML or JSON, relative to the team file.
    pub(crate) file: Option<String>,
    /// The operations that the team has as tools: patterns of their ids, such as `get*`; those after `!` are left out. All if absent.
    #[schemars(length(min = 1, max = TOOLS_MAX), inner(length(min = 1)))]
    pub(crate) operations: Option<Vec<String>>,
    /// What the names of these tools begin with in the team; the table's name and `_` if absent.
    #[schemars(length(max = PREFIX_BYTES_MAX))]
    pub(crate) prefix: Option<String>,
    /// The address of the server, to which paths are added; the first one that the file names if absent.
    pub(crate) base_url: Option<String>,
    /// What may be reached besides `base_url` and public addresses: names, addresses and networks.
    #[schemars(length(max = HOSTS_MAX), inner(length(min = 1)))]
    pub(crate) allow_hosts: Option<Vec<String>>,
    /// Headers of every request: a text, or a secret.
    #[schemars(extend("maxProperties" = SETTINGS_MAX))]
    pub(crate) headers: Option<BTreeMap<String, RawValue>>,
    /// Query parameters of every request: a text, or a secret.
    #[schemars(extend("maxProperties" = SETTINGS_MAX))]
    pub(crate) query: Option<BTreeMap<String, RawValue>>,
    /// What may be repeated of operations, by their ids; by the method if absent.
    #[schemars(extend("maxProperties" = TOOLS_MAX))]
    pub(crate) effects: Option<BTreeMap<String, EffectClass>>,
    /// Milliseconds that one call may take.
    #[schemars(range(min = b::TOOL_TIMEOUT_MS.min, max = b::TOOL_TIMEOUT_MS.max), extend("default" = b::TOOL_TIMEOUT_MS.default))]
    pub(crate) timeout_ms: Option<u64>,
    /// Bytes of a response that are read; the rest is cut.
    #[schemars(range(min = b::RESPONSE_BYTES_MAX.min, max = b::RESPONSE_BYTES_MAX.max), extend("default" = b::RESPONSE_BYTES_MAX.default))]
    pub(crate) response_bytes_max: Option<u64>,
    /// Pages of an answer to GET that are asked for at most; their items are put together.
    #[schemars(range(min = b::PAGES_MAX.min, max = b::PAGES_MAX.max), extend("default" = b::PAGES_MAX.default))]
    pub(crate) pages_max: Option<u32>,
    /// Where an answer says how it goes on, as a JSON pointer; the header `Link` if absent.
    pub(crate) next: Option<String>,
    /// The query parameter that takes what `next` points to; without it that is an address.
    pub(crate) next_parameter: Option<String>,
    /// Where the items of a page are, as a JSON pointer; the answer or its only list if absent.
    pub(crate) items: Option<String>,
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
}
