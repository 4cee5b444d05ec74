//! Runs a program and everything that it starts, and leaves none of it behind.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::output::{ERROR_BYTES_MAX, text};
use crate::tool::HopLog;
use crate::tree::{KILL_GRACE, ProcessTree};

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
    let mut tree = ProcessTree::of(&child, is_sandbox);
    tree.die_first();
    hop.note(|report| report.process = child.id());
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
                never = tree.keep_dying_first() => match never {},
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
