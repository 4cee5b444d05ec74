//! Whom the HTTP client trusts over TLS: those that the system does.

use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// What all clients of the process trust.
static SYSTEM: LazyLock<Arc<Trust>> = LazyLock::new(|| {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Trust::new(provider.clone(), move || Verifier::new(provider.clone()))
});

/// The settings of TLS for a client of servers that the system trusts.
pub(super) fn client_config() -> Result<ClientConfig, Error> {
    SYSTEM.client_config()
}

/// Judges servers by certificates that are read when the first one is judged: to read a hundred
/// files takes a good part of a start, and many a process asks no server over TLS.
struct Trust {
    provider: Arc<CryptoProvider>,
    read: Box<dyn Fn() -> Result<Verifier, Error> + Send + Sync>,
    verifier: OnceLock<Verifier>,
}

impl Trust {
    fn new(
        provider: Arc<CryptoProvider>,
        read: impl Fn() -> Result<Verifier, Error> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { provider, read: Box::new(read), verifier: OnceLock::new() })
    }

    fn client_config(self: &Arc<Self>) -> Result<ClientConfig, Error> {
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(self.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Returns what judges. What cannot be read is tried again for the next server.
    fn verifier(&self) -> Result<&Verifier, Error> {
        if let Some(verifier) = self.verifier.get() {
            return Ok(verifier);
        }
        let read = (self.read)().inspect_err(|error| {
            tracing::warn!(%error, "no root certificates found, https servers are not trusted");
        })?;
        Ok(self.verifier.get_or_init(|| read))
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("verifier", &self.verifier).finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verifier = self.verifier()?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::*;

    /// Answers connections over TLS for as long as the process lives, and returns its port.
    fn serve(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> u16 {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(config.clone()).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                // A client that does not trust this server hangs up.
                if stream.read(&mut [0; 4096]).is_ok() {
                    let answer =
                        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
                    stream.write_all(answer.as_bytes()).unwrap();
                    stream.conn.send_close_notify();
                    stream.flush().unwrap();
                }
            }
        });
        port
    }

    #[tokio::test]
    async fn who_is_trusted_is_read_once_and_when_it_is_asked() {
        let ours = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let held = ours.cert.der().clone();
        let port = serve(held.clone(), ours.signing_key.into());
        // Whom the client trusts, by which name it asks, and what comes of two requests.
        let cases = [
            (Some(held.clone()), "localhost", [true, true], 1),
            (Some(held), "127.0.0.1", [false, false], 1),
            (Some(other.cert.der().clone()), "localhost", [false, false], 1),
            (None, "localhost", [false, false], 2),
        ];
        for (trusted, host, expected, reads) in cases {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let read = Arc::new(AtomicU32::new(0));
            let (count, of) = (read.clone(), provider.clone());
            let trust = Trust::new(provider, move || {
                count.fetch_add(1, Ordering::Relaxed);
                let root = trusted.clone().ok_or_else(|| Error::General("none".to_owned()))?;
                Verifier::new_with_extra_roots([root], of.clone())
            });
            let config = trust.client_config().unwrap();
            let client = crate::client::builder().tls_backend_preconfigured(config);
            let client = client.build().unwrap();
            assert_eq!(read.load(Ordering::Relaxed), 0);
            for answers in expected {
                let asked = client.get(format!("https://{host}:{port}/")).send().await;
                assert_eq!(asked.is_ok(), answers, "{host}: {asked:?}");
            }
            assert_eq!(read.load(Ordering::Relaxed), reads, "{host}");
        }
        assert!(client_config().is_ok());
    }
}
