//! What can go wrong with the doors as a whole.

use std::io;
use std::net::SocketAddr;

/// Why the doors could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address can be reached from other machines, and that was not allowed.
    #[error(
        "listen on {0}: other machines reach this address, and whoever reaches it may run agents; \
         use a loopback address, or allow it"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be taken.
    #[error("listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}
