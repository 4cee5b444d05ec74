//! Calls that need leave, and calls of which nobody knows what came: over a restart of the node.

use std::path::Path;
use std::time::Duration;

use bus::Subscription;
use node::Node;
use serde_json::{Value, json};
use wire::open::OpenCallList;
use wire::run::{RunState, RunView};
use wire::subject::{CallVerb, RunVerb};
use wire::{CallKey, Event, EventKind, Headers, OpenKind, RunId, RunReply, RunStatus, header};

use crate::house;

/// A lead that has a cashier pay. Paying is a question to a model, so that a script says how
/// long it takes and whether anything comes of it.
const TEAM: &str = r#"
[team]
entry = "lead"

[models.main]
provider = "scripted"
script = "main.jsonl"

[models.till]
provider = "scripted"
script = "till.jsonl"

[agents.lead]
instructions = "You lead."
model = "main"
agents = ["cashier"]

[agents.cashier]
description = "Pays."
instructions = "You serve."
model = "main"
tools = ["pay", "wire", "order"]

[permissions]
allow = ["wire", "order"]

[tools.pay]
kind = "model"
description = "Pays."
model = "till"
prompt = "pay {to}"
parameters = { to = "string" }
effect = "once"

[tools.wire]
kind = "model"
description = "Wires money."
model = "till"
prompt = "wire {to}"
parameters = { to = "string" }
effect = "once"
probe = "seen"

[tools.seen]
kind = "model"
description = "Says whether money was wired."
model = "till"
prompt = "seen {key}"
parameters = { key = "string" }
output = "json"
schema = { done = "boolean", result = "string?" }

[tools.order]
kind = "model"
description = "Orders."
model = "till"
prompt = "order {to}"
parameters = { to = "string" }
effect = "once"
on_unknown = "ask"
"#;

async fn start(dir: &Path) -> Node {
    start_as(dir, TEAM).await
}

async fn start_as(dir: &Path, team: &str) -> Node {
    let call =
        |tool: &str| json!({"when": tool, "calls": [{"name": tool, "arguments": {"to": "ann"}}]});
    let main = [
        json!({"when": "E3008", "content": "it was denied"}),
        json!({"when": "PAID", "content": "it is PAID"}),
        json!({"when": "ask", "calls": [{"name": "cashier", "arguments": {"task": "pay"}}]}),
        call("pay"),
        call("wire"),
        call("order"),
    ];
    let till = [
        json!({"when": "^seen", "content": r#"{"done": true, "result": "PAID before"}"#}),
        json!({"when": "^(wire|order)", "content": "too late", "delay_ms": 600_000}),
        json!({"when": "^pay ann", "content": "PAID"}),
    ];
    let lines =
        |replies: &[Value]| replies.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    std::fs::write(dir.join("crew.toml"), team).unwrap();
    std::fs::write(dir.join("main.jsonl"), lines(&main)).unwrap();
    std::fs::write(dir.join("till.jsonl"), lines(&till)).unwrap();
    house::start(&dir.join("crew.toml"), &dir.join("data")).await
}

/// Begins a run of an agent, and returns what observers are told from then on.
async fn begin(node: &Node, agent: &str, run: &str, input: &str) -> Subscription {
    let team = node.team("crew").unwrap();
    let (subjects, name) = (team.subjects(), &team.team().name);
    let events = node.bus().subscribe(&subjects.all_session_events(name), None).await.unwrap();
    let subject = subjects.agent_run(name, &wire::Name::new(agent).unwrap());
    let headers = Headers::new().with(header::REPLY_MODE, header::REPLY_ACCEPTED);
    let body = json!({"input": input, "run": run}).to_string();
    house::ask(node, &subject, headers, body.into()).await;
    events
}

/// Waits for an event, and returns its call.
async fn wait_for(
    events: &mut Subscription,
    wanted: fn(&EventKind) -> Option<&CallKey>,
) -> CallKey {
    while let Some(message) = events.next().await {
        let event: Event = serde_json::from_slice(&message.payload).unwrap();
        if let Some(call) = wanted(&event.kind) {
            return call.clone();
        }
    }
    panic!("the events ended");
}

fn suspended(kind: &EventKind) -> Option<&CallKey> {
    match kind {
        EventKind::CallSuspended { call, .. } => Some(call),
        _ => None,
    }
}

fn tool_started(kind: &EventKind) -> Option<&CallKey> {
    match kind {
        EventKind::CallStarted { call, is_agent: false, .. } => Some(call),
        _ => None,
    }
}

async fn ask<T: serde::de::DeserializeOwned>(node: &Node, subject: &str, body: Value) -> T {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = house::ask(node, subject, Headers::new(), body.into()).await;
    serde_json::from_slice(&answer.payload)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&answer.payload)))
}

async fn open(node: &Node) -> OpenCallList {
    let team = node.team("crew").unwrap();
    ask(node, &team.subjects().calls(&team.team().name), Value::Null).await
}

async fn decide(node: &Node, call: &CallKey, verb: CallVerb, body: Value) -> Value {
    let team = node.team("crew").unwrap();
    ask(node, &team.subjects().call(&team.team().name, call, verb), body).await
}

async fn run_verb<T: serde::de::DeserializeOwned>(node: &Node, run: &str, verb: RunVerb) -> T {
    let team = node.team("crew").unwrap();
    let run = RunId::new(run).unwrap();
    ask(node, &team.subjects().run(&team.team().name, &run, verb), Value::Null).await
}

async fn stop(node: Node) {
    node.drain(Duration::ZERO).await;
}

/// Returns what a crash at this moment would leave: the files of the node, which runs on.
fn crash(dir: &Path) -> tempfile::TempDir {
    let left = tempfile::tempdir().unwrap();
    copy(dir, left.path());
    left
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (name, path) = (entry.file_name(), entry.path());
        // The store is made anew from the journal.
        if path.is_dir() && name != "store" {
            std::fs::create_dir(to.join(&name)).unwrap();
            copy(&path, &to.join(&name));
        } else if path.is_file() && name != "lock" {
            std::fs::copy(&path, to.join(&name)).unwrap();
        }
    }
}

#[tokio::test]
async fn leave_that_a_called_agent_needs_is_seen_from_the_root_and_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path()).await;
    let mut events = begin(&node, "lead", "r-1", "ask the cashier").await;
    let call = wait_for(&mut events, suspended).await;
    let before = open(&node).await;
    let [found] = before.calls.as_slice() else { panic!("{before:?}") };
    assert_eq!((&found.call, found.kind, found.attempt), (&call, OpenKind::Approval, 0));
    assert_eq!((found.tool.as_str(), found.arguments.as_ref()), ("pay", &json!({"to": "ann"})));
    assert_eq!(found.parent, Some(RunId::new("r-1").unwrap()));

    let left = crash(dir.path());
    let node = start(left.path()).await;
    assert_eq!(open(&node).await, before, "after the restart");
    let view: RunView = run_verb(&node, "r-1", RunVerb::Status).await;
    assert_eq!(view.waiting, before.calls, "{view:?}");
    let below: RunView = run_verb(&node, found.run.as_str(), RunVerb::Status).await;
    assert!(matches!(below.state, RunState::Waiting { kind: OpenKind::Approval, .. }), "{below:?}");

    let other = json!({"digest": "ab".repeat(32)});
    let refused = decide(&node, &call, CallVerb::Approve, other).await;
    assert_eq!(refused["error"]["code"], "E1010", "{refused}");
    let answered: Value = run_verb(&node, found.run.as_str(), RunVerb::Answer).await;
    assert_eq!(answered["error"]["code"], "E1001", "an answer is no leave: {answered}");
    let digest = json!({"digest": found.digest});
    let allowed = decide(&node, &call, CallVerb::Approve, digest).await;
    assert_eq!(allowed["run"], found.run.as_str(), "{allowed}");
    let reply: RunReply = run_verb(&node, "r-1", RunVerb::Result).await;
    assert_eq!((reply.status, reply.output.as_str()), (RunStatus::Completed, "it is PAID"));
    let again = decide(&node, &call, CallVerb::Deny, Value::Null).await;
    assert_eq!(again["error"]["code"], "E1012", "{again}");
    assert_eq!(open(&node).await.calls, []);
    stop(node).await;
}

#[tokio::test]
async fn what_a_person_denies_is_not_made_and_the_model_is_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path()).await;
    let mut events = begin(&node, "cashier", "r-1", "pay").await;
    let call = wait_for(&mut events, suspended).await;
    decide(&node, &call, CallVerb::Deny, json!({"reason": "not this month"})).await;
    let reply: RunReply = run_verb(&node, "r-1", RunVerb::Result).await;
    assert_eq!(reply.output, "it was denied");
    assert!(reply.sources[0].output.contains("not this month"), "{reply:?}");
    stop(node).await;
}

#[tokio::test]
async fn a_probe_finds_out_what_a_crash_took_away() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path()).await;
    let mut events = begin(&node, "cashier", "r-1", "wire").await;
    wait_for(&mut events, tool_started).await;

    let left = crash(dir.path());
    let node = start(left.path()).await;
    let reply: RunReply = run_verb(&node, "r-1", RunVerb::Result).await;
    assert_eq!(reply.output, "it is PAID", "{reply:?}");
    let [source] = reply.sources.as_slice() else { panic!("{reply:?}") };
    assert_eq!((source.status.as_str(), source.output.as_str()), ("ok", "PAID before"));
    stop(node).await;
}

#[tokio::test]
async fn what_a_probe_says_taints_a_run_if_strangers_may_have_written_it() {
    let untrusted = "untrusted_output = true\n";
    let team = |said: &str| TEAM.replace("[tools.seen]\n", &format!("[tools.seen]\n{said}"));
    // What the team said of the probe when the run began, and says when it is asked.
    for (before, after, is_tainted) in
        [("", "", false), (untrusted, untrusted, true), ("", untrusted, true)]
    {
        let dir = tempfile::tempdir().unwrap();
        let node = start_as(dir.path(), &team(before)).await;
        let mut events = begin(&node, "cashier", "r-1", "wire").await;
        wait_for(&mut events, tool_started).await;

        let left = crash(dir.path());
        let node = start_as(left.path(), &team(after)).await;
        let reply: RunReply = run_verb(&node, "r-1", RunVerb::Result).await;
        assert_eq!((reply.output.as_str(), reply.tainted), ("it is PAID", is_tainted), "{reply:?}");
        stop(node).await;
    }
}

#[tokio::test]
async fn a_person_says_what_came_of_a_call_that_a_crash_took_away() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path()).await;
    let mut events = begin(&node, "cashier", "r-1", "order").await;
    let call = wait_for(&mut events, tool_started).await;

    let mut left = crash(dir.path());
    for _ in 0..2 {
        let node = start(left.path()).await;
        let view: RunView = run_verb(&node, "r-1", RunVerb::Status).await;
        let [found] = view.waiting.as_slice() else { panic!("{view:?}") };
        assert_eq!((&found.call, found.kind, found.attempt), (&call, OpenKind::Unknown, 1));
        left = crash(left.path());
    }
    let node = start(left.path()).await;
    let wrong = decide(&node, &call, CallVerb::Resolve, json!({"done": false, "result": 1})).await;
    assert_eq!(wrong["error"]["code"], "E1001", "{wrong}");
    let stale = decide(&node, &call, CallVerb::Resolve, json!({"done": false, "attempt": 2})).await;
    assert_eq!(stale["error"]["code"], "E1010", "{stale}");
    let said = json!({"done": true, "result": "PAID by hand", "attempt": 1});
    decide(&node, &call, CallVerb::Resolve, said).await;
    let reply: RunReply = run_verb(&node, "r-1", RunVerb::Result).await;
    assert_eq!(reply.output, "it is PAID", "{reply:?}");
    assert_eq!(reply.sources[0].output, "PAID by hand");
    stop(node).await;
}
