//! What traces hold of what is said.

use schemars::JsonSchema;
use serde::Deserialize;
use wire::Capture;

use crate::bound::{TRACE_EXPORT_DEFAULT, TRACE_STORE_DEFAULT};

/// How much of what is said traces hold.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawTrace {
    /// Whether runs have traces.
    #[schemars(extend("default" = true))]
    pub(crate) enabled: Option<bool>,
    /// Those that the node keeps and shows.
    #[schemars(extend("default" = TRACE_STORE_DEFAULT))]
    pub(crate) store: Option<Capture>,
    /// Those that are sent to `otlp_endpoint`.
    #[schemars(extend("default" = TRACE_EXPORT_DEFAULT))]
    pub(crate) export: Option<Capture>,
}
