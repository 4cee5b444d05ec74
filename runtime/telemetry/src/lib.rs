//! Exports spans over OTLP, and sets up the log.

#![warn(missing_docs)]

mod attribute;
mod log;
mod otlp;
mod span;

pub use log::{LogError, LogFormat, LogOptions, init};
pub use otlp::{EXPORT_TIMEOUT, Error, Exporter, QUEUE_SPANS_MAX, Service};
