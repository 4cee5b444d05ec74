//! The HTTP door of `serve`.

use std::net::SocketAddr;
use std::sync::Arc;

use gateway::{Error, Gateway, Options};
use node::Node;
use wire::ErrorCode;

use crate::failure::Failure;

/// Opens the door of a node on an address; port 0 takes a free one.
pub(super) async fn open(node: Arc<Node>, listen: SocketAddr) -> Result<Gateway, Failure> {
    Gateway::start(node, Options::new(listen)).await.map_err(|error| {
        let code = match &error {
            Error::NotLoopback(_) => ErrorCode::BadRequest,
            Error::Listen { .. } => ErrorCode::Unavailable,
        };
        let help = match &error {
            Error::NotLoopback(_) => "",
            Error::Listen { .. } => "; choose another address with --listen, or `--listen none`",
        };
        Failure::new(code, format!("{error}{help}"))
    })
}
