//! The HTTP door of `serve`.

use std::net::SocketAddr;

use config::Team;
use gateway::{Error, HostName, Listening, Options, Token};
use secrecy::SecretString;
use tools::ToolKind;
use tools::mcp::Transport;
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

/// The most programs that are named as those that reach the door.
const NAMED_MAX: usize = 8;

/// Says which commands of teams, and which of their MCP servers, reach a loopback door that asks
/// nobody for a token, if any does: their programs could do there what people do.
pub(super) fn reached_by(teams: &[Team]) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for team in teams {
        let reaching = team.tools.iter().filter(|(_, tool)| match &tool.kind {
            ToolKind::Command(spec) => spec.reaches_network(),
            ToolKind::Builtin(_)
            | ToolKind::CloudEvent(_)
            | ToolKind::Http(_)
            | ToolKind::Mcp(_)
            | ToolKind::Model(_)
            | ToolKind::Nats(_)
            | ToolKind::Query(_) => false,
        });
        names.extend(reaching.map(|(name, _)| format!("{name} of team {}", team.name)));
        let programs = team
            .servers
            .iter()
            .filter(|(_, server)| matches!(server.spec.transport, Transport::Process { .. }));
        names.extend(programs.map(|(name, _)| format!("MCP server {name} of team {}", team.name)));
    }
    let more = if names.len() > NAMED_MAX { ", .." } else { "" };
    names.truncate(NAMED_MAX);
    (!names.is_empty()).then(|| names.join(", ") + more)
}

/// Listens for those who will come to the door of a node.
pub(super) async fn listen(options: Options) -> Result<Listening, Failure> {
    Listening::on(options).await.map_err(|error| {
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
    #[test]
    fn commands_that_reach_the_door_are_named() {
        let tool = |name: &str, fields: &str| {
            format!(
                "[tools.{name}]\nkind = 'command'\ndescription = 'd'\nargv = ['date']\n{fields}\n"
            )
        };
        let many: String = (0..9).map(|n| tool(&format!("t{n}"), "network = true")).collect();
        let none = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        for (tools, expected) in [
            (String::new(), None),
            (tool("a", ""), None),
            (tool("a", "network = false"), None),
            (tool("a", "network = true"), Some("a of team t")),
            (
                tool("a", "sandbox = 'none'") + &tool("b", "") + &tool("c", "network = true"),
                Some("a of team t, c of team t"),
            ),
            (
                "[mcp.files]\ncommand = ['files']\n".to_owned() + &tool("a", ""),
                Some("MCP server files of team t"),
            ),
            (
                many,
                Some(
                    "t0 of team t, t1 of team t, t2 of team t, t3 of team t, t4 of team t, \
                         t5 of team t, t6 of team t, t7 of team t, ..",
                ),
            ),
        ] {
            let text = format!(
                "[models.m]\nprovider = 'openai'\nbase_url = 'http://127.0.0.1:9'\nmodel = 'm'\n\
                 [agents.lead]\ninstructions = 'i'\nmodel = 'm'\n{tools}"
            );
            let team = config::parse(std::path::Path::new("t.toml"), &text, &none)
                .unwrap_or_else(|report| panic!("{}", report.render(false)));
            assert_eq!(reached_by(&[team]).as_deref(), expected, "{text}");
        }
    }
}
