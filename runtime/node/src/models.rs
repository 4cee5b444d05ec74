//! The models of a team, as its tools see them: asked on their subjects, like by an agent.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tools::{Missed, ModelQuestion, Models, ToolContext};
use wire::chat::Head;
use wire::money::Price;
use wire::{Headers, ModelReply, ModelRequest, ModelRole, Usage, WireError, WorkId, header};

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
            max_tokens: Some(max_tokens),
            // What a tool writes on the way is no speech of the agent that observers follow.
            observed: None,
        };
        let work = WorkId::of_call(call.call.clone());
        let asking = Asking::of_model(&self.context, &model, work, headers, deadline);
        let reply = request::<ModelReply>(&self.context, &asking, body).await;
        let mut reply = reply.map_err(Missed::into_error)?;
        let models = &self.context.team.models;
        let stand_in = reply.served_by.as_ref().and_then(|name| models.get(name));
        if let Some(price) = stand_in.and_then(|model| model.price) {
            reply.usage = of_stand_in(reply.usage, price);
        }
        Ok(reply)
    }
}

/// Prices what a model used that stood in for another. Whoever counts the call takes a cost of 0 for
/// one that is not known, and the price of the model that was to be asked, so what is free is told
/// as the least that can be told.
fn of_stand_in(usage: Usage, price: Price) -> Usage {
    let priced = usage.priced(price);
    Usage { cost_nano_usd: priced.cost_nano_usd.max(1), ..priced }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_stands_in_is_never_without_a_price() {
        for (input, output, expected) in [(0, 0, 1), (2, 0, 20), (0, 3, 15), (2, 3, 35)] {
            let price = Price { input: input * 1_000_000, output: output * 1_000_000 };
            let told = of_stand_in(Usage::of_tokens(10, 5), price);
            assert_eq!(told, Usage { cost_nano_usd: expected, ..Usage::of_tokens(10, 5) });
        }
    }
}
