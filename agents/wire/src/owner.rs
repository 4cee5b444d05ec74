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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_of_a_later_version_is_read() {
        let text = r#"{"node":"n","host":"h","pid":7,"data":"/d","since":5,"more":true}"#;
        let read: Claim = serde_json::from_str(text).unwrap();
        assert_eq!((read.pid, read.since), (7, Timestamp::from_micros(5)));
    }
}
