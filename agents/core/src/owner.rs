//! Which of two nodes goes on that serve one team.

use wire::Claim;

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

impl Standing {
    /// Decides who goes on when two nodes serve one team: the one that started first, and of two
    /// that started at once the one whose id comes first.
    ///
    /// Each of the two decides by itself, so the order is total and needs nothing but the claims.
    pub fn of(own: &Claim, other: &Claim) -> Self {
        if own.node == other.node {
            Self::Own
        } else if (own.since, &own.node) < (other.since, &other.node) {
            Self::Stays
        } else {
            Self::Yields
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::Timestamp;

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
            assert_eq!(Standing::of(&one, &other), expected, "{one:?} {other:?}");
            let opposite = match expected {
                Standing::Own => Standing::Own,
                Standing::Stays => Standing::Yields,
                Standing::Yields => Standing::Stays,
            };
            assert_eq!(Standing::of(&other, &one), opposite, "{other:?} {one:?}");
        }
    }
}
