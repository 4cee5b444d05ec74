//! What a service counts of its endpoints.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wire::WireError;

use crate::check;
use crate::service::Endpoint;

/// How much of the last error is kept, in characters: the message for an operator, not the raw
/// text that some errors carry.
const LAST_ERROR_CHARS_MAX: usize = 200;

/// Counts by the names of endpoints.
#[derive(Debug)]
pub(super) struct Stats {
    counts: Mutex<BTreeMap<String, Counts>>,
}

/// The counts of one endpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) last_error: String,
    pub(super) processing: Duration,
}

impl Stats {
    pub(super) fn new(endpoints: &[Endpoint]) -> Self {
        let counts = endpoints.iter().map(|e| (e.name.clone(), Counts::default())).collect();
        Self { counts: Mutex::new(counts) }
    }

    /// Counts for these endpoints from here on, and goes on with those that were counted before.
    pub(super) fn keep(&self, endpoints: &[Endpoint]) {
        let mut counts = self.lock();
        let kept = endpoints.iter().map(|e| (e.name.clone(), counts.remove(&e.name)));
        *counts = kept.map(|(name, kept)| (name, kept.unwrap_or_default())).collect();
    }

    pub(super) fn record(&self, endpoint: &str, took: Duration, error: Option<&WireError>) {
        let mut counts = self.lock();
        let Some(counts) = counts.get_mut(endpoint) else {
            tracing::debug!(endpoint, "no such endpoint, not counted");
            return;
        };
        counts.requests = counts.requests.saturating_add(1);
        counts.processing = counts.processing.saturating_add(took);
        if let Some(error) = error {
            counts.errors = counts.errors.saturating_add(1);
            counts.last_error = check::header_value(&error.to_string(), LAST_ERROR_CHARS_MAX);
        }
    }

    pub(super) fn of(&self, endpoint: &str) -> Counts {
        self.lock().get(endpoint).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Counts>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Returns the time of all requests, in nanoseconds.
    pub(super) fn processing_ns(&self) -> u64 {
        u64::try_from(self.processing.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the time of one request, in nanoseconds.
    pub(super) fn average_ns(&self) -> u64 {
        self.processing_ns().checked_div(self.requests).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ErrorCode;

    #[test]
    fn counts_add_up() {
        let endpoint = Endpoint {
            name: "add".into(),
            subject: "s".into(),
            queue_group: "q".into(),
            metadata: BTreeMap::new(),
        };
        let stats = Stats::new(std::slice::from_ref(&endpoint));
        assert_eq!(stats.of("add").average_ns(), 0);
        let long = WireError::new(ErrorCode::ToolFailed, "x\n".repeat(1000));
        stats.record("add", Duration::from_nanos(10), None);
        stats.record("add", Duration::from_nanos(20), Some(&long));
        stats.record("other", Duration::from_nanos(99), None);
        let counts = stats.of("add");
        assert_eq!((counts.requests, counts.errors), (2, 1));
        assert_eq!((counts.processing_ns(), counts.average_ns()), (30, 15));
        assert!(counts.last_error.starts_with("E3003 x x"), "{}", counts.last_error);
        assert!(counts.last_error.len() <= LAST_ERROR_CHARS_MAX);
        assert_eq!(stats.of("other").requests, 0);

        let named = |name: &str| Endpoint { name: name.into(), ..endpoint.clone() };
        stats.keep(&[named("add"), named("other")]);
        stats.record("other", Duration::from_nanos(1), None);
        assert_eq!((stats.of("add").requests, stats.of("other").requests), (2, 1));
        stats.keep(&[named("other")]);
        stats.record("add", Duration::from_nanos(1), None);
        assert_eq!((stats.of("add").requests, stats.of("other").requests), (0, 1));
    }
}
