//! A team with an agent for each step at which a run can be, behind which stands a server that
//! takes every request and answers none.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bus::Subscription;
use node::Node;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::timeout;
use wire::run::RunView;
use wire::subject::RunVerb;
use wire::{Headers, Name, Route, RunId, header};

use crate::house;

/// The longest that the whole tree may take to come to rest.
const REST_MAX: Duration = Duration::from_secs(3);

/// The longest wait for a run to come to the step in question, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A server that takes requests and answers none.
pub(crate) struct Silent {
    port: u16,
    open: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
}

impl Silent {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (open.clone(), asked.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (open, asked) = counts.clone();
                open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut read = [0; 4096];
                    let mut first = true;
                    while stream.read(&mut read).await.is_ok_and(|bytes| bytes > 0) {
                        asked.fetch_add(usize::from(first), Ordering::SeqCst);
                        first = false;
                    }
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, open, asked }
    }

    /// Counts the connections that are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Counts the requests that came.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// An agent for each step at which a run can be.
fn team(port: u16) -> String {
    format!(
        r#"
[team]
entry = "thinks"
runs_max = 3

[models.silent]
provider = "openai"
base_url = "http://127.0.0.1:{port}/v1"
model = "m"

[models.calls]
provider = "scripted"
script = "calls.jsonl"

[models.slow]
provider = "scripted"
script = "slow.jsonl"

[agents.thinks]
instructions = "THINKS"
thinker = "silent"
actor = "calls"

[agents.acts]
description = "acts"
instructions = "ACTS"
model = "silent"

[agents.slow]
instructions = "SLOW"
model = "slow"

[agents.fetches]
instructions = "FETCHES"
model = "calls"
tools = ["fetch"]
permissions.allow = ["fetch"]

[agents.asks]
instructions = "ASKS"
model = "calls"
tools = ["ask_user"]

[agents.top]
instructions = "TOP"
model = "calls"
agents = ["middle"]

[agents.middle]
description = "stands between"
instructions = "MIDDLE"
model = "calls"
agents = ["acts"]

[tools.fetch]
kind = "http"
method = "POST"
description = "fetches"
url = "http://127.0.0.1:{port}/fetch"
parameters = {{}}
"#
    )
}

fn script() -> String {
    let call = |when: &str, name: &str, arguments: Value| {
        json!({"when": when, "calls": [{"name": name, "arguments": arguments}]}).to_string()
    };
    let question = json!({"question": "which?"});
    let two = json!({"when": "twice", "calls": [
        {"name": "ask_user", "arguments": {"question": "which colour?"}},
        {"name": "ask_user", "arguments": {"question": "which size?"}},
    ]});
    [
        json!({"when": "blue", "content": "done"}).to_string(),
        two.to_string(),
        call("fetch it", "fetch", json!({})),
        call("ask me", "ask_user", question),
        call("below", "acts", json!({"task": "deep"})),
        call("go down", "middle", json!({"task": "below"})),
    ]
    .join("\n")
}

pub(crate) async fn start(folder: &Path, silent: &Silent) -> Node {
    std::fs::write(folder.join("steps.toml"), team(silent.port)).unwrap();
    std::fs::write(folder.join("calls.jsonl"), script()).unwrap();
    let slow = json!({"content": "at last", "delay_ms": 700}).to_string();
    std::fs::write(folder.join("slow.jsonl"), slow).unwrap();
    house::start(&folder.join("steps.toml"), &folder.join("data")).await
}

/// Asks an agent and returns when the run is durable.
pub(crate) async fn accept(node: &Node, agent: &str, input: &str, run: &str) -> RunId {
    let team = node.teams().next().unwrap();
    let subject = team.subjects().agent_run(&team.team().name, &Name::new(agent).unwrap());
    let headers = Headers::new().with(header::REPLY_MODE, header::REPLY_ACCEPTED);
    let body = json!({"input": input, "run": run}).to_string();
    let answer = house::ask(node, &subject, headers, body.into()).await;
    assert_eq!(answer.headers.get(header::SERVICE_ERROR_CODE), None, "{:?}", answer.payload);
    RunId::new(run).unwrap()
}

pub(crate) async fn tell(node: &Node, run: &RunId, verb: RunVerb, body: Value) -> bus::Message {
    let team = node.teams().next().unwrap();
    let subject = team.subjects().run(&team.team().name, run, verb);
    house::ask(node, &subject, Headers::new(), body.to_string().into()).await
}

pub(crate) async fn view(node: &Node, run: &RunId, verb: RunVerb) -> RunView {
    let answer = tell(node, run, verb, json!({})).await;
    serde_json::from_slice(&answer.payload).unwrap()
}

/// Waits for something to become true, without sleeping.
pub(crate) async fn until(what: &str, within: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    let in_time = timeout(within, wait).await.is_ok();
    assert!(in_time, "{what}: not within {within:?}");
}

/// Waits until nothing goes on, in the sessions and behind them.
pub(crate) async fn rest(node: &Node, silent: &Silent) {
    let team = node.teams().next().unwrap();
    until("the tree rests", REST_MAX, async || {
        team.sessions_busy().await == 0 && team.work_under_way() == 0 && silent.open() == 0
    })
    .await;
}

/// The steps that the node began, in order, as far as they were seen.
pub(crate) async fn begun(node: &Node, everything: &mut Subscription) -> Vec<Route> {
    // Delivered in order, so what stands before the mark was sent before it.
    node.bus().publish("mark", Headers::new(), bytes::Bytes::new()).await.unwrap();
    let team = node.teams().next().unwrap();
    let mut routes = Vec::new();
    loop {
        let message = everything.next().await.unwrap();
        if message.subject == "mark" {
            return routes;
        }
        if let Some(route @ (Route::Model { .. } | Route::Tool { .. } | Route::AgentRun { .. })) =
            team.subjects().parse(&message.subject)
        {
            routes.push(route);
        }
    }
}
