//! 000: calls under a grammar, at servers of llama.cpp.

mod memory;
mod planner;
mod requests;

use serde_json::{Value, json};

use crate::house::{House, changed, on_servers, shipped};
use crate::server::Server;

const QUESTION: &str =
    "Who is Leonardo DiCaprio's current girlfriend and what is her age raised to the 0.24 power?";

const GIRLFRIEND: &str = "Leonardo di Caprio started dating Vittoria Ceretti in 2023. She was born \
    in Italy and is 25 years old";

/// The tools of the team's agents, in the team file.
const TOOLS: &str = r#"["search_internet", "search_images", "create_event", "calculate"]"#;

/// The ways in which the team says that a reply has to obey its schema.
const BY_GRAMMAR: &str = "constrain = \"grammar\"";

/// Returns the team with thinker and actor model at one server or at two.
fn served(thinker: &Server, actor: &Server) -> String {
    on_servers(&shipped("grammar"), &[("thinker", &thinker.url), ("actor", &actor.url)])
}

async fn start(team: &str) -> House {
    House::of("grammar", team).await
}

/// Returns the text of a call, as an actor model writes it.
fn call(tool: &str, arguments: &Value) -> String {
    json!({"tool": tool, "arguments": arguments}).to_string()
}

fn respond(answer: &str) -> String {
    call("respond_to_user", &json!({"answer": answer}))
}

/// Returns the team without the thinker: one model does both in one turn.
fn without_thinker(team: &str) -> String {
    let text = "result = \"The result of tool call {{ number }} is: {{ result }}\"\n\n";
    let team = changed(team, &format!("[agents.assistant.prompts.thinker]\n{text}"), "");
    changed(&team, "thinker = \"thinker\"\nactor = \"actor\"", "model = \"actor\"")
}
