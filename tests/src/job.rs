//! A team for tests: a foreman who charges once in the ledger and asks a helper who tells the time.

use std::path::{Path, PathBuf};

/// The name of the team.
pub const TEAM: &str = "job";

/// The answer to every request that names a job.
pub const ANSWER: &str = "the job is done";

/// Writes the team's files and returns the path of the team file.
///
/// Every model turn takes `delay_ms`.
pub fn write(dir: &Path, charge_url: &str, delay_ms: u64) -> PathBuf {
    let foreman = [
        // What follows the calls, whatever came of them.
        serde_json::json!({
            "when": "HELPER-DONE|\"status\":\"unknown\"|\"error\":",
            "content": ANSWER, "delay_ms": delay_ms,
        }),
        serde_json::json!({
            "when": "job [0-9]+",
            "calls": [
                {"name": "charge", "arguments": {"amount": 7}},
                {"name": "helper", "arguments": {"task": "what time is it"}},
            ],
            "delay_ms": delay_ms,
        }),
        serde_json::json!({"when": "ask me", "calls": [
            {"name": "ask_user", "arguments": {"question": "which colour?"}},
        ]}),
        serde_json::json!({"when": "remember (?s:.*)likes", "calls": [
            {"name": "remember", "arguments": {"text": "the user likes herons"}},
        ]}),
        serde_json::json!({"when": "what do I like", "calls": [
            {"name": "recall", "arguments": {"query": "likes"}},
        ]}),
        serde_json::json!({"when": "herons", "content": "you like herons"}),
        serde_json::json!({"when": "slow", "content": "at last", "delay_ms": 20_000}),
        serde_json::json!({"when": ".", "content": "noted"}),
    ];
    let helper = [
        serde_json::json!({"when": "weekday", "content": "HELPER-DONE", "delay_ms": delay_ms}),
        serde_json::json!({"when": ".", "calls": [{"name": "now", "arguments": {}}], "delay_ms": delay_ms}),
    ];
    let lines = |replies: &[serde_json::Value]| {
        replies.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let file = dir.join(format!("{TEAM}.toml"));
    let text = format!(
        r#"
[team]
entry = "foreman"

[models.foreman]
provider = "scripted"
script = "foreman.jsonl"
concurrency = 64

[models.helper]
provider = "scripted"
script = "helper.jsonl"
concurrency = 64

[agents.foreman]
instructions = "Have it done."
model = "foreman"
tools = ["charge", "ask_user", "remember", "recall"]
agents = ["helper"]

[permissions]
allow = ["charge"]

[agents.helper]
description = "tells the time"
instructions = "Tell the time."
model = "helper"
tools = ["now"]

[tools.charge]
kind = "http"
description = "charges an amount, once"
method = "POST"
url = "{charge_url}"
body = "arguments"
concurrency = 64
parameters = {{ amount = "integer: how much" }}
"#
    );
    let written = std::fs::write(&file, text)
        .and_then(|()| std::fs::write(dir.join("foreman.jsonl"), lines(&foreman)))
        .and_then(|()| std::fs::write(dir.join("helper.jsonl"), lines(&helper)));
    written.expect("the team can be written");
    file
}
