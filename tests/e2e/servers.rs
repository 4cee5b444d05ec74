//! The main job against a model server that is not ours, streaming and not.

use std::path::Path;

use bus::testing::NatsServer;
use serde_json::{Value, json};
use tests::aimock::Aimock;
use tests::daemon::Daemon;

use crate::setup::{QUESTION, ask_until_answered, connect, on_nats};

/// What the server answers: the turns of each agent, told apart by its instructions.
fn fixtures() -> Value {
    let turn = |agent: &str, number: u32, response: Value| {
        let matched = json!({"model": "actor", "systemMessage": agent, "turnIndex": number});
        json!({"match": matched, "response": response})
    };
    let call = |name: &str, arguments: Value| json!({"toolCalls": [{"name": name, "arguments": arguments.to_string()}]});
    let search = json!({"query": "Leonardo DiCaprio's current girlfriend"});
    let power = json!({"expression": "25^0.24"});
    json!([
        {"match": {"model": "thinker"}, "response": {"content": "Let me take the next step."}},
        turn("You lead", 0, call("researcher", json!({"task": "who is she and how old"}))),
        turn("You lead", 1, call("mathematician", json!({"task": "25 to the power of 0.24"}))),
        turn("You lead", 2, json!({"content": "Vittoria Ceretti, 2.16524"})),
        turn("You research", 0, call("search_internet", search)),
        turn("You research", 1, json!({"content": "Vittoria Ceretti, 25 years old"})),
        turn("You compute", 0, call("calculate", power)),
        turn("You compute", 1, json!({"content": "2.16524"})),
    ])
}

fn team(dir: &Path, base_url: &str, stream: bool) -> std::path::PathBuf {
    let model = |name: &str| {
        format!(
            "[models.{name}]\nprovider = \"openai\"\nbase_url = \"{base_url}/v1\"\n\
             model = \"{name}\"\nstream = {stream}\n"
        )
    };
    let text = format!(
        r#"
[team]
name = "served"
entry = "lead"
{}{}
[agents.lead]
instructions = "You lead."
thinker = "thinker"
actor = "actor"
agents = ["researcher", "mathematician"]

[agents.researcher]
description = "looks facts up"
instructions = "You research."
thinker = "thinker"
actor = "actor"
tools = ["search_internet"]

[agents.mathematician]
description = "computes"
instructions = "You compute."
thinker = "thinker"
actor = "actor"
tools = ["calculate"]

[tools.search_internet]
kind = "builtin"
builtin = "lookup"
description = "searches the internet"
rows = [{{ words = ["dicaprio"], answer = "He is with Vittoria Ceretti. She is 25 years old." }}]
"#,
        model("thinker"),
        model("actor"),
    );
    let file = dir.join("served.toml");
    std::fs::write(&file, text).unwrap();
    file
}

#[tokio::test]
async fn a_foreign_model_server_is_asked_streaming_and_not() {
    let nats = NatsServer::start("").await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let server = Aimock::start(fixtures()).await;
    let bus = connect(&nats).await;
    for stream in [true, false] {
        let team = team(dir.path(), &server.url, stream);
        let data = dir.path().join(format!("data-{stream}"));
        let mut daemon = Daemon::start(&on_nats(&team, &data, &nats)).await;
        let run = wire::RunId::fresh();
        let subject = "callboard.v1.served.agent.lead.run";
        let reply = ask_until_answered(&bus, subject, QUESTION, &run).await;
        let reply: Value = serde_json::from_slice(&reply).unwrap();
        assert_eq!(reply["output"], "Vittoria Ceretti, 2.16524", "stream {stream}: {reply}");
        let sources = reply["sources"].as_array().unwrap();
        let outputs: Vec<&str> = sources.iter().map(|s| s["output"].as_str().unwrap()).collect();
        assert_eq!(outputs, ["Vittoria Ceretti, 25 years old", "2.16524"], "{reply}");
        assert_eq!(daemon.terminate().await, Some(0));
    }
}
