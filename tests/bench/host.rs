//! A node with all that it does: journal, traces, limits, bus.

use std::path::Path;
use std::time::{Duration, Instant};

use bus::{Bus, NatsOptions};
use journal::Holder;
use node::{Node, NodeOptions};
use serde_json::Value;
use wire::{Headers, Subjects, Timestamp};

use crate::handmade::figures;
use crate::measure;
use crate::work::Work;

/// The longest wait for a run.
const RUN_MAX: Duration = Duration::from_secs(120);

/// Does the work and prints its figures.
pub(crate) fn work(work: &Work) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let told = runtime.block_on(async {
        drop(rustls::crypto::ring::default_provider().install_default());
        let home = tempfile::tempdir().expect("a temporary folder");
        let data = home.path().join("data");
        let node = start(work, home.path(), &data).await;
        let asked = if work.nats.is_empty() { node.bus().clone() } else { bus(work).await };
        sessions(work, &asked, "warm", 1).await;
        let (cpu, disk, began) = (cpu(), bytes(&data), Instant::now());
        sessions(work, &asked, "run", work.runs).await;
        let took = began.elapsed();
        let told = figures(
            work,
            self::cpu().saturating_sub(cpu).as_secs_f64(),
            took.as_secs_f64(),
            bytes(&data).saturating_sub(disk),
        );
        node.drain(Duration::from_secs(5)).await;
        told
    });
    println!("{told}");
}

/// Returns the CPU time of this process and of the NATS server that it uses.
fn cpu() -> Duration {
    let nats = std::env::var("BENCH_NATS_PID").ok().and_then(|pid| pid.parse().ok());
    measure::own_cpu() + nats.map(measure::cpu).unwrap_or_default()
}

async fn bus(work: &Work) -> Bus {
    if work.nats.is_empty() {
        return Bus::local();
    }
    Bus::connect(NatsOptions::new([work.nats.clone()])).await.expect("the NATS server")
}

async fn start(work: &Work, home: &Path, data: &Path) -> Node {
    let file = home.join("relay.toml");
    std::fs::write(&file, team(work)).expect("the team can be written");
    let team = config::load(&file).expect("the team is right");
    let holder = Holder {
        pid: std::process::id(),
        program: "bench".to_owned(),
        listen: None,
        nats: None,
        since: Timestamp::from_micros(0),
    };
    let options = NodeOptions {
        data: data.to_owned(),
        holder,
        subjects: Subjects::default(),
        reserve_bytes: 0,
    };
    Node::start(vec![team], bus(work).await, options).await.expect("the node starts")
}

fn team(work: &Work) -> String {
    format!(
        r#"
[team]
name = "relay"
entry = "lead"

[models.stub]
provider = "openai"
base_url = "{}/v1"
model = "stub"
stream = {}
concurrency = 512
queue_max = 1000

[agents.lead]
instructions = "You compute."
model = "stub"
tools = ["calculate"]
agents = ["specialist"]

[agents.specialist]
description = "Adds up."
instructions = "You compute."
model = "stub"
tools = ["calculate"]

[tools.calculate]
kind = "builtin"
concurrency = 512

[limits]
steps_max = 500
tokens_max = 10000000

[trace]
enabled = {}
"#,
        work.url, work.stream, work.traces
    )
}

async fn sessions(work: &Work, bus: &Bus, name: &str, runs: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for session in 0..work.sessions {
        let (work, bus, name) = (work.clone(), bus.clone(), name.to_owned());
        tasks.spawn(async move {
            let team = wire::Name::new("relay").expect("a name");
            let lead = wire::Name::new("lead").expect("a name");
            let subject = Subjects::default().agent_run(&team, &lead);
            for run in 0..runs {
                let input = work.request(&format!("{name}{session}-{run}"));
                let body = serde_json::json!({"input": input, "timeout_ms": 100_000}).to_string();
                let answer = bus.request(&subject, Headers::new(), body.into(), RUN_MAX).await;
                let answer = answer.expect("an answer");
                let told: Value = serde_json::from_slice(&answer.payload).expect("a reply");
                let status = told.get("status").and_then(Value::as_str);
                assert_eq!(status, Some("completed"), "{told}");
            }
        });
    }
    tasks.join_all().await;
}

/// Returns the bytes that a folder holds.
fn bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}
