//! How much of what was said goes into traces.

use serde::{Deserialize, Serialize};

/// How much of what was said goes into traces, from nothing to everything.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Capture {
    /// Nothing, not even how much it was.
    #[default]
    None,
    /// How many bytes it was.
    Metadata,
    /// What was said, without credentials, and cut.
    Redacted,
    /// What was said, cut where it is very long.
    Full,
}

/// How much of what was said the traces of a run hold, by where they go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Levels {
    /// Those that nodes keep and show.
    pub store: Capture,
    /// Those that are sent elsewhere.
    pub export: Capture,
    /// Whether there are no traces at all.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub off: bool,
}

/// Where traces go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceSink {
    /// Elsewhere, as soon as a part of them is over.
    #[default]
    Export,
    /// To those who look them up on the node.
    Store,
    /// Nowhere: they are counted and their place is noted, for which
    /// [`MEASURED`](crate::semconv::MEASURED) is enough.
    Nowhere,
}

impl Levels {
    /// Returns how much the traces hold that go somewhere.
    #[must_use]
    pub const fn of(self, sink: TraceSink) -> Capture {
        match sink {
            TraceSink::Export => self.export,
            TraceSink::Store => self.store,
            TraceSink::Nowhere => Capture::None,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}
