//! The tables of services that are discovered.

use schemars::JsonSchema;
use serde::Deserialize;
use wire::Capture;
use wire::call::EffectClass;

use crate::bound::{self as b, PREFIX_BYTES_MAX, SERVICE_BYTES_MAX};

/// NATS services whose endpoints are tools of the team for as long as they are there.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawDiscover {
    /// The name of the service, in which `*` stands for any text and `?` for one letter.
    #[schemars(length(min = 1, max = SERVICE_BYTES_MAX))]
    pub(crate) service: Option<String>,
    /// What the names of its tools begin with in the team; the table's name and `_` if absent.
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
    /// Bytes of an answer that are shown; the rest is cut.
    #[schemars(range(min = b::RESPONSE_BYTES_MAX.min, max = b::RESPONSE_BYTES_MAX.max), extend("default" = b::RESPONSE_BYTES_MAX.default))]
    pub(crate) response_bytes_max: Option<u64>,
}
