//! Who serves the runs of a team: one node at a time.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// What a node that serves a team says of itself to others that would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The node, by the id that its services have.
    pub node: String,
    /// The machine on which it runs.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// The directory with the team's data.
    pub data: String,
    /// When it started.
    pub since: Timestamp,
}

/// What follows for a node from the claim of some node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The claim is its own.
    Own,
    /// It goes on serving the team, and the other one stops.
    Stays,
    /// It stops serving the team.
    Yields,
}

impl Claim {
    /// Decides who goes on when two nodes serve one team: the one that started first, and of two
    /// that started at once the one whose id comes first.
    ///
    /// Each of the two decides by itself, so the order is total and needs nothing but the claims.
    pub fn against(&self, other: &Self) -> Standing {
        if self.node == other.node {
            Standing::Own
        } else if (self.since, &self.node) < (other.since, &other.node) {
            Standing::Stays
        } else {
            Standing::Yields
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(node: &str, since: u64) -> Claim {
        Claim {
            node: node.to_owned(),
            host: "h".to_owned(),
            pid: 1,
            data: "/d".to_owned(),
            since: Timestamp::from_micros(since),
        }
    }

    #[test]
    fn of_two_nodes_exactly_one_stays() {
        let cases = [
            (("a", 1), ("b", 2), Standing::Stays),
            (("b", 1), ("a", 2), Standing::Stays),
            (("a", 1), ("b", 1), Standing::Stays),
            (("a", 1), ("a", 2), Standing::Own),
        ];
        for (one, other, expected) in cases {
            let (one, other) = (claim(one.0, one.1), claim(other.0, other.1));
            assert_eq!(one.against(&other), expected, "{one:?} {other:?}");
            let opposite = match expected {
                Standing::Own => Standing::Own,
                Standing::Stays => Standing::Yields,
                Standing::Yields => Standing::Stays,
            };
            assert_eq!(other.against(&one), opposite, "{other:?} {one:?}");
        }
    }

    #[test]
    fn a_claim_of_a_later_version_is_read() {
        let text = r#"{"node":"n","host":"h","pid":7,"data":"/d","since":5,"more":true}"#;
        let read: Claim = serde_json::from_str(text).unwrap();
        assert_eq!((read.pid, read.since), (7, Timestamp::from_micros(5)));
    }
}
