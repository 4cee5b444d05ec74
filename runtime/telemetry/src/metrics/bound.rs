//! Instruments that know their labels, which need not be looked for at each measurement.

use std::fmt;
use std::sync::OnceLock;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundCounter, BoundHistogram, Counter, Histogram};

/// An instrument that can be bound to labels.
pub(super) trait Bind {
    type To;

    fn bind_to(&self, labels: &[KeyValue]) -> Self::To;
}

impl<T> Bind for Histogram<T> {
    type To = BoundHistogram<T>;

    fn bind_to(&self, labels: &[KeyValue]) -> Self::To {
        self.bind(labels)
    }
}

impl<T> Bind for Counter<T> {
    type To = BoundCounter<T>;

    fn bind_to(&self, labels: &[KeyValue]) -> Self::To {
        self.bind(labels)
    }
}

/// An instrument with labels, bound to them when something is counted first: what is bound is told
/// to whoever reads, and of what was never counted nothing should be.
pub(super) struct Bound<I: Bind> {
    instrument: I,
    labels: Vec<KeyValue>,
    to: OnceLock<I::To>,
}

impl<I: Bind> Bound<I> {
    pub(super) const fn new(instrument: I, labels: Vec<KeyValue>) -> Self {
        Self { instrument, labels, to: OnceLock::new() }
    }

    /// Returns what is to be counted in.
    pub(super) fn get(&self) -> &I::To {
        self.to.get_or_init(|| self.instrument.bind_to(&self.labels))
    }

    pub(super) fn labels(&self) -> &[KeyValue] {
        &self.labels
    }
}

impl<I: Bind> fmt::Debug for Bound<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").field("labels", &self.labels).finish_non_exhaustive()
    }
}
