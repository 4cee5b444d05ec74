//! Tools that ask a model: a joke told and translated, a sum computed, and what goes wrong.

use std::path::Path;
use std::time::Duration;

use bus::Subscription;
use node::Node;
use serde_json::{Value, json};
use store::TraceQuery;
use wire::{ModelRequest, RunStatus, Timestamp, TraceContext, header};

use crate::house;

const REQUEST: &str = "Please create a random joke and provide the translated result in \
                       Simplified Chinese.";
const JOKE: &str = "Why did the scarecrow win an award? Because he was outstanding in his field!";
const TRANSLATED: &str = "为什么稻草人获奖了?因为他在自己的领域里出类拔萃!";

const TEAM: &str = r#"
[models.large]
provider = "scripted"
script = "large.jsonl"

[models.small]
provider = "scripted"
script = "small.jsonl"

[agents.assistant]
instructions = "You do what the user asks."
model = "large"
tools = ["random_joke", "translate", "calculate"]

[tools.random_joke]
kind = "model"
description = "Tells a random joke."
model = "small"
prompt = "Tell one random joke."

[tools.translate]
kind = "model"
description = "Translates a text into Simplified Chinese."
model = "small"
instructions = "You translate."
prompt = "Translate into Simplified Chinese: {string}"
parameters = { string = "string: the text" }

[tools.calculate]
kind = "model"
description = "Computes what is said in words."
model = "small"
prompt = "Write Python that sets result: {task}"
parameters = { task = "string" }
output = "calculate"
"#;

async fn start(folder: &Path, large: &[Value], small: &[Value]) -> Node {
    house::start_with(folder, TEAM, &[("large.jsonl", large), ("small.jsonl", small)]).await
}

/// Returns the span and the texts of the next question to the model behind the tools.
async fn heard(questions: &mut Subscription) -> (TraceContext, Vec<String>) {
    let message = questions.next().await.unwrap();
    let remaining = message.headers.read::<u64>(header::REMAINING_MS).unwrap();
    assert!(remaining > 0 && remaining < 120_000, "{remaining}");
    let span = message.headers.read(header::TRACEPARENT).unwrap();
    let request: ModelRequest = serde_json::from_slice(&message.payload).unwrap();
    assert_eq!(request.max_tokens, Some(1024));
    (span, request.messages.iter().map(|message| message.content().to_owned()).collect())
}

#[tokio::test]
async fn an_agent_has_a_joke_told_and_translated_by_another_model() {
    let folder = tempfile::tempdir().unwrap();
    let large = [
        json!({"content": "", "calls": [{"name": "random_joke", "arguments": {}}]}),
        json!({"content": "", "calls": [{"name": "translate", "arguments": {"string": JOKE}}]}),
        json!({"content": TRANSLATED}),
    ];
    let small = [
        json!({"when": "^Tell one random joke\\.$", "content": JOKE}),
        json!({"when": "^You translate\\.\n\nTranslate into Simplified Chinese: Why did the scarecrow .*field!$",
            "content": format!("{TRANSLATED}\n")}),
    ];
    let node = start(folder.path(), &large, &small).await;
    let team = node.team("team").unwrap();
    let subject = team.subjects().model(&team.team().name, &wire::Name::new("small").unwrap());
    let mut questions = node.bus().subscribe(&subject, None).await.unwrap();

    let reply = house::say(&node, REQUEST, None).await;
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

    team.settle().await;
    let spans = team.store().trace(&reply.trace_id).unwrap();
    let find = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let assistant = find("invoke_agent assistant").context;
    let translation = format!("Translate into Simplified Chinese: {JOKE}");
    for (tool, texts) in [
        ("random_joke", vec!["Tell one random joke."]),
        ("translate", vec!["You translate.", &translation]),
    ] {
        let call = find(&format!("execute_tool {tool}"));
        assert_eq!(call.parent, Some(assistant), "{tool}");
        let (span, asked) = heard(&mut questions).await;
        assert_eq!((span, span.trace_id()), (call.context, reply.trace_id.clone()), "{tool}");
        assert_eq!(asked, texts, "{tool}");
    }

    let tokens = |prefix: &str| -> u64 {
        let names = ["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"];
        let spans = spans.iter().filter(|span| span.name.starts_with(prefix));
        spans.flat_map(|span| names.map(|name| span.attributes.number(name))).flatten().sum()
    };
    let (turns, calls) = (tokens("chat "), tokens("execute_tool "));
    assert!(calls > 0, "the models behind the tools used nothing");
    assert_eq!(reply.usage.total(), turns + calls, "what a tool's model uses counts");
    let days = team.store().usage(Timestamp::default()).unwrap();
    let used: Vec<_> =
        days.iter().map(|row| (row.model.as_str(), row.turns, row.usage.total())).collect();
    assert_eq!(used, [("large", 3, turns), ("small", 2, calls)]);
    let page = team.store().traces(&TraceQuery::default(), 1).unwrap();
    assert_eq!(page.rows[0].usage.total(), turns + calls, "the trace as a whole");
    node.drain(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn what_another_model_writes_as_code_is_computed_and_not_run() {
    let code = "Sure!\n```python\nresult = round(25 ** 0.24, 5)\n```";
    for (written, status, part) in [
        (code, "ok", "2.16524"),
        ("```python\nimport os\nresult = os.getpid()\n```", "error", "E2004"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = json!({"task": "25 raised to the power 0.24"});
        let large = [
            json!({"content": "", "calls": [{"name": "calculate", "arguments": arguments}]}),
            json!({"content": "Done."}),
        ];
        let small = json!({"when": ": 25 raised to the power 0\\.24$", "content": written});
        let node = start(folder.path(), &large, &[small]).await;
        let reply = house::say(&node, "What is 25 raised to the power 0.24?", None).await;
        let [source] = reply.sources.as_slice() else { panic!("{reply:?}") };
        assert_eq!(source.status, status, "{source:?}");
        assert!(source.output.contains(part), "{source:?}");
        node.drain(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn what_the_other_model_could_not_say_is_told_to_the_agent() {
    for (small, code, part) in [
        (json!({"content": "Why did", "finish": "length"}), "E2004", "cut after 1024 tokens"),
        (json!({"content": "", "finish": "stop"}), "E2004", "is empty"),
        (json!({"content": "", "fault": {"status": 400, "message": "no jokes"}}), "E2001", "small"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let large = [
            json!({"content": "", "calls": [{"name": "random_joke", "arguments": {}}]}),
            json!({"content": "There is no joke today."}),
        ];
        let node = start(folder.path(), &large, &[small]).await;
        let reply = house::say(&node, "Tell me a joke", None).await;
        assert_eq!(reply.output, "There is no joke today.", "{reply:?}");
        let [source] = reply.sources.as_slice() else { panic!("{reply:?}") };
        assert_eq!(source.status, "error", "{source:?}");
        assert!(source.output.contains(code) && source.output.contains(part), "{source:?}");
        node.drain(Duration::from_secs(5)).await;
    }
}
