//! Why a request was not sent, or not answered.

use std::error::Error as StdError;
use std::time::Duration;

use wire::{ErrorCode, WireError};

use super::REDIRECTS_MAX;

/// What is not to be reached, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// The address is none of HTTP.
    #[error("{scheme}: addresses are not reached, only http: and https: ones are")]
    Scheme {
        /// What it begins with.
        scheme: String,
    },
    /// The address holds a user or a password.
    #[error("the address of {host} contains credentials, which do not belong into addresses")]
    Credentials {
        /// The host.
        host: String,
    },
    /// The port belongs to something else than HTTP.
    #[error(
        "port {port} of {host} is not reached: only 80, 443 and those from 1024 on are, besides \
         well-known ports of other services"
    )]
    Port {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// The host is, or stands for, an address that is not public.
    #[error("{host} is not reached: {what}")]
    Address {
        /// The host, as it was written.
        host: String,
        /// Which address, and what it is.
        what: String,
    },
}

/// Why there is no answer to a request.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// It, or where it was redirected to, is not to be reached.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// It was redirected over and over.
    #[error("the server redirects more than {REDIRECTS_MAX} times")]
    Redirects,
    /// It was redirected to what is no address.
    #[error("the server redirects to what is no address: {0}")]
    Target(String),
    /// A server took it, so that it may have been done, and the redirect to the answer could not
    /// be followed.
    #[error("the request was taken, but its redirect could not be followed: {0}")]
    Redirected(Box<SendError>),
    /// Its answer stopped in the middle.
    #[error("the answer stopped for more than {} s", .0.as_secs())]
    Idle(Duration),
    /// There is no client for it.
    #[error(transparent)]
    Client(WireError),
    /// It could not be sent, or was not answered.
    #[error(transparent)]
    Http(reqwest::Error),
}

impl From<reqwest::Error> for SendError {
    fn from(error: reqwest::Error) -> Self {
        let mut cause: Option<&(dyn StdError + 'static)> = Some(&error);
        while let Some(found) = cause {
            if let Some(forbidden) = found.downcast_ref::<Forbidden>() {
                return Self::Forbidden(forbidden.clone());
            }
            cause = found.source();
        }
        Self::Http(error)
    }
}

impl From<Forbidden> for WireError {
    fn from(forbidden: Forbidden) -> Self {
        let advice = match forbidden {
            Forbidden::Scheme { .. } | Forbidden::Credentials { .. } => "",
            Forbidden::Port { .. } | Forbidden::Address { .. } => {
                "; name it in `allow_hosts` of the tool if it is meant"
            }
        };
        Self::new(ErrorCode::AddressForbidden, format!("{forbidden}{advice}"))
    }
}
