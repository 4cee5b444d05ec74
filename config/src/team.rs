//! A team as the runtime uses it: checked, complete, with every reference resolved.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use agents_core::permission::Glob;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tools::cloudevent::EventSource;
use tools::mcp::{Catalog, ServerSpec};
use tools::query::DatabaseSpec;
use tools::{SecretRef, ToolKind};
use wire::money::Price;
use wire::{Name, Plan};

use crate::compile::reachable;
use crate::script::Script;

/// One team, ready to run.
#[derive(Clone, Debug)]
pub struct Team {
    /// Its name, the first token of its subjects.
    pub name: Name,
    /// What it does.
    pub description: String,
    /// The file that it was read from.
    pub file: PathBuf,
    /// The agent that is asked unless another is named.
    pub entry: Name,
    /// The agents by name.
    pub agents: BTreeMap<Name, Plan>,
    /// The models by name.
    pub models: BTreeMap<Name, Model>,
    /// The databases by name.
    pub databases: BTreeMap<Name, DatabaseSpec>,
    /// The MCP servers by name.
    pub servers: BTreeMap<Name, McpServer>,
    /// The secrets that the file names.
    pub secrets: Vec<SecretRef>,
    /// The sources of event types by name.
    pub events: BTreeMap<Name, Events>,
    /// The services whose endpoints are tools, by the names of their tables.
    pub discover: BTreeMap<Name, Discovery>,
    /// What others describe and cannot be offered, each with the reason, and what the file names
    /// that no tool is called at present.
    pub left_out: Vec<String>,
    /// Its share of the places at a server that it shares with other teams of the node.
    pub weight: u32,
    /// The tools by name.
    pub tools: BTreeMap<Name, TeamTool>,
    /// Runs that a node has in work or waiting, those that the team's agents ask for not counted.
    pub runs_max: u32,
    /// Where spans are sent, if anywhere: the base address of an OTLP/HTTP receiver.
    pub otlp_endpoint: Option<String>,
    /// How long what happened is kept.
    pub retention: Retention,
}

impl Team {
    /// Names the servers whose tools are not known.
    pub fn unlisted(&self) -> impl Iterator<Item = &Name> {
        self.servers.iter().filter(|(_, server)| server.catalog.is_none()).map(|(name, _)| name)
    }

    /// Returns the plan of an agent, or of one that it can call, directly or not, a model of which
    /// has no price.
    pub fn unpriced(&self, agent: &Name) -> Option<&Plan> {
        let below = reachable(agent, &self.agents);
        below.iter().filter_map(|name| self.agents.get(name)).find(|plan| plan.unpriced().is_some())
    }
}

/// How long what happened is kept; what is absent is kept for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Milliseconds for which a run is kept after its end.
    pub runs_ms: Option<u64>,
    /// The most runs that are kept besides those in work.
    pub runs_max: Option<u64>,
    /// Milliseconds for which a session is kept with which nobody goes on.
    pub sessions_ms: Option<u64>,
    /// Milliseconds for which a trace is kept after its end.
    pub traces_ms: Option<u64>,
    /// The most bytes that traces take on the disk.
    pub trace_bytes_max: Option<u64>,
}

/// One MCP server of a team.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// How it is reached.
    pub spec: ServerSpec,
    /// Its tools. Absent if they were not known when the team was loaded; then nothing is known of
    /// its tools but their names, and the team cannot be run.
    pub catalog: Option<Catalog>,
}

/// One source of event types of a team.
#[derive(Clone, Debug)]
pub struct Events {
    /// Where its events go, and how their replies come.
    pub source: Arc<EventSource>,
    /// The file or folder of the event types.
    pub path: PathBuf,
    /// A subject on which replies come, beside the team's own.
    pub reply_subject: Option<String>,
}

/// NATS services whose endpoints are tools for as long as they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// The names of the services.
    pub service: Glob,
    /// The name, if it is only one.
    pub literal: Option<String>,
}

/// One tool of a team.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamTool {
    /// What models are told, how long it may take and what may be repeated.
    pub offer: wire::plan::Offer,
    /// How it is called.
    pub kind: ToolKind,
    /// Calls that may be under way at once.
    pub concurrency: u32,
}

/// One model of a team.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its name in the team.
    pub name: Name,
    /// Who serves it.
    pub provider: Provider,
    /// How it is asked for calls.
    pub dialect: wire::plan::Dialect,
    /// Requests that may be under way at once.
    pub concurrency: u32,
    /// Requests that may wait for one of those places; further ones are told `overloaded`.
    pub queue_max: u32,
    /// The longest time for one turn, retries included, in milliseconds.
    pub timeout_ms: u64,
    /// The longest silence of a provider amid a reply, from its first byte on, in milliseconds.
    pub idle_timeout_ms: u64,
    /// Whether the reasoning behind its calls goes back to it with them.
    pub reasoning: bool,
    /// Times that a failed request is made again.
    pub retries_max: u32,
    /// Requests in a minute, retries included, if there is a limit.
    pub requests_per_minute: Option<u64>,
    /// Tokens in a minute, input and output together, if there is a limit.
    pub tokens_per_minute: Option<u64>,
    /// The models that are asked in its place, in this order: its own and then theirs, each once.
    pub fallback: Vec<Name>,
    /// The file to which replies are added as a script.
    pub record: Option<PathBuf>,
    /// What its tokens cost, if that is known.
    pub price: Option<Price>,
}

/// Who serves a model.
#[derive(Clone, Debug)]
pub enum Provider {
    /// Any server of the OpenAI chat completions protocol.
    OpenAi(OpenAi),
    /// A server of llama.cpp.
    LlamaCpp(LlamaCpp),
    /// A server of Ollama.
    Ollama(Ollama),
    /// The Messages interface of Anthropic.
    Anthropic(Server),
    /// A file of replies.
    Scripted(Script),
}

/// What all models behind HTTP have.
#[derive(Clone, Debug)]
pub struct Server {
    /// The address below which the provider's own paths lie, without a slash at its end.
    pub base_url: String,
    /// The model's name at the provider.
    pub model: String,
    /// The key.
    pub api_key: Option<SecretRef>,
    /// Requests that may be under way there at once, of all models and teams, if there is a limit.
    pub concurrency: Option<u32>,
    /// Whether replies are streamed.
    pub stream: bool,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Texts at which a reply ends, beside those that a dialect needs.
    pub stop: Vec<String>,
    /// Fields put into the request body as they are.
    pub extra_body: Map<String, Value>,
}

/// A server of the OpenAI chat completions protocol.
#[derive(Clone, Debug)]
pub struct OpenAi {
    /// Where it is and what it is asked; the address includes the version, such as
    /// `https://api.openai.com/v1`.
    pub server: Server,
    /// Whether schemas are sent with `strict: true`, in the form that strict servers take.
    pub strict: bool,
    /// Whether neighbouring messages of one role are sent as one, a short reply of the model is put
    /// between the result of a tool and what a user says next, and ids of calls have nine letters and
    /// digits, as strict chat templates and Mistral's servers want.
    pub merge_adjacent: bool,
    /// The name under which the request says how many tokens the reply may have.
    pub tokens_field: TokensField,
    /// Whether the request for a stream asks that tokens be counted.
    pub stream_usage: bool,
}

/// A server of llama.cpp.
#[derive(Clone, Debug)]
pub struct LlamaCpp {
    /// Where it is and what it is asked.
    pub server: Server,
    /// Who writes the prompt, and how.
    pub template: Template,
    /// How a reply is held to its schema.
    pub constrain: Constrain,
    /// The most tokens of a reply, if less than the run allows.
    pub n_predict: Option<u64>,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Whether neighbouring messages of one role are sent as one, a short reply of the model is put
    /// between the result of a tool and what a user says next, and ids of calls have nine letters and
    /// digits.
    pub merge_adjacent: bool,
}

/// A server of Ollama.
#[derive(Clone, Debug)]
pub struct Ollama {
    /// Where it is and what it is asked.
    pub server: Server,
    /// Tokens that the model sees at once.
    pub num_ctx: Option<u64>,
    /// The most tokens of a reply, if less than the run allows.
    pub num_predict: Option<u64>,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// How long the model stays loaded, such as `5m`.
    pub keep_alive: Option<String>,
    /// Whether and how hard the model thinks: a truth value or a word.
    pub think: Option<Value>,
}

/// How the next token is chosen; what is absent is left to the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// The most likely tokens among which it is.
    pub top_k: Option<u64>,
    /// The likelihood that these have together.
    pub top_p: Option<f64>,
    /// How much less likely a token becomes by having occurred.
    pub repeat_penalty: Option<f64>,
    /// The last tokens in which it must have occurred; -1 for all.
    pub repeat_last_n: Option<i64>,
    /// Where chance begins.
    pub seed: Option<u64>,
}

/// Who turns messages into a prompt, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Template {
    /// The server, by the template that the model brings.
    #[serde(rename = "server")]
    Server,
    /// We, as Llama 2 wants it.
    #[serde(rename = "llama-2")]
    Llama2,
    /// We, as Llama 3 wants it.
    #[serde(rename = "llama-3")]
    Llama3,
    /// We, in `ChatML`.
    #[serde(rename = "chatml")]
    ChatMl,
    /// We, as Mistral wants it.
    #[serde(rename = "mistral")]
    Mistral,
}

/// What holds a reply to its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Constrain {
    /// The schema itself, from which the server makes a grammar.
    JsonSchema,
    /// A grammar that we make of the schema.
    Grammar,
}

/// The name under which a request says how many tokens the reply may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokensField {
    /// What nearly all servers know.
    #[default]
    MaxTokens,
    /// What the models of `OpenAI` that think want, which refuse the other.
    MaxCompletionTokens,
}

impl TokensField {
    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}
