//! What can go wrong with the doors as a whole.

use std::io;
use std::net::SocketAddr;

/// Why the doors could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Others than the users of this machine would reach the address or come by the name, and
    /// nobody would ask them for a token.
    #[error(
        "be reached as {0}: whoever reaches the HTTP door may run agents, and there is no token to \
         ask them for; use a loopback address and no further names, or set a token"
    )]
    Unprotected(String),
    /// The address cannot be taken.
    #[error("listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}
