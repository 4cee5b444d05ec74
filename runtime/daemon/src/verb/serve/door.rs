//! The HTTP door of `serve`.

use std::net::SocketAddr;
use std::sync::Arc;

use gateway::{Error, Gateway, HostName, Options, Token};
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
    let names = host_names.iter().map(|name| HostName::new(name));
    let host_names = names
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::new(ErrorCode::BadRequest, format!("--host-name: {error}")))?;
    Ok(Options { token, host_names, ..Options::new(listen) })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_that_no_request_can_have_is_refused() {
        let cases = [
            ("agents.example.org", None),
            ("10.0.0.7", None),
            ("[2001:db8::7]", None),
            ("agents.example.org:8443", Some(ErrorCode::BadRequest)),
            ("https://agents.example.org", Some(ErrorCode::BadRequest)),
            ("10.0.0.7:8787", Some(ErrorCode::BadRequest)),
            ("*.example.org", Some(ErrorCode::BadRequest)),
            ("", Some(ErrorCode::BadRequest)),
        ];
        for (name, expected) in cases {
            let listen = SocketAddr::from(([127, 0, 0, 1], 0));
            let code = match options(listen, &[name.to_owned()], None) {
                Ok(_) => None,
                Err(Failure::Error(error)) => Some(error.code),
                Err(Failure::Report(report)) => panic!("{name:?}: {report}"),
            };
            assert_eq!(code, expected, "{name:?}");
        }
    }
}
