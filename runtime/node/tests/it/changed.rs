//! Runs that are under way while their team file is changed and the node is started anew.

use serde_json::{Value, json};
use wire::run::RunState;
use wire::subject::RunVerb;
use wire::{RunReply, RunStatus};

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
tools = ["ask_user", "look"]
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
"#;

fn call(when: &str, name: &str, arguments: &Value) -> Value {
    json!({"when": when, "calls": [{"name": name, "arguments": arguments}]})
}

/// What the model says: it asks, does what the answer is, and says what came of it.
fn script(voice: &str) -> String {
    [
        call("begin", "ask_user", &json!({"question": "what next?"})),
        json!({"when": "old|new|E3005|E1003|E1008", "content": "so it is"}),
        json!({"when": "say", "content": voice}),
        call("look", "look", &json!({"query": "x"})),
        call("delegate", "helper", &json!({"task": "say"})),
    ]
    .map(|line| line.to_string())
    .join("\n")
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
        let start = async |team: &str, voice: &str| {
            std::fs::write(folder.path().join("m.jsonl"), script(voice)).unwrap();
            std::fs::write(folder.path().join("team.toml"), team).unwrap();
            house::start(&folder.path().join("team.toml"), &folder.path().join("data")).await
        };
        let node = start(TEAM, "first").await;
        let run = accept(&node, "lead", "begin", "r1").await;
        until("it asks", SOON, async || {
            matches!(view(&node, &run, RunVerb::Status).await.state, RunState::Waiting { .. })
        })
        .await;
        node.drain(SOON).await;
        drop(node);

        let node = start(&changed, "second").await;
        tell(&node, &run, RunVerb::Answer, json!({"text": answer})).await;
        let reply = tell(&node, &run, RunVerb::Result, json!({})).await;
        let text = String::from_utf8_lossy(&reply.payload);
        let reply: RunReply = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{changes:?}: {error}: {text}"));
        assert_eq!(reply.status, status, "{changes:?}: {text}");
        assert!(text.contains(said), "{changes:?}: {text}");
        node.drain(SOON).await;
    }
}
