//! A process and all that it starts, none of which is left behind.

use std::convert::Infallible;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::Child;
use tokio::time::{sleep, timeout};

/// How long a program that was asked to end has to put things in order before it is killed.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// How long the kernel is given to end what was killed, and to hand over what is left in pipes.
pub(crate) const KILL_GRACE: Duration = Duration::from_millis(200);

/// The mark of a process that the kernel ends before all others.
const OOM_SCORE_MAX: &str = "1000";

/// When marks are set again. A process that is about to be started while the one that starts it is
/// marked does not get the mark, and is not found until it is there: on a machine with much to do
/// that takes longer.
const MARKED_AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// The most processes that are marked at once, since a program may start others without end.
const MARKED_MAX: usize = 1_000;

/// A process and its descendants, which end with this. Those that leave its group are found only
/// in a sandbox.
pub(crate) struct ProcessTree {
    root: Option<Pid>,
    is_sandbox: bool,
}

impl ProcessTree {
    /// Takes a process that leads a group of its own and was not waited for yet, and which makes a
    /// sandbox for the others or does not.
    pub(crate) fn of(child: &Child, is_sandbox: bool) -> Self {
        Self { root: child.id().and_then(pid), is_sandbox }
    }

    /// Lets the kernel end the processes before all others where the machine has no memory left: what
    /// they share with others counts against no limit of their own.
    pub(crate) fn die_first(&self) {
        let mut found: Vec<Pid> = self.root.into_iter().collect();
        for _ in 0..MARKED_MAX {
            let Some(process) = found.pop() else { return };
            let file = format!("/proc/{process}/oom_score_adj");
            let is_marked =
                std::fs::read_to_string(&file).is_ok_and(|score| score.trim() == OOM_SCORE_MAX);
            if !is_marked && let Err(error) = std::fs::write(&file, OOM_SCORE_MAX) {
                // What it starts is without the mark for as long as it does.
                tracing::debug!(%error, file, "a process is not marked as the first to end");
                continue;
            }
            // What it started before it was marked is not.
            found.extend(children(process));
        }
    }

    /// Does so again for those that were missed, and never ends.
    pub(crate) async fn keep_dying_first(&self) -> Infallible {
        for pause in MARKED_AGAIN_AFTER {
            sleep(pause).await;
            self.die_first();
        }
        std::future::pending().await
    }

    /// Asks all processes to end, and kills those that are left after a while. Returns how the
    /// first one ended, if that can be told.
    pub(crate) async fn end(&mut self, child: &mut Child) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
        if let Ok(status) = timeout(TERM_GRACE, child.wait()).await {
            return status.ok();
        }
        self.signal(Signal::KILL);
        // The sandbox ends when the last process in it has.
        if let Ok(status) = timeout(KILL_GRACE, child.wait()).await {
            return status.ok();
        }
        self.kill();
        timeout(KILL_GRACE, child.wait()).await.ok()?.ok()
    }

    /// Sends a signal to the program and what it started, not to the one that holds the sandbox.
    fn signal(&self, signal: Signal) {
        let Some(root) = self.root else { return };
        if self.is_sandbox {
            for pid in descendants(root) {
                send(kill_process(pid, signal));
            }
        } else {
            send(kill_process_group(root, signal));
        }
    }

    /// Kills what is left, once.
    pub(crate) fn kill(&mut self) {
        if let Some(root) = self.root.take() {
            send(kill_process_group(root, Signal::KILL));
        }
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        self.kill();
    }
}

fn send(sent: rustix::io::Result<()>) {
    if let Err(error) = sent
        && error != rustix::io::Errno::SRCH
    {
        tracing::debug!(%error, "a process cannot be sent a signal");
    }
}

fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}

/// Returns what the first thread of a process started and did not leave to others, without a look at
/// all processes of the machine; nothing where the kernel does not tell.
fn children(process: Pid) -> Vec<Pid> {
    let file = format!("/proc/{process}/task/{process}/children");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|id| pid(id.parse().ok()?)).collect()
}

/// Finds the processes below one, in no order. What loses its parent in a sandbox is given to the
/// first process in it, and so stays below.
fn descendants(root: Pid) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let all: Vec<(Pid, Pid)> = entries.filter_map(|entry| family(&entry.ok()?.path())).collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(all.iter().filter(|(_, above)| *above == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

/// Reads the process and its parent from a folder of `/proc`.
fn family(folder: &Path) -> Option<(Pid, Pid)> {
    let id: u32 = folder.file_name()?.to_str()?.parse().ok()?;
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    // The name before the last bracket may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let parent: u32 = rest.split_whitespace().nth(1)?.parse().ok()?;
    Some((pid(id)?, pid(parent)?))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt as _, BufReader};
    use tokio::process::Command;

    use super::*;

    /// Starts a program that has started others, and returns it with all of them.
    async fn started() -> (Child, ProcessTree, Vec<Pid>) {
        let mut command = Command::new("sh");
        command.args(["-c", "(sleep 60 & echo started; wait) & wait"]);
        command.process_group(0).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("started"));
        let tree = ProcessTree::of(&child, false);
        let root = tree.root.unwrap();
        let below = descendants(root);
        assert_eq!(below.len(), 2);
        (child, tree, [vec![root], below].concat())
    }

    fn assert_marked(processes: &[Pid]) {
        for process in processes {
            let score = std::fs::read_to_string(format!("/proc/{process}/oom_score_adj")).unwrap();
            assert_eq!(score.trim(), OOM_SCORE_MAX, "{process}");
        }
    }

    #[tokio::test]
    async fn what_a_program_started_before_it_was_marked_ends_first_as_well() {
        // So many of them, from the first on, have the mark before.
        for marked in 0..=3 {
            let (_child, tree, processes) = started().await;
            for process in &processes[..marked] {
                let file = format!("/proc/{process}/oom_score_adj");
                std::fs::write(file, OOM_SCORE_MAX).unwrap();
            }
            tree.die_first();
            assert_marked(&processes);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_missed_is_marked_later() {
        let (_child, tree, processes) = started().await;
        let after = MARKED_AGAIN_AFTER.iter().sum::<Duration>() * 2;
        assert!(timeout(after, tree.keep_dying_first()).await.is_err(), "it never ends");
        assert_marked(&processes);
    }
}
