//! What a team is compiled with besides its text: the tools that others describe.

use std::collections::{BTreeMap, BTreeSet};

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

impl Sources {
    /// Returns the names of all sources of which anything is known.
    pub fn names(&self) -> BTreeSet<&Name> {
        let Self { mcp, events, services } = self;
        mcp.keys().chain(events.keys()).chain(services.keys()).collect()
    }

    /// Takes over what another one knows of the sources of a name. What it does not know stays.
    pub fn take_over(&mut self, other: &Self, name: &Name) {
        let Self { mcp, events, services } = other;
        take_one(&mut self.mcp, mcp, name);
        take_one(&mut self.events, events, name);
        take_one(&mut self.services, services, name);
    }
}

fn take_one<T: Clone>(into: &mut BTreeMap<Name, T>, from: &BTreeMap<Name, T>, name: &Name) {
    if let Some(known) = from.get(name) {
        into.insert(name.clone(), known.clone());
    }
}

impl From<Catalogs> for Sources {
    fn from(mcp: Catalogs) -> Self {
        Self { mcp, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_source_is_taken_over_whatever_its_kind() {
        let (one, other) = (Name::new("one").unwrap(), Name::new("other").unwrap());
        let cases = [
            Sources { mcp: [(one.clone(), Catalog::default())].into(), ..Sources::default() },
            Sources { events: [(one.clone(), EventTypes::default())].into(), ..Sources::default() },
            Sources { services: [(one.clone(), Vec::new())].into(), ..Sources::default() },
        ];
        for known in cases {
            assert_eq!(known.names(), [&one].into(), "{known:?}");
            let mut taken = Sources::default();
            for (from, name, expected) in [
                (&known, &other, &Sources::default()),
                (&known, &one, &known),
                (&Sources::default(), &one, &known),
            ] {
                taken.take_over(from, name);
                assert_eq!(taken, *expected, "{name} of {from:?}");
            }
        }
    }
}
