//! The parties that do the work, each in a process of its own, and what they are measured by.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tests::install::install;

use crate::measure;
use crate::work::{Shape, Work};

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    /// A loop without journal, bus, traces or limits, whose request body is added to and never
    /// written again.
    Handmade,
    /// A node on the bus inside its process.
    Embedded,
    /// The same without traces.
    Untraced,
    /// A node and its clients on a NATS server.
    Nats,
}

/// What one measurement says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// CPU time of one step, in microseconds, that of the NATS server included.
    pub(crate) cpu_us: f64,
    /// From the end of a reply to the next request of the same conversation, in microseconds.
    pub(crate) gap_p50_us: f64,
    /// The same, exceeded by one in a hundred.
    pub(crate) gap_p99_us: f64,
    /// Steps in a second.
    pub(crate) steps_per_s: f64,
    /// Resident memory at its peak, in KiB.
    pub(crate) peak_kib: f64,
    /// Bytes in the data directory for each run.
    pub(crate) disk_bytes: f64,
}

impl Party {
    pub(crate) const ALL: [Self; 4] =
        [Self::Handmade, Self::Embedded, Self::Untraced, Self::Nats];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Handmade => "loop",
            Self::Embedded => "embedded",
            Self::Untraced => "embedded, no traces",
            Self::Nats => "nats",
        }
    }

    /// Does the work once; nothing for what a party cannot do.
    pub(crate) fn measure(self, work: &Work, stub: &Stub) -> Option<Figures> {
        let traces = self != Self::Untraced;
        let mut work = Work { url: stub.url.clone(), traces, ..work.clone() };
        if self == Self::Handmade && work.shape == Shape::Delegate {
            return None;
        }
        let server = (self == Self::Nats).then(Nats::start);
        if let Some(server) = &server {
            work.nats.clone_from(&server.url);
        }
        let role = if self == Self::Handmade { "handmade" } else { "host" };
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.arg(role).args(work.to_args());
        if let Some(server) = &server {
            command.env("BENCH_NATS_PID", server.child.0.id().to_string());
        }
        let output = command.stderr(Stdio::inherit()).output().expect("the party starts");
        assert!(output.status.success(), "{role} failed: {}", work.title());
        let told: Value = serde_json::from_slice(&output.stdout).expect("figures as JSON");
        let figure = |name: &str| told.get(name).and_then(Value::as_f64).unwrap_or_default();
        let mut gaps = stub.gaps();
        Some(Figures {
            cpu_us: figure("cpu_us"),
            steps_per_s: figure("steps_per_s"),
            peak_kib: figure("peak_kib"),
            disk_bytes: figure("disk_bytes"),
            gap_p50_us: measure::quantile(&mut gaps, 0.5),
            gap_p99_us: measure::quantile(&mut gaps, 0.99),
        })
    }
}

/// A child that ends with its owner.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
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
        let child = Command::new(std::env::current_exe().expect("a path"))
            .arg("stub")
            .arg(&port_file)
            .spawn()
            .expect("the stub starts");
        let url = format!("http://{}", wait_for(&port_file));
        Self { url, _child: Owned(child), _home: home }
    }

    /// Takes the gaps that were seen since the last time, in microseconds.
    fn gaps(&self) -> Vec<f64> {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let text = runtime.block_on(async {
            reqwest::get(format!("{}/gaps", self.url)).await.expect("answer").text().await
        });
        serde_json::from_str(&text.expect("text")).expect("a list")
    }
}

struct Nats {
    url: String,
    child: Owned,
    _home: tempfile::TempDir,
}

impl Nats {
    fn start() -> Self {
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
        let ports = home.path().join(format!("nats-server_{}.ports", child.id()));
        let told: Value = serde_json::from_str(&wait_for(&ports)).expect("ports as JSON");
        let url = told["nats"][0].as_str().expect("an address").to_owned();
        Self { url, child: Owned(child), _home: home }
    }
}

/// Waits until a file has content, and returns it.
fn wait_for(path: &PathBuf) -> String {
    for _ in 0..1000 {
        if let Ok(text) = std::fs::read_to_string(path)
            && !text.is_empty()
        {
            return text;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} was not written", path.display());
}
