//! Exports spans and measures, and sets up the log.

#![warn(missing_docs)]

mod attribute;
mod endpoint;
mod export;
mod headers;
mod log;
pub mod metrics;
mod otlp;
mod span;

pub use endpoint::{EXPORT_TIMEOUT, Error, Service};
pub use export::traces_data;
pub use log::context::{LogContext, logged};
pub use log::{LogError, LogFormat, LogOptions, init};
pub use metrics::Metrics;
pub use otlp::{Exporter, QUEUE_SPANS_MAX};
