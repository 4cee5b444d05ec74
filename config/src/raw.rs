//! The shape of a team file, one struct per table.
//!
//! The JSON Schema, the check of keys, types and ranges, and the reading itself all come from
//! these structs. Meaning is checked in `compile`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use wire::Capture;
use wire::call::EffectClass;
use wire::plan::{Dialect, OnUnknown, WhenBusy};

use crate::bound::{
    self as b, AGENTS_MAX, ALIAS_BYTES_MAX, ALIASES_MAX, ARGV_MAX, DATABASES_MAX,
    DESCRIPTION_BYTES_MAX, DISCOVERIES_MAX, EVENT_SOURCES_MAX, INSTRUCTIONS_BYTES_MAX, MODELS_MAX,
    OFFERS_MAX, PATHS_MAX, RETENTION_RUNS_DEFAULT, RETENTION_SESSIONS_DEFAULT, ROWS_MAX,
    SAYING_BYTES_MAX, SERVERS_MAX, STATEMENT_BYTES_MAX, STATEMENTS_MAX, SUBJECT_BYTES_MAX,
    TOOLS_MAX,
};
use crate::team::{Constrain, Template, TokensField};

mod databases;
mod discover;
mod eventtypes;
mod interfaces;
mod labels;
mod prompts;
mod servers;
mod trace;
mod values;

pub(crate) use databases::{RawDatabase, RawDatabaseKind};
pub(crate) use discover::RawDiscover;
pub(crate) use eventtypes::{RawEventTypes, RawMode, RawReplyWay};
pub(crate) use interfaces::RawInterface;
pub(crate) use labels::RawLabels;
pub(crate) use prompts::{RawForm, RawPrompts, RawText};
pub(crate) use servers::RawServer;
pub(crate) use trace::RawTrace;
pub(crate) use values::{
    RawBody, RawBodyForm, RawBodyWord, RawOutput, RawRow, RawSandbox, RawSecret, RawStdin,
    RawStdinWord, RawValue,
};

/// A team of agents.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Callboard team file")]
pub(crate) struct RawFile {
    /// The team as a whole.
    pub(crate) team: RawTeam,
    /// The models, by the names that agents use for them.
    #[schemars(extend("maxProperties" = MODELS_MAX))]
    pub(crate) models: BTreeMap<String, RawModel>,
    /// The agents by name; at least one.
    #[schemars(extend("maxProperties" = AGENTS_MAX))]
    pub(crate) agents: BTreeMap<String, RawAgent>,
    /// The databases by the names that tools use for them.
    #[schemars(extend("maxProperties" = DATABASES_MAX))]
    pub(crate) databases: BTreeMap<String, RawDatabase>,
    /// The MCP servers by the names that tools use for them.
    #[schemars(extend("maxProperties" = SERVERS_MAX))]
    pub(crate) mcp: BTreeMap<String, RawServer>,
    /// The sources of event types by the names that tools use for them.
    #[schemars(extend("maxProperties" = EVENT_SOURCES_MAX))]
    pub(crate) eventtypes: BTreeMap<String, RawEventTypes>,
    /// The OpenAPI files whose operations are tools, by the names with which those begin.
    #[schemars(extend("maxProperties" = b::INTERFACES_MAX))]
    pub(crate) openapi: BTreeMap<String, RawInterface>,
    /// The NATS services whose endpoints are tools, by names of the team.
    #[schemars(extend("maxProperties" = DISCOVERIES_MAX))]
    pub(crate) discover: BTreeMap<String, RawDiscover>,
    /// The tools by name. Tools that come with the runtime and need no settings may be left out.
    #[schemars(extend("maxProperties" = TOOLS_MAX))]
    pub(crate) tools: BTreeMap<String, RawTool>,
    /// Limits of all agents that do not set their own.
    pub(crate) limits: RawLimits,
    /// Texts of all agents that do not set their own.
    pub(crate) prompts: RawPrompts,
    /// Which calls of all agents are made, need a person's leave, or are refused.
    pub(crate) permissions: RawPermissions,
    /// How long what happened is kept.
    pub(crate) retention: RawRetention,
    /// How much of what is said traces hold.
    pub(crate) trace: RawTrace,
}

/// How long what happened is kept. Times are a number with `s`, `m`, `h` or `d`, or `forever`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawRetention {
    /// How long after its end a run is kept, with its reply and its trace.
    #[schemars(extend("default" = RETENTION_RUNS_DEFAULT))]
    pub(crate) runs: Option<String>,
    /// The most runs that are kept besides those in work, the newest; all if absent.
    #[schemars(range(min = b::RETENTION_RUNS_MAX.min, max = b::RETENTION_RUNS_MAX.max))]
    pub(crate) runs_max: Option<u64>,
    /// How long a session is kept with which nobody goes on.
    #[schemars(extend("default" = RETENTION_SESSIONS_DEFAULT))]
    pub(crate) sessions: Option<String>,
    /// How long after its end a trace is kept; as long as `runs` if absent.
    pub(crate) traces: Option<String>,
    /// The most bytes that traces take on the disk; the oldest go first.
    #[schemars(
        range(min = b::RETENTION_TRACE_BYTES.min, max = b::RETENTION_TRACE_BYTES.max),
        extend("default" = b::RETENTION_TRACE_BYTES.default)
    )]
    pub(crate) trace_bytes_max: Option<u64>,
}

/// The team as a whole.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawTeam {
    /// The team's name, 1 to 64 characters of `A-Z a-z 0-9 _ -`; the file's name without its ending if absent.
    pub(crate) name: Option<String>,
    /// What the team does.
    #[schemars(length(max = DESCRIPTION_BYTES_MAX))]
    pub(crate) description: Option<String>,
    /// The agent that is asked unless another is named; may be absent if there is only one agent.
    pub(crate) entry: Option<String>,
    /// The team's share of the places at a server that it shares with other teams of the node.
    #[schemars(range(min = b::TEAM_WEIGHT.min, max = b::TEAM_WEIGHT.max), extend("default" = b::TEAM_WEIGHT.default))]
    pub(crate) weight: Option<u32>,
    /// The base address of an OTLP/HTTP receiver of spans, such as `http://127.0.0.1:4318`.
    pub(crate) otlp_endpoint: Option<String>,
    /// Runs that a node has in work or waiting for the team, those that its agents ask for not counted; further ones are told `overloaded`.
    #[schemars(range(min = b::RUNS_MAX.min, max = b::RUNS_MAX.max), extend("default" = b::RUNS_MAX.default))]
    pub(crate) runs_max: Option<u32>,
}

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
    /// Milliseconds of silence while a reply is expected.
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
    /// Providers `openai` and `llamacpp`: whether neighbouring messages of one role are sent as one.
    #[schemars(extend("default" = false))]
    pub(crate) merge_adjacent: Option<bool>,
    /// Provider `openai`: the name under which the request says how many tokens the reply may have.
    #[schemars(extend("default" = "max_tokens"))]
    pub(crate) tokens_field: Option<TokensField>,
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

/// One agent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawAgent {
    /// What the agent does, for those who call it.
    #[schemars(length(max = DESCRIPTION_BYTES_MAX))]
    pub(crate) description: Option<String>,
    /// The agent's system text.
    pub(crate) instructions: Option<String>,
    /// The file with the agent's system text, relative to the team file.
    pub(crate) instructions_file: Option<String>,
    /// The model that thinks first, without a schema.
    pub(crate) thinker: Option<String>,
    /// The model that plans each step: it selects one tool and states a task for it; stands in place of `thinker`.
    pub(crate) planner: Option<String>,
    /// The model that makes the calls and the answer.
    pub(crate) actor: Option<String>,
    /// One model that does both in one turn; stands in place of `thinker` and `actor`.
    pub(crate) model: Option<String>,
    /// The tools that the agent may call, in the order in which the model is told.
    #[schemars(length(max = OFFERS_MAX))]
    pub(crate) tools: Vec<String>,
    /// The agents that the agent may call as tools.
    #[schemars(length(max = OFFERS_MAX))]
    pub(crate) agents: Vec<String>,
    /// The arguments with which other agents call the agent: a JSON Schema (2020-12), or the short form `name = "type: description"`; one text `task` if absent.
    pub(crate) parameters: Option<Map<String, Value>>,
    /// What the agent is told when it is called, with `{parameter}` for arguments; the argument `task` if absent.
    #[schemars(length(max = INSTRUCTIONS_BYTES_MAX))]
    pub(crate) task: Option<String>,
    /// The word with which the actor model begins a reply that is not the answer yet, such as `CONTINUE`.
    #[schemars(length(min = 1, max = b::CONTINUE_WORD_BYTES_MAX))]
    pub(crate) continue_word: Option<String>,
    /// What becomes of a message that comes while a run of its session is in work: it waits, is refused, ends that run, or joins it.
    #[schemars(extend("default" = "queue"))]
    pub(crate) when_busy: Option<WhenBusy>,
    /// Whether arguments such as `"5"` for a number are mended; otherwise the model is told what is wrong.
    #[schemars(extend("default" = true))]
    pub(crate) coerce: Option<bool>,
    /// Whether the agent may stand in a circle of agents that call each other; `depth_max` bounds it.
    pub(crate) recursion: bool,
    /// Why the agent may read what strangers write, read private data and act outside without leave, all together.
    #[schemars(length(min = 1, max = DESCRIPTION_BYTES_MAX))]
    pub(crate) accept_risk: Option<String>,
    /// What a run of the agent may use at most.
    pub(crate) limits: RawLimits,
    /// Texts that the agent's models read in place of the runtime's own.
    pub(crate) prompts: RawPrompts,
    /// The words of dialect `json`.
    pub(crate) form: RawForm,
    /// Which calls are made, need a person's leave, or are refused, beside those of the team.
    pub(crate) permissions: RawPermissions,
}

/// Patterns of calls, such as `send_mail(to=*@example.com)`; `deny` wins over `ask`, `ask` over both others.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawPermissions {
    /// Calls that are made without asking; those that act outside only in a run that is not tainted.
    #[schemars(length(max = b::PATTERNS_MAX))]
    pub(crate) allow: Vec<String>,
    /// Calls that are made without asking in a tainted run too, one that has read what others than the team and its users wrote.
    #[schemars(length(max = b::PATTERNS_MAX))]
    pub(crate) allow_tainted: Vec<String>,
    /// Calls that a person has to allow, each by itself.
    #[schemars(length(max = b::PATTERNS_MAX))]
    pub(crate) ask: Vec<String>,
    /// Calls that are never made.
    #[schemars(length(max = b::PATTERNS_MAX))]
    pub(crate) deny: Vec<String>,
}

/// What a run may use at most.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawLimits {
    /// Model steps of one run.
    #[schemars(range(min = b::STEPS_MAX.min, max = b::STEPS_MAX.max), extend("default" = b::STEPS_MAX.default))]
    pub(crate) steps_max: Option<u32>,
    /// Calls asked for in one step; further ones are refused with an error to the model.
    #[schemars(range(min = b::CALLS_PER_STEP_MAX.min, max = b::CALLS_PER_STEP_MAX.max), extend("default" = b::CALLS_PER_STEP_MAX.default))]
    pub(crate) calls_per_step_max: Option<u32>,
    /// Runs that may stand above a run.
    #[schemars(range(min = b::DEPTH_MAX.min, max = b::DEPTH_MAX.max), extend("default" = b::DEPTH_MAX.default))]
    pub(crate) depth_max: Option<u32>,
    /// Tokens of a run and of the runs that it asks for, input and output together.
    #[schemars(range(min = b::TOKENS_MAX.min, max = b::TOKENS_MAX.max), extend("default" = b::TOKENS_MAX.default))]
    pub(crate) tokens_max: Option<u64>,
    /// Tokens that one model reply may have.
    #[schemars(range(min = b::REPLY_TOKENS_MAX.min, max = b::REPLY_TOKENS_MAX.max), extend("default" = b::REPLY_TOKENS_MAX.default))]
    pub(crate) reply_tokens_max: Option<u64>,
    /// Unusable replies that are answered with feedback in one step before the run fails.
    #[schemars(range(min = b::FEEDBACK_MAX.min, max = b::FEEDBACK_MAX.max), extend("default" = b::FEEDBACK_MAX.default))]
    pub(crate) feedback_max: Option<u32>,
    /// Times that a run is taken up again at one and the same point before it fails.
    #[schemars(range(min = b::RESUMES_MAX.min, max = b::RESUMES_MAX.max), extend("default" = b::RESUMES_MAX.default))]
    pub(crate) resumes_max: Option<u32>,
    /// Milliseconds from acceptance to reply.
    #[schemars(range(min = b::DEADLINE_MS.min, max = b::DEADLINE_MS.max), extend("default" = b::DEADLINE_MS.default))]
    pub(crate) deadline_ms: Option<u64>,
    /// Milliseconds that one model turn may take; the longer timeout of the agent's models if absent.
    #[schemars(range(min = b::MODEL_TIMEOUT_MS.min, max = b::MODEL_TIMEOUT_MS.max))]
    pub(crate) model_timeout_ms: Option<u64>,
    /// Runs of a session that wait behind the one in work, and messages that join one run.
    #[schemars(range(min = b::SESSION_QUEUE_MAX.min, max = b::SESSION_QUEUE_MAX.max), extend("default" = b::SESSION_QUEUE_MAX.default))]
    pub(crate) queue_max: Option<u32>,
    /// Messages of earlier runs that a model is shown.
    #[schemars(range(min = b::HISTORY_MESSAGES_MAX.min, max = b::HISTORY_MESSAGES_MAX.max), extend("default" = b::HISTORY_MESSAGES_MAX.default))]
    pub(crate) history_messages_max: Option<u32>,
    /// Milliseconds that a person has to allow a call before it counts as denied.
    #[schemars(range(min = b::APPROVAL_TIMEOUT_MS.min, max = b::APPROVAL_TIMEOUT_MS.max), extend("default" = b::APPROVAL_TIMEOUT_MS.default))]
    pub(crate) approval_timeout_ms: Option<u64>,
    /// Calls of a run and of the runs that it asks for; further ones are refused with an error to the model.
    #[schemars(range(min = b::CALLS_MAX.min, max = b::CALLS_MAX.max), extend("default" = b::CALLS_MAX.default))]
    pub(crate) calls_max: Option<u64>,
    /// Steps of a run that may ask for the same tool with the same arguments: the last one ends the run, and from half of them on the model is told.
    #[schemars(range(min = b::REPEATS_MAX.min, max = b::REPEATS_MAX.max), extend("default" = b::REPEATS_MAX.default))]
    pub(crate) repeats_max: Option<u32>,
    /// US dollars of a run and of the runs that it asks for, by the prices of the models; without a limit if absent.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(crate) cost_max: Option<f64>,
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
}

/// One tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTool {
    /// What stands behind the tool.
    pub(crate) kind: RawKind,
    /// What the tool does, for models; tools that come with the runtime, a server or an event type bring their own.
    #[schemars(length(max = DESCRIPTION_BYTES_MAX))]
    pub(crate) description: Option<String>,
    /// Milliseconds that one call may take; 30000 for kinds `command`, `http`, `nats` and `query`, for `model` the model's, for `mcp` the server's, for `cloudevent` that of its event types, for `builtin` its own.
    #[schemars(range(min = b::TOOL_TIMEOUT_MS.min, max = b::TOOL_TIMEOUT_MS.max))]
    pub(crate) timeout_ms: Option<u64>,
    /// Calls that may be under way at once.
    #[schemars(range(min = b::TOOL_CONCURRENCY.min, max = b::TOOL_CONCURRENCY.max), extend("default" = b::TOOL_CONCURRENCY.default))]
    pub(crate) concurrency: Option<u32>,
    /// The model that makes the arguments where an agent's planner selects the tool; the agent's `actor` if absent.
    pub(crate) actor: Option<String>,
    /// Other names under which a planner may select the tool.
    #[schemars(length(max = ALIASES_MAX), inner(length(min = 1, max = ALIAS_BYTES_MAX)))]
    pub(crate) aliases: Option<Vec<String>>,
    /// Whether results may hold words of others than the team and its users; true for kinds `cloudevent`, `http`, `mcp` and `nats`.
    pub(crate) untrusted_output: Option<bool>,
    /// Whether results may hold what is not for everyone; true for kind `query`.
    pub(crate) private_output: Option<bool>,
    /// Whether a call changes something outside the runtime, or tells somebody there something; true where the effect is `idempotent` or `once`, but for kinds `builtin` and `model`, and where arguments decide on the host.
    pub(crate) external_effect: Option<bool>,
    /// How much of its calls traces may hold at most, whatever `[trace]` says.
    pub(crate) capture: Option<Capture>,
    /// Kind `builtin`: which tool of the runtime; the tool's own name if absent.
    pub(crate) builtin: Option<String>,
    /// Kind `builtin`, builtin `lookup`: the table, searched from the top.
    #[schemars(length(min = 1, max = ROWS_MAX))]
    pub(crate) rows: Option<Vec<RawRow>>,
    /// Kind `builtin`, builtin `say`: the answer to every call.
    #[schemars(length(max = SAYING_BYTES_MAX))]
    pub(crate) text: Option<String>,
    /// Kind `http`: `GET`, `HEAD`, `POST`, `PUT`, `PATCH` or `DELETE`.
    #[schemars(extend("default" = "GET"))]
    pub(crate) method: Option<String>,
    /// Kind `http`: the address, with `{parameter}` for arguments; one argument alone may be all of it.
    pub(crate) url: Option<String>,
    /// Kind `http`: what may be reached besides the address as it is written and public addresses: names, addresses and networks.
    #[schemars(length(max = b::HOSTS_MAX), inner(length(min = 1)))]
    pub(crate) allow_hosts: Option<Vec<String>>,
    /// Kind `http`: query parameters: a text with `{parameter}` for arguments, or a secret; one whose argument is absent is left out.
    pub(crate) query: Option<BTreeMap<String, RawValue>>,
    /// Kinds `http` and `nats`: headers: a text with `{parameter}` for arguments, or a secret.
    pub(crate) headers: Option<BTreeMap<String, RawValue>>,
    /// Kinds `http` and `nats`: the body: `"arguments"`, `{ json = .. }` or `{ text = ".." }`; none for `http` if absent, the arguments for `nats`.
    pub(crate) body: Option<RawBody>,
    /// Kind `nats`: where is asked, with `{parameter}` for arguments as whole tokens.
    #[schemars(length(max = SUBJECT_BYTES_MAX))]
    pub(crate) subject: Option<String>,
    /// Kind `command`: the program and its arguments, with `{parameter}` for arguments of the call; no shell reads them.
    #[schemars(length(min = 1, max = ARGV_MAX))]
    pub(crate) argv: Option<Vec<String>>,
    /// Kind `command`: what the program reads: `"arguments"`, `"none"`, `{ json = .. }` or `{ text = ".." }`.
    #[schemars(extend("default" = "arguments"))]
    pub(crate) stdin: Option<RawStdin>,
    /// Kind `command`: the program's environment variables, beside a few that all programs get: a text, or a secret.
    pub(crate) env: Option<BTreeMap<String, RawValue>>,
    /// Kind `command`: the folder in which the program works and may write; a temporary one of the call if absent.
    pub(crate) workdir: Option<String>,
    /// Kind `command`: what keeps the program from the rest of the machine.
    #[schemars(extend("default" = RawSandbox::Bubblewrap))]
    pub(crate) sandbox: Option<RawSandbox>,
    /// Kind `command`, sandbox `bubblewrap`: whether the program has the network of the machine.
    #[schemars(extend("default" = false))]
    pub(crate) network: Option<bool>,
    /// Kind `command`, sandbox `bubblewrap`: files and folders that the program may read, beside programs and libraries.
    #[schemars(length(max = PATHS_MAX), inner(length(min = 1)))]
    pub(crate) read: Option<Vec<String>>,
    /// Kind `command`, sandbox `bubblewrap`: files and folders that the program may read and write.
    #[schemars(length(max = PATHS_MAX), inner(length(min = 1)))]
    pub(crate) write: Option<Vec<String>>,
    /// Kind `command`: bytes of memory of each of its processes.
    #[schemars(range(min = b::COMMAND_MEMORY_BYTES_MAX.min, max = b::COMMAND_MEMORY_BYTES_MAX.max), extend("default" = b::COMMAND_MEMORY_BYTES_MAX.default))]
    pub(crate) memory_bytes_max: Option<u64>,
    /// Kind `command`, sandbox `bubblewrap`: processes and threads at once.
    #[schemars(range(min = b::COMMAND_PROCESSES_MAX.min, max = b::COMMAND_PROCESSES_MAX.max), extend("default" = b::COMMAND_PROCESSES_MAX.default))]
    pub(crate) processes_max: Option<u64>,
    /// Kind `command`: open files of each of its processes.
    #[schemars(range(min = b::COMMAND_OPEN_FILES_MAX.min, max = b::COMMAND_OPEN_FILES_MAX.max), extend("default" = b::COMMAND_OPEN_FILES_MAX.default))]
    pub(crate) open_files_max: Option<u64>,
    /// Kind `command`: bytes of a file that it writes, and of all files in its temporary folder.
    #[schemars(range(min = b::COMMAND_FILE_BYTES_MAX.min, max = b::COMMAND_FILE_BYTES_MAX.max), extend("default" = b::COMMAND_FILE_BYTES_MAX.default))]
    pub(crate) file_bytes_max: Option<u64>,
    /// Kinds `cloudevent`, `command`, `http`, `mcp`, `model`, `nats` and `query`: what may be repeated; `read` for models, queries, GET and HEAD, `idempotent` for PUT and DELETE, the server's for `mcp`, that of its event types for `cloudevent`, else `once`.
    pub(crate) effect: Option<EffectClass>,
    /// Kinds `cloudevent`, `command`, `http`, `mcp`, `model`, `nats` and `query`, effect `idempotent`: milliseconds for which the tool knows a call by its key; for ever if absent.
    #[schemars(range(min = b::KEY_TTL_MS.min, max = b::KEY_TTL_MS.max))]
    pub(crate) key_ttl_ms: Option<u64>,
    /// Kinds `cloudevent`, `command`, `http`, `mcp`, `model`, `nats` and `query`, effects `idempotent` and `once`: the tool that says whether a call took effect, by its `key`.
    pub(crate) probe: Option<String>,
    /// Kinds `cloudevent`, `command`, `http`, `mcp`, `model`, `nats` and `query`, effects `idempotent` and `once`: what follows if nobody knows whether a call took effect.
    #[schemars(extend("default" = OnUnknown::Tell))]
    pub(crate) on_unknown: Option<OnUnknown>,
    /// Kinds `cloudevent`, `command`, `http`, `mcp`, `nats` and `query`: bytes of a response that are shown; the rest is cut.
    #[schemars(range(min = b::RESPONSE_BYTES_MAX.min, max = b::RESPONSE_BYTES_MAX.max), extend("default" = b::RESPONSE_BYTES_MAX.default))]
    pub(crate) response_bytes_max: Option<u64>,
    /// Kinds `command`, `http`, `model`, `nats` and `query`, and builtins `say` and `calculate`: a JSON Schema (2020-12) of the arguments, or the short form `name = "type: description"`.
    pub(crate) parameters: Option<Map<String, Value>>,
    /// Kind `cloudevent`: the event types of the team.
    pub(crate) eventtypes: Option<String>,
    /// Kind `cloudevent`: the type of the events.
    pub(crate) r#type: Option<String>,
    /// Kind `http`: pages of an answer that are asked for at most; their items are put together.
    #[schemars(range(min = b::PAGES_MAX.min, max = b::PAGES_MAX.max), extend("default" = b::PAGES_MAX.default))]
    pub(crate) pages_max: Option<u32>,
    /// Kind `http`: where an answer says how it goes on, as a JSON pointer; the header `Link` if absent.
    pub(crate) next: Option<String>,
    /// Kind `http`: the query parameter that takes what `next` points to; without it that is an address.
    pub(crate) next_parameter: Option<String>,
    /// Kind `http`: where the items of a page are, as a JSON pointer; the answer or its only list if absent.
    pub(crate) items: Option<String>,
    /// Kind `http`: a JSON Schema (2020-12) that answers have to obey, or the short form `name = "type: description"`.
    pub(crate) output_schema: Option<Map<String, Value>>,
    /// Kind `mcp`: the server of the team.
    pub(crate) server: Option<String>,
    /// Kind `mcp`: the tool's name on the server; its own name if absent.
    pub(crate) tool: Option<String>,
    /// Kind `model`: the model that is asked.
    pub(crate) model: Option<String>,
    /// Kind `model`: the model's system text.
    #[schemars(length(max = INSTRUCTIONS_BYTES_MAX))]
    pub(crate) instructions: Option<String>,
    /// Kind `model`: what the model is asked, with `{parameter}` for arguments.
    #[schemars(length(max = INSTRUCTIONS_BYTES_MAX))]
    pub(crate) prompt: Option<String>,
    /// Kind `model`: what the reply has to be.
    #[schemars(extend("default" = RawOutput::Text))]
    pub(crate) output: Option<RawOutput>,
    /// Kind `model`, output `json`: a JSON Schema (2020-12) of the reply, or the short form `name = "type: description"`.
    pub(crate) schema: Option<Map<String, Value>>,
    /// Kind `model`: tokens that the reply may have; a reply that is cut there is an error.
    #[schemars(range(min = b::TOOL_REPLY_TOKENS_MAX.min, max = b::TOOL_REPLY_TOKENS_MAX.max), extend("default" = b::TOOL_REPLY_TOKENS_MAX.default))]
    pub(crate) reply_tokens_max: Option<u64>,
    /// Kind `query`: the database of the team.
    pub(crate) database: Option<String>,
    /// Kind `query`: an SQL statement, with `:name` for arguments.
    #[schemars(length(max = STATEMENT_BYTES_MAX))]
    pub(crate) statement: Option<String>,
    /// Kind `query`: several statements in place of one, performed in order in one transaction.
    #[schemars(length(min = 1, max = STATEMENTS_MAX), inner(length(min = 1, max = STATEMENT_BYTES_MAX)))]
    pub(crate) statements: Option<Vec<String>>,
    /// Kind `query`: a Jinja template of the result; rows as JSON if absent.
    #[schemars(length(max = STATEMENT_BYTES_MAX))]
    pub(crate) result: Option<String>,
    /// Kind `query`: rows of one statement that are returned; the rest is cut.
    #[schemars(range(min = b::QUERY_ROWS_MAX.min, max = b::QUERY_ROWS_MAX.max), extend("default" = b::QUERY_ROWS_MAX.default))]
    pub(crate) rows_max: Option<u64>,
}

/// What stands behind a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawKind {
    /// A tool that comes with the runtime.
    Builtin,
    /// An event, and the one that answers it.
    #[serde(rename = "cloudevent")]
    CloudEvent,
    /// A program of the machine.
    Command,
    /// A request to an HTTP server.
    Http,
    /// A tool of an MCP server.
    Mcp,
    /// A question to a model of the team.
    Model,
    /// A request on a subject of NATS.
    Nats,
    /// Statements on a database of the team.
    Query,
}

impl<'de> Deserialize<'de> for RawThink {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(truth) => Ok(Self::Truth(truth)),
            word => RawThinkWord::deserialize(word).map(Self::Word).map_err(D::Error::custom),
        }
    }
}
