//! The way to a server: address, user, password and certificate.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use secrecy::ExposeSecret as _;
use tokio::time::timeout;
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::{CancelToken, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::super::database::Fault;
use super::bounded::{self, Bounded, Encrypted, Excess, Plain};
use super::link::{Link, Lost};
use super::{PostgresSpec, Tls};
use crate::secret::SecretRef;

/// The longest time to open a connection; a server that needs longer is as good as away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a silent connection is trusted before the other side is asked whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// How long what was sent may stay without any sign from the other side.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

pub(super) struct Server {
    config: Config,
    password: Option<SecretRef>,
    way: Way,
    place: String,
}

/// How the server is reached.
enum Way {
    /// Over the network, encrypted.
    Encrypted(MakeRustlsConnect),
    /// Over the network, as it is.
    Plain,
    /// By its socket in a folder of this machine.
    Local { folder: PathBuf, port: u16 },
}

impl Server {
    pub(super) fn new(spec: &PostgresSpec) -> Result<Self, String> {
        let mut config = Config::new();
        config
            .host(&spec.host)
            .port(spec.port)
            .dbname(&spec.database)
            .user(&spec.user)
            .application_name("callboard")
            .connect_timeout(CONNECT_TIMEOUT)
            .keepalives_idle(KEEPALIVE_IDLE)
            .tcp_user_timeout(UNACKNOWLEDGED_MAX);
        let way = match &spec.tls {
            Tls::Off if spec.host.starts_with('/') => {
                config.ssl_mode(SslMode::Disable);
                Way::Local { folder: PathBuf::from(&spec.host), port: spec.port }
            }
            Tls::Off => {
                // The server is not asked for TLS, in whose place the bound stands.
                config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
                Way::Plain
            }
            Tls::Verify { authorities } => {
                config.ssl_mode(SslMode::Require);
                Way::Encrypted(MakeRustlsConnect::new(client_config(authorities.as_deref())?))
            }
        };
        let place = format!("{}:{}", spec.host, spec.port);
        Ok(Self { config, password: spec.password.clone(), way, place })
    }

    /// Returns the address, for people.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) async fn connect(&self) -> Result<Link, Fault> {
        let mut config = self.config.clone();
        if let Some(password) = &self.password {
            let password = password.resolve().map_err(|error| Fault::Away(error.message))?;
            config.password(password.expose_secret());
        }
        let excess = Excess::default();
        let connected = match &self.way {
            Way::Encrypted(tls) => {
                let tls = Encrypted { tls: tls.clone(), excess: excess.clone() };
                config.connect(tls).await.map(|connected| Link::new(connected, excess))
            }
            Way::Plain => {
                let plain = Plain(excess.clone());
                config.connect(plain).await.map(|connected| Link::new(connected, excess))
            }
            Way::Local { folder, port } => {
                let away = |fault: &dyn std::fmt::Display| {
                    Fault::Away(format!("connect to {}: {fault}", self.place))
                };
                let stream = timeout(CONNECT_TIMEOUT, bounded::local(folder, *port)).await;
                let stream = stream.map_err(|late| away(&late))?.map_err(|error| away(&error))?;
                let stream = Bounded::plain(stream, excess.clone());
                let connected = config.connect_raw(stream, NoTls).await;
                connected.map(|connected| Link::new(connected, excess))
            }
        };
        connected.map_err(|error| match super::link::fault(&error) {
            Lost::No(fault @ (Fault::Full | Fault::Away(_))) => fault,
            Lost::No(_) | Lost::Yes => {
                Fault::Away(format!("connect to {}: {}", self.place, cause(&error)))
            }
        })
    }

    /// Asks the server to stop what a connection does.
    pub(super) async fn cancel(&self, token: &CancelToken) {
        let asked = match &self.way {
            Way::Encrypted(tls) => token.cancel_query(tls.clone()).await,
            Way::Plain => token.cancel_query(Plain(Excess::default())).await,
            Way::Local { folder, port } => match bounded::local(folder, *port).await {
                Ok(stream) => token.cancel_query_raw(stream, NoTls).await,
                // Without its socket the server is gone, and what it did with it.
                Err(_) => return,
            },
        };
        if let Err(error) = asked {
            tracing::debug!(server = self.place, %error, "a statement could not be cancelled");
        }
    }
}

/// Says what lies below an error, whose outermost layer is only the name of a phase.
pub(super) fn cause(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}

fn client_config(authorities: Option<&std::path::Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(file) => {
            let failed = |fault: &dyn std::fmt::Display| format!("{}: {fault}", file.display());
            for found in CertificateDer::pem_file_iter(file).map_err(|error| failed(&error))? {
                let found = found.map_err(|error| failed(&error))?;
                roots.add(found).map_err(|error| failed(&error))?;
            }
            if roots.is_empty() {
                return Err(failed(&"it holds no certificate"));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
