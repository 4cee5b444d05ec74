//! How a command reaches NATS, from what its command line says.

use std::path::Path;

use bus::{Auth, NatsOptions, TlsIdentity};
use secrecy::SecretString;
use tools::secret::{learn, learn_login};
use wire::{ErrorCode, Subjects};

use crate::args::Nats;
use crate::failure::Failure;

/// The largest file with a password or a token, in bytes.
const SECRET_BYTES_MAX: usize = 4_096;

/// The largest file with a seed or with credentials whose content is known as a secret, in bytes.
const KEYS_BYTES_MAX: u64 = 16 << 10;

/// What is secret in credentials: a token and a seed.
const KEYS_MAX: usize = 2;

/// Returns how to connect; `None` if no server is named. What it reads is known as a secret then.
pub(crate) fn options(args: &Nats) -> Result<Option<NatsOptions>, Failure> {
    let Some(url) = &args.url else { return Ok(None) };
    let mut options = NatsOptions::new(url.split(',').map(str::trim));
    options.urls.iter().for_each(|url| learn_login(url));
    options.inbox_prefix.clone_from(&args.inbox);
    options.insecure = args.insecure;
    options.tls_authorities.clone_from(&args.ca);
    if let (Some(certificate), Some(key)) = (&args.cert, &args.key) {
        options.tls_identity =
            Some(TlsIdentity { certificate: certificate.clone(), key: key.clone() });
    }
    // Who names certificates means them: a server without TLS gets nothing to read.
    options.tls_required = options.tls_authorities.is_some() || options.tls_identity.is_some();
    options.auth = if let Some(file) = &args.creds {
        learn_keys(file);
        Auth::CredentialsFile(file.clone())
    } else if let Some(file) = &args.nkey_file {
        learn_keys(file);
        Auth::NkeyFile(file.clone())
    } else if let Some(file) = &args.token_file {
        Auth::Token(secret(file)?)
    } else if let (Some(user), Some(file)) = (&args.user, &args.password_file) {
        Auth::User { user: user.clone(), password: secret(file)? }
    } else {
        Auth::Anonymous
    };
    Ok(Some(options))
}

/// Returns the subjects under the prefix that was named.
pub(crate) fn subjects(args: &Nats) -> Result<Subjects, Failure> {
    Subjects::new(&args.subject_prefix)
        .map_err(|error| Failure::new(ErrorCode::BadRequest, error.to_string()))
}

/// Leaves user and password out of URLs, for everybody to see.
pub(crate) fn without_secrets(urls: &str) -> String {
    let plain = |url: &str| match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        (_, None) => url.to_owned(),
    };
    urls.split(',').map(|url| plain(url.trim())).collect::<Vec<_>>().join(",")
}

fn secret(file: &Path) -> Result<SecretString, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(ErrorCode::SecretMissing, format!("read {}: {error}", file.display()))
    })?;
    let text = text.trim();
    if text.is_empty() || text.len() > SECRET_BYTES_MAX {
        let text = format!("read {}: it is empty or longer than a secret is", file.display());
        return Err(Failure::new(ErrorCode::SecretMissing, text));
    }
    // Known only once it is short: to look for a long text in all others would take for ever.
    let secret = SecretString::from(text.to_owned());
    learn(&secret);
    Ok(secret)
}

/// Makes known what is secret in a file with a seed or with credentials: each line that is neither
/// prose nor a frame, of which there are two at most. The bus reads the file too, and reports one
/// that cannot be read; so what can be read only once, such as a pipe, is left to it.
fn learn_keys(file: &Path) {
    let is_whole = |file: &std::fs::Metadata| file.is_file() && file.len() <= KEYS_BYTES_MAX;
    if !std::fs::metadata(file).is_ok_and(|file| is_whole(&file)) {
        return;
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let is_key = |line: &&str| {
        line.starts_with(|c: char| c.is_ascii_alphanumeric()) && !line.contains(char::is_whitespace)
    };
    let keys = text.lines().map(str::trim).filter(is_key).take(KEYS_MAX);
    keys.for_each(|key| learn(&SecretString::from(key)));
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        nats: Nats,
    }

    const CREDENTIALS: &str = "-----BEGIN NATS USER JWT-----
eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.e30.c2lnbmF0dXJl
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.
NKEYs are sensitive and should be treated as secrets.

-----BEGIN USER NKEY SEED-----
SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY
------END USER NKEY SEED------

*************************************************************
";

    #[test]
    fn what_is_read_for_nats_is_known_as_a_secret() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let creds = file("creds", CREDENTIALS);
        let seed = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU";
        let nkey = file("nkey", &format!("{seed}\n"));
        let token = file("token", "token-of-nats-4711 \n");
        let password = file("password", "password-of-nats-4712\n");
        let jwt = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.e30.c2lnbmF0dXJl";
        let seed_of_creds = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
        let url = "nats://h, nats://ann:in-a-url-4713@i,tls://in-a-url-4714@k";
        let cases: [(&[&str], &[&str]); 5] = [
            (&["--nats", url], &["in-a-url-4713", "in-a-url-4714"]),
            (&["--nats", "h", "--nats-token-file", &token], &["token-of-nats-4711"]),
            (
                &["--nats", "h", "--nats-user", "ann", "--nats-password-file", &password],
                &["password-of-nats-4712"],
            ),
            (&["--nats", "h", "--nats-nkey-file", &nkey], &[seed]),
            (&["--nats", "h", "--nats-creds", &creds], &[jwt, seed_of_creds]),
        ];
        for (args, secrets) in cases {
            let args = Only::parse_from(["x"].iter().chain(args));
            assert!(options(&args.nats).unwrap().is_some());
            for secret in secrets {
                let cleaned = tools::secret::clean(format!("it is {secret}."));
                assert_eq!(cleaned, "it is [secret].", "{secret}");
            }
        }
        for prose in ["NKEYs are sensitive", "IMPORTANT", "-----BEGIN USER NKEY SEED-----"] {
            assert_eq!(tools::secret::clean(prose.to_owned()), prose);
        }
    }

    #[test]
    fn a_file_without_a_secret_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in
            [("none", None), ("empty", Some(" \n")), ("long", Some("x".repeat(5_000).as_str()))]
        {
            let path = dir.path().join(name);
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let failure = secret(&path).unwrap_err();
            let Failure::Error(error) = failure else { panic!("{name}") };
            assert_eq!(error.code, ErrorCode::SecretMissing, "{name}");
            assert!(error.message.contains(path.to_str().unwrap()), "{name}: {error}");
        }
    }

    #[test]
    fn secrets_in_urls_are_not_shown() {
        let cases = [
            ("nats://h:4222", "nats://h:4222"),
            ("nats://u:p@h:4222, tls://t@i", "nats://h:4222,tls://i"),
            ("u:p@h", "h"),
            ("nats://u:p@ss@h", "nats://h"),
        ];
        for (urls, expected) in cases {
            assert_eq!(without_secrets(urls), expected);
        }
    }
}
