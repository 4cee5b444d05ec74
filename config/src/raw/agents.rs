//! The tables of agents, and what they share with the team: permissions and limits.

use agents_core::permission::PATTERN_BYTES_MAX;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use wire::plan::WhenBusy;

use super::{RawForm, RawPrompts};
use crate::bound::{self as b, DESCRIPTION_BYTES_MAX, INSTRUCTIONS_BYTES_MAX, OFFERS_MAX};

/// One agent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawAgent {
    /// What the agent does, for those who call it.
    #[schemars(length(max = DESCRIPTION_BYTES_MAX))]
    pub(crate) description: Option<String>,
    /// The agent's system text.
    #[schemars(length(max = INSTRUCTIONS_BYTES_MAX))]
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
    #[schemars(length(max = b::PATTERNS_MAX), inner(length(max = PATTERN_BYTES_MAX)))]
    pub(crate) allow: Vec<String>,
    /// Calls that are made without asking in a tainted run too, one that has read what others than the team and its users wrote.
    #[schemars(length(max = b::PATTERNS_MAX), inner(length(max = PATTERN_BYTES_MAX)))]
    pub(crate) allow_tainted: Vec<String>,
    /// Calls that a person has to allow, each by itself.
    #[schemars(length(max = b::PATTERNS_MAX), inner(length(max = PATTERN_BYTES_MAX)))]
    pub(crate) ask: Vec<String>,
    /// Calls that are never made.
    #[schemars(length(max = b::PATTERNS_MAX), inner(length(max = PATTERN_BYTES_MAX)))]
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
    /// Tokens of these messages, for models that can read few; never more than half of what the run's own tokens and money leave beside the rest of its first prompt.
    #[schemars(range(min = b::HISTORY_TOKENS_MAX.min, max = b::HISTORY_TOKENS_MAX.max))]
    pub(crate) history_tokens_max: Option<u64>,
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
