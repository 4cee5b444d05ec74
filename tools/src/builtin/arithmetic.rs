//! `calculate`: computes an arithmetic expression.

use futures_util::future::BoxFuture;
use serde_json::Value;
use wire::{CallOutcome, ErrorCode, ToolReply};

use crate::argument;
use crate::calculate::{EXPRESSION_BYTES_MAX, evaluate};
use crate::tool::{Tool, ToolContext};

pub(super) struct Calculate;

impl Tool for Calculate {
    fn call<'a>(&'a self, _: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolReply> {
        Box::pin(async { ToolReply::settled(calculate(arguments)) })
    }
}

fn calculate(arguments: &Value) -> CallOutcome {
    let expression = match argument::text(arguments, "expression", EXPRESSION_BYTES_MAX) {
        Ok(expression) => expression,
        Err(outcome) => return outcome,
    };
    match evaluate(expression) {
        Ok(number) => CallOutcome::Ok { output: number.to_value() },
        Err(error) => CallOutcome::error(ErrorCode::ToolFailed, error.to_string()),
    }
}
