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
    // A team may give the one argument a name of its own.
    let own = arguments.as_object().filter(|all| all.len() == 1).and_then(|all| all.keys().next());
    let name = own.map_or("expression", String::as_str);
    let expression = match argument::text(arguments, name, EXPRESSION_BYTES_MAX) {
        Ok(expression) => expression,
        Err(outcome) => return outcome,
    };
    match evaluate(expression) {
        Ok(number) => CallOutcome::Ok { output: number.to_value() },
        Err(error) => CallOutcome::error(ErrorCode::ToolFailed, error.to_string()),
    }
}
