//! The vocabulary of Callboard: everything that crosses a process border or goes to disk.
//!
//! Ids, subjects, headers, chat messages, calls, runs, journal entries, observer events, trace
//! records and error codes live here, and nothing that acts on them.

#![warn(missing_docs)]

pub mod call;
pub mod capture;
pub mod chat;
pub mod entry;
pub mod error;
pub mod event;
pub mod header;
pub mod hop;
pub mod id;
pub mod json;
pub mod look;
pub mod money;
pub mod open;
pub mod owner;
pub mod plan;
pub mod question;
pub mod run;
pub mod semconv;
mod shared;
pub mod snapshot;
pub mod subject;
mod text;
pub mod time;
pub mod trace;
pub mod work;

pub use call::{CallOutcome, EffectClass, ToolReply, ToolRequest};
pub use capture::{Capture, Levels, TraceSink};
pub use chat::{
    FinishReason, Message, ModelReply, ModelRequest, ModelRole, Reasoning, ToolCall, ToolSpec,
    Usage,
};
pub use entry::{Entry, Input, Planned, Reading};
pub use error::{ErrorCode, Scope, WireError};
pub use event::{Event, EventKind};
pub use header::Headers;
pub use id::{CallKey, Digest, Name, RunId, SessionId};
pub use open::{OpenCall, OpenKind, Resolution, call_digest};
pub use owner::Claim;
pub use plan::Plan;
pub use question::{Question, Said};
pub use run::{RunReply, RunRequest, RunState, RunStatus};
pub use shared::SharedText;
pub use snapshot::Snapshot;
pub use subject::{Route, Subjects};
pub use time::Timestamp;
pub use trace::{
    Attribute, Attributes, RunTrace, SpanEvent, SpanLink, SpanRecord, TraceContext, TraceId,
};
pub use work::WorkId;
