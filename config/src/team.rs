//! A team as the runtime uses it: checked, complete, with every reference resolved.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};
use tools::{SecretRef, ToolKind};
use wire::{Name, Plan};

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
    /// The tools by name.
    pub tools: BTreeMap<Name, TeamTool>,
    /// Where spans are sent, if anywhere: the base address of an OTLP/HTTP receiver.
    pub otlp_endpoint: Option<String>,
}

/// One tool of a team.
#[derive(Clone, Debug)]
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
    /// The longest silence of a provider while a reply is expected, in milliseconds.
    pub idle_timeout_ms: u64,
    /// Times that a failed request is made again.
    pub retries_max: u32,
}

/// Who serves a model.
#[derive(Clone, Debug)]
pub enum Provider {
    /// Any server of the OpenAI chat completions protocol.
    OpenAi(OpenAi),
    /// A file of replies.
    Scripted(Script),
}

/// A server of the OpenAI chat completions protocol.
#[derive(Clone, Debug)]
pub struct OpenAi {
    /// The address up to and including the version, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The model's name at the provider.
    pub model: String,
    /// The key, sent as a bearer token.
    pub api_key: Option<SecretRef>,
    /// Whether replies are streamed.
    pub stream: bool,
    /// Whether schemas are sent with `strict: true`.
    pub strict: bool,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Fields put into the request body as they are.
    pub extra_body: Map<String, Value>,
}
