//! The processes that the measured ones need, and how a process of our own is asked for figures.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tests::install::install;

use crate::profile;

/// Times that a file is looked for, 10 ms apart.
const LOOKS: u32 = 1000;

/// A child that ends with its owner.
pub(crate) struct Owned(pub(crate) Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // It may be perf, which completes a recording, and ends what it records, only if it is
        // asked to end.
        let ask = || Command::new("kill").arg(self.0.id().to_string()).status();
        if !profile::is_recording() || !ask().is_ok_and(|asked| asked.success()) {
            drop(self.0.kill());
        }
        drop(self.0.wait());
    }
}

/// Starts this program in one of its roles, whose figures come on its standard output.
pub(crate) fn role<'a>(name: &str, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.arg(name).args(args).stdin(Stdio::null()).stderr(Stdio::inherit());
    command
}

/// Waits for the figures of a role.
pub(crate) fn figures(mut command: Command) -> Value {
    let output = command.output().expect("the process starts");
    assert!(output.status.success(), "{:?} failed", command.get_args());
    serde_json::from_slice(&output.stdout).expect("figures as JSON")
}

/// The model server.
pub(crate) struct Stub {
    pub(crate) url: String,
    _child: Owned,
    _home: tempfile::TempDir,
}

impl Stub {
    pub(crate) fn start() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let port_file = home.path().join("port");
        let path = port_file.to_str().expect("a path in UTF-8");
        let child = role("stub", [path]).spawn().expect("the stub starts");
        let child = Owned(child);
        let url = format!("http://{}", wait_for(&port_file));
        Self { url, _child: child, _home: home }
    }

    /// Takes the gaps that were seen since the last time, in microseconds.
    pub(crate) fn gaps(&self) -> Vec<f64> {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let text = runtime.block_on(async {
            reqwest::get(format!("{}/gaps", self.url)).await.expect("answer").text().await
        });
        serde_json::from_str(&text.expect("text")).expect("a list")
    }
}

/// A NATS server, with the settings that it comes with.
pub(crate) struct Nats {
    pub(crate) url: String,
    child: Owned,
    _home: tempfile::TempDir,
}

impl Nats {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let lines = runtime.block_on(install("nats-server.sh"));
        let home = tempfile::tempdir().expect("a temporary folder");
        let child = Command::new(lines.last().expect("a path"))
            .args(["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir"])
            .arg(home.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nats-server starts");
        let child = Owned(child);
        let ports = home.path().join(format!("nats-server_{}.ports", child.0.id()));
        let told: Value = serde_json::from_str(&wait_for(&ports)).expect("ports as JSON");
        let url = told["nats"][0].as_str().expect("an address").to_owned();
        Self { url, child, _home: home }
    }

    /// Has a role count the CPU time of this server as its own.
    pub(crate) fn counted_by(&self, command: &mut Command) {
        command.env("BENCH_NATS_PID", self.child.0.id().to_string());
    }
}

/// Waits until a file has content, and returns it.
fn wait_for(path: &Path) -> String {
    for _ in 0..LOOKS {
        if let Ok(text) = std::fs::read_to_string(path)
            && !text.is_empty()
        {
            return text;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} was not written", path.display());
}
