//! The tables of tools.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use wire::Capture;
use wire::call::EffectClass;
use wire::plan::OnUnknown;

use super::{RawBody, RawOutput, RawRow, RawSandbox, RawStdin, RawValue};
use crate::bound::{
    self as b, ALIAS_BYTES_MAX, ALIASES_MAX, ARGV_MAX, DESCRIPTION_BYTES_MAX,
    INSTRUCTIONS_BYTES_MAX, PATHS_MAX, ROWS_MAX, SAYING_BYTES_MAX, STATEMENT_BYTES_MAX,
    STATEMENTS_MAX, SUBJECT_BYTES_MAX,
};

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
    /// Whether results may hold words of others than the team and its users; true for kinds `cloudevent`, `http`, `mcp` and `nats`, and for kind `command` with the network.
    pub(crate) untrusted_output: Option<bool>,
    /// Whether results may hold what is not for everyone; true for kind `query`.
    pub(crate) private_output: Option<bool>,
    /// Whether a call changes something outside the runtime, or tells somebody there something; true where the effect is `idempotent` or `once`, but for kinds `builtin` and `model`, where arguments stand in the host, and for kind `command` with the network.
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
