//! Tools that are questions to a model: arguments go into a prompt, the reply is the result.

mod ask;
mod form;
mod prepared;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::time::timeout;
use wire::chat::ResponseSchema;
use wire::{
    CallOutcome, EffectClass, ErrorCode, FinishReason, Message, ModelReply, Name, ToolReply, Usage,
    WireError,
};

use crate::template::{Template, declared};
use crate::tool::{Tool, ToolContext};
use form::ReplyForm;

pub use ask::{ModelQuestion, Models};
pub use prepared::{ANSWERS_MAX, PreparedModels};

/// What a model is asked, and how its reply becomes the result of the call.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// The model of the team that is asked.
    pub model: Name,
    /// The system text; arguments do not go into it.
    pub instructions: Option<String>,
    /// The user text, in which `{name}` stands for the argument of that name.
    ///
    /// A string goes in without quotes, any other value as JSON; an absent one is nothing.
    pub prompt: String,
    /// What the reply has to be.
    pub output: ModelOutput,
    /// The most tokens that the reply may have; a reply that is cut there is not used.
    pub reply_tokens_max: u64,
}

/// What the reply of a model has to be.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelOutput {
    /// A text that is not empty.
    Text,
    /// A JSON value, valid by a schema that is also sent to the model's provider.
    Json {
        /// JSON Schema (2020-12) of the value.
        schema: Value,
    },
    /// An arithmetic expression, which [`calculate`](crate::calculate) computes.
    Calculate,
}

impl ModelSpec {
    /// Returns what may be repeated: all, since a model changes nothing outside.
    pub const fn effect(&self) -> EffectClass {
        EffectClass::Read
    }

    /// Returns the faults of the texts against the JSON Schema of the tool's parameters.
    pub fn check(&self, parameters: &Value) -> Vec<String> {
        let mut faults = Template::parse(&self.prompt).faults(parameters, "prompt");
        let instructions = Template::parse(self.instructions.as_deref().unwrap_or_default());
        let misplaced: BTreeSet<&str> = instructions.names().collect();
        for name in misplaced.intersection(&declared(parameters)) {
            faults.push(format!("{{{name}}} stands in the instructions, where no argument goes"));
        }
        faults
    }
}

/// A tool that asks a model of the team.
///
/// A reply that was cut, is empty or is not of the form that the tool promises is an error, and
/// never a result.
pub struct ModelTool {
    spec: ModelSpec,
    prompt: Template,
    /// How replies are read, or why they cannot be.
    form: Result<ReplyForm, String>,
    models: Arc<dyn Models>,
}

impl ModelTool {
    /// Makes the tool; one whose schema does not compile answers every call with that.
    pub fn new(spec: ModelSpec, models: Arc<dyn Models>) -> Self {
        Self {
            prompt: Template::parse(&spec.prompt),
            form: ReplyForm::new(&spec.output),
            spec,
            models,
        }
    }

    async fn ask(&self, context: &ToolContext, arguments: &Value) -> ToolReply {
        let form = match &self.form {
            Ok(form) => form,
            Err(fault) => {
                let message = format!("the schema of the tool's output does not compile: {fault}");
                return ToolReply::settled(CallOutcome::error(ErrorCode::ToolUnavailable, message));
            }
        };
        let remaining = context.answer_time();
        let mut question = self.question(context, arguments, remaining);
        let prompt_tokens = question.prompt_tokens();
        if let Some(tokens) = context.budget.tokens {
            let room = tokens.saturating_sub(prompt_tokens);
            if room == 0 {
                let message =
                    format!("{tokens} tokens are left for this call, which is too little");
                return ToolReply::settled(CallOutcome::error(ErrorCode::BudgetExceeded, message));
            }
            question.max_tokens = question.max_tokens.min(room);
        }
        let max_tokens = question.max_tokens;
        // The model may have been asked and paid, whatever is heard of it.
        let lost = |error| {
            let usage = Usage::of_tokens(prompt_tokens, max_tokens);
            ToolReply::Lost { error, usage, tainted: false, hop: None }
        };
        match timeout(remaining, self.models.ask(context, question)).await {
            Ok(Ok(reply)) => {
                context.hop.note(|report| {
                    report.served_by.clone_from(&reply.served_by);
                    report.cache_read_tokens = reply.detail.cache_read_tokens;
                    report.cache_creation_tokens = reply.detail.cache_creation_tokens;
                    report.lost.clone_from(&reply.detail.lost);
                });
                let outcome = self.outcome(form, &reply, max_tokens);
                ToolReply::Settled { outcome, usage: reply.usage, tainted: false, hop: None }
            }
            Ok(Err(mut error)) => {
                let attempts = std::mem::take(&mut error.lost);
                if error.code == ErrorCode::DeadlineExceeded {
                    return lost(error);
                }
                context.hop.note(|report| report.lost = attempts);
                ToolReply::settled(CallOutcome::Error { error })
            }
            Err(_) => {
                let (model, limit) = (&self.spec.model, remaining.as_millis());
                let message = format!("model {model} did not answer within {limit} ms");
                lost(WireError::new(ErrorCode::ToolTimeout, message))
            }
        }
    }

    fn question(
        &self,
        context: &ToolContext,
        arguments: &Value,
        remaining: Duration,
    ) -> ModelQuestion {
        let none = Map::new();
        let prompt = self.prompt.fill_lenient(arguments.as_object().unwrap_or(&none));
        let system = self.spec.instructions.clone().map(|content| Message::System { content });
        let response_schema = match &self.spec.output {
            ModelOutput::Json { schema } => {
                Some(ResponseSchema { name: context.tool.clone(), schema: schema.clone() })
            }
            ModelOutput::Text | ModelOutput::Calculate => None,
        };
        ModelQuestion {
            model: self.spec.model.clone(),
            messages: system.into_iter().chain([Message::User { content: prompt }]).collect(),
            response_schema,
            max_tokens: self.spec.reply_tokens_max,
            remaining,
        }
    }

    fn outcome(&self, form: &ReplyForm, reply: &ModelReply, max_tokens: u64) -> CallOutcome {
        let read = match reply.finish {
            FinishReason::Length => Err(format!(
                "was cut after {max_tokens} tokens; ask for less, or raise `reply_tokens_max`"
            )),
            FinishReason::ContentFilter => Err("was withheld by the provider".to_owned()),
            FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other => {
                form.read(&reply.content)
            }
        };
        match read {
            Ok(output) => CallOutcome::Ok { output },
            Err(fault) => CallOutcome::error(
                ErrorCode::ReplyUnusable,
                format!("the reply of model {} {fault}", self.spec.model),
            ),
        }
    }
}

impl Tool for ModelTool {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(self.ask(context, arguments))
    }
}
