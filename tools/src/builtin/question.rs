//! `ask_user`: asks the user; the run waits for the answer.

use futures_util::future::BoxFuture;
use serde_json::Value;
use wire::ToolReply;

use super::TEXT_BYTES_MAX;
use crate::argument;
use crate::tool::{Tool, ToolContext};

pub(super) struct AskUser;

impl Tool for AskUser {
    fn call<'a>(&'a self, _: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolReply> {
        Box::pin(async {
            match argument::text(arguments, "question", TEXT_BYTES_MAX) {
                Ok(question) => ToolReply::Suspended { question: question.to_owned() },
                Err(outcome) => ToolReply::settled(outcome),
            }
        })
    }
}
