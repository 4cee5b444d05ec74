//! A receiver of traces that is not ours: Arize Phoenix, as a process on loopback.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tests::install::install;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::shops::client;

/// How long it may take to be ready: it makes its database first.
const READY_MAX: Duration = Duration::from_secs(240);

/// How long spans may be on their way: exporters gather them, and the receiver writes in batches.
const ARRIVAL_MAX: Duration = Duration::from_secs(60);

/// The most spans that are asked for.
const SPANS_MAX: u32 = 1000;

/// A receiver that runs; it ends when this is dropped.
pub(crate) struct Receiver {
    /// Its address, without a path.
    pub(crate) url: String,
    _process: Child,
    _folder: TempDir,
}

/// A span as the receiver keeps it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) parent: Option<String>,
    pub(crate) name: String,
    pub(crate) status: String,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Receiver {
    /// Starts it and waits until it takes spans.
    pub(crate) async fn start() -> Self {
        let lines = install("phoenix.sh").await;
        let [program] = lines.as_slice() else { panic!("{lines:?}") };
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let process = Command::new(program)
            .arg("serve")
            .env("PHOENIX_WORKING_DIR", folder.path())
            .env("PHOENIX_HOST", "127.0.0.1")
            .env("PHOENIX_PORT", port.to_string())
            .env("PHOENIX_GRPC_PORT", free_port().to_string())
            .env("PHOENIX_TELEMETRY_ENABLED", "false")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let receiver =
            Self { url: format!("http://127.0.0.1:{port}"), _process: process, _folder: folder };
        let end = Instant::now() + READY_MAX;
        let health = format!("{}/healthz", receiver.url);
        while !client().get(&health).send().await.is_ok_and(|answer| answer.status().is_success()) {
            assert!(Instant::now() < end, "the receiver is not ready");
            sleep(Duration::from_millis(200)).await;
        }
        receiver
    }

    /// Returns the spans of a trace by their ids, as soon as there are so many.
    pub(crate) async fn spans(&self, trace: &str, count: usize) -> BTreeMap<String, Seen> {
        let url = format!("{}/v1/projects/default/spans?limit={SPANS_MAX}", self.url);
        let end = Instant::now() + ARRIVAL_MAX;
        loop {
            let answer = client().get(&url).send().await.unwrap();
            let body = answer.json::<Value>().await.unwrap_or_default();
            let all = body["data"].as_array().cloned().unwrap_or_default();
            let of_trace = all.iter().filter(|span| span["context"]["trace_id"] == trace);
            let seen: BTreeMap<String, Seen> = of_trace.map(seen).collect();
            if seen.len() >= count || Instant::now() > end {
                return seen;
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}

fn seen(span: &Value) -> (String, Seen) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let seen = Seen {
        parent: text(&span["parent_id"]),
        name: text(&span["name"]).unwrap(),
        status: text(&span["status_code"]).unwrap(),
    };
    (text(&span["context"]["span_id"]).unwrap(), seen)
}
