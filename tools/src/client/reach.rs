//! What a request may reach, by its address alone.

use std::net::IpAddr;

use ipnet::IpNet;
use reqwest::Url;
use url::{Host, Origin};

use super::forbidden::Forbidden;
use super::special;

/// The port from which on most services of users listen.
const FREE_PORTS_FROM: u16 = 1024;

/// Ports from there on that belong to services which take commands in texts like HTTP, or which
/// are run without any password behind a firewall: databases, queues, stores and masters of
/// clusters.
const TAKEN_PORTS: &[u16] = &[
    1433, 1521, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 4222, 5432, 5672, 5900, 6000, 6379, 6443,
    6667, 7000, 9042, 9092, 9200, 9300, 10250, 11211, 27017,
];

/// What a tool may reach besides public addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    hosts: Vec<(String, Option<u16>)>,
    nets: Vec<IpNet>,
}

/// What the requests of one tool may reach.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// The origin that the operator wrote; wherever it leads.
    written: Option<Origin>,
    allowed: Allowed,
}

/// Where a request may go.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way<'r> {
    /// Anywhere.
    Any,
    /// To public addresses and those of some networks.
    Public(&'r [IpNet]),
}

impl Allowed {
    /// Reads a list of hosts, each a name, an address or a network, the first two with a port if
    /// only that one is meant. The error tells what is wrong, by place.
    pub fn parse(texts: &[String]) -> Result<Self, Vec<(usize, String)>> {
        let (mut allowed, mut faults) = (Self::default(), Vec::new());
        for (index, text) in texts.iter().enumerate() {
            if let Some(fault) = allowed.add(text).err() {
                faults.push((index, fault));
            }
        }
        if faults.is_empty() { Ok(allowed) } else { Err(faults) }
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        if let Ok(net) = text.parse::<IpNet>() {
            self.nets.push(net.trunc());
        } else if let Ok(address) = text.parse::<IpAddr>() {
            self.nets.push(IpNet::from(address));
        } else {
            let wrong = || format!("{text:?} is no host: write a name, an address or a network");
            let (host, port) = match text.rsplit_once(':') {
                Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
                None => (text, None),
            };
            let host = Host::parse(host).map_err(|_| wrong())?;
            let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            if matches!(&host, Host::Domain(name) if !name.chars().all(is_letter)) {
                return Err(wrong());
            }
            self.hosts.push((plain(&host), port));
        }
        Ok(())
    }

    fn names(&self, host: &str, port: u16) -> Option<Named> {
        let mut found = self.hosts.iter().filter(|(name, _)| name == host);
        let with_port = found.clone().any(|(_, only)| *only == Some(port));
        let alone = found.any(|(_, only)| only.is_none());
        if with_port { Some(Named::WithPort) } else { alone.then_some(Named::Alone) }
    }
}

/// How the team file allows a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// On every port that HTTP is spoken on.
    Alone,
    /// On just this port.
    WithPort,
}

impl Reach {
    /// Says what may be reached: the origin of an address that the operator wrote, if there is
    /// one, and what else is allowed.
    pub fn new(written: Option<&Url>, allowed: Allowed) -> Self {
        Self { written: written.map(Url::origin), allowed }
    }

    /// Says where a request to an address may go.
    pub(super) fn way(&self, url: &Url) -> Result<Way<'_>, Forbidden> {
        let scheme = url.scheme();
        let (true, Some(host)) = (matches!(scheme, "http" | "https"), url.host()) else {
            return Err(Forbidden::Scheme { scheme: scheme.to_owned() });
        };
        let shown = host.to_string();
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Forbidden::Credentials { host: shown });
        }
        if self.written.as_ref() == Some(&url.origin()) {
            return Ok(Way::Any);
        }
        let port = url.port_or_known_default().unwrap_or_default();
        let named = self.allowed.names(&plain(&host), port);
        if named == Some(Named::WithPort) {
            return Ok(Way::Any);
        }
        let is_free = port >= FREE_PORTS_FROM && !TAKEN_PORTS.contains(&port);
        if !is_free && !matches!(port, 80 | 443) {
            return Err(Forbidden::Port { host: shown, port });
        }
        if named == Some(Named::Alone) {
            return Ok(Way::Any);
        }
        // Connectors take an address as it stands and ask no resolver.
        let address = match host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(IpAddr::V4(address)),
            Host::Ipv6(address) => Some(IpAddr::V6(address)),
        };
        if let Some(address) = address {
            special::check(address, &self.allowed.nets)
                .map_err(|what| Forbidden::Address { host: shown, what })?;
        }
        Ok(Way::Public(&self.allowed.nets))
    }
}

/// Writes a host so that all spellings of it are one.
fn plain<S: AsRef<str>>(host: &Host<S>) -> String {
    match host {
        Host::Domain(name) => name.as_ref().trim_end_matches('.').to_ascii_lowercase(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    }
}
