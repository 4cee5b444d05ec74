//! Runs a program and everything that it starts, and leaves none of it behind.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::output::{ERROR_BYTES_MAX, text};
use crate::tool::HopLog;

/// How long a program that was asked to end has to put things in order before it is killed.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// How long the kernel is given to end what was killed, and to hand over what is left in pipes.
const KILL_GRACE: Duration = Duration::from_millis(200);

/// How long a call that is to stop needs at most until all its processes are gone.
pub const STOP_GRACE: Duration = Duration::from_millis(2_500);

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// A program that is ready to be started.
pub(super) struct Job {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    /// The user and the group as whom it is started, if not as the daemon's.
    pub(super) user: Option<u32>,
    /// The folder in which it is started.
    pub(super) folder: PathBuf,
    /// The folder of this call alone, which is removed.
    pub(super) scratch: Option<TempDir>,
    pub(super) stdin: Vec<u8>,
    pub(super) bytes_max: usize,
    /// Whether it makes a sandbox, with which everything in it ends.
    pub(super) is_sandbox: bool,
}

/// How a program ended, and what it said.
#[derive(Debug)]
pub(super) struct Ended {
    /// Absent if it cannot be told.
    pub(super) status: Option<ExitStatus>,
    pub(super) stdout: Kept,
    pub(super) stderr: Tail,
    pub(super) was_stopped: bool,
}

/// The beginning of an output.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    bytes_max: usize,
    /// There was more.
    pub(super) cut: bool,
}

/// The end of an output.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    cut: bool,
}

trait Sink {
    fn take(&mut self, chunk: &[u8]);
}

impl Sink for Kept {
    fn take(&mut self, chunk: &[u8]) {
        let room = self.bytes_max.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(chunk.get(..room).unwrap_or(chunk));
        self.cut |= chunk.len() > room;
    }
}

impl Sink for Tail {
    fn take(&mut self, chunk: &[u8]) {
        let start = chunk.len().saturating_sub(ERROR_BYTES_MAX);
        self.bytes.extend(chunk.get(start..).unwrap_or(chunk));
        let surplus = self.bytes.len().saturating_sub(ERROR_BYTES_MAX);
        self.cut |= start > 0 || surplus > 0;
        self.bytes.drain(..surplus);
    }
}

impl Tail {
    /// Returns a mark for what is missing, and the text.
    pub(super) fn text(&self) -> (&'static str, String) {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        // The cut may have gone through a character, whose rest is no text.
        let rest = bytes.iter().position(|byte| byte & 0xC0 != 0x80).filter(|_| self.cut);
        let bytes = bytes.get(rest.unwrap_or(0)..).unwrap_or_default();
        (if self.cut { ".. " } else { "" }, text(bytes, false))
    }
}

/// Runs a program to its end, or until it is to stop. Afterwards none of its processes is left, and
/// its folder is gone.
pub(super) async fn run(job: Job, stop: CancellationToken, hop: HopLog) -> io::Result<Ended> {
    let Job { program, arguments, env, user, folder, scratch, stdin, bytes_max, is_sandbox } = job;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(env).current_dir(folder).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    if let Some(user) = user {
        command.gid(user).uid(user);
    }
    let mut child = command.spawn()?;
    hop.note(|report| report.process = child.id());
    let mut tree = Tree { root: child.id().and_then(pid), is_sandbox };
    let mut stdout = Kept { bytes: Vec::new(), bytes_max, cut: false };
    let mut stderr = Tail::default();
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (status, was_stopped) = {
        let pump = async {
            let (input, output, errors) = pipes;
            tokio::join!(feed(input, stdin), drain(output, &mut stdout), drain(errors, &mut stderr))
        };
        let mut pump = std::pin::pin!(pump);
        let end = async {
            let by_itself = tokio::select! {
                status = child.wait() => Some(status),
                () = stop.cancelled() => None,
            };
            let ended = match by_itself {
                Some(status) => (status.ok(), false),
                None => (tree.end(&mut child).await, true),
            };
            tree.kill();
            ended
        };
        let mut end = std::pin::pin!(end);
        let mut is_pumped = false;
        let ended = loop {
            tokio::select! {
                ended = &mut end => break ended,
                _ = &mut pump, if !is_pumped => is_pumped = true,
            }
        };
        // A process that left its group without a sandbox may hold the pipes for ever.
        if !is_pumped && timeout(KILL_GRACE, pump).await.is_err() {
            tracing::debug!("a process outlived its call and holds its output");
        }
        ended
    };
    drop(tree);
    if let Some(scratch) = scratch {
        remove(scratch).await;
    }
    Ok(Ended { status, stdout, stderr, was_stopped })
}

async fn remove(scratch: TempDir) {
    let removed = tokio::task::spawn_blocking(move || scratch.close()).await;
    if let Ok(Err(error)) = removed {
        tracing::warn!(%error, "the folder of a call cannot be removed");
    }
}

async fn feed(input: Option<ChildStdin>, bytes: Vec<u8>) {
    let Some(mut input) = input else { return };
    // A program that does not read its input is free to.
    if let Err(error) = input.write_all(&bytes).await {
        tracing::debug!(%error, "a program left input unread");
    }
}

async fn drain(from: Option<impl AsyncRead + Unpin>, to: &mut impl Sink) {
    let Some(mut from) = from else { return };
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(read) => to.take(chunk.get(..read).unwrap_or_default()),
        }
    }
}

/// A process and its descendants, which end with this.
struct Tree {
    root: Option<Pid>,
    is_sandbox: bool,
}

impl Tree {
    /// Asks all processes to end, and kills those that are left after a while.
    async fn end(&mut self, child: &mut Child) -> Option<ExitStatus> {
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
    fn kill(&mut self) {
        if let Some(root) = self.root.take() {
            send(kill_process_group(root, Signal::KILL));
        }
    }
}

impl Drop for Tree {
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
