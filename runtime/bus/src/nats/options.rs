//! How to connect to NATS, and what happens to the connection afterwards.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};

use crate::error::Error;
use crate::nats::outbox::AWAY_MESSAGES_MAX;
use crate::{SUBSCRIPTION_MESSAGES_MAX_DEFAULT, check};

/// The first pause between two attempts to connect.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// The longest pause between two attempts to connect: a server that is back is found within it.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// How long one attempt to connect takes unless the options say otherwise.
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// How many messages wait between the socket and the task that sorts them. One read of the socket
/// can bring the answers to all waiting requests, which share one subscription.
const CLIENT_MESSAGES_MAX: usize = crate::pending::REQUESTS_MAX;

/// Says where the servers are and who we are.
#[derive(Clone)]
pub struct NatsOptions {
    /// The servers, as `nats://host:port` or `tls://host:port`; any one of them will do. Others that
    /// they tell of are used only if [`insecure`](Self::insecure) is set.
    pub urls: Vec<String>,
    /// The name of the connection, as the server's monitoring shows it.
    pub name: String,
    /// Who we are.
    pub auth: Auth,
    /// The first tokens of the subjects on which answers come back. The server has to let us
    /// publish and subscribe below it.
    pub inbox_prefix: String,
    /// How long one attempt to connect takes.
    pub connect_timeout: Duration,
    /// Whether a connection without TLS is refused.
    pub tls_required: bool,
    /// Whether servers on other machines may be spoken to without TLS, and by nobody in particular.
    pub insecure: bool,
    /// Certificates, in PEM, of the authorities that vouch for the servers, beside the system's.
    pub tls_authorities: Option<PathBuf>,
    /// What we show of ourselves when the connection is encrypted.
    pub tls_identity: Option<TlsIdentity>,
    /// How many messages wait in one subscription; at least one does.
    pub subscription_messages_max: usize,
    /// Whether who listens in a queue group inside this process may be asked past the server, which
    /// costs less and goes on while the server is away, but which nobody else can watch.
    pub near: bool,
}

/// A certificate of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsIdentity {
    /// The file of the certificate, in PEM.
    pub certificate: PathBuf,
    /// The file of its key, in PEM.
    pub key: PathBuf,
}

/// Says who we are.
#[derive(Clone, Debug, Default)]
pub enum Auth {
    /// Nobody in particular.
    #[default]
    Anonymous,
    /// A user with a password.
    User {
        /// The user.
        user: String,
        /// The password.
        password: SecretString,
    },
    /// Whoever knows the token.
    Token(SecretString),
    /// A file that holds the seed of an nkey.
    NkeyFile(PathBuf),
    /// A file that holds a JWT and the seed of its nkey.
    CredentialsFile(PathBuf),
}

impl NatsOptions {
    /// Makes options for servers that take anybody.
    pub fn new(urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            urls: urls.into_iter().map(Into::into).collect(),
            name: "callboard".to_owned(),
            auth: Auth::default(),
            inbox_prefix: "_INBOX".to_owned(),
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            tls_required: false,
            insecure: false,
            tls_authorities: None,
            tls_identity: None,
            subscription_messages_max: SUBSCRIPTION_MESSAGES_MAX_DEFAULT,
            near: false,
        }
    }

    /// Reads the addresses of the servers.
    pub(super) fn servers(&self) -> Result<Vec<ServerAddr>, Error> {
        if self.urls.is_empty() {
            return Err(Error::Options { fault: "no server is named".to_owned() });
        }
        // A URL may hold a password, so a faulty one is named by its place.
        let address = |(n, url): (usize, &String)| {
            url.parse::<ServerAddr>().map_err(|_| Error::Options {
                fault: format!("url number {} is not of the form nats://host:port", n + 1),
            })
        };
        let servers: Vec<ServerAddr> =
            self.urls.iter().enumerate().map(address).collect::<Result<_, Error>>()?;
        servers.iter().try_for_each(|server| self.protected(server))?;
        Ok(servers)
    }

    /// Refuses a server on another machine unless the connection is encrypted and says who we are.
    fn protected(&self, server: &ServerAddr) -> Result<(), Error> {
        let host = server.host();
        let is_here = host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let is_encrypted = self.tls_required || matches!(server.scheme(), "tls" | "wss");
        let says_who = self.tls_identity.is_some()
            || server.has_user_pass()
            || !matches!(self.auth, Auth::Anonymous);
        let lack = match (is_encrypted, says_who) {
            (true, true) => return Ok(()),
            _ if is_here || self.insecure => return Ok(()),
            (false, true) => "the connection is not encrypted; write `tls://`",
            (true, false) => "nobody logs in; name credentials, an nkey, a user or a token",
            (false, false) => {
                "the connection is not encrypted and nobody logs in; write `tls://`, and name \
                 credentials, an nkey, a user or a token"
            }
        };
        Err(Error::Unprotected { server: format!("{host}:{}", server.port()), lack })
    }

    /// Makes what the client takes; reads the files that hold keys.
    pub(super) fn client_options(&self) -> Result<ConnectOptions, Error> {
        if !wire::subject::is_inbox(&format!("{}.x", self.inbox_prefix)) {
            let shown = check::shown(&self.inbox_prefix);
            let fault = format!("inbox prefix {shown:?} does not begin with _INBOX or _INBOX_name");
            return Err(Error::Options { fault });
        }
        let mut options = ConnectOptions::new()
            .name(&self.name)
            .custom_inbox_prefix(&self.inbox_prefix)
            .connection_timeout(self.connect_timeout)
            .require_tls(self.tls_required)
            .subscription_capacity(CLIENT_MESSAGES_MAX)
            .client_capacity(AWAY_MESSAGES_MAX)
            .max_reconnects(None)
            .reconnect_delay_callback(backoff);
        if let Some(path) = &self.tls_authorities {
            options = options.add_root_certificates(path.clone());
        }
        if let Some(TlsIdentity { certificate, key }) = &self.tls_identity {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        // A server that others tell of was held against nothing, and is told of before there is TLS.
        if !self.insecure {
            options = options.ignore_discovered_servers();
        }
        match self.login()? {
            Auth::Anonymous => Ok(options),
            Auth::User { user, password } => {
                Ok(options.user_and_password(user, password.expose_secret().to_owned()))
            }
            Auth::Token(token) => Ok(options.token(token.expose_secret().to_owned())),
            Auth::NkeyFile(path) => Ok(options.nkey(read(&path)?.trim().to_owned())),
            Auth::CredentialsFile(path) => options
                .credentials(&read(&path)?)
                .map_err(|source| Error::Credentials { path, source }),
        }
    }

    /// Returns who we are: as it is said, or else as it stands in the URLs, which the client does not
    /// look at.
    fn login(&self) -> Result<Auth, Error> {
        if !matches!(self.auth, Auth::Anonymous) {
            return Ok(self.auth.clone());
        }
        let urls = self.urls.iter().filter_map(|url| url.parse::<ServerAddr>().ok());
        let mut found = None;
        for url in urls.filter(ServerAddr::has_user_pass) {
            let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            let login = (url.username().map(plain), url.password().map(plain));
            if found.get_or_insert_with(|| login.clone()) != &login {
                let fault = "the URLs hold different logins, and a connection has one";
                return Err(Error::Options { fault: fault.to_owned() });
            }
        }
        Ok(match found {
            Some((Some(user), Some(password))) => Auth::User { user, password: password.into() },
            Some((Some(token), None)) => Auth::Token(token.into()),
            Some((None, _)) | None => Auth::Anonymous,
        })
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path)
        .map_err(|source| Error::Credentials { path: path.to_owned(), source })
}

/// Returns the pause before an attempt to connect, none before the first. It doubles each time and
/// varies, so that many clients of one server do not come back at the same moment.
pub(super) fn backoff(attempt: usize) -> Duration {
    let Some(doublings) = attempt.checked_sub(2) else { return Duration::ZERO };
    let factor = 1_u32 << doublings.min(10);
    let longest = BACKOFF_MIN.saturating_mul(factor).min(BACKOFF_MAX);
    let random = RandomState::new().hash_one(attempt) % 1000;
    let part = f64::from(u32::try_from(random).unwrap_or(0)) / 1000.0;
    longest.mul_f64(0.5 + part / 2.0).max(BACKOFF_MIN)
}

impl fmt::Debug for NatsOptions {
    /// Leaves the URLs out, which may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsOptions")
            .field("name", &self.name)
            .field("auth", &self.auth)
            .field("inbox_prefix", &self.inbox_prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_their_limit() {
        // (attempt, least, most), in milliseconds
        let cases = [(0, 0, 0), (1, 0, 0), (2, 100, 100), (4, 200, 400), (8, 2500, 5000)];
        for (attempt, least, most) in cases {
            let pause = backoff(attempt).as_millis();
            assert!((least..=most).contains(&pause), "attempt {attempt}: {pause} ms");
        }
        assert!(backoff(usize::MAX) <= BACKOFF_MAX);
    }

    #[test]
    fn no_secret_is_shown() {
        let mut options = NatsOptions::new(["nats://u:hunter2@h:4222"]);
        options.auth = Auth::User { user: "u".into(), password: "hunter2".into() };
        assert!(!format!("{options:?}").contains("hunter2"));
        options.urls = vec!["nats://u:hunter2@:bad".into()];
        let error = options.servers().unwrap_err();
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }

    #[test]
    fn servers_elsewhere_need_tls_and_a_login() {
        let token = || Auth::Token("hunter2".into());
        for (url, auth, insecure, lack) in [
            ("nats://127.0.0.1:4222", Auth::Anonymous, false, ""),
            ("nats://[::1]:4222", Auth::Anonymous, false, ""),
            ("LocalHost", Auth::Anonymous, false, ""),
            ("tls://nats.example.com", token(), false, ""),
            ("tls://u:p@nats.example.com", Auth::Anonymous, false, ""),
            ("nats://nats.example.com", Auth::Anonymous, true, ""),
            ("nats://nats.example.com", token(), false, "is not encrypted; write"),
            ("tls://10.0.0.1:4222", Auth::Anonymous, false, "and nobody logs in"),
            ("nats://u:hunter2@10.0.0.1", Auth::Anonymous, false, "is not encrypted; write"),
            ("nats://nats.example.com", Auth::Anonymous, false, "not encrypted and nobody logs in"),
            ("nats://127.0.0.1.example.com", token(), false, "is not encrypted"),
            ("nats://0.0.0.0", token(), false, "is not encrypted"),
        ] {
            // One that is fine does not speak for the next.
            let mut options = NatsOptions::new(["nats://127.0.0.1", url]);
            options.auth = auth;
            options.insecure = insecure;
            match options.servers() {
                Ok(servers) => assert!(lack.is_empty() && servers.len() == 2, "{url}"),
                Err(error) => {
                    let wire = error.to_wire();
                    assert_eq!(wire.code, wire::ErrorCode::NatsUnprotected, "{url}");
                    let is_told = !lack.is_empty() && wire.message.contains(lack);
                    assert!(is_told && !wire.message.contains("hunter2"), "{url}: {wire}");
                }
            }
            options.tls_required = true;
            options.tls_identity =
                Some(TlsIdentity { certificate: "c.pem".into(), key: "k.pem".into() });
            assert!(options.servers().is_ok(), "{url}");
        }
    }

    #[test]
    fn a_login_stands_in_the_options_or_in_the_urls() {
        let user = |user: &str, password: &str| Auth::User {
            user: user.to_owned(),
            password: password.into(),
        };
        let shown = |auth: Result<Auth, Error>| match auth {
            Ok(Auth::User { user, password }) => format!("{user} {}", password.expose_secret()),
            Ok(Auth::Token(token)) => token.expose_secret().to_owned(),
            Ok(Auth::Anonymous) => "nobody".to_owned(),
            other => format!("{other:?}"),
        };
        for (urls, auth, expected) in [
            (&["nats://h"][..], Auth::Anonymous, "nobody"),
            (&["nats://h", "tls://u:p@i"], Auth::Anonymous, "u p"),
            (&["tls://a%40b:p%3Aq@i"], Auth::Anonymous, "a@b p:q"),
            (&["tls://u:p@h", "tls://u:p@i"], Auth::Anonymous, "u p"),
            (&["tls://token@h"], Auth::Anonymous, "token"),
            (&["tls://u:p@h"], user("v", "q"), "v q"),
            (
                &["tls://u:p@h", "tls://u:q@i"],
                Auth::Anonymous,
                "Err(Options { fault: \"the URLs hold different logins, and a connection has one\" })",
            ),
        ] {
            let mut options = NatsOptions::new(urls.iter().copied());
            options.auth = auth;
            assert_eq!(shown(options.login()), expected, "{urls:?}");
        }
    }

    #[test]
    fn faulty_options_are_refused() {
        let mut options = NatsOptions::new([] as [&str; 0]);
        assert!(matches!(options.servers(), Err(Error::Options { .. })));
        for prefix in ["", "_INBOX.", "inbox", "_INBOX.*", "$SYS"] {
            options.inbox_prefix = prefix.to_owned();
            assert!(matches!(options.client_options(), Err(Error::Options { .. })), "{prefix}");
        }
        options.inbox_prefix = "_INBOX_node".to_owned();
        assert!(options.client_options().is_ok());
        options.auth = Auth::NkeyFile("/nonexistent/seed".into());
        assert!(matches!(options.client_options(), Err(Error::Credentials { .. })));
    }
}
