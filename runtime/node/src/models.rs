//! The models of a team, as its tools see them: asked on their subjects, like by an agent.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tools::{Missed, ModelQuestion, Models, ToolContext};
use wire::chat::Head;
use wire::{Headers, ModelReply, ModelRequest, ModelRole, WireError, WorkId, header};

use crate::clock;
use crate::context::TeamContext;
use crate::perform::{Asking, request};

/// Models over the bus.
pub(crate) struct TeamModels {
    context: Arc<TeamContext>,
}

impl TeamModels {
    pub(crate) fn new(context: Arc<TeamContext>) -> Self {
        Self { context }
    }

    async fn turn(
        &self,
        call: &ToolContext,
        question: ModelQuestion,
    ) -> Result<ModelReply, WireError> {
        let ModelQuestion { model, messages, response_schema, max_tokens, remaining } = question;
        let headers = Headers::new()
            .with(header::TRACEPARENT, call.trace)
            .with(header::SESSION, call.session.clone());
        let deadline = clock::now().plus_ms(u64::try_from(remaining.as_millis()).unwrap_or(0));
        let body = ModelRequest {
            role: match response_schema {
                Some(_) => ModelRole::Actor,
                None => ModelRole::Thinker,
            },
            base: None,
            head: Some(Arc::new(Head { response_schema, ..Head::default() })),
            messages: messages.into_iter().map(Arc::new).collect(),
            // The conversation ends with its first reply, so nothing of it is worth keeping.
            keep: 0,
            fills: false,
            max_tokens: Some(max_tokens),
            // What a tool writes on the way is no speech of the agent that observers follow.
            observed: None,
            marks: None,
        };
        let work = WorkId::of_call(call.call.clone());
        let asking = Asking::of_model(&self.context, &model, work, headers, deadline);
        let reply = request::<ModelReply>(&self.context, &asking, Arc::new(body)).await;
        reply.map_err(Missed::into_error)
    }
}

impl Models for TeamModels {
    fn ask<'a>(
        &'a self,
        context: &'a ToolContext,
        question: ModelQuestion,
    ) -> BoxFuture<'a, Result<ModelReply, WireError>> {
        self.turn(context, question).boxed()
    }
}
