//! The HTTP doors of a node: the way in for the command line and for people without NATS.
//!
//! A request becomes a message on the subject that a NATS client would use, so that both ways
//! share one set of rules. Look-ups read the store and the journal of the node. `runtime/HTTP.md`
//! describes the routes.

#![warn(missing_docs)]

mod body;
mod calls;
mod connection;
mod console;
mod error;
mod events;
mod filter;
mod gateway;
mod guard;
mod host_name;
mod look;
mod looks;
mod nodes;
mod places;
mod protect;
mod refusal;
mod replay;
mod replies;
mod room;
mod routes;
mod runs;
mod sign_in;
mod state;
mod stream;
mod token;
mod tries;
pub mod view;
mod watch;

pub use body::{BODY_BYTES_MAX, BODY_TIMEOUT};
pub use connection::{HEADER_TIMEOUT, WRITE_TIMEOUT};
pub use error::Error;
pub use events::{EVENTS_QUEUED_MAX, KEEP_ALIVE, STREAMS_MAX};
pub use filter::TraceFilter;
pub use gateway::{CONNECTIONS_MAX, Gateway, Listening, Options};
pub use host_name::{HostName, HostNameError};
pub use look::{LIST_DEFAULT, USAGE_DAYS_DEFAULT};
pub use looks::{LOOKS_MAX, LOOKUP_TIMEOUT};
pub use room::EVENTS_BYTES_MAX;
pub use runs::{RESULT_WAIT_DEFAULT, RESULT_WAIT_MAX};
pub use sign_in::{SIGN_IN_BYTES_MAX, SIGNED_IN_FOR, SIGNED_IN_MAX};
pub use token::{TOKEN_CHARS_MAX, TOKEN_CHARS_MIN, Token, TokenError};
pub use tries::{TRIES_MAX, TRY_REGAINED};
