//! The threads of the process: a verb has them for as long as it works.

use std::time::Duration;

use wire::ErrorCode;

use crate::failure::{Exit, Failure};

/// How long what a verb leaves in work may take to be dropped, and with it the programs that were
/// started for it, which would outlive the process otherwise.
const REST_MAX: Duration = Duration::from_secs(1);

/// Does what a verb is to do on threads that it shares with all it calls, and gives what it left some
/// time to be dropped.
pub(crate) fn wait(
    threads: Option<u16>,
    verb: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    let runtime = node::executor(threads)
        .map_err(|error| Failure::new(ErrorCode::Internal, format!("start threads: {error}")))?;
    let done = runtime.block_on(verb);
    runtime.shutdown_timeout(REST_MAX);
    done
}
