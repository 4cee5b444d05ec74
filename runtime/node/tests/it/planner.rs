//! An agent that plans: its planner, its actor model and a tool's own model each get their own
//! requests and nothing else.

use std::path::Path;
use std::time::Duration;

use bus::Subscription;
use node::Node;
use serde_json::{Value, json};
use wire::chat::Head;
use wire::{Headers, ModelRequest, ModelRole, Name, RunReply, RunRequest, RunStatus};

use crate::house;

const REQUEST: &str = "What is the age of Vittoria raised to the 0.24 power?";

const TEAM: &str = r#"
[models.large]
provider = "scripted"
script = "large.jsonl"

[models.small]
provider = "scripted"
script = "small.jsonl"

[models.math]
provider = "scripted"
script = "math.jsonl"
dialect = "schema"

[agents.lead]
instructions = "You answer questions."
planner = "large"
actor = "small"
tools = ["search", "calculate"]

[tools.search]
kind = "builtin"
builtin = "lookup"
description = "Searches."
rows = [{ words = ["vittoria"], answer = "Vittoria is 25 years old." }]

[tools.calculate]
kind = "builtin"
actor = "math"
aliases = ["calculate_number"]
"#;

/// A line of the planner's script: what it replies where the end of what it is told matches.
fn plans(when: &str, tool: &str, task: &str) -> Value {
    let plan = json!({
        "context_information_summary": "",
        "thoughts": "so",
        "task": task,
        "selected_tool": tool,
    });
    json!({"when": when, "content": plan.to_string()})
}

fn write(folder: &Path, name: &str, replies: &[Value]) {
    let lines: Vec<String> = replies.iter().map(ToString::to_string).collect();
    std::fs::write(folder.join(name), lines.join("\n")).unwrap();
}

async fn start(folder: &Path) -> Node {
    std::fs::write(folder.join("plan.toml"), TEAM).unwrap();
    let large = [
        plans("which is not offered", "calculate_number", "25 ^ 0.24"),
        plans("Result: 2\\.1652", "final_answer", "Say that it is 2.16524."),
        // The planner names a tool that is not there, and is told so.
        plans("Result: Vittoria is 25", "power", "25 ^ 0.24"),
        plans("No step has been taken yet", "search, calculate", "Find the age of Vittoria."),
    ];
    write(folder, "large.jsonl", &large);
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let search = call("search", json!({"query": "age of Vittoria"}));
    let calculate = call("calculate", json!({"expression": "25^0.24"}));
    let small = [
        json!({"when": "Write the answer", "content": "It is 2.16524."}),
        json!({"when": "can be called|makes no call", "content": "", "calls": [search]}),
        // It calls what was not selected, and is told so.
        json!({"when": "Find the age", "content": "", "calls": [calculate]}),
    ];
    write(folder, "small.jsonl", &small);
    let compute = json!({"tool": "calculate", "arguments": {"expression": "25^0.24"}});
    write(
        folder,
        "math.jsonl",
        &[json!({"when": "25 \\^ 0\\.24", "content": compute.to_string()})],
    );
    house::start(&folder.join("plan.toml"), &folder.join("data")).await
}

async fn listen(node: &Node, model: &str) -> Subscription {
    let team = node.team("plan").unwrap();
    let subject = team.subjects().model(&team.team().name, &Name::new(model).unwrap());
    node.bus().subscribe(&subject, None).await.unwrap()
}

async fn heard(requests: &mut Subscription) -> ModelRequest {
    let message = requests.next().await.unwrap();
    serde_json::from_slice(&message.payload).unwrap()
}

/// Returns the head of a request that must come with one.
fn head(request: &ModelRequest) -> &Head {
    assert_eq!(request.base, None, "another head is another conversation");
    request.head.as_deref().unwrap()
}

fn tools(request: &ModelRequest) -> Vec<&str> {
    head(request).tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn told(request: &ModelRequest) -> String {
    let texts = request.messages.iter().map(|message| message.content());
    texts.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn each_model_receives_only_its_own_requests() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path()).await;
    let mut large = listen(&node, "large").await;
    let mut small = listen(&node, "small").await;
    let mut math = listen(&node, "math").await;
    let request = RunRequest {
        input: REQUEST.to_owned(),
        session: None,
        run: None,
        timeout_ms: None,
        budget: None,
        parent: None,
    };
    let body = serde_json::to_vec(&request).unwrap();
    let answer = house::ask(&node, &house::entry(&node), Headers::new(), body.into()).await;
    let reply: RunReply = serde_json::from_slice(&answer.payload).unwrap();
    assert_eq!((reply.status, reply.output.as_str()), (RunStatus::Completed, "It is 2.16524."));
    let sources: Vec<_> =
        reply.sources.iter().map(|source| (source.tool.as_str(), source.output.as_str())).collect();
    let [("search", "Vittoria is 25 years old."), ("calculate", power)] = sources.as_slice() else {
        panic!("{sources:?}");
    };
    assert!(power.starts_with("2.16523"), "{power}");

    // The planner: a schema, no tools, and the tasks so far; with its feedback four turns.
    let first = heard(&mut large).await;
    assert!(tools(&first).is_empty());
    let schema = &head(&first).response_schema.as_ref().unwrap().schema;
    let names = json!(["search", "calculate", "respond_to_user"]);
    assert_eq!(schema["properties"]["selected_tool"]["enum"], names);
    let later = [heard(&mut large).await, heard(&mut large).await, heard(&mut large).await];
    for (request, part) in
        later.iter().zip(["Task: Find", "which is not offered", "Task: 25 ^ 0.24"])
    {
        assert_eq!(request.role, ModelRole::Thinker);
        assert!(request.base.is_some() && told(request).contains(part), "{request:?}");
    }

    // The agent's actor model: the search, twice as it first calls another tool, and the answer.
    let search = heard(&mut small).await;
    assert_eq!((tools(&search), search.role), (vec!["search"], ModelRole::Actor));
    assert!(told(&search).contains("The task is: Find the age of Vittoria.\n"));
    assert!(!told(&search).contains(REQUEST));
    let again = heard(&mut small).await;
    assert!(again.base.is_some() && told(&again).contains("the task is for search"), "{again:?}");
    let answer = heard(&mut small).await;
    assert!(tools(&answer).is_empty());
    let wanted = [REQUEST, "Task: 25 ^ 0.24\nResult: 2.16523", "The task is: Say that"];
    for part in wanted {
        assert!(told(&answer).contains(part), "{part} in {answer:?}");
    }

    // The tool's own model: one request, in its own dialect.
    let compute = heard(&mut math).await;
    assert!(tools(&compute).is_empty());
    let schema = &head(&compute).response_schema.as_ref().unwrap().schema;
    assert_eq!(schema["properties"]["tool"], json!({"const": "calculate"}));
    assert!(told(&compute).contains("Task: Find the age of Vittoria.\nResult: Vittoria is 25"));
    for (model, requests) in [("large", &mut large), ("small", &mut small), ("math", &mut math)] {
        let more = tokio::time::timeout(Duration::from_millis(50), requests.next()).await;
        assert!(more.is_err(), "{model} was asked once more: {more:?}");
    }

    let team = node.team("plan").unwrap();
    team.settle().await;
    let spans = team.store().trace(&reply.trace_id).unwrap();
    let selected: Vec<(&str, Option<&str>, Option<&str>)> = spans
        .iter()
        .filter(|span| span.name.starts_with("chat "))
        .map(|span| {
            let text = |name: &str| span.attributes.text(name);
            (span.name.as_str(), text("callboard.selected_tool"), text("callboard.dialect"))
        })
        .collect();
    for expected in [
        ("chat large", Some("search"), None),
        ("chat small", Some("search"), Some("native")),
        ("chat large", None, None),
        ("chat large", Some("calculate"), None),
        ("chat math", Some("calculate"), Some("schema")),
        ("chat small", Some("respond_to_user"), Some("native")),
    ] {
        assert!(selected.contains(&expected), "{expected:?} in {selected:?}");
    }
    node.drain(Duration::from_secs(5)).await;
}
