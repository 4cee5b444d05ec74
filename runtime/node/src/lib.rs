//! The ractor shells: the supervision tree of a node, and the I/O that its decisions ask for.

mod admission;
mod archive;
mod clean;
mod clock;
mod context;
mod error;
mod event_files;
mod event_replies;
mod feed;
mod herald;
mod inbox;
mod keeper;
mod memory;
mod messenger;
mod model_actor;
mod models;
mod node;
mod perform;
mod plans;
mod prefix;
mod present;
mod projector;
mod reply;
mod results;
mod retention;
mod room;
mod servers;
mod services;
mod session;
mod sessions;
mod sources;
mod team;
#[cfg(test)]
mod testing;
mod tool_actor;
mod worklist;

pub use admission::{REQUEST_BYTES_MAX, RUNS_MAX};
pub use archive::{Archive, store_dir};
pub use clock::now;
pub use error::Error;
pub use event_replies::RepliesOf;
pub use node::{Node, NodeOptions, RESERVE_BYTES_DEFAULT, TeamHandle, team_dir};
pub use present::Refreshed;
pub use retention::Compacted;
pub use servers::{Compared, approve, catalogs, compare};
pub use sources::{LOOK_INTERVAL, LoadError, Sourced};
