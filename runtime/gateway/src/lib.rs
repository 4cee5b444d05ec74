//! The HTTP doors of a node: the way in for the command line and for people without NATS.
//!
//! A request becomes a message on the subject that a NATS client would use, so that both ways
//! share one set of rules. Look-ups read the store and the journal of the node. `runtime/HTTP.md`
//! describes the routes.

#![warn(missing_docs)]

mod body;
mod calls;
mod connection;
mod error;
mod events;
mod filter;
mod gateway;
mod guard;
mod look;
mod nodes;
mod places;
mod refusal;
mod replay;
mod replies;
mod routes;
mod runs;
mod state;
mod stream;
pub mod view;

pub use body::{BODY_BYTES_MAX, BODY_TIMEOUT};
pub use connection::{HEADER_TIMEOUT, WRITE_TIMEOUT};
pub use error::Error;
pub use events::{EVENTS_QUEUED_MAX, KEEP_ALIVE, STREAMS_MAX};
pub use filter::TraceFilter;
pub use gateway::{CONNECTIONS_MAX, Gateway, Options};
pub use look::{LIST_DEFAULT, LOOKUP_TIMEOUT};
pub use runs::{RESULT_WAIT_DEFAULT, RESULT_WAIT_MAX};
