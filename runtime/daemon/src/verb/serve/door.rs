//! The HTTP door of `serve`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gateway::{Gateway, Options};
use node::Node;
use wire::ErrorCode;

use crate::failure::Failure;

/// An open door.
pub(crate) struct Door {
    gateway: Gateway,
}

impl Door {
    /// Opens the door of a node on an address; port 0 takes a free one.
    pub(crate) async fn open(node: Arc<Node>, listen: SocketAddr) -> Result<Self, Failure> {
        let gateway =
            Gateway::start(node, Options::new(listen)).await.map_err(|error| match error {
                gateway::Error::NotLoopback(_) => {
                    Failure::new(ErrorCode::BadRequest, error.to_string())
                }
                gateway::Error::Listen { .. } => {
                    Failure::new(ErrorCode::Unavailable, error.to_string())
                }
            })?;
        Ok(Self { gateway })
    }

    /// Returns the address that it listens on.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.gateway.addr()
    }

    /// Closes it, and gives those who are in it some time to leave.
    pub(crate) async fn close(self, grace: Duration) {
        self.gateway.stop(grace).await;
    }
}
