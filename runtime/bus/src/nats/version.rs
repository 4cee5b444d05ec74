//! The version of a nats-server, and the oldest that will do.

use crate::check;
use crate::error::Error;

/// Older servers drop settings silently instead of refusing them.
const OLDEST: (u32, u32) = (2, 10);

/// Refuses a server by the version that it reports.
pub(super) fn check(version: &str) -> Result<(), Error> {
    match parse(version) {
        Some(found) if found >= OLDEST => Ok(()),
        _ => Err(Error::TooOld { found: check::shown(version) }),
    }
}

/// Reads major and minor; `None` if the text is no version.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix('v').unwrap_or(version).split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?;
    let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
    Some((major, minor.get(..digits)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_refused() {
        let cases = [
            ("2.10.0", true),
            ("2.10.27", true),
            ("2.10.0-RC.3", true),
            ("2.15.1", true),
            ("v2.12.8", true),
            ("2.11-dev", true),
            ("3.0.0", true),
            ("2.9.10", false),
            ("2.9", false),
            ("1.99.0", false),
            ("0.10.0", false),
            ("2", false),
            ("", false),
            ("latest", false),
        ];
        for (version, good) in cases {
            let result = check(version);
            assert_eq!(result.is_ok(), good, "{version}");
            if let Err(error) = result {
                assert!(matches!(&error, Error::TooOld { found } if found == version), "{error:?}");
            }
        }
    }
}
