//! Secrets: references in config, values that do not print.

mod finder;
mod known;

use std::path::PathBuf;

use secrecy::SecretString;
use wire::{ErrorCode, WireError};

pub use known::{Cleaner, clean, clean_settled, clean_str, clean_value, learn, learn_login};

/// Where a secret stands; the team file never holds the secret itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SecretRef {
    /// In an environment variable.
    Env(String),
    /// In a file, alone; white space at the end is cut.
    File(PathBuf),
}

impl SecretRef {
    /// Reads the secret, and makes it known, so that [`clean`] takes it out of texts.
    pub fn resolve(&self) -> Result<SecretString, WireError> {
        let secret = self.read()?;
        let file = match self {
            Self::Env(_) => None,
            Self::File(path) => Some(path.as_path()),
        };
        known::learn_from(&secret, file);
        Ok(secret)
    }

    fn read(&self) -> Result<SecretString, WireError> {
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
