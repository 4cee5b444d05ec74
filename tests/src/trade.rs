//! A team for tests under load: a clerk who makes one call of each effect class in every run.

use std::path::{Path, PathBuf};

use serde_json::json;

/// The name of the team.
pub const TEAM: &str = "trade";

/// The agent that is asked.
pub const AGENT: &str = "clerk";

/// The answer to every request.
pub const ANSWER: &str = "the trade is done";

/// The path in the ledger of the call that reads, of the one that honours its key, and of the one
/// that must not be repeated.
pub const READ: &str = "/price";
pub const IDEMPOTENT: &str = "/stock";
pub const ONCE: &str = "/pay";

/// The time of one call and of one turn, in milliseconds: what is lost on its way is soon missed.
const TIMEOUT_MS: u64 = 5000;

/// Writes the team's files and returns the path of the team file.
///
/// Every model turn takes `delay_ms`; a run has two.
pub fn write(dir: &Path, ledger: &str, delay_ms: u64) -> PathBuf {
    let call = |tool: &str| json!({"name": tool, "arguments": {"amount": 7}});
    let replies = [
        json!({"when": "LEDGER|\"status\":\"unknown\"|\"error\":", "content": ANSWER,
            "delay_ms": delay_ms}),
        json!({"when": ".", "calls": [call("price"), call("stock"), call("pay")],
            "delay_ms": delay_ms}),
    ];
    let lines: Vec<String> = replies.iter().map(ToString::to_string).collect();
    let file = dir.join(format!("{TEAM}.toml"));
    let tool = |name: &str, method: &str, path: &str, rest: &str| {
        format!(
            "[tools.{name}]\nkind = \"http\"\ndescription = \"trades\"\nmethod = \"{method}\"\n\
             url = \"{ledger}{path}\"\n{rest}\nuntrusted_output = false\nconcurrency = 256\n\
             timeout_ms = {TIMEOUT_MS}\nparameters = {{ amount = \"integer\" }}\n\n"
        )
    };
    let tools = [
        tool("price", "GET", READ, "query = { amount = \"{amount}\" }"),
        tool("stock", "PUT", IDEMPOTENT, "body = \"arguments\""),
        tool("pay", "POST", ONCE, "body = \"arguments\""),
    ]
    .concat();
    let text = format!(
        r#"
[team]
entry = "{AGENT}"

[models.main]
provider = "scripted"
script = "trade.jsonl"
concurrency = 256
timeout_ms = {TIMEOUT_MS}

[agents.{AGENT}]
instructions = "Trade."
model = "main"
tools = ["price", "stock", "pay"]

[permissions]
allow = ["stock", "pay"]

{tools}"#
    );
    let written = std::fs::write(&file, text)
        .and_then(|()| std::fs::write(dir.join("trade.jsonl"), lines.join("\n")));
    written.expect("the team can be written");
    file
}
