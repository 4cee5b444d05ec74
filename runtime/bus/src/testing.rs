//! A real nats-server for tests: its own process, port and directory, gone when it is dropped.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::task::yield_now;
use wire::Headers;

use crate::Bus;

/// How long a server may take to listen: it needs a tenth of a second when the machine is idle.
const START_WAIT_MAX: Duration = Duration::from_secs(30);

/// The pause between two looks for the file in which the server tells its port.
const START_POLL: Duration = Duration::from_millis(5);

/// Turns of all other tasks after which nothing moves any more in a queue that is full.
const TURNS: usize = 100;

/// Runs a nats-server with JetStream on a free port of the loopback interface.
#[derive(Debug)]
pub struct NatsServer {
    binary: PathBuf,
    dir: TempDir,
    child: Option<Child>,
    port: u16,
}

/// Says why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server is not there and cannot be installed.
    #[error("install nats-server for the tests: {0}; run tests/nats-server.sh to see why")]
    Missing(String),
    /// The server does not start.
    #[error("start nats-server: {0}")]
    Start(String),
    /// A file or a process cannot be handled.
    #[error("run nats-server")]
    Io(#[from] io::Error),
}

/// What the server writes down about itself.
#[derive(Deserialize)]
struct Ports {
    nats: Vec<String>,
}

impl NatsServer {
    /// Starts a server; `config_extra` is added to its configuration file.
    ///
    /// Installs the server first where it is not there yet, which needs a package index.
    pub async fn start(config_extra: &str) -> Result<Self, Error> {
        let binary = tokio::task::spawn_blocking(binary)
            .await
            .map_err(|error| Error::Missing(error.to_string()))??;
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("server.conf"), config_extra)?;
        let mut server = Self { binary, dir, child: None, port: 0 };
        server.spawn().await?;
        Ok(server)
    }

    /// Returns the address for clients.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns the port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the id of its process, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Puts another configuration in the place of what was added, from the next start on.
    pub fn configure(&self, config_extra: &str) -> Result<(), Error> {
        Ok(std::fs::write(self.dir.path().join("server.conf"), config_extra)?)
    }

    /// Kills the server; its directory stays.
    pub fn stop(&mut self) -> Result<(), Error> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Starts the server again, on the port and the directory that it had.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        self.spawn().await
    }

    async fn spawn(&mut self) -> Result<(), Error> {
        let dir = self.dir.path();
        let log = dir.join("server.log");
        let port = if self.port == 0 { "-1".to_owned() } else { self.port.to_string() };
        let child = Command::new(&self.binary)
            .arg("--config")
            .arg(dir.join("server.conf"))
            .args(["--addr", "127.0.0.1", "--port", &port, "--jetstream", "--store_dir"])
            .arg(dir.join("jetstream"))
            .arg("--ports_file_dir")
            .arg(dir)
            .arg("--log")
            .arg(&log)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let ports = dir.join(format!("nats-server_{}.ports", child.id()));
        self.child = Some(child);
        let started = tokio::time::timeout(START_WAIT_MAX, self.wait_for(&ports)).await;
        let port = match started {
            Ok(port) => port?,
            Err(_) => None,
        };
        self.port = port.ok_or_else(|| {
            Error::Start(std::fs::read_to_string(&log).unwrap_or_else(|error| error.to_string()))
        })?;
        Ok(())
    }

    /// Waits for the server to tell its port; `None` if it ends first.
    async fn wait_for(&mut self, ports: &Path) -> Result<Option<u16>, Error> {
        loop {
            // The file may be there before all of it is.
            if let Some(port) = std::fs::read(ports).ok().and_then(|text| port_in(&text)) {
                return Ok(Some(port));
            }
            let ended = match &mut self.child {
                Some(child) => child.try_wait()?.is_some(),
                None => true,
            };
            if ended {
                return Ok(None);
            }
            tokio::time::sleep(START_POLL).await;
        }
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::warn!(%error, "nats-server not stopped");
        }
    }
}

/// Fills all room on the way to a server that is away, for a test whose tasks share one thread.
pub async fn fill(bus: &Bus) {
    while is_taken(bus).await {}
}

async fn is_taken(bus: &Bus) -> bool {
    let mut publish = pin!(bus.publish("filler", Headers::new(), bytes::Bytes::new()));
    for _ in 0..TURNS {
        if (&mut publish).now_or_never().is_some() {
            return true;
        }
        yield_now().await;
    }
    false
}

fn port_in(ports: &[u8]) -> Option<u16> {
    let ports: Ports = serde_json::from_slice(ports).ok()?;
    ports.nats.first()?.rsplit(':').next()?.parse().ok()
}

/// Installs the server where it is not there yet, and returns its path.
fn binary() -> Result<PathBuf, Error> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tools = root.join(".tools");
    std::fs::create_dir_all(&tools)?;
    // Test processes run side by side; one installs and the others wait for it.
    let lock = File::create(tools.join("nats.lock"))?;
    lock.lock()?;
    let output = Command::new(root.join("tests/nats-server.sh")).output()?;
    if output.status.success() {
        Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
    } else {
        Err(Error::Missing(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}
