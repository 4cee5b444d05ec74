//! An agent whose model calls tools over HTTP, in a node as it is shipped.

use std::path::Path;
use std::time::Duration;

use bus::Bus;
use journal::Holder;
use node::{Node, NodeOptions};
use serde_json::{Value, json};
use wire::{Headers, RunReply, RunStatus, Subjects, Timestamp};

use crate::site::Trap;

/// The longest wait for an answer, on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Has an agent make calls one after the other and returns what came of each.
pub(crate) async fn run(folder: &Path, fields: &str, calls: &[(&str, Value)]) -> Vec<String> {
    let lines = calls.iter().map(|(name, arguments)| {
        json!({"calls": [{"name": name, "arguments": arguments}]}).to_string() + "\n"
    });
    let script = lines.collect::<String>() + "{\"content\": \"done\"}\n";
    let reply = answer(folder, fields, &script).await;
    assert_eq!(reply.output, "done", "{reply:?}");
    assert_eq!(reply.sources.len(), calls.len(), "{reply:?}");
    reply.sources.into_iter().map(|source| source.output).collect()
}

/// Has an agent with some fields, whose model has a script, answer something.
pub(crate) async fn answer(folder: &Path, fields: &str, script: &str) -> RunReply {
    std::fs::write(folder.join("model.jsonl"), script).unwrap();
    let team = format!(
        "[models.model]\nprovider = 'scripted'\nscript = 'model.jsonl'\n\
         [permissions]\nallow = ['*']\nallow_tainted = ['*']\n\
         [agents.caller]\ninstructions = 'Call.'\nmodel = 'model'\n{fields}\n"
    );
    let file = folder.join("crew.toml");
    std::fs::write(&file, team).unwrap();
    let team = config::load(&file).unwrap_or_else(|report| panic!("{}", report.render(false)));
    let subject = Subjects::default().agent_run(&team.name, &team.entry);
    let holder = Holder::this_process("test", Timestamp::from_micros(0));
    let subjects = Subjects::default();
    let options = NodeOptions { data: folder.join("data"), holder, subjects, reserve_bytes: 0 };
    let bus = Bus::local();
    let node = Node::start(vec![team], bus.clone(), options).await.unwrap();
    let body = json!({"input": "go"}).to_string();
    let answer = bus.request(&subject, Headers::new(), body.into(), ANSWER_MAX).await.unwrap();
    node.drain(Duration::from_secs(5)).await;
    let reply: RunReply = serde_json::from_slice(&answer.payload).unwrap();
    assert_eq!(reply.status, RunStatus::Completed, "{reply:?}");
    reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_told_that_an_address_is_forbidden() {
    let trap = Trap::start().await;
    let folder = tempfile::tempdir().unwrap();
    let fields = "tools = ['fetch']\n[tools.fetch]\nkind = 'http'\ndescription = 'Fetches.'\n\
                  url = '{url}'\nparameters = { url = 'string' }";
    let urls = [
        format!("http://127.0.0.1:{}/", trap.port),
        format!("http://localhost:{}/", trap.port),
        format!("http://[::ffff:7f00:1]:{}/", trap.port),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "file:///etc/passwd".to_owned(),
    ];
    let calls: Vec<_> = urls.iter().map(|url| ("fetch", json!({"url": url}))).collect();
    let outputs = run(folder.path(), fields, &calls).await;
    for (url, output) in urls.iter().zip(outputs) {
        assert!(output.contains("E3012"), "{url}: {output}");
    }
    assert_eq!(trap.caught(), 0);
}
