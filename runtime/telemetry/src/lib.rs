//! Names what is traced, exports spans over OTLP, and sets up the log.

#![warn(missing_docs)]

mod attribute;
mod export;
mod log;
pub mod names;
mod otlp;
mod span;

pub use export::traces_data;
pub use log::{LogError, LogFormat, LogOptions, init};
pub use otlp::{EXPORT_TIMEOUT, Error, Exporter, QUEUE_SPANS_MAX, Service};
