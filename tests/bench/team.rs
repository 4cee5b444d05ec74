//! The team that all nodes of the benchmark run, and how it is asked.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bus::{Bus, LocalLimits, NatsOptions};
use bytes::Bytes;
use journal::Holder;
use node::{Node, NodeOptions, TeamHandle};
use serde::Deserialize;
use serde_json::json;
use telemetry::{LogFormat, LogOptions};
use wire::{Headers, Name, Subjects, Timestamp};

use crate::work::Work;

/// The name of the team.
const TEAM: &str = "relay";

/// The longest wait for a run.
const RUN_MAX: Duration = Duration::from_secs(120);

/// The largest message of the bus inside the process: a reply as large as one may be goes over it,
/// which the limit of an ordinary NATS server would refuse.
const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// The log as `serve` keeps it unless told otherwise, since who logs nothing also asks less of it.
const LOG: LogOptions<'_> = LogOptions { format: LogFormat::Text, filter: "info", color: false };

/// Returns the name of the team.
pub(crate) fn name() -> Name {
    Name::new(TEAM).expect("a name")
}

/// Writes the team's file into a folder.
pub(crate) fn write(work: &Work, folder: &Path) -> PathBuf {
    let file = folder.join("relay.toml");
    std::fs::write(&file, text(work)).expect("the team can be written");
    file
}

fn text(work: &Work) -> String {
    format!(
        r#"
[team]
name = "{TEAM}"
entry = "lead"

[models.stub]
provider = "openai"
base_url = "{url}/v1"
model = "stub"
stream = {stream}
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

[agents.reader]
description = "Reads a page."
instructions = "You read."
model = "stub"
tools = ["page", "read_result"]

[tools.calculate]
kind = "builtin"
concurrency = 512

[tools.page]
kind = "http"
description = "Returns a page."
url = "{url}/page/{{bytes}}"
parameters = {{ bytes = "string: its length" }}

[limits]
steps_max = 500
calls_max = 1000
tokens_max = 100000000
reply_tokens_max = 1000000

[trace]
enabled = {traces}
"#,
        url = work.url,
        stream = work.stream,
        traces = work.traces
    )
}

/// Returns a bus to the NATS server of the work, or one inside the process.
pub(crate) async fn bus(work: &Work) -> Bus {
    if work.nats.is_empty() {
        let limits = LocalLimits { payload_bytes_max: PAYLOAD_BYTES_MAX, ..LocalLimits::default() };
        return Bus::local_with(limits);
    }
    let options = NatsOptions { near: work.near, ..NatsOptions::new([work.nats.clone()]) };
    Bus::connect(options).await.expect("the NATS server")
}

/// Starts the node of the process, with its log.
pub(crate) async fn start(file: &Path, data: &Path, bus: Bus) -> Node {
    telemetry::init(LOG).expect("the log");
    let team = config::load(file).unwrap_or_else(|report| panic!("{}", report.render(false)));
    let holder = Holder::this_process("bench", Timestamp::from_micros(0));
    let options = NodeOptions {
        data: data.to_owned(),
        holder,
        subjects: Subjects::default(),
        reserve_bytes: 0,
    };
    Node::start(vec![team], bus, options).await.expect("the node starts")
}

/// Returns the team of a node.
pub(crate) fn of(node: &Node) -> &TeamHandle {
    node.team(TEAM).expect("the team runs")
}

/// What a reply holds. It is read without a copy of its text, which would count as the runtime's.
#[derive(Deserialize)]
pub(crate) struct Told<'a> {
    status: &'a str,
    #[serde(borrow)]
    pub(crate) output: Cow<'a, str>,
}

impl<'a> Told<'a> {
    pub(crate) fn of(reply: &'a [u8]) -> Self {
        serde_json::from_slice(reply).expect("a reply")
    }
}

/// Asks an agent and waits for its reply, which has to be an answer.
pub(crate) async fn ask(bus: &Bus, agent: &str, input: &str) -> Bytes {
    ask_in(None, bus, agent, input).await
}

/// Does the same in a session, or in one of its own.
pub(crate) async fn ask_in(session: Option<&str>, bus: &Bus, agent: &str, input: &str) -> Bytes {
    let agent = Name::new(agent).expect("a name");
    let subject = Subjects::default().agent_run(&name(), &agent);
    let body = json!({"input": input, "session": session, "timeout_ms": 100_000}).to_string();
    let answer = bus.request(&subject, Headers::new(), body.into(), RUN_MAX).await;
    let reply = answer.expect("an answer").payload;
    let told = Told::of(&reply);
    assert_eq!(told.status, "completed", "{}", cut(&String::from_utf8_lossy(&reply)));
    reply
}

/// Returns the beginning of a text, since a reply may have megabytes.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(1000)).unwrap_or(text)
}

/// Has as many sessions as the work says at once do some runs each, one after another.
pub(crate) async fn sessions(work: &Work, bus: &Bus, name: &str, runs: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for session in 0..work.sessions {
        let (work, bus, name) = (work.clone(), bus.clone(), name.to_owned());
        tasks.spawn(async move {
            for run in 0..runs {
                ask(&bus, "lead", &work.request(&format!("{name}{session}-{run}"))).await;
            }
        });
    }
    tasks.join_all().await;
}
