//! Finds the addresses of names, and hands on none that is not to be reached.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::forbidden::Forbidden;
use super::special;

/// Finds the addresses of names.
pub trait Names: Send + Sync {
    /// Returns all addresses of a name.
    fn addresses(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Asks the system, which knows its own file of hosts and its servers of names.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn addresses(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// How names become addresses, and addresses connections.
#[derive(Clone)]
pub struct Network {
    /// Finds the addresses of names.
    pub names: Arc<dyn Names>,
    /// Where connections to an address that a name stands for go in its place, after it has been
    /// checked. Tests lead those that would leave the machine to servers of their own.
    pub detours: BTreeMap<IpAddr, SocketAddr>,
}

impl Default for Network {
    fn default() -> Self {
        Self { names: Arc::new(SystemNames), detours: BTreeMap::new() }
    }
}

/// Resolves names for one client.
#[derive(Clone)]
pub(super) struct Guard {
    network: Network,
    /// The networks that are reached besides public addresses; everything if absent.
    nets: Option<Arc<[IpNet]>>,
}

impl Guard {
    pub(super) fn new(network: Network, nets: Option<Arc<[IpNet]>>) -> Self {
        Self { network, nets }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { network, nets } = self.clone();
        Box::pin(async move {
            let host = name.as_str();
            let found = network.names.addresses(host).await?;
            if found.is_empty() {
                let text = format!("{host} has no address");
                return Err(io::Error::new(io::ErrorKind::NotFound, text).into());
            }
            if let Some(nets) = nets {
                // One bad address refuses the name: who mixes them wants to be let through by luck.
                for address in &found {
                    special::check(*address, &nets)
                        .map_err(|what| Forbidden::Address { host: host.to_owned(), what })?;
                }
            }
            // The connection goes to these addresses and asks nobody again. The port 0 stands for
            // the one of the request.
            let there = |address| {
                let detour = network.detours.get(&address).copied();
                detour.unwrap_or(SocketAddr::new(address, 0))
            };
            let found: Vec<SocketAddr> = found.into_iter().map(there).collect();
            Ok::<Addrs, _>(Box::new(found.into_iter()))
        })
    }
}
