//! How a command reaches NATS, from what its command line says.

use std::path::Path;

use bus::{Auth, NatsOptions, TlsIdentity};
use secrecy::SecretString;
use wire::{ErrorCode, Subjects};

use crate::args::Nats;
use crate::failure::Failure;

/// The largest file with a password or a token, in bytes.
const SECRET_BYTES_MAX: usize = 4_096;

/// Returns how to connect; `None` if no server is named.
pub(crate) fn options(args: &Nats) -> Result<Option<NatsOptions>, Failure> {
    let Some(url) = &args.url else { return Ok(None) };
    let mut options = NatsOptions::new(url.split(',').map(str::trim));
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
        Auth::CredentialsFile(file.clone())
    } else if let Some(file) = &args.nkey_file {
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
    Ok(SecretString::from(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
