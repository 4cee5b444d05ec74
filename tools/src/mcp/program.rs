//! The program of a server: started in a group of its own, and ended with all that it started.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::tree::ProcessTree;

/// Variables of the daemon's environment that every server gets: without them few programs find
/// their interpreter or a place for their files. Whatever else it needs, the team file names.
const PASSED: [&str; 6] = ["HOME", "LANG", "PATH", "TMPDIR", "TZ", "USER"];

/// How long a program has to end by itself once its input is at an end, as the protocol wants it;
/// then it is asked to by a signal.
const INPUT_GRACE: Duration = Duration::from_secs(1);

/// A program that was started.
pub(super) struct Program {
    pub(super) input: ChildStdin,
    pub(super) output: ChildStdout,
    pub(super) errors: ChildStderr,
    /// Ends once the program and all that it started have.
    pub(super) keeper: JoinHandle<()>,
}

/// Starts the program of a server, which is ended when `over` is cancelled. The keeper of its
/// processes is one of `programs`.
pub(super) fn start(
    command: &[String],
    directory: &Path,
    env: &[(String, String)],
    over: CancellationToken,
    programs: &TaskTracker,
) -> Result<Program, String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("its command is empty".to_owned());
    };
    // Joined with nothing, an empty path becomes the present one.
    let directory = std::path::absolute(directory.join("."))
        .map_err(|error| format!("find the folder {}: {error}", directory.display()))?;
    let is_path = program.contains('/');
    let place = if is_path { directory.join(program) } else { program.into() };
    let mut command = Command::new(place);
    command.args(arguments).env_clear().current_dir(&directory).process_group(0);
    command.envs(PASSED.iter().filter_map(|name| Some((name, passed(name)?))));
    command.envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("start {program}: {error}"))?;
    let tree = ProcessTree::of(&child, false);
    tree.die_first();
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(input), Some(output), Some(errors)) = pipes else {
        return Err(format!("start {program}: it has no pipes"));
    };
    let keeper = programs.spawn(keep(child, tree, over));
    Ok(Program { input, output, errors, keeper })
}

/// Waits for the end of a program, or ends it once its connection is over. What it started ends
/// with it, and holds its output open no longer, by whose end the connection is told.
async fn keep(mut child: Child, mut tree: ProcessTree, over: CancellationToken) {
    tokio::select! {
        _ = child.wait() => {}
        never = tree.keep_dying_first() => match never {},
        () = over.cancelled() => {
            if timeout(INPUT_GRACE, child.wait()).await.is_err() {
                tracing::debug!("an MCP server did not end with its input");
                tree.end(&mut child).await;
            }
        }
    }
    tree.kill();
}

fn passed(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "a program needs the surroundings of its user")]
    let value = std::env::var(name);
    value.ok()
}
