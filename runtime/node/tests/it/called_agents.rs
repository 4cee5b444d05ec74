//! Agents that are called with parameters of their own, like tools.

use std::time::Duration;

use serde_json::{Value, json};
use wire::RunStatus;

use crate::house;

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
