//! How many files the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// As many as the daemon asks for, which is what its systemd unit has: each connection, each program
/// of a tool and each database takes some. Many systems begin with 1,024 and allow far more to whoever
/// asks; all that is allowed may be a million, over each of which programs may go that close them.
const FILES_MAX: u64 = 65_536;

/// Raises the limit of this process, as far as it may.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = raised(limit) else { return };
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit }) {
        warn!(%error, wanted = current, "the limit of open files stays as it is");
    }
}

/// Returns what a limit is raised to, if it is.
fn raised(limit: Rlimit) -> Option<u64> {
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(FILES_MAX);
    limit.current.filter(|current| *current < wanted).map(|_| wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_raised_as_far_as_it_may_be() {
        for (current, maximum, expected) in [
            (Some(1024), Some(1_048_576), Some(FILES_MAX)),
            (Some(1024), Some(4096), Some(4096)),
            (Some(1024), None, Some(FILES_MAX)),
            (Some(1024), Some(1024), None),
            (Some(FILES_MAX), None, None),
            (Some(1_000_000), Some(1_000_000), None),
            (None, None, None),
        ] {
            assert_eq!(raised(Rlimit { current, maximum }), expected, "{current:?} {maximum:?}");
        }
    }

    #[test]
    fn the_process_has_what_it_asked_for() {
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(raised(limit), None, "{limit:?}");
    }
}
