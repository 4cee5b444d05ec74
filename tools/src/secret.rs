//! Secrets: references in config, values that do not print.

use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};
use wire::{ErrorCode, WireError};

/// Secrets shorter than this are not looked for in answers: they would occur by chance.
const REDACTED_BYTES_MIN: usize = 6;

/// Where a secret stands; the team file never holds the secret itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SecretRef {
    /// In an environment variable.
    Env(String),
    /// In a file, alone; white space at the end is cut.
    File(PathBuf),
}

impl SecretRef {
    /// Reads the secret.
    pub fn resolve(&self) -> Result<SecretString, WireError> {
        let missing = |what: String| WireError::new(ErrorCode::SecretMissing, what);
        match self {
            Self::Env(name) => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "this is the place that reads secrets"
                )]
                let value = std::env::var(name);
                value
                    .map(|text| SecretString::from(text.trim_end().to_owned()))
                    .map_err(|error| missing(format!("environment variable {name}: {error}")))
            }
            Self::File(path) => std::fs::read_to_string(path)
                .map(|text| SecretString::from(text.trim_end().to_owned()))
                .map_err(|error| missing(format!("secret file {}: {error}", path.display()))),
        }
    }
}

/// Takes the secrets of a request out of a text, should the other side send one back.
pub(crate) fn redacted(mut text: String, secrets: &[SecretString]) -> String {
    for secret in secrets {
        let secret = secret.expose_secret();
        if secret.len() >= REDACTED_BYTES_MIN && text.contains(secret) {
            text = text.replace(secret, "[secret]");
        }
    }
    text
}
