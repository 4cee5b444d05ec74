//! Instruments that know their labels, which need not be looked for at each measurement.

use std::fmt;
use std::sync::OnceLock;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundCounter, BoundHistogram, Counter, Histogram};

/// An instrument with labels, bound to them when something is counted first: what is bound is told
/// to whoever reads, and of what was never counted nothing should be.
pub(super) struct Bound<B> {
    labels: Vec<KeyValue>,
    bind: Box<dyn Fn(&[KeyValue]) -> B + Send + Sync>,
    bound: OnceLock<B>,
}

impl<T: Copy + 'static> Bound<BoundHistogram<T>> {
    pub(super) fn histogram(histogram: Histogram<T>, labels: Vec<KeyValue>) -> Self {
        Self::new(labels, move |labels| histogram.bind(labels))
    }
}

impl<T: Copy + 'static> Bound<BoundCounter<T>> {
    pub(super) fn counter(counter: Counter<T>, labels: Vec<KeyValue>) -> Self {
        Self::new(labels, move |labels| counter.bind(labels))
    }
}

impl<B> Bound<B> {
    fn new(labels: Vec<KeyValue>, bind: impl Fn(&[KeyValue]) -> B + Send + Sync + 'static) -> Self {
        Self { labels, bind: Box::new(bind), bound: OnceLock::new() }
    }

    /// Returns what is to be counted in.
    pub(super) fn get(&self) -> &B {
        self.bound.get_or_init(|| (self.bind)(&self.labels))
    }

    pub(super) fn labels(&self) -> &[KeyValue] {
        &self.labels
    }
}

impl<B> fmt::Debug for Bound<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").field("labels", &self.labels).finish_non_exhaustive()
    }
}
