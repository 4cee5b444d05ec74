//! A node with a scripted team, its doors, and a client.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, LocalLimits};
use gateway::{Gateway, Options};
use journal::Holder;
use node::{Node, NodeOptions};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use wire::{Subjects, Timestamp};

/// What a test may take before it counts as hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The largest message of the bus, in bytes.
const PAYLOAD_MAX: usize = 32 * 1024;

/// Bytes of each of two texts that together make a reply too large for the bus.
pub(crate) const LARGE: usize = 20_000;

const TEAM: &str = r#"
[team]
name = "crew"
description = "Says what its script says."
entry = "lead"

[models.main]
provider = "scripted"
script = "script.jsonl"

[agents.lead]
description = "Answers."
instructions = "You lead."
model = "main"
tools = ["ask_user", "remember", "book", "spend"]
agents = ["helper"]

[agents.lead.limits]
tokens_max = 10000000

[agents.helper]
description = "Helps."
instructions = "You help."
model = "main"

[tools.book]
kind = "builtin"
builtin = "lookup"
description = "Looks something up."
rows = [{ words = ["chapter"], answer = "PAGES" }]

[tools.spend]
kind = "model"
description = "Spends."
model = "main"
prompt = "SPEND"
effect = "once"
"#;

pub(crate) struct House {
    pub(crate) node: Arc<Node>,
    pub(crate) gateway: Gateway,
    pub(crate) client: Client,
    dir: TempDir,
}

impl House {
    pub(crate) async fn open() -> Self {
        let limits = LocalLimits { payload_bytes_max: PAYLOAD_MAX, ..LocalLimits::default() };
        Self::on(Bus::local_with(limits)).await
    }

    pub(crate) async fn on(bus: Bus) -> Self {
        Self::with(bus, 0).await
    }

    /// Opens a house on a disk that never has room.
    pub(crate) async fn without_room() -> Self {
        Self::with(Bus::local(), u64::MAX).await
    }

    async fn with(bus: Bus, reserve_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("crew.toml");
        let pages = "p".repeat(LARGE);
        std::fs::write(&file, TEAM.replace("PAGES", &pages)).unwrap();
        let script: Vec<String> = script().iter().map(Value::to_string).collect();
        std::fs::write(dir.path().join("script.jsonl"), script.join("\n")).unwrap();
        let team = config::load(&file).unwrap();
        let holder = Holder::this_process("test", Timestamp::default());
        let options = NodeOptions {
            data: dir.path().join("data"),
            holder,
            subjects: Subjects::default(),
            reserve_bytes,
        };
        let node = Node::start(vec![team], bus, options).await.unwrap();
        let node = Arc::new(node);
        let listen = Options::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        let gateway = Gateway::start(node.clone(), listen).await.unwrap();
        let client = tools::client::http_client().unwrap();
        Self { node, gateway, client, dir }
    }

    /// Gives the lead another name, so that the team has no agent of the old one.
    pub(crate) async fn rename_lead(&self, name: &str) {
        let text = TEAM
            .replace("\"lead\"", &format!("\"{name}\""))
            .replace("[agents.lead", &format!("[agents.{name}"));
        let files = |path: &Path| std::fs::read_to_string(path);
        let team = config::parse(&self.dir.path().join("crew.toml"), &text, &files).unwrap();
        self.node.team("crew").unwrap().refresh(team).await.unwrap();
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.gateway.addr()))
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        read(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        read(self.request(Method::POST, path).body(body.to_string())).await
    }

    /// Asks the lead and waits for the reply.
    pub(crate) async fn ask(&self, run: &str, input: &str) -> Value {
        let path = "/v1/teams/crew/agents/lead/runs";
        let (status, reply) = self.post(path, &json!({"input": input, "run": run})).await;
        assert_eq!(status, 200, "{reply}");
        reply
    }

    /// Asks the lead and does not wait.
    pub(crate) async fn submit(&self, run: &str, input: &str) {
        let path = "/v1/teams/crew/agents/lead/runs?wait=false";
        let (status, reply) = self.post(path, &json!({"input": input, "run": run})).await;
        assert_eq!(status, 202, "{reply}");
    }

    /// Waits for the end of a run.
    pub(crate) async fn result(&self, run: &str) -> (StatusCode, Value) {
        self.get(&format!("/v1/teams/crew/runs/{run}/result?timeout_ms=20000")).await
    }

    /// Waits until the events of a run bring one of a kind.
    pub(crate) async fn wait_for(&self, run: &str, kind: &str) {
        let path = format!("/v1/teams/crew/runs/{run}/events");
        let mut events = crate::events::Events::open(self.request(Method::GET, &path)).await;
        while let Some(event) = events.next().await {
            if event.kind == kind {
                return;
            }
        }
        panic!("{run} ended without {kind}");
    }
}

pub(crate) async fn read(request: RequestBuilder) -> (StatusCode, Value) {
    let response = tokio::time::timeout(PATIENCE, request.send()).await.unwrap().unwrap();
    let status = response.status();
    let body = response.bytes().await.unwrap();
    let text = String::from_utf8_lossy(&body).into_owned();
    (status, serde_json::from_slice(&body).unwrap_or(Value::String(text)))
}

/// What the models say. Patterns see the last two messages of a conversation.
fn script() -> Vec<Value> {
    let call = |tool: &str, arguments: Value| json!([{"name": tool, "arguments": arguments}]);
    vec![
        json!({"when": "^\\s*blue$", "content": "you said blue"}),
        json!({"when": "^\\s*hi there$", "content": "the helper said hi"}),
        json!({"when": "ppppp", "content": "q".repeat(LARGE)}),
        json!({"when": "remembered", "content": "noted"}),
        json!({"when": "say much", "content": "m".repeat(PAYLOAD_MAX - 200)}),
        json!({"when": "please break", "fault": {"status": 400, "message": "no such model"}}),
        json!({"when": "take your time", "content": "late", "delay_ms": 20_000}),
        json!({"when": "ask me", "calls": call("ask_user", json!({"question": "which colour?"}))}),
        json!({"when": "delegate", "calls": call("helper", json!({"task": "hello from above"}))}),
        json!({"when": "note this", "calls": call("remember", json!({"text": "tea is green"}))}),
        json!({"when": "read all", "calls": call("book", json!({"query": "chapter"}))}),
        json!({"when": "^SPEND", "content": "spent"}),
        json!({"when": "spent|E3008", "content": "so be it"}),
        json!({"when": "spend it", "calls": call("spend", json!({}))}),
        json!({"when": "hello", "content": "hi there"}),
    ]
}
