//! The HTTP client that all tools, models and exporters share, and what it may reach.
//!
//! An address that the operator wrote into the team file is reached wherever it leads. One that
//! comes from elsewhere, such as an argument or a redirect, is reached only if it is public, or if
//! the team file allows it: see [`Reach`].

mod forbidden;
mod names;
mod reach;
mod redirect;
mod retry_after;
mod special;
#[cfg(test)]
mod tests;
mod trust;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use reqwest::{Request, Response};
use wire::{ErrorCode, WireError};

use names::Guard;
use reach::Way;

pub use forbidden::{Forbidden, SendError};
pub use names::{Names, Network, SystemNames};
pub use reach::{Allowed, Reach};
pub(crate) use redirect::{is_same_origin, is_taken, retarget};
pub use retry_after::retry_after;

/// The longest time to open a connection; a server that needs longer is as good as away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept; below the 60 seconds after which common proxies close it.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// Idle connections kept to one server: as many as a busy team asks a model at once, since making
/// one anew costs more than the request, and a quarter of the files that a process may ordinarily
/// open.
const POOL_IDLE_PER_HOST_MAX: usize = 256;

/// Redirects that one request follows; browsers take more, and no interface of machines needs them.
pub const REDIRECTS_MAX: usize = 5;

/// Makes the HTTP client for addresses that the operator wrote: it goes wherever it is sent.
///
/// It uses no proxy from the environment, follows no redirect and unpacks nothing, since either
/// would carry keys and conversations to a place that the team file does not name, or a page into
/// more memory than it was measured by. On a system without root certificates it still reaches
/// servers over plain HTTP, and trusts none over HTTPS.
pub fn http_client() -> Result<reqwest::Client, WireError> {
    install_crypto();
    build(builder())
}

/// Makes a client of the same kind for threads that run no async tasks; a request may take
/// `timeout` in all.
pub fn blocking_client(timeout: Duration) -> Result<reqwest::blocking::Client, WireError> {
    install_crypto();
    let builder = reqwest::blocking::ClientBuilder::from(trusting(builder())?);
    builder.timeout(timeout).build().map_err(|error| no_client(&error))
}

/// Sends requests no further than they may reach.
///
/// Clones share their connections.
#[derive(Clone)]
pub struct HttpClient(Arc<Shared>);

/// What came back from where a request and its redirects led.
pub struct Answered {
    /// The response of the last place.
    pub response: Response,
    /// A server took the request, which may change something, and told to get the answer elsewhere.
    /// Whatever is said there, it may have been done.
    pub is_taken: bool,
}

struct Shared {
    written: reqwest::Client,
    network: Network,
    /// The clients that reach public addresses and those of some networks, by these networks. A
    /// connection is never shared by requests that may reach different places.
    guarded: Mutex<BTreeMap<Vec<IpNet>, reqwest::Client>>,
}

impl HttpClient {
    /// Makes the client of a process.
    pub fn new() -> Result<Self, WireError> {
        Self::with_network(Network::default())
    }

    /// Makes a client that finds addresses by another way than the system's, as tests do.
    pub fn with_network(network: Network) -> Result<Self, WireError> {
        install_crypto();
        let everything = Guard::new(network.clone(), None);
        let written = build(builder().dns_resolver(everything))?;
        Ok(Self(Arc::new(Shared { written, network, guarded: Mutex::default() })))
    }

    /// Returns the client for addresses that the operator wrote; it follows no redirect.
    pub fn written(&self) -> &reqwest::Client {
        &self.0.written
    }

    /// Sends a request and follows up to [`REDIRECTS_MAX`] redirects, each of which may reach no
    /// more than the request itself.
    ///
    /// Headers that are marked as sensitive, `Authorization` and `Cookie` do not go to another
    /// origin. A redirect whose status is not one of those that are followed, or that says no
    /// place, is an answer as any other. What fails once a server took a request that may change
    /// something, and told to get the answer elsewhere, is a [`SendError::Redirected`].
    pub async fn send(&self, reach: &Reach, request: Request) -> Result<Answered, SendError> {
        let mut is_taken = false;
        match self.follow(reach, request, &mut is_taken).await {
            Ok(response) => Ok(Answered { response, is_taken }),
            Err(error) if is_taken => Err(SendError::Redirected(Box::new(error))),
            Err(error) => Err(error),
        }
    }

    async fn follow(
        &self,
        reach: &Reach,
        mut request: Request,
        is_taken: &mut bool,
    ) -> Result<Response, SendError> {
        let mut hops = 0;
        loop {
            let again = request.try_clone();
            let response = self.hop(reach, request).await?;
            let Some(again) = again else { return Ok(response) };
            *is_taken |= redirect::is_taken(again.method(), response.status());
            let Some(next) = redirect::next(again, &response)? else { return Ok(response) };
            request = next;
            hops += 1;
            if hops > REDIRECTS_MAX {
                return Err(SendError::Redirects);
            }
        }
    }

    async fn hop(&self, reach: &Reach, request: Request) -> Result<Response, SendError> {
        let nets = match reach.way(request.url())? {
            Way::Any => return Ok(self.0.written.execute(request).await?),
            Way::Public(nets) => nets,
        };
        let host = request.url().host_str().unwrap_or_default().to_owned();
        let response = self.guarded(nets)?.execute(request).await?;
        // What was connected to was checked before; this holds whatever becomes of connectors.
        if let Some(remote) = response.remote_addr() {
            special::check(self.0.network.found(remote), nets)
                .map_err(|what| Forbidden::Address { host, what })?;
        }
        Ok(response)
    }

    /// Returns the client that reaches public addresses and those of some networks.
    fn guarded(&self, nets: &[IpNet]) -> Result<reqwest::Client, SendError> {
        let mut clients = self.0.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(nets) {
            return Ok(client.clone());
        }
        let guard = Guard::new(self.0.network.clone(), Some(nets.into()));
        let client = build(builder().dns_resolver(guard)).map_err(SendError::Client)?;
        clients.insert(nets.to_vec(), client.clone());
        Ok(client)
    }
}

impl Network {
    /// Returns the address that a connection was meant for.
    fn found(&self, remote: SocketAddr) -> IpAddr {
        let detour = self.detours.iter().find(|(_, there)| **there == remote);
        detour.map_or(remote.ip(), |(meant, _)| *meant)
    }
}

fn install_crypto() {
    // An error means that the process has a provider, which then serves as well.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a rustls provider is installed already");
    }
}

fn build(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, WireError> {
    trusting(builder)?.build().map_err(|error| no_client(&error))
}

fn trusting(builder: reqwest::ClientBuilder) -> Result<reqwest::ClientBuilder, WireError> {
    let config = trust::client_config().map_err(|error| no_client(&error))?;
    Ok(builder.tls_backend_preconfigured(config))
}

fn no_client(error: &dyn std::fmt::Display) -> WireError {
    WireError::new(ErrorCode::Internal, format!("make the HTTP client: {error}"))
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .redirect(reqwest::redirect::Policy::none())
        // Only HTTP/2 has what would be tried again, and a copy of each request is kept for it.
        .retry(reqwest::retry::never().max_retries_per_request(0))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(POOL_IDLE_PER_HOST_MAX)
        .tcp_nodelay(true)
        .user_agent(concat!("callboard/", env!("CARGO_PKG_VERSION")))
}
