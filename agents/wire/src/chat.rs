//! What is said to models and what they say: messages, tool specifications, one turn.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{Digest, Name, RunId, SessionId};
use crate::json;
use crate::money::{Cached, Price};
use crate::shared::SharedText;

/// Which part a model plays in a step of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelRole {
    /// Reasons freely, without a schema; or plans, by choosing a tool and a task for it.
    Thinker,
    /// Turns the thought, or the task, into schema-valid calls or the answer.
    Actor,
}

impl ModelRole {
    /// Returns the word used in events and traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Thinker => "thinker",
            Self::Actor => "actor",
        }
    }
}

/// One message of a conversation as a model sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions.
    System {
        /// The text.
        content: String,
    },
    /// What the user, or the runtime on the user's side, says.
    User {
        /// The text.
        content: String,
    },
    /// What the model said.
    Assistant {
        /// The text, empty where there is none.
        content: String,
        /// The calls it asked for, as it wrote them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
        /// The reasoning behind them, for the model that they are of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<Arc<Reasoning>>,
    },
    /// The answer to one of the calls above.
    Tool {
        /// The id of the call that is answered.
        call_id: String,
        /// The tool's name.
        name: String,
        /// The result as text.
        content: String,
    },
}

impl Message {
    /// Returns the text of the message.
    pub fn content(&self) -> &str {
        match self {
            Self::System { content }
            | Self::User { content }
            | Self::Assistant { content, .. }
            | Self::Tool { content, .. } => content,
        }
    }

    /// Returns the calls that the message asks for.
    pub fn calls(&self) -> &[ToolCall] {
        match self {
            Self::Assistant { calls, .. } => calls,
            Self::System { .. } | Self::User { .. } | Self::Tool { .. } => &[],
        }
    }
}

/// A call as a model wrote it; `arguments` is kept byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id, which may be empty or repeated; never used as a key.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them, usually JSON.
    pub arguments: String,
}

/// The reasoning behind a message with calls, as its provider wants it back with the message. Only
/// the adapter that read it looks into it, and no person is shown it.
///
/// A provider that signs it refuses it where a byte is another, and others refuse a message that
/// comes back without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasoning {
    /// Names the model of the team that wrote it, with its protocol, its address and its name
    /// there. No other is sent it.
    pub by: Digest,
    /// What stands beside the message; null where nothing does.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub message: Value,
    /// What stands beside each call, in the order of the calls; null where nothing does, and
    /// fewer where nothing follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Value>,
}

impl Reasoning {
    /// Returns its size as JSON, in bytes, without what names the model.
    pub fn bytes(&self) -> u64 {
        let parts = std::iter::once(&self.message).chain(&self.calls);
        let parts = parts.filter(|part| !part.is_null());
        // A value can always be written.
        let bytes = parts.map(|part| json::measure(part).unwrap_or_default());
        u64::try_from(bytes.sum::<usize>()).unwrap_or(u64::MAX)
    }
}

/// What a model is told about a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name by which the model calls it.
    pub name: Name,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema (2020-12) of the arguments; an object at the root.
    pub parameters: Value,
}

/// The fewest bytes that a token has on average in what models read: ordinary text has about four,
/// dense digits and signs two.
const BYTES_PER_TOKEN_MIN: u64 = 2;

/// Estimates the tokens of a text of some bytes, rather too many than too few.
pub const fn estimated_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN_MIN)
}

/// What one or several model turns used: tokens as the provider counts them, and what follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read, those from a cache included.
    pub input_tokens: u64,
    /// Tokens written, those of hidden reasoning included.
    pub output_tokens: u64,
    /// What they cost by the prices of the team file, in billionths of a US dollar.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost_nano_usd: u64,
    /// The calls that were made, of a run and of the runs that it asked for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
pub(crate) const fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Usage {
    /// Makes the usage of a turn, in tokens.
    pub const fn of_tokens(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, cost_nano_usd: 0, calls: 0 }
    }

    /// Adds what the tokens cost, of which some may have been cached.
    #[must_use]
    pub fn priced(self, price: Price, cached: Cached) -> Self {
        let cost_nano_usd = price.cost(self.input_tokens, cached, self.output_tokens);
        Self { cost_nano_usd, ..self }
    }

    /// Returns input and output together.
    pub const fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Tells whether nothing was used.
    pub const fn is_none(&self) -> bool {
        self.input_tokens == 0
            && self.output_tokens == 0
            && self.cost_nano_usd == 0
            && self.calls == 0
    }

    /// Adds another count to this one.
    pub const fn add(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost_nano_usd = self.cost_nano_usd.saturating_add(other.cost_nano_usd);
        self.calls = self.calls.saturating_add(other.calls);
    }
}

/// What stands beside a conversation: the tools and the form of the reply.
///
/// It stays the same over the turns of one role in a run, unless a planner selects the tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Tools offered by the provider's own means; empty for dialects that do without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// The schema that the reply has to obey, if the provider can constrain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<ResponseSchema>,
    /// Texts at which the reply ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

/// A schema for constrained decoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponseSchema {
    /// A short name, which some providers ask for.
    pub name: Name,
    /// JSON Schema of the whole reply.
    pub schema: Value,
}

/// Where a model actor publishes the pieces of a reply while it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// The session whose observers listen.
    pub session: SessionId,
    /// The run that is being worked on.
    pub run: RunId,
    /// The agent that speaks.
    pub agent: Name,
    /// How many runs stand above that run.
    #[serde(default)]
    pub depth: u32,
    /// The step of that run.
    pub step: u32,
    /// A word that observers are not shown: the agent's `continue_word`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<String>,
}

/// One model turn, as asked for on the model's subject.
///
/// The conversation is `base` (if any) followed by `messages`. A model actor that does not hold
/// `base` answers `prefix_unknown` and is then sent everything, with `head` and without `base`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The part that the model plays.
    pub role: ModelRole,
    /// The digest of the head and the messages that the model actor already holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Digest>,
    /// Tools and reply form; present exactly when `base` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Arc<Head>>,
    /// The messages after `base`.
    pub messages: Vec<Arc<Message>>,
    /// How many of `messages` will stand in later requests too and are worth keeping.
    #[serde(default)]
    pub keep: usize,
    /// Whether nothing is asked, and `messages` are only to be kept: a part of a conversation that is
    /// too large for one message. It is answered by [`PrefixHeld`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fills: bool,
    /// The most tokens that the reply may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Present if observers want the reply while it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// What whoever asks has found out about the conversation. It does not travel: only who is asked
    /// in the same process can rely on it, and need not find it out again.
    #[serde(skip)]
    pub marks: Option<Marks>,
}

/// What names a conversation, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The digest of its head and messages.
    pub digest: Digest,
    /// About how many bytes it takes to hold it.
    pub bytes: usize,
}

/// The marks of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// That of its head alone.
    pub head: Mark,
    /// That of its head and of all messages that are worth keeping.
    pub kept: Mark,
}

/// What a model actor answers to a request that [fills](ModelRequest::fills).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixHeld {
    /// The digest of what it holds, which the next request has as its `base`.
    pub held: Digest,
}

/// Why a model stopped writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It came to an end or to a stop text.
    Stop,
    /// The token limit cut it: the reply is not whole.
    Length,
    /// It asked for calls.
    ToolCalls,
    /// The provider withheld the rest.
    ContentFilter,
    /// A reason that is not known here.
    Other,
}

impl FinishReason {
    /// Returns the word used in traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other => "other",
        }
    }
}

/// What a model answered in one turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The text, empty where there is none.
    pub content: SharedText,
    /// The calls that the provider reported beside the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// The reasoning behind the calls, if the provider wants it back with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Arc<Reasoning>>,
    /// Why it ended.
    pub finish: FinishReason,
    /// What it used.
    pub usage: Usage,
    /// The provider's word for its kind, for traces: `openai`, `scripted`, ...
    pub provider: String,
    /// The model that answered, as the provider calls it.
    pub model: String,
    /// How often the provider was asked, retries included.
    #[serde(default = "one")]
    pub attempts: u32,
    /// The model of the team that answered, if it stood in for the one that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_by: Option<Name>,
    /// What else the provider said of it.
    #[serde(default, skip_serializing_if = "TurnDetail::is_none")]
    pub detail: TurnDetail,
}

/// What is known of a model turn besides its reply, for traces and prices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnDetail {
    /// The provider's id of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// Tokens read from the provider's cache, among those read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the provider's cache, among those read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<u64>,
    /// Tokens of hidden reasoning, among those written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// Microseconds from the request that was answered to the first piece of a streamed reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_chunk_us: Option<u64>,
    /// What attempts before may have used that gave no reply. It is not in the usage of the reply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
}

/// What attempts at a model may have used that gave no reply, though it had begun one or was asked
/// until the time was over.
///
/// The tokens are those that its provider had counted by then, or else estimated by the bytes that
/// were sent and came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The model, by its name in the team.
    pub model: Name,
    /// What they used, of which some may have been cached; without what it costs.
    pub usage: Usage,
}

impl TurnDetail {
    /// Tells whether nothing is known.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns which tokens have a price of their own.
    pub fn cached(&self) -> Cached {
        Cached::of(self.cache_read_tokens, self.cache_creation_tokens)
    }
}

const fn one() -> u32 {
    1
}
