//! What the end-to-end tests have in common.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bus::testing::NatsServer;
use bus::{Bus, NatsOptions};
use bytes::Bytes;
use serde_json::{Value, json};
use tests::daemon::root;
use wire::{Headers, RunId};

/// The published question of the quickstart team.
pub(crate) const QUESTION: &str =
    "Who is Leonardo DiCaprio's current girlfriend and what is her age raised to the 0.24 power?";

/// The file of a team that is shipped.
pub(crate) fn shipped(name: &str) -> PathBuf {
    root().join("config/teams").join(name)
}

/// The arguments of a daemon on a NATS server.
pub(crate) fn on_nats(team: &Path, data: &Path, nats: &NatsServer) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec![team.into(), "--data".into(), data.into()];
    args.extend(["--nats".into(), nats.url().into()]);
    args
}

pub(crate) async fn connect(nats: &NatsServer) -> Bus {
    Bus::connect(NatsOptions::new([nats.url()])).await.unwrap()
}

/// Makes a client of HTTP doors.
pub(crate) fn http_client() -> reqwest::Client {
    // A second installation in one process is refused, which is fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::new()
}

/// Asks for a run until there is a final reply, as a client does that must not lose it.
pub(crate) async fn ask_until_answered(
    bus: &Bus,
    subject: &str,
    input: &str,
    run: &RunId,
) -> Bytes {
    let body = Bytes::from(json!({"input": input, "run": run}).to_string());
    loop {
        let limit = Duration::from_secs(1);
        if let Ok(answer) = bus.request(subject, Headers::new(), body.clone(), limit).await {
            let reply: Value = serde_json::from_slice(&answer.payload).unwrap();
            if reply.get("status").is_some() {
                return answer.payload;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns a number that is set from outside, or what it is otherwise.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the run of a test is set from outside")]
    let value = std::env::var(name);
    value.map_or(default, |value| value.parse().unwrap())
}
