//! The tools that come with the runtime.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use wire::{CallOutcome, ErrorCode, ToolReply};

use crate::tool::{Tool, ToolContext, ToolDeps};

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
    /// Answers from a table in the team file, for demos and tests.
    Lookup(Vec<LookupRow>),
}

/// One row of a [`Builtin::Lookup`]: if every word occurs in the query, the answer is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupRow {
    /// Words, compared without case.
    pub words: Vec<String>,
    /// The answer.
    pub answer: String,
}

impl Builtin {
    /// Makes the tool ready to be called.
    pub fn build(&self, _deps: &ToolDeps) -> Arc<dyn Tool> {
        Arc::new(NotBuilt)
    }
}

struct NotBuilt;

impl Tool for NotBuilt {
    fn call<'a>(&'a self, _: &'a ToolContext, _: &'a Value) -> BoxFuture<'a, ToolReply> {
        let outcome = CallOutcome::error(ErrorCode::ToolUnavailable, "not built");
        Box::pin(async { ToolReply::Settled { outcome } })
    }
}
