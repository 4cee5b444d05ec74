//! What a team is compiled with besides its text: the tools that others describe.

use std::collections::BTreeMap;

use tools::cloudevent::types::EventTypes;
use tools::mcp::Catalog;
use tools::nats::Described;
use wire::Name;

/// What the MCP servers of a team list, as far as that is known.
pub type Catalogs = BTreeMap<Name, Catalog>;

/// What is known of the tools that others describe.
///
/// A text and its sources make a [`Team`](crate::Team), and nothing else goes into it: when a
/// source changes, the same text is compiled again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    /// What MCP servers list.
    pub mcp: Catalogs,
    /// What the files of event types hold; those of a source that is not here are read.
    pub events: BTreeMap<Name, EventTypes>,
    /// What NATS services describe, by the tables that look for them.
    pub services: BTreeMap<Name, Vec<Described>>,
}

impl From<Catalogs> for Sources {
    fn from(mcp: Catalogs) -> Self {
        Self { mcp, ..Self::default() }
    }
}
