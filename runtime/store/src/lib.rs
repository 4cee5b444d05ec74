//! Keeps what can be looked up: runs, sessions, memory and traces, in sled; large replies in files
//! beside it.
//!
//! The store is a projection of the journal. It may be deleted at any time and is filled again by
//! applying the journal's changes from [`Store::position`] on. Nothing is acknowledged on its word.

#![warn(missing_docs)]

mod batch;
mod call;
mod change;
mod database;
mod error;
mod fact;
mod home;
mod key;
mod load;
mod page;
mod pending;
mod record;
mod replies;
mod rows;
mod run;
mod session;
mod shelf;
mod store;
mod trace;
mod usage;
mod words;

pub use change::Change;
pub use error::Error;
pub use fact::{FACT_WORDS_MAX, POSTINGS_SCANNED_MAX, QUERY_WORDS_MAX};
pub use home::DAMAGED_KEPT_MAX;
pub use load::{VERIFIED_BYTES_MAX, VERIFIED_RECORDS_MAX};
pub use page::LIST_MAX;
pub use record::RECORD_BYTES_MAX;
pub use run::{INPUT_PREVIEW_CHARS_MAX, RunBegun, RunEnd, RunRow};
pub use session::SessionRow;
pub use shelf::{TRACE_BYTES_DEFAULT, TRACE_BYTES_MIN, TraceUsage, TracesDropped};
pub use store::{Opened, Store};
pub use trace::ended::{EndedSpan, Told};
pub use trace::query::{TRACES_SCANNED_MAX, TraceCursor, TraceCursorError, TracePage, TraceQuery};
pub use trace::row::{NAMES_FOUND_MAX, SESSIONS_FOUND_MAX, TraceRow, TraceStatus};
pub use trace::told::{SAID_BYTES_MAX, SpanSource, TracePart, TraceSpans, Untold};
pub use trace::{RUN_SPANS_SPARE, SPANS_MAX};
pub use usage::{TurnUsed, USAGE_DAYS_MAX, UsageRow};
