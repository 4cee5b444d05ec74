//! The tables of models.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use wire::plan::Dialect;

use crate::bound::{self as b};
use crate::team::{Constrain, Template, TokensField};

/// One model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawModel {
    /// Who serves the model.
    pub(crate) provider: RawProvider,
    /// How the model is asked for calls, if it is an agent's actor.
    #[schemars(extend("default" = Dialect::Native))]
    pub(crate) dialect: Option<Dialect>,
    /// Requests that may be under way at once.
    #[schemars(range(min = b::MODEL_CONCURRENCY.min, max = b::MODEL_CONCURRENCY.max), extend("default" = b::MODEL_CONCURRENCY.default))]
    pub(crate) concurrency: Option<u32>,
    /// Requests that may wait for one of those places.
    #[schemars(range(min = b::MODEL_QUEUE_MAX.min, max = b::MODEL_QUEUE_MAX.max), extend("default" = b::MODEL_QUEUE_MAX.default))]
    pub(crate) queue_max: Option<u32>,
    /// Milliseconds for one turn, retries included.
    #[schemars(range(min = b::MODEL_TIMEOUT_MS.min, max = b::MODEL_TIMEOUT_MS.max), extend("default" = b::MODEL_TIMEOUT_MS.default))]
    pub(crate) timeout_ms: Option<u64>,
    /// Milliseconds of silence amid a reply, from its first byte on.
    #[schemars(range(min = b::MODEL_IDLE_TIMEOUT_MS.min, max = b::MODEL_IDLE_TIMEOUT_MS.max), extend("default" = b::MODEL_IDLE_TIMEOUT_MS.default))]
    pub(crate) idle_timeout_ms: Option<u64>,
    /// Times that a failed request is made again.
    #[schemars(range(min = b::MODEL_RETRIES_MAX.min, max = b::MODEL_RETRIES_MAX.max), extend("default" = b::MODEL_RETRIES_MAX.default))]
    pub(crate) retries_max: Option<u32>,
    /// Requests in a minute, retries included; without a limit if absent.
    #[schemars(range(min = b::MODEL_REQUESTS_PER_MINUTE.min, max = b::MODEL_REQUESTS_PER_MINUTE.max))]
    pub(crate) requests_per_minute: Option<u64>,
    /// Tokens in a minute, input and output together; without a limit if absent.
    #[schemars(range(min = b::MODEL_TOKENS_PER_MINUTE.min, max = b::MODEL_TOKENS_PER_MINUTE.max))]
    pub(crate) tokens_per_minute: Option<u64>,
    /// The models that are asked in its place, in this order, when its server fails.
    #[schemars(length(max = b::FALLBACKS_MAX))]
    pub(crate) fallback: Option<Vec<String>>,
    /// Requests that may be under way at once at the server, of all models and teams that use it; not for `scripted`.
    #[schemars(range(min = b::SERVER_CONCURRENCY.min, max = b::SERVER_CONCURRENCY.max))]
    pub(crate) server_concurrency: Option<u32>,
    /// What a million tokens cost in US dollars; needed where a `cost_max` is to be kept.
    pub(crate) price: Option<RawPrice>,
    /// The file to which replies are added as a script, relative to the team file; not for `scripted`.
    pub(crate) record: Option<String>,
    /// Provider `scripted`: the file of replies, one JSON object a line, relative to the team file.
    pub(crate) script: Option<String>,
    /// The address of the server; of `openai` up to and including the version, such as `https://api.openai.com/v1`.
    pub(crate) base_url: Option<String>,
    /// The model's name at the provider.
    pub(crate) model: Option<String>,
    /// The environment variable that holds the key.
    pub(crate) api_key_env: Option<String>,
    /// The file that holds the key, relative to the team file.
    pub(crate) api_key_file: Option<String>,
    /// Whether replies are streamed.
    #[schemars(extend("default" = true))]
    pub(crate) stream: Option<bool>,
    /// The sampling temperature; the provider's own if absent, and below 0 for `llamacpp` only, which then always takes the likeliest token.
    #[schemars(range(min = -1, max = 2))]
    pub(crate) temperature: Option<f64>,
    /// Texts at which a reply ends, beside those that a dialect needs.
    #[schemars(length(max = b::STOPS_MAX), inner(length(min = 1)))]
    pub(crate) stop: Option<Vec<String>>,
    /// Fields put into the request body as they are.
    pub(crate) extra_body: Option<Map<String, Value>>,
    /// Provider `openai`: whether schemas are sent with `strict: true`, in the form that strict servers take.
    #[schemars(extend("default" = false))]
    pub(crate) strict: Option<bool>,
    /// Providers `openai` and `llamacpp`: whether neighbouring messages of one role are sent as one, a short reply of the model is put between the result of a tool and what a user says next, and ids of calls are written as nine letters and digits.
    #[schemars(extend("default" = false))]
    pub(crate) merge_adjacent: Option<bool>,
    /// Providers `openai`, `llamacpp` and `anthropic`: whether the reasoning behind calls goes back to the model with them; by default not for `llamacpp`.
    pub(crate) reasoning: Option<bool>,
    /// Provider `openai`: the name under which the request says how many tokens the reply may have.
    #[schemars(extend("default" = "max_tokens"))]
    pub(crate) tokens_field: Option<TokensField>,
    /// Provider `openai`: whether the request for a stream asks with `stream_options` that tokens be counted.
    #[schemars(extend("default" = true))]
    pub(crate) stream_usage: Option<bool>,
    /// Provider `llamacpp`: who turns messages into a prompt, and how.
    #[schemars(extend("default" = "server"))]
    pub(crate) template: Option<Template>,
    /// Provider `llamacpp`: what holds a reply to its schema.
    #[schemars(extend("default" = "json_schema"))]
    pub(crate) constrain: Option<Constrain>,
    /// Provider `llamacpp`: the most tokens of a reply, if less than the run allows.
    #[schemars(range(min = b::REPLY_TOKENS_MAX.min, max = b::REPLY_TOKENS_MAX.max))]
    pub(crate) n_predict: Option<u64>,
    /// Provider `ollama`: the most tokens of a reply, if less than the run allows.
    #[schemars(range(min = b::REPLY_TOKENS_MAX.min, max = b::REPLY_TOKENS_MAX.max))]
    pub(crate) num_predict: Option<u64>,
    /// Provider `ollama`: tokens that the model sees at once.
    #[schemars(range(min = b::CONTEXT_TOKENS.min, max = b::CONTEXT_TOKENS.max))]
    pub(crate) num_ctx: Option<u64>,
    /// Provider `ollama`: how long the model stays loaded, such as `5m`.
    pub(crate) keep_alive: Option<String>,
    /// Provider `ollama`: whether and how hard the model thinks.
    pub(crate) think: Option<RawThink>,
    /// Providers `llamacpp` and `ollama`: the most likely tokens among which the next one is chosen; 0 for all.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(crate) top_k: Option<u64>,
    /// Providers `llamacpp` and `ollama`: the likelihood that these tokens have together.
    #[schemars(range(min = 0, max = 1))]
    pub(crate) top_p: Option<f64>,
    /// Providers `llamacpp` and `ollama`: how much less likely a token becomes by having occurred; 1 for no less.
    #[schemars(range(min = 0, max = 10))]
    pub(crate) repeat_penalty: Option<f64>,
    /// Providers `llamacpp` and `ollama`: the last tokens in which it must have occurred; -1 for all.
    #[schemars(range(min = -1, max = 1_000_000))]
    pub(crate) repeat_last_n: Option<i64>,
    /// Providers `llamacpp` and `ollama`: where chance begins.
    #[schemars(range(min = 0, max = 4_294_967_295_u64))]
    pub(crate) seed: Option<u64>,
}

/// Who serves a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawProvider {
    /// Any server of the OpenAI chat completions protocol.
    OpenAi,
    /// A server of llama.cpp.
    LlamaCpp,
    /// A server of Ollama.
    Ollama,
    /// The Messages interface of Anthropic.
    Anthropic,
    /// A file of replies.
    Scripted,
}

/// Whether and how hard a model thinks.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum RawThink {
    /// Whether.
    Truth(bool),
    /// How hard.
    Word(RawThinkWord),
}

impl<'de> Deserialize<'de> for RawThink {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(truth) => Ok(Self::Truth(truth)),
            word => RawThinkWord::deserialize(word).map(Self::Word).map_err(D::Error::custom),
        }
    }
}

/// How hard a model thinks.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawThinkWord {
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// As hard as it can.
    Max,
}

/// What a million tokens of a model cost, in US dollars.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPrice {
    /// Tokens that it reads.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(crate) input: f64,
    /// Tokens that it writes.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(crate) output: f64,
    /// Tokens that it reads from the provider's cache; as `input` if absent.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(crate) cache_read: Option<f64>,
    /// Tokens that it reads and the provider's cache takes in; as `input` if absent.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(crate) cache_write: Option<f64>,
}
