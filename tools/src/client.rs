//! The HTTP client that all tools and models share.

use std::time::Duration;

use wire::{ErrorCode, WireError};

/// The longest time to open a connection; a server that needs longer is as good as away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept; below the 60 seconds after which common proxies close it.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// Idle connections kept to one server; more than a model server usually serves at once.
const POOL_IDLE_PER_HOST_MAX: usize = 64;

/// Makes the HTTP client for all tools and models of a process.
///
/// It uses no proxy from the environment and follows no redirect, since either would carry keys and
/// conversations to a place that the team file does not name. On a system without root certificates
/// it still reaches servers over plain HTTP, and trusts none over HTTPS.
pub fn http_client() -> Result<reqwest::Client, WireError> {
    // An error means that the process has a provider, which then serves as well.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a rustls provider is installed already");
    }
    builder()
        .build()
        .or_else(|error| {
            tracing::warn!(%error, "no root certificates found, https servers are not trusted");
            builder().tls_certs_only([]).build()
        })
        .map_err(|error| {
            WireError::new(ErrorCode::Internal, format!("make the HTTP client: {error}"))
        })
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(POOL_IDLE_PER_HOST_MAX)
        .tcp_nodelay(true)
        .user_agent(concat!("callboard/", env!("CARGO_PKG_VERSION")))
}
