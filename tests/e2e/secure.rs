//! A nats-server that lets in only whom it knows, over TLS: by nkey, by credentials, by certificate.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use bus::testing::NatsServer;
use bus::{Auth, Bus, NatsOptions, TlsIdentity};
use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::daemon::{Daemon, binary, root};
use tokio::process::Command;
use tokio::time::timeout;
use wire::ErrorCode;

use crate::setup::{QUESTION, shipped};

/// How long a daemon may take until it is refused, on a busy machine.
const REFUSED_MAX: Duration = Duration::from_secs(60);

/// Certificates and keys in a folder.
struct Papers(TempDir);

impl Papers {
    /// Makes an authority, and by it a certificate for the server and one for a client.
    fn new() -> Self {
        let papers = Self(tempfile::tempdir().unwrap());
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        papers.write("ca.pem", &authority.self_signed(&authority_key).unwrap().pem());
        let issuer = Issuer::new(authority, authority_key);
        for name in ["127.0.0.1", "client.test"] {
            let key = rcgen::KeyPair::generate().unwrap();
            let asked = CertificateParams::new(vec![name.to_owned()]).unwrap();
            papers.write(&format!("{name}.pem"), &asked.signed_by(&key, &issuer).unwrap().pem());
            papers.write(&format!("{name}.key"), &key.serialize_pem());
        }
        papers
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.at(name);
        std::fs::write(&file, text).unwrap();
        file
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns what makes a server speak TLS; `more` is such as `verify: true`.
    fn tls(&self, more: &str) -> String {
        let [ca, cert, key] = ["ca.pem", "127.0.0.1.pem", "127.0.0.1.key"]
            .map(|name| self.at(name).display().to_string());
        format!("tls {{ ca_file: {ca:?}, cert_file: {cert:?}, key_file: {key:?}, {more} }}\n")
    }

    /// Returns how to reach a server as somebody.
    fn options(&self, server: &NatsServer, auth: Auth) -> NatsOptions {
        let mut options = NatsOptions::new([server.url().replace("nats://", "tls://")]);
        options.tls_authorities = Some(self.at("ca.pem"));
        options.auth = auth;
        options
    }
}

/// Writes the shipped configuration with nkeys in place of passwords.
fn with_nkeys(roles: &[(&str, &KeyPair)]) -> String {
    let mut config = std::fs::read_to_string(root().join("deploy/nats-server.conf")).unwrap();
    config = config.replace("store_dir: \"/var/lib/nats\"", "");
    for (role, key) in roles {
        let password = format!("$CALLBOARD_NATS_{}_PASSWORD", role.to_uppercase());
        let login = format!("user: {role}\n        password: {password}\n");
        assert!(config.contains(&login), "{role}");
        config = config.replace(&login, &format!("nkey: {}\n", key.public_key()));
    }
    config
}

async fn ask(args: &[&str]) -> Output {
    Command::new(binary()).arg("ask").args(args).output().await.unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn daemon_and_client_do_the_main_job_over_tls_with_nkeys() {
    let papers = Papers::new();
    let [daemon, client, tool, observer] = [(); 4].map(|()| KeyPair::new_user());
    let roles =
        [("daemon", &daemon), ("client", &client), ("tool", &tool), ("observer", &observer)];
    for (role, key) in roles {
        papers.write(&format!("{role}.nk"), &key.seed().unwrap());
    }
    let server = NatsServer::start(&(papers.tls("") + &with_nkeys(&roles))).await.unwrap();
    let url = server.url().replace("nats://", "tls://");
    let [ca, daemon_nk, client_nk] =
        ["ca.pem", "daemon.nk", "client.nk"].map(|name| papers.at(name));
    let data = tempfile::tempdir().unwrap();
    let team = shipped("quickstart.toml");
    let common = ["--nats", &url, "--nats-ca", text(&ca)];
    let mut serving = Daemon::start(
        &[
            &[text(&team), "--data", text(data.path())][..],
            &common,
            &["--nats-nkey-file", text(&daemon_nk)],
        ]
        .concat(),
    )
    .await;
    // With the shipped permissions the daemons of a team hear each other.
    let elsewhere = tempfile::tempdir().unwrap();
    let second = Command::new(binary())
        .args(["serve", text(&team), "--data", text(elsewhere.path()), "--listen", "none"])
        .args(common)
        .args(["--nats-nkey-file", text(&daemon_nk)])
        .kill_on_drop(true)
        .output();
    let second = timeout(REFUSED_MAX, second).await.expect("it is refused").unwrap();
    let why = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(3) && why.contains("E5011"), "{why}");
    let as_client = ["--nats-nkey-file", text(&client_nk), "--nats-inbox", "_INBOX_client"];
    let question = ["quickstart", QUESTION];
    let answer = ask(&[&common[..], &as_client, &question].concat()).await;
    let said = String::from_utf8_lossy(&answer.stdout).into_owned();
    let why = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert!(answer.status.success() && said.contains("2.16524"), "{said}{why}");

    // Without the authority, without a login, and with the inbox of another role.
    for (args, part) in [
        ([&["--nats", &url][..], &as_client, &question].concat(), "certificate"),
        ([&common[..], &question].concat(), "authorization violation"),
        ([&common[..], &["--nats-nkey-file", text(&client_nk)], &question].concat(), "E"),
    ] {
        let refused = ask(&args).await;
        let why = String::from_utf8_lossy(&refused.stderr).to_lowercase();
        assert!(!refused.status.success() && why.contains(&part.to_lowercase()), "{args:?}: {why}");
    }
    assert_eq!(serving.terminate().await, Some(0));
}

#[tokio::test]
async fn a_server_elsewhere_is_refused_without_tls_or_login() {
    for (args, missing) in [
        (vec!["--nats", "nats://nats.example.com"], "write `tls://`, and name credentials"),
        (vec!["--nats", "tls://nats.example.com"], "nobody logs in"),
        (vec!["--nats", "nats://u:hunter2@10.1.2.3"], "is not encrypted; write `tls://`"),
    ] {
        let output = ask(&[&args[..], &["quickstart", "Hello"]].concat()).await;
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{why}");
        let is_told = why.contains("E5009") && why.contains(missing) && !why.contains("hunter2");
        assert!(is_told, "{why}");
    }
}

#[tokio::test]
async fn a_certificate_of_ones_own_is_a_login() {
    let papers = Papers::new();
    let server = NatsServer::start(&papers.tls("verify: true")).await.unwrap();
    let identity = TlsIdentity {
        certificate: papers.at("client.test.pem"),
        key: papers.at("client.test.key"),
    };
    let mut options = papers.options(&server, Auth::Anonymous);
    options.tls_identity = Some(identity);
    Bus::connect(options.clone()).await.unwrap().flush().await.unwrap();
    options.tls_identity = None;
    let error = Bus::connect(options).await.unwrap_err().to_wire();
    assert_eq!(error.code, ErrorCode::NatsUnavailable, "{error}");
    // A server without TLS gets nothing to read.
    let plain = NatsServer::start("").await.unwrap();
    let mut options = NatsOptions::new([plain.url()]);
    options.tls_required = true;
    assert!(Bus::connect(options).await.is_err());
}

/// Signs claims as the tools of NATS do.
fn token(issuer: &KeyPair, subject: &str, claims: &Value) -> String {
    let body = json!({
        "jti": subject, "iat": 1_700_000_000, "iss": issuer.public_key(), "name": subject,
        "sub": subject, "nats": claims,
    });
    let header = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let [header, body] =
        [header, body].map(|part| BASE64URL_NOPAD.encode(part.to_string().as_bytes()));
    let signed = format!("{header}.{body}");
    let signature = BASE64URL_NOPAD.encode(&issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

#[tokio::test]
async fn credentials_let_in_within_their_limits() {
    let papers = Papers::new();
    let operator = KeyPair::new_operator();
    let [account, system] = [(); 2].map(|()| KeyPair::new_account());
    let user = KeyPair::new_user();
    let unlimited = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
        "conn": -1, "leaf": -1,
    });
    let of_account = json!({"type": "account", "version": 2, "limits": unlimited});
    let by_operator = |key: &KeyPair| token(&operator, &key.public_key(), &of_account);
    let config = format!(
        "{}operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}, {}: {} }}\n",
        papers.tls(""),
        token(&operator, &operator.public_key(), &json!({"type": "operator", "version": 2})),
        system.public_key(),
        account.public_key(),
        by_operator(&account),
        system.public_key(),
        by_operator(&system),
    );
    let server = NatsServer::start(&config).await.unwrap();
    let own = json!({"allow": ["a", "_INBOX_client.>"]});
    let of_user = json!({
        "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": own, "sub": own,
    });
    let written = |jwt: &str, key: &KeyPair| {
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            key.seed().unwrap()
        )
    };
    let jwt = token(&account, &user.public_key(), &of_user);
    let right = papers.write("right.creds", &written(&jwt, &user));
    let stolen = papers.write("stolen.creds", &written(&jwt, &KeyPair::new_user()));
    let mut options = papers.options(&server, Auth::CredentialsFile(right));
    options.inbox_prefix = "_INBOX_client".to_owned();
    Bus::connect(options.clone()).await.unwrap().flush().await.unwrap();
    options.auth = Auth::CredentialsFile(stolen);
    let error = Bus::connect(options).await.unwrap_err().to_wire();
    assert_eq!(error.code, ErrorCode::NatsUnavailable, "{error}");
}
