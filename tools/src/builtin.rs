//! The tools that come with the runtime.

mod arithmetic;
mod clock;
mod fact;
mod lookup;
mod question;
mod result;
mod say;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Value, json};
use wire::EffectClass;

use crate::tool::{Tool, ToolDeps};

/// The longest question or query that a builtin takes, in bytes. Both are written by a model in
/// one reply, so a longer one is a mistake.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;

/// The time for builtins that only compute, in milliseconds; they need microseconds.
const COMPUTE_TIMEOUT_MS: u64 = 5_000;

/// The time for builtins that use the disk, in milliseconds; it covers a slow one.
const DISK_TIMEOUT_MS: u64 = 15_000;

/// A tool that comes with the runtime.
#[derive(Clone, Debug, PartialEq)]
pub enum Builtin {
    /// Computes an arithmetic expression.
    Calculate,
    /// Tells date and time.
    Now,
    /// Keeps a fact across sessions.
    Remember,
    /// Finds kept facts.
    Recall,
    /// Drops kept facts.
    Forget,
    /// Asks the user and waits for the answer.
    AskUser,
    /// Reads on in a result that was cut.
    ReadResult,
    /// Answers from a table in the team file, for demos and tests.
    Lookup(Vec<LookupRow>),
    /// Answers every call with one text, whatever the arguments.
    Say(Saying),
}

/// One row of a [`Builtin::Lookup`]: if every word occurs in the query, the answer is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupRow {
    /// Words, compared without case.
    pub words: Vec<String>,
    /// The answer.
    pub answer: String,
}

/// What a [`Builtin::Say`] takes and answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Saying {
    /// The answer.
    pub text: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
}

impl Builtin {
    /// The names of all builtins that need no configuration.
    pub const NAMES: [&'static str; 7] =
        ["calculate", "now", "remember", "recall", "forget", "ask_user", "read_result"];

    /// Returns the builtin of a name in [`Self::NAMES`]; a lookup has a table and a saying its
    /// text, and so they have no name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "calculate" => Self::Calculate,
            "now" => Self::Now,
            "remember" => Self::Remember,
            "recall" => Self::Recall,
            "forget" => Self::Forget,
            "ask_user" => Self::AskUser,
            "read_result" => Self::ReadResult,
            _ => return None,
        })
    }

    /// Returns what models are told about the tool.
    pub const fn description(&self) -> &'static str {
        match self {
            Self::Calculate => {
                "Computes an arithmetic expression exactly, for example (3 + 4) * 2^0.5. Use it \
                 for every calculation instead of computing yourself."
            }
            Self::Now => "Tells the current date, time and day of the week.",
            Self::Remember => {
                "Keeps one fact for later conversations. Write it so that it can be understood \
                 by itself."
            }
            Self::Recall => "Finds facts that were kept earlier, best match first.",
            Self::Forget => "Drops facts that were kept earlier, by the ids that recall gave.",
            Self::AskUser => {
                "Asks the user a question and waits for the answer. Use it only if you cannot go \
                 on without it."
            }
            Self::ReadResult => {
                "Reads on in a result that was too long to be shown whole. The place where it was \
                 cut tells call and offset."
            }
            Self::Lookup(_) => "Looks up what is known about a query.",
            Self::Say(_) => "Tells how to go on.",
        }
    }

    /// Returns the JSON Schema of the parameters. Only a saying may take others than it names; a
    /// calculator takes its one argument under any name.
    pub fn parameters(&self) -> Value {
        // No maxLength or maxItems: grammars for constrained decoding blow up on them.
        let (properties, required) = match self {
            Self::Calculate => (
                json!({"expression": {
                    "type": "string",
                    "description": "Numbers, + - * / % ^ ! ( ), the constants pi, e, tau and \
                                    functions such as sqrt(x), log(x, base), round(x, digits), \
                                    min(x, y); angles are in radians.",
                }}),
                json!(["expression"]),
            ),
            Self::Now => (
                json!({"utc_offset": {
                    "type": "string",
                    "pattern": "^[+-][0-9]{2}:[0-9]{2}$",
                    "description": "Offset of the wanted local time from UTC, such as +02:00; \
                                    left out means UTC.",
                }}),
                json!([]),
            ),
            Self::Remember => (
                json!({"text": {"type": "string", "description": "The fact, in one sentence."}}),
                json!(["text"]),
            ),
            Self::Recall => (
                json!({
                    "query": {
                        "type": "string",
                        "description": "Words to look for; empty gives the newest facts.",
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": fact::RECALL_LIMIT_MAX,
                        "description": "The most facts to return; left out means 10.",
                    },
                }),
                json!(["query"]),
            ),
            Self::Forget => (
                json!({"ids": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The ids of the facts.",
                }}),
                json!(["ids"]),
            ),
            Self::AskUser => (
                json!({"question": {"type": "string", "description": "The question."}}),
                json!(["question"]),
            ),
            Self::ReadResult => (
                json!({
                    "call": {"type": "string", "description": "The key of the call."},
                    "offset": {
                        "type": "integer",
                        "minimum": 0,
                        "description": "The byte to begin at; left out means the first.",
                    },
                    "find": {
                        "type": "string",
                        "description": "A text to look for from the offset on; reading begins \
                                        shortly before it.",
                    },
                    "bytes": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": result::PIECE_BYTES_MAX,
                        "description": "The most bytes to return; left out means 16384.",
                    },
                }),
                json!(["call"]),
            ),
            Self::Lookup(_) => (
                json!({"query": {"type": "string", "description": "What to look up."}}),
                json!(["query"]),
            ),
            Self::Say(saying) => return saying.parameters.clone(),
        };
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// Returns what may be repeated.
    pub const fn effect(&self) -> EffectClass {
        match self {
            // Asking again is harmless: the question stands in the journal and is shown once.
            Self::Calculate
            | Self::Now
            | Self::Recall
            | Self::AskUser
            | Self::ReadResult
            | Self::Lookup(_)
            | Self::Say(_) => EffectClass::Read,
            Self::Remember | Self::Forget => EffectClass::Idempotent,
        }
    }

    /// Returns how long a call may take where the team file says nothing, in milliseconds. The time
    /// that a person takes to answer is not counted.
    pub const fn timeout_ms(&self) -> u64 {
        match self {
            Self::Calculate | Self::Now | Self::AskUser | Self::Lookup(_) | Self::Say(_) => {
                COMPUTE_TIMEOUT_MS
            }
            Self::Remember | Self::Recall | Self::Forget | Self::ReadResult => DISK_TIMEOUT_MS,
        }
    }

    /// Makes the tool ready to be called.
    pub fn build(&self, deps: &ToolDeps) -> Arc<dyn Tool> {
        match self {
            Self::Calculate => Arc::new(arithmetic::Calculate),
            Self::Now => Arc::new(clock::Now),
            Self::Remember => Arc::new(fact::Remember { memory: deps.memory.clone() }),
            Self::Recall => Arc::new(fact::Recall { memory: deps.memory.clone() }),
            Self::Forget => Arc::new(fact::Forget { memory: deps.memory.clone() }),
            Self::AskUser => Arc::new(question::AskUser),
            Self::ReadResult => Arc::new(result::ReadResult { results: deps.results.clone() }),
            Self::Lookup(rows) => Arc::new(lookup::Lookup::new(rows)),
            Self::Say(saying) => Arc::new(say::Say { text: saying.text.clone() }),
        }
    }
}
