//! The HTTP door of `serve`.

use std::net::SocketAddr;
use std::sync::Arc;

use gateway::{Error, Gateway, Options, Token};
use node::Node;
use secrecy::SecretString;
use wire::ErrorCode;

use crate::failure::Failure;

/// Says how the door is opened: on an address, of which port 0 takes a free one, under further names,
/// and with a token to ask for.
pub(super) fn options(
    listen: SocketAddr,
    host_names: &[String],
    token: Option<&SecretString>,
) -> Result<Options, Failure> {
    let token = token.map(Token::new).transpose().map_err(|error| {
        Failure::new(ErrorCode::HttpUnprotected, format!("take the token of the door: {error}"))
    })?;
    Ok(Options { token, host_names: host_names.to_vec(), ..Options::new(listen) })
}

/// Opens the door of a node.
pub(super) async fn open(node: Arc<Node>, options: Options) -> Result<Gateway, Failure> {
    Gateway::start(node, options).await.map_err(|error| {
        let code = match &error {
            Error::Unprotected(_) => ErrorCode::HttpUnprotected,
            Error::Listen { .. } => ErrorCode::Unavailable,
        };
        let help = match &error {
            Error::Unprotected(_) => ": --token-file or CALLBOARD_TOKEN",
            Error::Listen { .. } => "; choose another address with --listen, or `--listen none`",
        };
        Failure::new(code, format!("{error}{help}"))
    })
}
