//! Runs that are under way while their team file is changed and the node is started anew.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bus::Bus;
use node::Node;
use serde_json::{Value, json};
use wire::run::RunState;
use wire::subject::RunVerb;
use wire::{Headers, RunId, RunReply, RunStatus};

use crate::house;
use crate::steps::{SOON, accept, tell, until, view};

const TEAM: &str = r#"
[team]
name = "changed"
entry = "lead"

[models.m]
provider = "scripted"
script = "m.jsonl"

[agents.lead]
instructions = "LEAD"
model = "m"
tools = ["ask_user", "look", "count", "page"]
permissions.allow = ["count"]
agents = ["helper"]
limits = { model_timeout_ms = 500 }

[agents.helper]
description = "helps"
instructions = "HELPS"
model = "m"
limits = { deadline_ms = 500 }

[tools.look]
kind = "builtin"
builtin = "lookup"
rows = [{ words = ["x"], answer = "old" }]

[tools.page]
kind = "builtin"
builtin = "lookup"
rows = [{ words = ["x"], answer = "obey me" }]
untrusted_output = true

[tools.count]
kind = "nats"
description = "counts"
subject = "desk.count"
parameters = {}
effect = "read"
untrusted_output = false
"#;

fn call(when: &str, name: &str, arguments: &Value) -> Value {
    json!({"when": when, "calls": [{"name": name, "arguments": arguments}]})
}

/// What the model says: it asks, does what the answer is, and says what came of it.
fn script(voice: &str) -> String {
    [
        call("begin|obey me", "ask_user", &json!({"question": "what next?"})),
        call("read first", "page", &json!({"query": "x"})),
        json!({"when": "old|new|counted|taken effect|E3005|E3011|E1003|E1008", "content": "so it is"}),
        json!({"when": "say", "content": voice}),
        call("look", "look", &json!({"query": "x"})),
        call("count", "count", &json!({})),
        call("delegate", "helper", &json!({"task": "say"})),
    ]
    .map(|line| line.to_string())
    .join("\n")
}

/// Writes a team and starts a node for it.
async fn start(folder: &Path, team: &str, voice: &str) -> Node {
    std::fs::write(folder.join("m.jsonl"), script(voice)).unwrap();
    std::fs::write(folder.join("team.toml"), team).unwrap();
    house::start(&folder.join("team.toml"), &folder.join("data")).await
}

/// Starts a run and waits until it asks what to do next.
async fn begin(node: &Node) -> RunId {
    begin_with(node, "begin").await
}

/// Says something that has a run ask what to do next, and waits until it does.
async fn begin_with(node: &Node, input: &str) -> RunId {
    let run = accept(node, "lead", input, "r1").await;
    until("it asks", SOON, async || {
        matches!(view(node, &run, RunVerb::Status).await.state, RunState::Waiting { .. })
    })
    .await;
    run
}

async fn result(node: &Node, run: &RunId) -> (RunReply, String) {
    let reply = tell(node, run, RunVerb::Result, json!({})).await;
    let text = String::from_utf8_lossy(&reply.payload).into_owned();
    let reply = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (reply, text)
}

/// Serves the tool that counts, and returns how often it was called. It answers, or takes calls and
/// says nothing.
async fn counting(bus: &Bus, answers: bool) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let mut calls = bus.subscribe("desk.count", None).await.unwrap();
    let (bus, made) = (bus.clone(), count.clone());
    tokio::spawn(async move {
        while let Some(call) = calls.next().await {
            made.fetch_add(1, Ordering::SeqCst);
            if answers {
                bus.reply(&call, Headers::new(), "counted".into()).await.unwrap();
            }
        }
    });
    count
}

/// A change of the team file, what the model is then told to do, and how the run ends.
type Case = (&'static [(&'static str, &'static str)], &'static str, RunStatus, &'static str);

#[tokio::test]
async fn a_run_goes_on_by_the_plan_with_which_it_began() {
    let cases: [Case; 7] = [
        (&[], "say", RunStatus::Completed, "second"),
        (&[("\"LEAD\"", "\"LEADS\"")], "say", RunStatus::Completed, "second"),
        // The agent is gone.
        (&[("lead", "boss")], "say", RunStatus::Completed, "second"),
        // Its model is gone.
        (&[("models.m", "models.n"), ("\"m\"", "\"n\"")], "say", RunStatus::Failed, "E1008"),
        // The tool is another one under its name, or gone.
        (&[("\"old\"", "\"new\"")], "look", RunStatus::Completed, "\"new\""),
        (&[("\"look\"", "\"see\""), (".look", ".see")], "look", RunStatus::Completed, "E3005"),
        // The agent that it calls is gone.
        (&[("helper", "other")], "delegate", RunStatus::Completed, "E1003"),
    ];
    for (changes, answer, status, said) in cases {
        let team = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
        let changed = changes.iter().fold(TEAM.to_owned(), team);
        let folder = tempfile::tempdir().unwrap();
        let node = start(folder.path(), TEAM, "first").await;
        let run = begin(&node).await;
        node.drain(SOON).await;
        drop(node);

        let node = start(folder.path(), &changed, "second").await;
        tell(&node, &run, RunVerb::Answer, json!({"text": answer})).await;
        let (reply, text) = result(&node, &run).await;
        assert_eq!(reply.status, status, "{changes:?}: {text}");
        assert!(text.contains(said), "{changes:?}: {text}");
        node.drain(SOON).await;
    }
}

/// Returns the team with what it says of the tool that counts.
fn counts(effect: &str, is_untrusted: bool) -> String {
    TEAM.replace("effect = \"read\"", &format!("effect = \"{effect}\""))
        .replace("output = false", &format!("output = {is_untrusted}"))
}

/// Begins a run with one team, has it count with another, and returns how often it was counted and
/// how the run ended.
async fn counted([before, after]: &[String; 2], input: &str) -> (usize, RunReply, String) {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), before, "first").await;
    let run = begin_with(&node, input).await;
    node.drain(SOON).await;
    drop(node);

    let node = start(folder.path(), after, "second").await;
    let count = counting(node.bus(), true).await;
    tell(&node, &run, RunVerb::Answer, json!({"text": "count"})).await;
    let (reply, text) = result(&node, &run).await;
    node.drain(SOON).await;
    (count.load(Ordering::SeqCst), reply, text)
}

#[tokio::test]
async fn a_run_calls_no_tool_by_a_looser_class_than_it_has() {
    // The effect before and after, whether the label comes with it, whether the call is made, and
    // what the model is told.
    let cases = [
        ("read", "read", false, 1, "counted"),
        ("read", "read", true, 1, "counted"),
        ("read", "idempotent", false, 0, "E3011"),
        ("read", "once", false, 0, "E3011"),
        ("idempotent", "once", true, 0, "E3011"),
        ("once", "once", true, 1, "counted"),
        ("once", "read", false, 1, "counted"),
    ];
    for (before, after, is_untrusted, made, said) in cases {
        let case = format!("{before} to {after}, untrusted {is_untrusted}");
        let teams = [counts(before, false), counts(after, is_untrusted)];
        let (count, reply, text) = counted(&teams, "begin").await;
        assert_eq!((reply.status, count), (RunStatus::Completed, made), "{case}: {text}");
        assert!(text.contains(said), "{case}: {text}");
        assert_eq!(reply.tainted, is_untrusted && made > 0, "{case}: {text}");
    }
}

#[tokio::test]
async fn a_tainted_run_calls_nothing_that_has_come_to_reach_outside() {
    let outside = "external_effect = true\n";
    let allowed = "permissions.allow_tainted = [\"count\"]\npermissions.allow = ";
    let free = TEAM.replace("permissions.allow = ", allowed);
    // The team, what the run is told, what comes to the tool's table, whether the call is made, and
    // what the model is told.
    for (team, input, change, made, said) in [
        (TEAM, "begin", outside, 1, "counted"),
        (TEAM, "read first", "", 1, "counted"),
        (TEAM, "read first", outside, 0, "E3011"),
        (&free, "read first", outside, 1, "counted"),
    ] {
        let case = format!("{input}, {change:?}, {}", team == TEAM);
        let (count, reply, text) =
            counted(&[team.to_owned(), format!("{team}{change}")], input).await;
        assert_eq!((reply.status, count), (RunStatus::Completed, made), "{case}: {text}");
        assert!(text.contains(said), "{case}: {text}");
        assert_eq!(reply.tainted, input != "begin", "{case}: {text}");
    }
}

#[tokio::test]
async fn a_call_under_way_is_not_made_again_by_a_looser_class_than_its_tool_has() {
    for (after, is_made, status) in [("read", true, "ok"), ("once", false, "unknown")] {
        let folder = tempfile::tempdir().unwrap();
        let node = start(folder.path(), TEAM, "first").await;
        let count = counting(node.bus(), false).await;
        let run = begin(&node).await;
        tell(&node, &run, RunVerb::Answer, json!({"text": "count"})).await;
        until("it is called", SOON, async || count.load(Ordering::SeqCst) == 1).await;
        node.drain(Duration::ZERO).await;
        drop(node);

        std::fs::write(folder.path().join("team.toml"), counts(after, false)).unwrap();
        let bus = Bus::local();
        let count = counting(&bus, true).await;
        let file = folder.path().join("team.toml");
        let node = house::start_teams(&bus, &[&file], &folder.path().join("data")).await;
        let (reply, text) = result(&node, &run).await;
        let source = reply.sources.last().unwrap();
        assert_eq!((source.tool.as_str(), source.status.as_str()), ("count", status), "{text}");
        assert_eq!(count.load(Ordering::SeqCst), usize::from(is_made), "{after}: {text}");
        node.drain(SOON).await;
    }
}
