//! Runs the binary in a data directory of its own.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

pub(crate) const QUESTION: &str =
    "Who is Leonardo DiCaprio's current girlfriend and what is her age raised to the 0.24 power?";

/// Returns a path of a shipped team file.
pub(crate) fn team(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/teams").join(name)
}

/// Opens a terminal: the side of the person, and the side of a command.
pub(crate) fn terminal() -> (std::fs::File, OwnedFd) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let command = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (terminal.into(), command)
}

/// What a command wrote, and its exit code.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    /// Reads what was written to stdout as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A data directory, and the commands that use it.
pub(crate) struct Callboard {
    pub(crate) dir: tempfile::TempDir,
}

impl Callboard {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Writes a file beside the data, and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command
            .args(args)
            .env("CALLBOARD_DATA", self.dir.path().join("data"))
            .env("COLUMNS", "100")
            .env_remove("CALLBOARD_LOG")
            .env_remove("CALLBOARD_NATS")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Ended {
        self.command(args).output().unwrap().into()
    }

    /// Starts a daemon and waits until it is ready.
    pub(crate) fn serve(&self, team: &Path) -> Daemon {
        self.serve_with(team, &[])
    }

    /// Starts a daemon with some more arguments and waits until it is ready.
    pub(crate) fn serve_with(&self, team: &Path, more: &[&str]) -> Daemon {
        let team = team.to_str().unwrap();
        let args = [&["serve", team, "--listen", "127.0.0.1:0"], more].concat();
        let mut child = self.command(&args).stderr(Stdio::piped()).spawn().unwrap();
        let err = BufReader::new(child.stderr.take().unwrap());
        let mut daemon = Daemon { child, err, url: String::new(), said: String::new() };
        loop {
            let mut line = String::new();
            let read = daemon.err.read_line(&mut line).unwrap();
            assert!(read > 0, "ended before it was ready: {}", daemon.said);
            daemon.said.push_str(&line);
            if let Some(rest) = line.strip_prefix("ready: ") {
                rest.split(',').next().unwrap().clone_into(&mut daemon.url);
                return daemon;
            }
        }
    }
}

/// A running daemon.
pub(crate) struct Daemon {
    child: Child,
    err: BufReader<std::process::ChildStderr>,
    pub(crate) url: String,
    /// What it said until it was ready.
    pub(crate) said: String,
}

impl Daemon {
    /// Tells it to stop, and waits until it has.
    pub(crate) fn stop(mut self) -> Ended {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let code = self.child.wait().unwrap().code();
        let mut err = String::new();
        self.err.read_to_string(&mut err).unwrap();
        Ended { code, out: String::new(), err }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}
