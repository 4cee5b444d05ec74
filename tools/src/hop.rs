//! How the calls of a tool leave the process, and what is noted on the way.

use reqwest::{Response, Url, Version};
use wire::Name;
use wire::hop::{Endpoint, Hop, HopEvent};

use crate::cloudevent::{EventSpec, ReplyWay, Sink};
use crate::mcp::Transport;
use crate::query::DatabaseSpec;
use crate::template::Template;
use crate::tool::{HopLog, ToolKind};

/// The most characters of an address, a subject or a program's name that are told.
const TOLD_CHARS_MAX: usize = 256;

/// What the servers and databases are behind the tools of a team.
pub trait Places {
    /// Returns how an MCP server is reached.
    fn server(&self, name: &Name) -> Option<&Transport>;

    /// Returns a database.
    fn database(&self, name: &Name) -> Option<&DatabaseSpec>;
}

/// Returns how the calls of a tool leave the process, if they do.
pub fn hop(kind: &ToolKind, places: &impl Places) -> Option<Hop> {
    match kind {
        ToolKind::Builtin(_) | ToolKind::Model(_) => None,
        ToolKind::Http(spec) => Some(http(&spec.method, &spec.url, None)),
        ToolKind::CloudEvent(spec) => event(spec),
        ToolKind::Nats(spec) => {
            Some(Hop::Nats { subject: told(&spec.subject), publishes: false, event: None })
        }
        ToolKind::Command(spec) => {
            let program = spec.argv.first()?;
            let name = program.rsplit('/').next().unwrap_or(program);
            Some(Hop::Command { program: told(name) })
        }
        ToolKind::Mcp(spec) => {
            let server = match places.server(&spec.server)? {
                Transport::Process { .. } => None,
                Transport::Http { url, .. } => endpoint_of(url),
            };
            Some(Hop::Mcp { tool: told(&spec.listed.name), server })
        }
        ToolKind::Query(spec) => {
            let (system, server) = match places.database(&spec.database)? {
                DatabaseSpec::Sqlite(_) => ("sqlite", None),
                DatabaseSpec::Postgres(spec) => {
                    let server = Endpoint { address: spec.host.clone(), port: spec.port };
                    ("postgresql", Some(server))
                }
                DatabaseSpec::Neo4j(spec) => ("neo4j", endpoint_of(&spec.url)),
            };
            Some(Hop::Database {
                system: system.to_owned(),
                namespace: spec.database.clone(),
                server,
            })
        }
    }
}

fn event(spec: &EventSpec) -> Option<Hop> {
    let event = HopEvent { kind: told(&spec.event_type.kind), source: told(&spec.source.origin) };
    Some(match &spec.source.sink {
        Sink::Http { url, .. } => http("POST", url, Some(event)),
        Sink::Reference { .. } => http("POST", spec.event_type.address.as_ref()?, Some(event)),
        Sink::Subject(subject) => {
            let publishes = spec.source.reply == ReplyWay::Event;
            Hop::Nats { subject: told(subject), publishes, event: Some(event) }
        }
    })
}

/// Describes requests to an address in which arguments may stand. Its query is left out.
fn http(method: &str, url: &str, event: Option<HopEvent>) -> Hop {
    let method = method.to_owned();
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = bare.split_once("://") else {
        return Hop::Http { method, scheme: None, server: None, path: None, event };
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_fixed = !Template::parse(host).has_places();
    let origin = Url::parse(&format!("{scheme}://{host}")).ok().filter(|_| is_fixed);
    let path = if path.is_empty() { "/" } else { path };
    Hop::Http {
        method,
        scheme: Some(scheme.to_owned()),
        server: origin.as_ref().and_then(endpoint),
        path: Some(told(path)),
        event,
    }
}

/// Returns where the server of an address listens that is written as a text.
pub fn endpoint_of(url: &str) -> Option<Endpoint> {
    endpoint(&Url::parse(url).ok()?)
}

/// Returns where the server of an address listens.
fn endpoint(url: &Url) -> Option<Endpoint> {
    let address = url.host_str()?.trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().or_else(|| (url.scheme() == "bolt").then_some(7687))?;
    Some(Endpoint { address, port })
}

fn told(text: &str) -> String {
    text.chars().take(TOLD_CHARS_MAX).collect()
}

impl HopLog {
    /// Notes where a request goes.
    pub(crate) fn goes_to(&self, url: &Url) {
        self.note(|report| {
            report.scheme = Some(url.scheme().to_owned());
            report.server = endpoint(url);
        });
    }

    /// Notes who answered, and how.
    pub(crate) fn answered(&self, response: &Response) {
        self.goes_to(response.url());
        let version = match response.version() {
            Version::HTTP_09 => Some("0.9"),
            Version::HTTP_10 => Some("1.0"),
            Version::HTTP_11 => Some("1.1"),
            Version::HTTP_2 => Some("2"),
            Version::HTTP_3 => Some("3"),
            _ => None,
        };
        self.note(|report| {
            report.status = Some(response.status().as_u16());
            report.version = version.map(str::to_owned);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_without_its_query_and_with_the_names_of_arguments() {
        let at = |address: &str, port| Some(Endpoint { address: address.to_owned(), port });
        let https = Some("https");
        let cases = [
            ("https://h/a/{x}?k={y}", https, at("h", 443), Some("/a/{x}")),
            ("http://h:81?k=v", Some("http"), at("h", 81), Some("/")),
            ("http://[::1]:81/a#b", Some("http"), at("::1", 81), Some("/a")),
            ("https://{x}.example.com/{y}", https, None, Some("/{y}")),
            ("{url}", None, None, None),
        ];
        for (url, scheme, server, path) in cases {
            let (scheme, path) = (scheme.map(str::to_owned), path.map(str::to_owned));
            let method = "GET".to_owned();
            let expected = Hop::Http { method, scheme, server, path, event: None };
            assert_eq!(http("GET", url, None), expected, "{url}");
        }
    }
}
