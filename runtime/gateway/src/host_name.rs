//! Further names under which the doors may be asked for.

use std::fmt;
use std::net::IpAddr;

/// The longest name that DNS has, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// A bare name or address of a host, as a request has it without its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostName {
    /// A name of DNS.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// Why a text is no name of a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no bare name or address, so no request has it as its host; write it in ASCII and without \
     scheme, port, path and wildcard, like `agents.example.org`"
)]
pub struct HostNameError(String);

impl HostName {
    /// Takes a name that the host of a request can be the same as.
    pub fn new(text: &str) -> Result<Self, HostNameError> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let address = match bare {
            Some(bare) => bare.parse().ok().map(IpAddr::V6),
            None => text.parse().ok(),
        };
        if let Some(address) = address {
            return Ok(Self::Address(address));
        }
        let fits = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if text.len() > NAME_BYTES_MAX || !text.split('.').all(fits) {
            return Err(HostNameError(text.chars().take(NAME_BYTES_MAX).collect()));
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_a_request_can_have() {
        let long = format!("{}x", "x.".repeat(NAME_BYTES_MAX / 2));
        let longer = format!("x{long}");
        let cases = [
            ("agents.example.org", Some("agents.example.org")),
            ("agents", Some("agents")),
            ("AGENTS_1.example-2.org", Some("AGENTS_1.example-2.org")),
            ("10.0.0.7", Some("10.0.0.7")),
            ("2001:db8::7", Some("2001:db8::7")),
            ("[2001:db8::7]", Some("2001:db8::7")),
            (long.as_str(), Some(long.as_str())),
            (&longer, None),
            ("agents.example.org:8443", None),
            ("https://agents.example.org", None),
            ("agents.example.org/", None),
            ("*.example.org", None),
            (".example.org", None),
            ("agents.example.org.", None),
            ("agents example", None),
            ("bücher.example", None),
            ("10.0.0.7:8787", None),
            ("[2001:db8::7]:8787", None),
            ("[10.0.0.7]", None),
            ("[agents]", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let name = HostName::new(text).ok().map(|name| name.to_string());
            assert_eq!(name.as_deref(), expected, "{text:?}");
        }
    }
}
