//! A saying: one text as the answer to every call, a way out for what needs no tool.

use futures_util::future::{BoxFuture, ready};
use serde_json::Value;
use wire::{CallOutcome, ToolReply};

use crate::tool::{Tool, ToolContext};

pub(super) struct Say {
    pub(super) text: String,
}

impl Tool for Say {
    fn call<'a>(&'a self, _: &'a ToolContext, _: &'a Value) -> BoxFuture<'a, ToolReply> {
        Box::pin(ready(ToolReply::settled(CallOutcome::text(&self.text))))
    }
}
