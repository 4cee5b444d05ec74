//! How long an answer is waited for.

use std::time::Duration;

/// How long the answer to a request is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub(crate) within: Duration,
    pub(crate) is_long: bool,
}

impl Wait {
    /// Waits for what comes of a run or is said by a person, which may take days. Of the requests
    /// that may wait at once, those that wait so leave half to others: to those that the runs make
    /// on which they wait, and to those that end or answer a run.
    pub const fn long(within: Duration) -> Self {
        Self { within, is_long: true }
    }
}

impl From<Duration> for Wait {
    /// Waits for what ends by itself before long.
    fn from(within: Duration) -> Self {
        Self { within, is_long: false }
    }
}
