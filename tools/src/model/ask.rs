//! What the model tools need: models that can be asked one question.

use std::time::Duration;

use futures_util::future::BoxFuture;
use wire::chat::{ResponseSchema, estimated_tokens};
use wire::{Message, ModelReply, Name, WireError};

use crate::tool::ToolContext;

/// The models of one team.
pub trait Models: Send + Sync {
    /// Asks a model and waits for its whole reply.
    ///
    /// Fails with [`wire::ErrorCode::DeadlineExceeded`] if the question's time is over, and with
    /// the model's own error if it refuses or cannot be reached. Dropping the future cancels the
    /// request.
    fn ask<'a>(
        &'a self,
        context: &'a ToolContext,
        question: ModelQuestion,
    ) -> BoxFuture<'a, Result<ModelReply, WireError>>;
}

/// One question: a conversation that begins and ends with it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelQuestion {
    /// The model that is asked.
    pub model: Name,
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// The schema that the reply has to obey, if the provider can constrain it.
    pub response_schema: Option<ResponseSchema>,
    /// The most tokens that the reply may have.
    pub max_tokens: u64,
    /// How long the reply is waited for.
    pub remaining: Duration,
}

impl ModelQuestion {
    /// Estimates the tokens that the model reads, rather too many than too few.
    pub(super) fn prompt_tokens(&self) -> u64 {
        let schema = self.response_schema.as_ref().map(|schema| schema.schema.to_string());
        let texts = self.messages.iter().map(|message| message.content().len());
        let bytes = texts.sum::<usize>() + schema.map_or(0, |schema| schema.len());
        estimated_tokens(bytes as u64)
    }
}
