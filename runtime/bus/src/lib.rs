//! The bus: NATS, and a twin inside the process with the same semantics.
//!
//! A [`Bus`] publishes, asks and subscribes; which kind it is shows nowhere but in how it was
//! made, and in one thing: an answer to a request on the same connection to NATS goes past the
//! server, so that nobody else sees it. Both kinds pass one conformance suite. Delivery is at most
//! once, as in core NATS; what must not be lost is kept by those above.

#![warn(missing_docs)]

mod bus;
mod carried;
mod check;
mod error;
mod listening;
mod local;
mod message;
mod nats;
mod parcel;
mod pending;
mod router;
mod service;
mod subscription;
#[cfg(any(test, feature = "testing"))]
pub mod tap;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod wait;

#[cfg(test)]
mod conformance;

pub use bus::Bus;
pub use error::Error;
pub use listening::{Listening, Work};
pub use local::LocalLimits;
pub use message::Message;
pub use nats::options::{Auth, NatsOptions, TlsIdentity};
pub use parcel::{Content, Parcel};
pub use service::{Endpoint, Service, ServiceInfo, find as find_services};
pub use subscription::Subscription;
pub use wait::Wait;

/// The largest message of the twin, headers included, in bytes: twice the largest request for a run,
/// since the longest input then goes to a model beside instructions, tools and earlier messages. A
/// nats-server takes 1 MiB unless it is configured otherwise.
pub const PAYLOAD_BYTES_MAX_DEFAULT: usize = 2 * wire::run::BODY_BYTES_MAX;

/// How many messages wait in one subscription: a second of work at a thousand messages a second;
/// what comes on top would be answered too late to matter.
pub const SUBSCRIPTION_MESSAGES_MAX_DEFAULT: usize = 1024;
