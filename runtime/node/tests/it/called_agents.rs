//! Agents that are called with parameters of their own, like tools.

use std::time::Duration;

use node::Node;
use serde_json::{Value, json};
use wire::run::RunState;
use wire::subject::{CallVerb, RunVerb};
use wire::{CallKey, Headers, Name, RunReply, RunStatus, header};

use crate::house;
use crate::steps::{SOON, accept, tell, until, view};

const JOKE: &str = "Why did the scarecrow win an award? Because he was outstanding in his field!";
const TRANSLATED: &str = "为什么稻草人获奖了?因为他在自己的领域里出类拔萃!";

const TEAM: &str = r#"
[team]
entry = "assistant"

[models.large]
provider = "scripted"
script = "large.jsonl"

[models.small]
provider = "scripted"
script = "small.jsonl"

[agents.assistant]
instructions = "You do what the user asks."
model = "large"
agents = ["random_joke", "translate"]

[agents.random_joke]
description = "Tells a random joke."
instructions = "You tell jokes."
model = "small"
parameters = { type = "object", properties = {} }
task = "Tell one random joke."

[agents.translate]
description = "Translates a text into Simplified Chinese."
instructions = "You translate."
model = "small"
task = "Translate into Simplified Chinese: {string}"

[agents.translate.parameters]
type = "object"
required = ["string"]
properties.string = { title = "String", type = "string" }
"#;

#[tokio::test]
async fn a_called_agent_gets_the_text_that_its_task_makes_of_the_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let large = [
        json!({"content": "", "calls": [{"name": "random_joke", "arguments": {}}]}),
        json!({"content": "", "calls": [{"name": "translate", "arguments": {"text": JOKE}}]}),
        json!({"content": "", "calls": [{"name": "translate", "arguments": {"string": JOKE}}]}),
        json!({"content": TRANSLATED}),
    ];
    let small = [
        json!({"when": "^You tell jokes\\.\n\nTell one random joke\\.$", "content": JOKE}),
        json!({"when": "^You translate\\.\n\nTranslate into Simplified Chinese: Why did .*field!$",
            "content": TRANSLATED}),
    ];
    let scripts: [(&str, &[Value]); 2] = [("large.jsonl", &large), ("small.jsonl", &small)];
    let node = house::start_with(folder.path(), TEAM, &scripts).await;
    let reply = house::say(&node, "Tell me a joke in Chinese.", None).await;
    assert_eq!((reply.status, reply.output.as_str()), (RunStatus::Completed, TRANSLATED));
    let sources = reply.sources.iter().map(|source| {
        (
            source.tool.as_str(),
            Value::clone(&source.arguments),
            source.status.as_str(),
            &*source.output,
        )
    });
    assert_eq!(
        sources.collect::<Vec<_>>(),
        [
            ("random_joke", json!({}), "ok", JOKE),
            ("translate", json!({"string": JOKE}), "ok", TRANSLATED),
        ]
    );
    let team = node.team("team").unwrap();
    team.settle().await;
    let spans = team.store().trace(&reply.trace_id).unwrap();
    for agent in ["random_joke", "translate"] {
        let find = |name: String| spans.iter().find(|span| span.name == name).unwrap();
        let call = find(format!("execute_tool {agent}")).context;
        assert_eq!(find(format!("invoke_agent {agent}")).parent, Some(call), "{agent}");
    }
    node.drain(Duration::from_secs(5)).await;
}

const CAREFUL: &str = r#"
[team]
entry = "boss"

[models.m]
provider = "scripted"
script = "m.jsonl"

[agents.boss]
instructions = "BOSS"
model = "m"
agents = ["writer"]
permissions.ask = ["writer"]

[agents.writer]
description = "Writes."
instructions = "WRITER"
model = "m"
"#;

/// Returns the call of the writer for which a run waits for leave.
async fn waits_for_leave(node: &Node) -> CallKey {
    let run = accept(node, "boss", "go", "r1").await;
    let mut found = None;
    until("it waits", SOON, async || {
        if let RunState::Waiting { call, .. } = view(node, &run, RunVerb::Status).await.state {
            found = Some(call);
        }
        found.is_some()
    })
    .await;
    found.unwrap()
}

#[tokio::test]
async fn nobody_begins_the_run_of_a_call_before_it_is_made() {
    let below = json!({"session": "r1", "run": "r1", "depth": 1});
    // What a client sends while the call waits for leave, what it is told, how the call ends once it
    // has leave, and with what.
    let cases = [
        (json!({"input": "write", "run": "", "parent": below}), "E1001", "ok", "written"),
        // It is the client's own run, by which the call does not end.
        (json!({"input": "write", "run": ""}), "none", "refused", "E1005"),
        (json!({"input": "obey me", "run": "mine"}), "none", "refused", "E1005"),
    ];
    for (mut body, told, status, output) in cases {
        let folder = tempfile::tempdir().unwrap();
        let script = [
            json!({"when": "\n\ngo$", "content": "",
                "calls": [{"name": "writer", "arguments": {"task": "write"}}]}),
            json!({"when": "WRITER", "content": "written"}),
            json!({"when": "", "content": "so it is"}),
        ];
        let node = house::start_with(folder.path(), CAREFUL, &[("m.jsonl", &script)]).await;
        let call = waits_for_leave(&node).await;
        let team = node.team("team").unwrap();
        let (subjects, name) = (team.subjects(), &team.team().name);
        body["session"] = json!(call);
        if body["run"] == "" {
            body["run"] = json!(call);
        }
        let writer = subjects.agent_run(name, &Name::new("writer").unwrap());
        let sent = body.to_string();
        let answer = house::ask(&node, &writer, Headers::new(), sent.into()).await;
        let code = answer.headers.get(header::SERVICE_ERROR_CODE);
        assert_eq!(code.as_deref().unwrap_or("none"), told, "{body}: {:?}", answer.payload);

        let approve = subjects.call(name, &call, CallVerb::Approve);
        house::ask(&node, &approve, Headers::new(), "{}".into()).await;
        let run = "r1".parse().unwrap();
        let answer = tell(&node, &run, RunVerb::Result, json!({})).await;
        let reply: RunReply = serde_json::from_slice(&answer.payload).unwrap();
        assert_eq!(reply.output.as_str(), "so it is", "{body}: {reply:?}");
        let [source] = reply.sources.as_slice() else { panic!("{reply:?}") };
        assert_eq!(source.status, status, "{body}: {reply:?}");
        assert!(source.output.contains(output), "{body}: {reply:?}");
        node.drain(SOON).await;
    }
}
