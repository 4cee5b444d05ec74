//! What one attempt at a provider gave, before it becomes a reply.

use wire::{FinishReason, Message, ModelReply, ToolCall, Usage};

use crate::client::Conversation;

/// A whole answer of a provider; ids may be missing and nothing is known of attempts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    /// The text.
    pub(crate) content: String,
    /// The text by which the model refuses, in place of `content`.
    pub(crate) refusal: String,
    /// The calls, in order; an id is empty if the provider gave none.
    pub(crate) calls: Vec<ToolCall>,
    /// Why the model stopped; absent if the provider does not say.
    pub(crate) finish: Option<FinishReason>,
    /// What was used; zero if the provider does not say.
    pub(crate) usage: Usage,
    /// The model that answered, if the provider says.
    pub(crate) model: Option<String>,
}

impl Answer {
    /// Makes the reply of a turn.
    ///
    /// Calls without an id get `call_<n>`, counted over the conversation, so that the answers to
    /// calls of several turns are told apart. A refusal is withheld content.
    pub(crate) fn into_reply(
        self,
        conversation: &Conversation,
        provider: &str,
        model: &str,
        attempts: u32,
    ) -> ModelReply {
        let refused = self.content.is_empty() && !self.refusal.is_empty();
        let mut calls = self.calls;
        let first = calls_before(conversation) + 1;
        for (number, call) in (first..).zip(&mut calls) {
            if call.id.is_empty() {
                call.id = format!("call_{number}");
            }
        }
        ModelReply {
            content: if refused { self.refusal } else { self.content },
            calls,
            finish: if refused {
                FinishReason::ContentFilter
            } else {
                self.finish.unwrap_or(FinishReason::Other)
            },
            usage: self.usage,
            provider: provider.to_owned(),
            model: self.model.unwrap_or_else(|| model.to_owned()),
            attempts,
        }
    }
}

fn calls_before(conversation: &Conversation) -> usize {
    conversation
        .messages
        .iter()
        .map(|message| match &**message {
            Message::Assistant { calls, .. } => calls.len(),
            Message::System { .. } | Message::User { .. } | Message::Tool { .. } => 0,
        })
        .sum()
}
